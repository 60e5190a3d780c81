// The language server in a worker: Python as WebAssembly, restored from a snapshot that has it imported and warm.
//
// The first message says where the server's files are, `{ base: address }`; then come JSON-RPC messages, and go those of
// the server; before the first one, `{ ready: milliseconds }`, or `{ failed: reason }`. Knows neither the page nor VS Code.

import type { PyodideInterface } from "pyodide";
import { type FileSystem, place } from "./files.mjs";
import { unpacked } from "./unpacked";

const begun = performance.now();

/** Memory is counted in pages of so many bytes. */
const PAGE_BYTES = 65536;

type Load = (options: object) => Promise<PyodideInterface>;

async function bytes(address: URL): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(unpacked(address, await fetch(address))).arrayBuffer());
}

/** What is instantiated has as much memory as the snapshot, which is larger than that of a Python that has just begun. */
function withMemoryOf(snapshot: Promise<Uint8Array>): () => void {
  const { instantiate, instantiateStreaming } = WebAssembly;
  const grown = async <Found extends { instance?: WebAssembly.Instance }>(instantiated: Promise<Found>): Promise<Found> => {
    const found = await instantiated;
    const memory = found.instance?.exports.memory; // Pyodide instantiates a small module of its own, too, by itself
    if (memory instanceof WebAssembly.Memory) memory.grow(Math.max(0, Math.ceil(((await snapshot).byteLength - memory.buffer.byteLength) / PAGE_BYTES)));
    return found;
  };
  Object.assign(WebAssembly, {
    instantiate: (...given: [BufferSource, WebAssembly.Imports]) => grown(instantiate(...given)),
    instantiateStreaming: (...given: Parameters<typeof instantiateStreaming>) => grown(instantiateStreaming(...given)),
  });
  return () => void Object.assign(WebAssembly, { instantiate, instantiateStreaming });
}

async function restored(pyodide: URL, snapshot: Promise<Uint8Array>): Promise<PyodideInterface> {
  const { loadPyodide } = (await import(new URL("pyodide.mjs", pyodide).href)) as { loadPyodide: Load };
  const done = withMemoryOf(snapshot);
  return loadPyodide({ indexURL: pyodide.href, _loadSnapshot: snapshot }).finally(done);
}

async function start(base: string): Promise<(message: string) => void> {
  const at = (name: string): URL => new URL(name, base);
  const snapshot = bytes(at("python.snapshot.gz")); // the largest file: Pyodide begins while it comes
  const [python, modules, packages] = await Promise.all([
    restored(at("pyodide/"), snapshot),
    bytes(at("python.files.gz")),
    bytes(at("packages.json")).then((text) => JSON.parse(new TextDecoder().decode(text)) as Record<string, string>),
  ]);
  place(modules, python.FS as FileSystem, "/site");
  const send = (message: string): void => self.postMessage(JSON.parse(message));
  const obtain = async (name: string): Promise<boolean> => {
    const file = packages[name];
    if (file === undefined) return false;
    place(await bytes(at(file)), python.FS as FileSystem, "/site");
    return true;
  };
  return python.runPython("from distir_lsp.in_browser import serve; serve")(send, obtain);
}

// VS Code starts workers as scripts. Pyodide takes those for ones that cannot import modules, and tells them by this.
Object.defineProperty(self, "importScripts", { value: undefined });

const waiting: string[] = [];
let take = (message: string): void => void waiting.push(message);

self.onmessage = ({ data }: MessageEvent<{ base?: string }>) => {
  if (data.base === undefined) return take(JSON.stringify(data));
  start(data.base).then(
    (serve) => {
      take = serve;
      self.postMessage({ ready: performance.now() - begun });
      for (const message of waiting) serve(message);
    },
    (error: unknown) => self.postMessage({ failed: error instanceof Error ? error.message : String(error) }),
  );
};
