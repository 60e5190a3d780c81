// Two versions of a program in the diff editor: behind each line, on both sides, how its time on a device differs from the
// other's; the sum over devices is in the hover.

import * as vscode from "vscode";

import { changed, onDevices } from "../heat";
import { type DiffTimes, type LineChanges, ask } from "../requests";
import type { Server } from "../server/server";

const AFTER_MS = 300;

export class DiffTimesView implements vscode.Disposable {
  private readonly slower = behind("distir.slower");
  private readonly faster = behind("distir.faster");
  private readonly watching: vscode.Disposable[];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly server: Server) {
    this.watching = [
      vscode.window.onDidChangeVisibleTextEditors(() => this.refresh()),
      vscode.window.tabGroups.onDidChangeTabs(() => this.refresh()),
      vscode.workspace.onDidChangeTextDocument(({ document }) => document.languageId === "distir" && this.refresh()),
    ];
  }

  /** Look again soon; many calls are one. */
  refresh(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => vscode.window.tabGroups.all.forEach(({ activeTab }) => void this.show(activeTab?.input)), AFTER_MS);
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const each of [this.slower, this.faster, ...this.watching]) each.dispose();
  }

  private async show(input: unknown): Promise<void> {
    const client = this.server.running;
    if (!(input instanceof vscode.TabInputTextDiff) || client === undefined) return;
    const [original, modified] = [editorOf(input.original), editorOf(input.modified)];
    if (original?.document.languageId !== "distir" || modified?.document.languageId !== "distir") return;
    const versions = [original.document.version, modified.document.version];
    const [other, now] = [original.document.getText(), modified.document.getText()];
    try {
      const found = await ask<DiffTimes>(client, "diffTimes", settled(input.modified).toString(), { other: { text: other }, this: { text: now } });
      if (original.document.version !== versions[0] || modified.document.version !== versions[1]) return;
      this.mark(original, found.other, "gone");
      this.mark(modified, found.this, "new");
    } catch {
      this.mark(original, undefined, "gone"); // one of them cannot be simulated, or is being typed
      this.mark(modified, undefined, "new");
    }
  }

  /** On the left, where the earlier version is, only what is gone: the other differences are on the right. */
  private mark(editor: vscode.TextEditor, changes: LineChanges | undefined, side: "new" | "gone"): void {
    const marks: Record<"slower" | "faster", vscode.DecorationOptions[]> = { slower: [], faster: [] };
    changes?.line.forEach((line, index) => {
      const [change, taken] = [changes.change_s[index] ?? null, changes.each_s[index] ?? 0];
      if (line >= editor.document.lineCount || (side === "gone" && change !== null)) return;
      const isSlower = side === "new" && (change === null || change > 0);
      const end = editor.document.lineAt(line).range.end;
      const hoverMessage = onDevices(changes.devices[index] ?? 0, changes.device_s[index] ?? 0, changes.device_change_s[index] ?? null);
      marks[isSlower ? "slower" : "faster"].push({ range: new vscode.Range(end, end), hoverMessage, renderOptions: { after: { contentText: changed(change, taken, side) } } });
    });
    editor.setDecorations(this.slower, marks.slower);
    editor.setDecorations(this.faster, marks.faster);
  }
}

/** The document whose settings hold: of git's versions, the file in the working tree. */
function settled(uri: vscode.Uri): vscode.Uri {
  return uri.scheme === "git" ? vscode.Uri.file(uri.path) : uri;
}

function editorOf(uri: vscode.Uri): vscode.TextEditor | undefined {
  return vscode.window.visibleTextEditors.find(({ document }) => document.uri.toString() === uri.toString());
}

function behind(colour: string): vscode.TextEditorDecorationType {
  return vscode.window.createTextEditorDecorationType({ after: { color: new vscode.ThemeColor(colour), margin: "0 0 0 2em", fontStyle: "italic" } });
}
