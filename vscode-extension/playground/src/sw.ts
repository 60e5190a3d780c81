// Keeps all files of the site, so that it works without a network once it was loaded. A new build is another worker.
// What is packed is kept unpacked, which saves each start that work.

import { unpacked } from "./unpacked";

interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Extendable {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Scope {
  readonly registration: { readonly scope: string };
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Extendable) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void;
}

/** The digest of the site's contents, and its files: written by build.mjs. */
declare const VERSION: string;
declare const FILES: string[];

const PREFIX = "distir-playground-";
const scope = self as unknown as Scope;

async function install(): Promise<void> {
  const cache = await caches.open(PREFIX + VERSION);
  const requests = ["./", ...FILES].map((name) => new Request(name, { cache: "no-cache" }));
  const [packed, plain] = [true, false].map((wanted) => requests.filter(({ url }) => url.endsWith(".gz") === wanted));
  await cache.addAll(plain!);
  for (const request of packed!) {
    const contents = unpacked(new URL(request.url), await fetch(request));
    await cache.put(request, new Response(contents, { headers: { "Content-Encoding": "gzip" } })); // as servers say that unpack it
  }
}

async function activate(): Promise<void> {
  for (const name of await caches.keys()) if (name.startsWith(PREFIX) && name !== PREFIX + VERSION) await caches.delete(name);
  await scope.clients.claim();
}

/** What is kept; of what is not, what the network says. */
async function answer(request: Request): Promise<Response> {
  return (await caches.match(request, { ignoreSearch: true })) ?? fetch(request);
}

scope.addEventListener("install", (event) => event.waitUntil(install().then(() => scope.skipWaiting())));
scope.addEventListener("activate", (event) => event.waitUntil(activate()));
scope.addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(scope.registration.scope)) event.respondWith(answer(event.request));
});
