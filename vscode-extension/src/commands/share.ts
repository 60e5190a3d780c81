// A link that opens a program in a playground, for the same machine and at the same place.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { nameOf } from "../programs";
import { type Asked, type Hardware, ask } from "../requests";
import { toFragment } from "../share";

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.share", aboutProgram(context, share))];
}

async function share(document: vscode.TextDocument, server: Asked): Promise<string | undefined> {
  const playground = vscode.workspace.getConfiguration("distir", document.uri).get<string>("playground");
  if (!playground) {
    await offerSetting();
    return undefined;
  }
  const { chosen } = await ask<Hardware>(server, "hardware", document.uri.toString());
  const editor = vscode.window.visibleTextEditors.find((each) => each.document === document);
  const places = editor === undefined ? [] : [editor.selection.start, editor.selection.end].flatMap(({ line, character }) => [line + 1, character + 1]);
  const [from = 1, column = 1, to = from, end = column] = places;
  const link = playground.replace(/#.*/, "") + (await toFragment({ name: nameOf(document.uri), text: document.getText(), hardware: chosen?.name, selection: [from, column, to, end] }));
  await vscode.env.clipboard.writeText(link);
  void vscode.window.showInformationMessage("The link is in the clipboard. It holds the program itself.");
  return link;
}

async function offerSetting(): Promise<void> {
  const open = "Open Setting";
  const chosen = await vscode.window.showInformationMessage("A link needs the address of a playground, in the setting distir.playground. `make playground` builds one.", open);
  if (chosen === open) await vscode.commands.executeCommand("workbench.action.openSettings", "distir.playground");
}
