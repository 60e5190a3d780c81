// Beside each line of a program a bar whose colour is its share of the devices' time; the critical path in the ruler.

import * as vscode from "vscode";

import { LEVELS, levelled } from "../heat";
import { type LineTimes, Refused, ask } from "../requests";
import type { Server } from "../server/server";

export class LineTimesView implements vscode.Disposable {
  private readonly bars = Array.from({ length: LEVELS }, (_, level) =>
    vscode.window.createTextEditorDecorationType({
      isWholeLine: true,
      borderStyle: "solid",
      borderWidth: "0 0 0 4px",
      borderColor: new vscode.ThemeColor(`distir.time${level + 1}`),
    }),
  );
  private readonly critical = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    overviewRulerColor: new vscode.ThemeColor("distir.criticalPath"),
    overviewRulerLane: vscode.OverviewRulerLane.Center,
  });
  private readonly watching: vscode.Disposable[];

  constructor(private readonly server: Server) {
    this.watching = [
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => void this.show(editor))),
      vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("distir.lineTimes") && this.refresh()),
    ];
  }

  /** Ask again for the editors of a document, or for all. Until the answer comes, bars move with their lines. */
  refresh(uri?: vscode.Uri): void {
    for (const editor of vscode.window.visibleTextEditors) {
      if (uri === undefined || editor.document.uri.toString() === uri.toString()) void this.show(editor);
    }
  }

  dispose(): void {
    for (const each of [...this.bars, this.critical, ...this.watching]) each.dispose();
  }

  private async show(editor: vscode.TextEditor): Promise<void> {
    const { document } = editor;
    const client = this.server.running;
    if (document.languageId !== "distir" || client === undefined) return;
    if (!vscode.workspace.getConfiguration("distir", document).get("lineTimes", true)) return this.mark(editor, [], []);
    try {
      const found = await ask<LineTimes>(client, "lineTimes", document.uri.toString());
      if (found.version !== document.version || found.stale) return; // those of this version are under way
      this.mark(editor, levelled(found.line, found.share), found.line.filter((_, index) => found.critical[index]));
    } catch (error) {
      if (error instanceof Refused) return; // there are none: what was shown is the last that is known
    }
  }

  private mark(editor: vscode.TextEditor, levels: readonly number[][], critical: readonly number[]): void {
    const ranges = (lines: readonly number[]): vscode.Range[] => lines.map((line) => new vscode.Range(line, 0, line, 0));
    this.bars.forEach((bar, level) => editor.setDecorations(bar, ranges(levels[level] ?? [])));
    editor.setDecorations(this.critical, ranges(critical));
  }
}
