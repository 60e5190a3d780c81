// In a program on a mesh: a glyph in the margin beside each collective that communicates, a dotted line under sums that are pending.

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient";

import { type PlacementMarks, Refused, ask } from "../requests";
import type { Server } from "../server/server";

export class PlacementsView implements vscode.Disposable {
  private readonly resharding: vscode.TextEditorDecorationType;
  private readonly pending = vscode.window.createTextEditorDecorationType({
    textDecoration: "underline dotted var(--vscode-distir-pending) 2px; text-underline-offset: 3px",
  });
  private readonly watching: vscode.Disposable[];

  constructor(
    private readonly server: Server,
    media: vscode.Uri,
  ) {
    const glyph = (ground: string): { gutterIconPath: vscode.Uri } => ({ gutterIconPath: vscode.Uri.joinPath(media, `resharding-${ground}.svg`) });
    this.resharding = vscode.window.createTextEditorDecorationType({ gutterIconSize: "contain", dark: glyph("dark"), light: glyph("light") });
    this.watching = [
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => void this.show(editor))),
      vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("distir.placements") && this.refresh()),
    ];
  }

  /** Ask again for the editors of a document, or for all. Until the answer comes, marks move with their text. */
  refresh(uri?: vscode.Uri): void {
    for (const editor of vscode.window.visibleTextEditors) {
      if (uri === undefined || editor.document.uri.toString() === uri.toString()) void this.show(editor);
    }
  }

  dispose(): void {
    for (const each of [this.resharding, this.pending, ...this.watching]) each.dispose();
  }

  private async show(editor: vscode.TextEditor): Promise<void> {
    const { document } = editor;
    const client = this.server.running;
    if (document.languageId !== "distir" || client === undefined) return;
    const isOff = vscode.workspace.getConfiguration("distir", document).get("placements") === "off";
    try {
      const found = isOff ? { version: document.version, resharding: [], pending: [] } : await ask<PlacementMarks>(client, "placements", document.uri.toString());
      if (found.version !== document.version) return; // those of this version are under way
      editor.setDecorations(this.resharding, found.resharding.map(({ start }) => new vscode.Range(start.line, 0, start.line, 0)));
      editor.setDecorations(this.pending, found.pending.map(range));
    } catch (error) {
      if (!(error instanceof Refused)) return; // the server was interrupted, and the next status asks again
    }
  }
}

function range({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}
