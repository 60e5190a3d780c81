// The program that one rank runs, as a read-only document beside the whole one, each line linked to where it comes from.

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient";

import { type Context, aboutProgram } from "../context";
import { beside, nameWith } from "../programs";
import { type Asked, type RankProgram, Refused, ask } from "../requests";

export const RANK = "distir-rank";
const GO_TO = "distir.goToPlace";

/** Documents `distir-rank:`, which follow the programs that they are parts of. */
export class RankView implements vscode.TextDocumentContentProvider, vscode.DocumentLinkProvider, vscode.Disposable {
  private readonly found = new Map<string, RankProgram>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly mark = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("editor.rangeHighlightBackground"),
  });
  private readonly watching: vscode.Disposable[];

  readonly onDidChange = this.changed.event;

  constructor(private readonly context: Context) {
    this.watching = [
      vscode.workspace.registerTextDocumentContentProvider(RANK, this),
      vscode.languages.registerDocumentLinkProvider({ scheme: RANK }, this),
      vscode.commands.registerCommand("distir.showRank", aboutProgram(context, (document, server, rank) => this.show(document, server, rank))),
      vscode.commands.registerCommand(GO_TO, goTo),
      vscode.window.onDidChangeTextEditorSelection((event) => this.follow(event)),
      vscode.workspace.onDidCloseTextDocument((document) => this.found.delete(document.uri.toString())),
    ];
  }

  /** A program is simulated anew: show what its ranks run now. */
  refresh(source: vscode.Uri): void {
    for (const document of vscode.workspace.textDocuments) {
      if (document.uri.scheme === RANK && sourceOf(document.uri).uri === source.toString()) this.changed.fire(document.uri);
    }
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const { uri: source, rank } = sourceOf(uri);
    const server = this.context.server.running;
    if (server === undefined) return "// The server is not running.\n";
    try {
      const found = await ask<RankProgram>(server, "rankProgram", source, { rank, shownAs: uri.toString() });
      this.found.set(uri.toString(), found);
      return found.text;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return why.split("\n").map((line) => `// ${line}\n`).join("");
    }
  }

  provideDocumentLinks(document: vscode.TextDocument): vscode.DocumentLink[] {
    const source = sourceOf(document.uri).uri;
    const links: vscode.DocumentLink[] = [];
    for (const { line, range, function: name } of this.found.get(document.uri.toString())?.links ?? []) {
      if (range === null || line > document.lineCount) continue;
      const text = document.lineAt(line - 1).text;
      const start = text.length - text.trimStart().length;
      const end = start + (/^[^\s:,=(]+/.exec(text.slice(start))?.[0].length ?? 0);
      const target = vscode.Uri.parse(`command:${GO_TO}?${encodeURIComponent(JSON.stringify([source, range]))}`);
      const link = new vscode.DocumentLink(new vscode.Range(line - 1, start, line - 1, end), target);
      link.tooltip = `Go to line ${range.start.line + 1}, in @${name}`;
      links.push(link);
    }
    return links;
  }

  dispose(): void {
    for (const each of [this.changed, this.mark, ...this.watching]) each.dispose();
  }

  private async show(document: vscode.TextDocument, server: Asked, given: unknown): Promise<vscode.Uri | undefined> {
    const { ranks } = await ask<RankProgram>(server, "rankProgram", document.uri.toString(), typeof given === "number" ? { rank: given } : {}).catch((error: unknown) => {
      // Not every program has a rank 1: the reason names those that there are.
      const there = error instanceof Refused ? /there are ([\d, ]+)/.exec(error.message)?.[1] : undefined;
      if (there === undefined || typeof given === "number") throw error;
      return { ranks: there.split(",").map(Number) };
    });
    const rank = typeof given === "number" ? given : await pickRank(ranks);
    if (rank === undefined) return undefined;
    const path = beside(document.uri, nameWith(document.uri, `rank${rank}`));
    const uri = vscode.Uri.from({ scheme: RANK, path, query: JSON.stringify([document.uri.toString(), rank]) });
    await vscode.window.showTextDocument(uri, { viewColumn: vscode.ViewColumn.Beside, preview: true, preserveFocus: true });
    return uri;
  }

  /** Mark the statement that the line under the cursor comes from, where its program is in view. */
  private follow({ textEditor, selections }: vscode.TextEditorSelectionChangeEvent): void {
    const { uri } = textEditor.document;
    if (uri.scheme !== RANK) return;
    const source = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === sourceOf(uri).uri);
    const line = (selections[0]?.active.line ?? -1) + 1;
    const range = this.found.get(uri.toString())?.links.find((link) => link.line === line)?.range;
    const marked = range ? [asRange(range)] : [];
    source?.setDecorations(this.mark, marked);
    if (marked[0]) source?.revealRange(marked[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

/** Go to a place in a program: the target of links in ranks' programs. */
async function goTo(uri: unknown, range: Range): Promise<void> {
  if (typeof uri !== "string") return;
  const shown = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === uri);
  const options = { selection: asRange(range), ...(shown?.viewColumn === undefined ? {} : { viewColumn: shown.viewColumn }) };
  await vscode.window.showTextDocument(vscode.Uri.parse(uri, true), options);
}

async function pickRank(ranks: readonly number[]): Promise<number | undefined> {
  if (ranks.length === 1) return ranks[0];
  const items = ranks.map((rank) => ({ label: `Rank ${rank}`, description: `what device ${rank} runs`, rank }));
  return (await vscode.window.showQuickPick(items, { title: "Show the program of which rank?" }))?.rank;
}

function sourceOf(uri: vscode.Uri): { uri: string; rank: number } {
  const [source, rank] = JSON.parse(uri.query) as [string, number];
  return { uri: source, rank };
}

function asRange({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}
