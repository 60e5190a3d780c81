// The timeline beside the editor: hosts the page that timeline/ builds, and passes messages as its README has them.

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient";

import { type Context, aboutProgram } from "../context";
import { nameOf, onTheSameHardware } from "../programs";
import { type Asked, type Status, ask, timeline } from "../requests";
import { page, pageOptions } from "./page";

interface Shown {
  readonly panel: vscode.WebviewPanel;
  readonly document: vscode.TextDocument;
  other: vscode.TextDocument | undefined;
  isReady: boolean;
}

type FromView =
  | { type: "ready" | "closeComparison" }
  | { type: "error"; message: string }
  | { type: "simulateOn"; machine: string }
  | { type: "reveal"; uri: string; range: Range | null; path: { function: string; statement: number }[]; focus: boolean };

/** One panel for each program whose timeline is open. */
export class Timelines implements vscode.Disposable {
  private readonly shown = new Map<string, Shown>();
  private readonly watching: vscode.Disposable[];

  constructor(private readonly context: Context) {
    this.watching = [
      vscode.commands.registerCommand("distir.openTimeline", aboutProgram(context, (document) => this.open(document))),
      vscode.commands.registerCommand("distir.compareTimelines", aboutProgram(context, (document, server, other) => this.compare(document, server, other))),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => contentChanges.length > 0 && this.say(document.uri, { type: "state", state: "pending" })),
      vscode.workspace.onDidCloseTextDocument((document) => this.shown.get(document.uri.toString())?.panel.dispose()),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => this.sayCursor(textEditor)),
    ];
  }

  /** A program was simulated, or cannot be: show that where it is shown, alone or beside another one. */
  refresh(uri: vscode.Uri, status: Status): void {
    // On demand or impossible, this version is not shown soon, for the reason given.
    const state = status.state === "on_demand" ? "failed" : status.state;
    if (state !== "simulated") this.say(uri, { type: "state", state, why: status.why, enough: status.enough });
    else for (const each of this.shown.values()) if (shows(each, uri)) void this.send(each);
  }

  dispose(): void {
    for (const { panel } of this.shown.values()) panel.dispose();
    for (const each of this.watching) each.dispose();
  }

  private async open(document: vscode.TextDocument, other?: vscode.TextDocument): Promise<void> {
    const { extensionUri } = this.context.extension;
    const html = await page(extensionUri, "Timeline", "timeline", "timeline.js", "timeline.css"); // first: what follows happens at once, so that no program gets two panels
    const uri = document.uri.toString();
    const known = this.shown.get(uri);
    if (known !== undefined) {
      known.other = other ?? known.other;
      known.panel.reveal();
      return this.send(known);
    }
    const title = `Timeline of ${nameOf(document.uri)}`;
    const panel = vscode.window.createWebviewPanel("distir.timeline", title, vscode.ViewColumn.Beside, pageOptions); // with the keyboard: it has keys
    panel.iconPath = vscode.Uri.joinPath(extensionUri, "images", "icon.png");
    const made: Shown = { panel, document, other, isReady: false };
    this.shown.set(uri, made);
    this.context.programs.lookedAt(document);
    panel.onDidChangeViewState(({ webviewPanel }) => webviewPanel.active && this.context.programs.lookedAt(document));
    panel.onDidDispose(() => this.shown.delete(uri));
    panel.webview.onDidReceiveMessage((message: FromView) => this.hear(made, message));
    panel.webview.html = html;
  }

  /** Two timelines over one another: this program's, and that of another one, which the user picks if none is given. */
  private async compare(document: vscode.TextDocument, server: Asked, given: unknown): Promise<void> {
    const target = given instanceof vscode.Uri ? given : await pickProgram(document);
    if (target === undefined) return;
    await this.open(document, await openedFor(server, document, target));
  }

  private hear(from: Shown, message: FromView): void {
    switch (message.type) {
      case "ready":
        from.isReady = true;
        void this.send(from).then(() => {
          const editor = vscode.window.visibleTextEditors.find(({ document }) => document === from.document);
          if (editor !== undefined) this.sayCursor(editor);
        });
        break;
      case "closeComparison":
        from.other = undefined;
        void this.send(from);
        break;
      case "reveal":
        void this.reveal(message);
        break;
      case "simulateOn":
        void vscode.commands.executeCommand("distir.pickHardware", from.document.uri, message.machine);
        break;
      case "error":
        this.context.log.error(`the timeline: ${message.message}`);
        break;
    }
  }

  /** Go to a bar's statement, and show the functions on the way for the calls that lead to it. */
  private async reveal({ uri, range, path, focus }: FromView & { type: "reveal" }): Promise<void> {
    const server = this.context.server.running;
    if (server !== undefined && path.length > 0) await ask(server, "calls", uri, { path }).catch(() => undefined); // edited meanwhile: there are no such calls
    if (range !== null) await reveal(vscode.Uri.parse(uri, true), range, focus);
  }

  /** Tell a timeline where the cursor of its program is. */
  private sayCursor({ document, selection }: vscode.TextEditor): void {
    const { line, character } = selection.active;
    this.say(document.uri, { type: "cursor", uri: document.uri.toString(), position: { line, character } });
  }

  /** Send what is simulated now. */
  private async send(to: Shown): Promise<void> {
    const server = this.context.server.running;
    if (!to.isReady || server === undefined) return;
    try {
      if (to.other?.isClosed) to.other = await openedFor(server, to.document, to.other.uri);
      const [own, other] = [await whole(server, to.document), to.other && (await whole(server, to.other))];
      const comparison = to.other && (await ask(server, "compare", to.document.uri.toString(), { other: { uri: to.other.uri.toString() } }));
      await to.panel.webview.postMessage({ type: "show", ...own, ...(other ? { other, comparison } : {}) });
      const { state, enough } = await ask<Status>(server, "status", to.document.uri.toString());
      if (state === "simulated" && enough) await to.panel.webview.postMessage({ type: "state", state, enough });
    } catch (error) {
      await to.panel.webview.postMessage({ type: "state", state: "failed", why: error instanceof Error ? error.message : String(error) });
    }
  }

  private say(uri: vscode.Uri, message: object): void {
    const found = this.shown.get(uri.toString());
    if (found?.isReady) void found.panel.webview.postMessage(message);
  }
}

function shows({ document, other }: Shown, uri: vscode.Uri): boolean {
  return [document, other].some((each) => each?.uri.toString() === uri.toString());
}

/** A program to compare with, simulated alike. The editor closes it again after a while where no tab shows it. */
async function openedFor(server: Asked, document: vscode.TextDocument, uri: vscode.Uri): Promise<vscode.TextDocument> {
  const other = await vscode.workspace.openTextDocument(uri);
  await onTheSameHardware(server, document.uri, other.uri);
  return other;
}

async function whole(server: Asked, document: vscode.TextDocument): Promise<object> {
  const uri = document.uri.toString();
  const pieces = await timeline(server, uri);
  const version = pieces[0]?.version;
  const memory = await ask<{ version: number }>(server, "memory", uri).catch(() => undefined);
  return { document: { uri, name: nameOf(document.uri), version }, timeline: pieces, ...(memory?.version === version ? { memory } : {}) };
}

/** Show a place in a program, in the editor where it is open. */
async function reveal(uri: vscode.Uri, { start, end }: Range, focus: boolean): Promise<void> {
  const column = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === uri.toString())?.viewColumn;
  const selection = new vscode.Range(start.line, start.character, end.line, end.character);
  await vscode.window.showTextDocument(uri, { selection, viewColumn: column ?? vscode.ViewColumn.One, preserveFocus: !focus });
}

async function pickProgram(document: vscode.TextDocument): Promise<vscode.Uri | undefined> {
  const files = await vscode.workspace.findFiles("**/*.dir", "**/{node_modules,.venv,.git}/**", 500);
  const items = files
    .filter((uri) => uri.toString() !== document.uri.toString())
    .map((uri) => ({ label: vscode.workspace.asRelativePath(uri), uri }))
    .sort((a, b) => a.label.localeCompare(b.label));
  return (await vscode.window.showQuickPick(items, { title: `Compare the timeline of ${nameOf(document.uri)} with that of` }))?.uri;
}
