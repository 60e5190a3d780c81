// The built site in chromium, served from a folder on loopback; what is asked of any other host is a problem.

import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const site = process.env.PLAYGROUND ?? join(dirname(fileURLToPath(import.meta.url)), "../../../build/playground");
const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = places.find((place) => place && existsSync(place));
/** Why tests are skipped; false: they are not. */
export const missing = !executablePath ? "needs chromium (CHROMIUM=path)" : !existsSync(join(site, "sw.js")) ? "needs the site (make playground)" : false;

/** Whether the site has numpy: where it is built without a network, there may be none. */
export const numpy = !missing && "numpy" in JSON.parse(readFileSync(join(site, "server/packages.json"), "utf8"));

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".json": "application/json", ".wasm": "application/wasm", ".png": "image/png" };

/** A plain static server, as any other. `stop` ends it, connections included. */
export async function served() {
  const server = createServer((request, answer) => {
    const file = join(site, normalize(decodeURIComponent(new URL(request.url, "http://site").pathname)).replace(/\/$/, "/index.html"));
    if (!file.startsWith(site) || !existsSync(file) || !statSync(file).isFile()) return answer.writeHead(404).end();
    answer.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(answer);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const stop = () => new Promise((done) => (server.closeAllConnections(), server.close(done)));
  return { address: `http://127.0.0.1:${server.address().port}/`, stop };
}

export const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/** The browser of a visitor who comes again: it keeps what pages have it keep, compiled code too, in a folder. */
export const launchKept = (folder) => chromium.launchPersistentContext(folder, { executablePath, args: ["--no-sandbox"], viewport: { width: 1300, height: 900 } });

/** A page of the site. `problems`: errors, and requests that went anywhere else. */
export async function opened(context, address) {
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.stack));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  context.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (["http:", "https:"].includes(protocol) && host !== new URL(address).host) problems.push(`asked for ${request.url()}`);
  });
  await page.goto(address);
  return { page, problems };
}
