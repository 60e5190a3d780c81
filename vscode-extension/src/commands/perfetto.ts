// The timeline as a trace, for Perfetto in the browser.

import { homedir } from "node:os";

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { beside, nameOf } from "../programs";
import { type Asked, ask } from "../requests";

const PERFETTO = vscode.Uri.parse("https://ui.perfetto.dev");

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.openInPerfetto", aboutProgram(context, (document, server, target) => write(document, server, target)))];
}

/** Write the trace where the user says, or to the file given, and offer to open the page that shows it. */
async function write(document: vscode.TextDocument, server: Asked, given: unknown): Promise<vscode.Uri | undefined> {
  const target = given instanceof vscode.Uri ? given : await pickFile(document.uri);
  if (target === undefined) return undefined;
  await ask(server, "trace", document.uri.toString(), { path: target.fsPath });
  void offer(target);
  return target;
}

function pickFile(program: vscode.Uri): Thenable<vscode.Uri | undefined> {
  const name = `${nameOf(program).replace(/\.dir$/, "")}.trace.json`;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri ?? vscode.Uri.file(homedir());
  const defaultUri = program.scheme === "file" ? program.with({ path: beside(program, name) }) : vscode.Uri.joinPath(folder, name);
  return vscode.window.showSaveDialog({ defaultUri, filters: { Traces: ["json"] }, title: "Write the trace" });
}

async function offer(target: vscode.Uri): Promise<void> {
  const open = "Open Perfetto";
  const chosen = await vscode.window.showInformationMessage(`Wrote ${nameOf(target)}: choose it in Perfetto by "Open trace file".`, open);
  if (chosen === open) await vscode.env.openExternal(PERFETTO);
}
