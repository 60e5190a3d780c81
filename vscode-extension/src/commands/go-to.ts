// From op to op in the text: along the critical path, to those that devices wait for, or that change a placement.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { seconds } from "../figures";
import { type Asked, type Goal, ask } from "../requests";

const GOALS = ["nextCritical", "previousCritical", "nextWait", "previousWait", "nextResharding", "previousResharding"] as const;

export function register(context: Context): vscode.Disposable[] {
  return GOALS.map((to) => vscode.commands.registerCommand(`distir.${to}`, aboutProgram(context, (document, server) => go(document, server, to))));
}

async function go(document: vscode.TextDocument, server: Asked, to: (typeof GOALS)[number]): Promise<void> {
  const shown = vscode.window.visibleTextEditors.find((editor) => editor.document === document);
  const { line, character } = shown?.selection.active ?? new vscode.Position(0, 0);
  const found = await ask<Goal>(server, "goTo", document.uri.toString(), { to, position: { line, character } });
  if (found.range === null) return;
  const { start } = found.range;
  const editor = await vscode.window.showTextDocument(document, { selection: new vscode.Range(start.line, start.character, start.line, start.character) });
  editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  if (found.start_s === null || found.duration_s === null) return;
  const waits = found.wait_s ? `, after a wait of ${seconds(found.wait_s)}` : "";
  vscode.window.setStatusBarMessage(`${seconds(found.duration_s)} @${seconds(found.start_s)}${waits}`, 5000);
}
