// Why the statement under the cursor is slow: a view in the panel, always in the same place, that follows the cursor.

import * as vscode from "vscode";

import type { Context } from "../context";
import { Refused, type Why, ask } from "../requests";
import { page, pageOptions } from "./page";

const AFTER_MS = 80;
const VIEW = "distir.whySlow";

type FromView = { type: "ready" } | { type: "timeline" } | { type: "advice" } | { type: "goTo"; line: number };

export class WhyView implements vscode.WebviewViewProvider, vscode.Disposable {
  private view: vscode.WebviewView | undefined;
  private document: vscode.TextDocument | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly watching: vscode.Disposable[];

  constructor(private readonly context: Context) {
    void vscode.commands.executeCommand("setContext", "distir.active", true); // without a program there is no such view
    this.watching = [
      vscode.window.registerWebviewViewProvider(VIEW, this),
      vscode.commands.registerCommand("distir.why", () => vscode.commands.executeCommand(`${VIEW}.focus`)),
      vscode.window.onDidChangeTextEditorSelection(() => this.refresh()),
      vscode.window.onDidChangeActiveTextEditor(() => this.refresh()),
    ];
  }

  async resolveWebviewView(view: vscode.WebviewView): Promise<void> {
    this.view = view;
    view.webview.options = pageOptions;
    view.webview.onDidReceiveMessage((message: FromView) => this.hear(message));
    view.onDidChangeVisibility(() => this.refresh());
    view.onDidDispose(() => (this.view = undefined));
    view.webview.html = await page(this.context.extension.extensionUri, "Why Is This Slow", "why", "media/why.js", "media/why.css");
  }

  /** Ask again soon; many calls are one. */
  refresh(): void {
    clearTimeout(this.timer);
    if (this.view?.visible) this.timer = setTimeout(() => void this.show(), AFTER_MS);
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const each of this.watching) each.dispose();
  }

  private async show(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const client = this.context.server.running;
    if (this.view === undefined || client === undefined || editor?.document.languageId !== "distir") return;
    const { document, selection } = editor;
    const { line, character } = selection.active;
    try {
      const why = await ask<Why>(client, "why", document.uri.toString(), { position: { line, character } });
      if (!selection.isEqual(editor.selection)) return; // where the cursor is now is asked about next
      this.document = document;
      await this.view?.webview.postMessage({ type: "show", why });
    } catch (error) {
      if (error instanceof Refused) await this.view?.webview.postMessage({ type: "nothing", text: `Put the cursor on a statement: ${error.message}.` });
    }
  }

  private hear(message: FromView): void {
    const { document } = this;
    if (message.type === "ready") this.refresh();
    else if (document === undefined) return;
    else if (message.type === "timeline") void vscode.commands.executeCommand("distir.openTimeline", document.uri);
    else if (message.type === "advice") void vscode.commands.executeCommand("distir.showAdvice", document.uri);
    else void goTo(document, message.line);
  }
}

/** Put the cursor at the first word of a line, from 1. */
async function goTo(document: vscode.TextDocument, line: number): Promise<void> {
  if (line > document.lineCount) return;
  const at = new vscode.Position(line - 1, document.lineAt(line - 1).firstNonWhitespaceCharacterIndex);
  const column = vscode.window.visibleTextEditors.find((editor) => editor.document === document)?.viewColumn;
  await vscode.window.showTextDocument(document, { selection: new vscode.Range(at, at), ...(column === undefined ? {} : { viewColumn: column }) });
}
