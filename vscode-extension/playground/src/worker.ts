// The language server in a worker: Python as WebAssembly, restored from a snapshot that has it imported and warm.
//
// The page posts JSON-RPC messages, and gets those of the server; before the first one, `{ ready: milliseconds }`.

import type { PyodideInterface } from "pyodide";

const begun = performance.now();

async function bytes(name: string): Promise<ArrayBuffer> {
  const answer = await fetch(name);
  if (!answer.ok || answer.body === null) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  const packed = name.endsWith(".gz") && answer.headers.get("Content-Encoding") !== "gzip"; // some servers unpack it
  return new Response(packed ? answer.body.pipeThrough(new DecompressionStream("gzip")) : answer.body).arrayBuffer();
}

async function start(): Promise<(message: string) => void> {
  const module = new URL("pyodide/pyodide.mjs", self.location.href).href;
  const [{ loadPyodide }, snapshot, packages] = await Promise.all([
    import(module) as Promise<{ loadPyodide(options: object): Promise<PyodideInterface> }>,
    bytes("python.snapshot.gz"),
    bytes("python.zip"),
  ]);
  const python = await loadPyodide({ indexURL: "pyodide/", _loadSnapshot: snapshot });
  python.unpackArchive(packages, "zip", { extractDir: "/site" });
  return python.runPython("from distir_lsp.in_browser import serve; serve")((message: string) => {
    self.postMessage(JSON.parse(message));
  });
}

const waiting: string[] = [];
let take = (message: string): void => void waiting.push(message);

self.onmessage = ({ data }: MessageEvent<unknown>) => take(JSON.stringify(data));

start().then(
  (serve) => {
    take = serve;
    self.postMessage({ ready: performance.now() - begun });
    for (const message of waiting) serve(message);
  },
  (error: unknown) => self.postMessage({ failed: error instanceof Error ? error.message : String(error) }),
);
