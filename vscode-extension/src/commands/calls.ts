// The calls of a function: which one its hints, lens and hover are about.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { seconds } from "../figures";
import { type Asked, type Calls, ask } from "../requests";

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.pickCall", aboutProgram(context, (document, server, name) => pick(document, server, String(name))))];
}

/** Let the user pick a call, show the function for it, and go there. */
async function pick(document: vscode.TextDocument, server: Asked, name: string): Promise<void> {
  const { calls } = await ask<Calls>(server, "calls", document.uri.toString(), { function: name });
  const items = calls.map((call) => ({
    label: `${call.range ? `line ${call.range.start.line + 1}` : `call ${call.number}`} in @${call.caller}`,
    description: call.shown ? "shown" : "",
    detail: call.start_s === null || call.duration_s === null ? "" : `${seconds(call.duration_s)} @${seconds(call.start_s)} on ${call.devices.join(", ")}`,
    call,
  }));
  const found = (await vscode.window.showQuickPick(items, { title: `Show @${name} for which call?` }))?.call;
  if (found === undefined) return;
  await ask(server, "calls", document.uri.toString(), { function: name, pick: found.number });
  if (found.range === null) return;
  const { start, end } = found.range;
  await vscode.window.showTextDocument(document, { selection: new vscode.Range(start.line, start.character, end.line, end.character) });
}
