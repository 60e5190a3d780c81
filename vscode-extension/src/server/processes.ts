// Servers as processes of a Python on this machine.

import * as vscode from "vscode";
import type { LanguageClientOptions } from "vscode-languageclient";
import { LanguageClient } from "vscode-languageclient/node";

import type { Choice } from "./found";
import { candidates, choose, environment } from "./interpreters";
import { pythonExtension } from "./python-extension";
import type { Source } from "./server";

/** What the Python is to run. */
const SERVER = ["-m", "distir_lsp"];

export const processes: Source = {
  async choose(isKnown): Promise<Choice> {
    const all = candidates(await surroundings());
    const first = all[0];
    if (first !== undefined && isKnown(first.argv)) return { kind: "found", server: { candidate: first, lacks: [] } };
    return choose(all);
  },

  inWords: (argv) => [...argv, ...SERVER].join(" "),

  client([command, ...args], options) {
    const cwd = vscode.workspace.workspaceFolders?.find((folder) => folder.uri.scheme === "file")?.uri.fsPath;
    const run = { env: environment(), ...(cwd === undefined ? {} : { cwd }) };
    return Promise.resolve(new Quiet("distir", "DistIR", { command: command ?? "", args: [...args, ...SERVER], options: run }, options satisfies LanguageClientOptions));
  },
};

/** A client that leaves it to us to tell the user what fails. */
class Quiet extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** What interpreters are looked for in now. */
export async function surroundings(): Promise<Parameters<typeof candidates>[0]> {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath);
  const setting = vscode.workspace.getConfiguration("distir").get<unknown>("interpreter");
  const isTrusted = vscode.workspace.isTrusted;
  return {
    setting: Array.isArray(setting) ? setting.filter((word): word is string => typeof word === "string" && word !== "") : [],
    pythonExtension: isTrusted ? await pythonExtension.interpreter() : undefined,
    folders,
    isTrusted,
    env: process.env,
    platform: process.platform,
  };
}
