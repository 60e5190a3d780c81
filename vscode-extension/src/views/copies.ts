// A program for n devices as one for one: what its devices do alike is folded into one line, which says for how many.

import * as vscode from "vscode";
import type { FoldingRange } from "vscode-languageclient";

import { type Context, aboutProgram } from "../context";
import type { Asked } from "../requests";

/** Copies of a line: where they begin, where the last one ends, and what is shown in their place. */
interface Copies {
  readonly first: number;
  readonly last: number;
  readonly text: string;
}

export class CopiesView implements vscode.Disposable {
  private readonly known = new Map<string, readonly Copies[]>();
  private readonly count = vscode.window.createTextEditorDecorationType({ after: { color: new vscode.ThemeColor("descriptionForeground"), margin: "0 0 0 1ch" } });
  private readonly watching: vscode.Disposable[];

  constructor(context: Context) {
    this.watching = [
      vscode.commands.registerCommand("distir.foldCopies", aboutProgram(context, (document, server) => this.fold(document, server))),
      vscode.window.onDidChangeTextEditorVisibleRanges(({ textEditor }) => this.mark(textEditor)),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => contentChanges.length > 0 && this.forget(document)),
      vscode.workspace.onDidCloseTextDocument((document) => this.forget(document)),
    ];
  }

  dispose(): void {
    for (const each of [this.count, ...this.watching]) each.dispose();
  }

  private async fold(document: vscode.TextDocument, server: Asked): Promise<void> {
    const uri = document.uri.toString();
    const found = (await server.sendRequest("textDocument/foldingRange", { textDocument: { uri } })) as FoldingRange[] | null;
    const copies = (found ?? []).flatMap(({ kind, startLine, endLine, collapsedText }) => (kind === "copies" ? [{ first: startLine, last: endLine, text: collapsedText ?? "" }] : []));
    if (copies.length === 0) return void vscode.window.showInformationMessage("No lines are copies of the ones before them for other devices.");
    this.known.set(uri, copies);
    const editor = await vscode.window.showTextDocument(document);
    // Of the regions at each of these lines the innermost one.
    await vscode.commands.executeCommand("editor.fold", { levels: 1, direction: "up", selectionLines: copies.map(({ first }) => first) });
    this.mark(editor);
  }

  /** Say beside each line whose copies are folded how many there are. */
  private mark(editor: vscode.TextEditor): void {
    const copies = this.known.get(editor.document.uri.toString());
    if (copies === undefined) return;
    const shown = editor.visibleRanges;
    const isShown = (line: number): boolean => shown.some(({ start, end }) => start.line <= line && line <= end.line);
    const bottom = shown.at(-1)?.end.line ?? 0;
    const folded = copies.filter(({ first, last }) => isShown(first) && last < bottom && !isShown(last));
    const at = folded.map(({ first, text }) => ({ range: editor.document.lineAt(first).range, renderOptions: { after: { contentText: text } } }));
    editor.setDecorations(this.count, at);
  }

  private forget(document: vscode.TextDocument): void {
    if (!this.known.delete(document.uri.toString())) return;
    for (const editor of vscode.window.visibleTextEditors) if (editor.document === document) editor.setDecorations(this.count, []);
  }
}
