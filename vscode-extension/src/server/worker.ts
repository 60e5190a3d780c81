/// <reference lib="webworker" />
// Servers as workers in a browser: Python as WebAssembly, from this extension's own files (../../playground/src/worker.ts).

import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/browser";

import type { Source } from "./server";

/** Where the worker and what it loads are, in the package for browsers. */
const FILES = ["dist", "browser", "server"];

/** Workers started from the files of an extension. */
export function workers({ extension, extensionUri }: vscode.ExtensionContext): Source {
  const { version } = extension.packageJSON as { version: string }; // the server's, too: it is in the package
  return {
    choose: () => Promise.resolve({ kind: "found", server: { candidate: { argv: ["Python in this browser"], from: "this extension" }, distir: version, lacks: [] } }),
    inWords: (argv) => argv.join(" "),
    async client(_, options) {
      const base = `${vscode.Uri.joinPath(extensionUri, ...FILES).toString(true)}/`;
      return new Quiet("distir", "DistIR", await started(base), options);
    },
  };
}

/** The worker, once it takes messages. Rejects with what it says against it. */
function started(base: string): Promise<Worker> {
  const worker = new Worker(`${base}worker.js`);
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => {
      worker.terminate();
      reject(new Error(why));
    };
    worker.onerror = ({ message }) => fail(message || "this package of the extension holds no server for browsers");
    worker.onmessage = ({ data }: MessageEvent<{ ready?: number; failed?: string }>) => {
      if (data.failed !== undefined) fail(data.failed);
      else if (data.ready !== undefined) resolve(worker);
    };
    worker.postMessage({ base });
  });
}

/** A client that leaves it to us to tell the user what fails. */
class Quiet extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}
