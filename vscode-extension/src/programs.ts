// Which program a command is about, and the read-only programs that this extension itself makes up.

import * as vscode from "vscode";

import { type Asked, type Hardware, ask } from "./requests";

/** How many texts of previews are kept, those of closed ones included: a timeline may still compare with them. */
const KEPT = 16;

/** Schemes of documents that a user writes: files, on this machine or of a repository that a browser shows. */
export const WRITTEN = ["file", "untitled", "vscode-vfs", "vscode-test-web"];

/** Programs that are not written yet: results of transforms, other versions. */
export const PREVIEW = "distir-preview";

/** The program that a command is about: the one given, else that in the active editor, else the last one there. */
export class Programs implements vscode.Disposable {
  private last: vscode.TextDocument | undefined;
  private readonly watching: vscode.Disposable;

  constructor() {
    this.last = written(vscode.window.activeTextEditor?.document);
    this.watching = vscode.window.onDidChangeActiveTextEditor((editor) => (this.last = written(editor?.document) ?? this.last));
  }

  /** A view of a program has the keyboard: commands are about that program. */
  lookedAt(document: vscode.TextDocument): void {
    this.last = document;
  }

  /** The document; undefined, after a message, where there is none. */
  async about(given?: unknown): Promise<vscode.TextDocument | undefined> {
    const uri = given instanceof vscode.Uri ? given : typeof given === "string" ? vscode.Uri.parse(given, true) : undefined;
    if (uri !== undefined) {
      const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
      return open ?? (await vscode.workspace.openTextDocument(uri));
    }
    const active = written(vscode.window.activeTextEditor?.document);
    if (active !== undefined) return active;
    if (this.last !== undefined && !this.last.isClosed) return this.last;
    void vscode.window.showInformationMessage("Open a .dir program first.");
    return undefined;
  }

  /** The program in the active editor, or of the view that has the keyboard; undefined where another text is edited. */
  get shown(): vscode.TextDocument | undefined {
    const active = vscode.window.activeTextEditor;
    return active !== undefined ? written(active.document) ?? active.document : this.last?.isClosed === false ? this.last : undefined;
  }

  dispose(): void {
    this.watching.dispose();
  }
}

/** Texts of programs that are shown and can be simulated, and are no files. */
export class Previews implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, { readonly text: string; readonly program: vscode.Uri }>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private count = 0;

  readonly onDidChange = this.changed.event;

  /** `server`: what sends requests, if it runs. */
  constructor(private readonly server: () => Asked | undefined) {}

  /**
   * A document with a text, beside a program: so it has the same settings, and finds the same files. It is simulated for
   * the machine that the program is simulated for.
   */
  async open(program: vscode.Uri, name: string, text: string): Promise<vscode.TextDocument> {
    const uri = vscode.Uri.from({ scheme: PREVIEW, path: beside(program, name), query: String(++this.count) });
    this.forget();
    this.texts.set(uri.toString(), { text, program });
    const document = await vscode.workspace.openTextDocument(uri);
    return document.languageId === "distir" ? document : vscode.languages.setTextDocumentLanguage(document, "distir");
  }

  /** The text; the server learns first what it follows, so that it never shows the times of another machine. */
  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const found = this.texts.get(uri.toString());
    const server = this.server();
    if (found !== undefined && server !== undefined) {
      await ask(server, "follow", uri.toString(), { source: found.program.toString() }).catch(() => undefined); // it is being restarted
    }
    return found?.text ?? "";
  }

  /** The text of a preview; empty where there is none any more. */
  textOf(uri: vscode.Uri): string {
    return this.texts.get(uri.toString())?.text ?? "";
  }

  dispose(): void {
    this.changed.dispose();
  }

  /** Leave out the oldest that no tab shows. */
  private forget(): void {
    const open = new Set(vscode.workspace.textDocuments.map((document) => document.uri.toString()));
    for (const uri of this.texts.keys()) {
      if (this.texts.size < KEPT) return;
      if (!open.has(uri)) this.texts.delete(uri);
    }
  }
}

/** Simulate one document for the machine that another one is simulated for. */
export async function onTheSameHardware(server: Asked, of: vscode.Uri, to: vscode.Uri): Promise<void> {
  const chosen = (await ask<Hardware>(server, "hardware", of.toString())).chosen;
  if (chosen === undefined) return;
  await ask(server, "hardware", to.toString(), { action: "choose", name: chosen.name });
  if (Object.keys(chosen.changes).length > 0) {
    await ask(server, "hardware", to.toString(), { action: "whatIf", changes: chosen.changes, keep: true });
  }
}

/** Where a program is shown, to show there what is about it: not over its timeline, which may have the keyboard. */
export function columnOf(uri: vscode.Uri): vscode.ViewColumn {
  const shown = vscode.window.visibleTextEditors.find(({ document, viewColumn }) => viewColumn !== undefined && document.uri.toString() === uri.toString());
  return shown?.viewColumn ?? vscode.ViewColumn.One;
}

/** The file's name, as titles show it. */
export function nameOf(uri: vscode.Uri): string {
  return uri.path.split("/").findLast((part) => part !== "") ?? "program";
}

/** The path of a document beside a program: so the same settings hold for it. */
export function beside(uri: vscode.Uri, name: string): string {
  const path = [...uri.path.split("/").slice(0, -1), name].join("/");
  return path.startsWith("/") ? path : `/${path}`;
}

/** A name beside a program's own: `mlp.dir` and `dp2` give `mlp.dp2.dir`. */
export function nameWith(uri: vscode.Uri, suffix: string): string {
  const words = suffix.replace(/[^\w.-]+/g, "_").replace(/^_+|_+$/g, "");
  return `${nameOf(uri).replace(/\.dir$/, "")}.${words}.dir`;
}

function written(document: vscode.TextDocument | undefined): vscode.TextDocument | undefined {
  return document?.languageId === "distir" && WRITTEN.includes(document.uri.scheme) ? document : undefined;
}
