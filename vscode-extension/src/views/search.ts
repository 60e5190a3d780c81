// What a search found: memory against throughput, and a table; a row opens its program.

import * as vscode from "vscode";

import { type Context, tell } from "../context";
import { nameOf } from "../programs";
import type { Fit } from "../requests";
import { page, pageOptions } from "./page";

export interface Row {
  batch_size: number | null;
  D: number;
  T: number;
  P: number;
  K: number;
  latency_s: number | null;
  throughput: number | null;
  peak_memory_bytes: number | null;
  fits: boolean;
  fit: Fit | null;
  schedule: string;
  reason: string;
  steps: string[];
}

/** The document that `distir search --json` writes. */
export interface Found {
  model: string;
  hardware: string;
  devices: number;
  configurations: number;
  best: Row | null;
  rows: Row[];
  left_out: Row[];
}

type FromView = { type: "ready" } | { type: "open"; steps: unknown };

/** Open a panel with what was found; opening a row previews the program that its steps make. */
export async function showSearch(context: Context, source: vscode.Uri, found: Found): Promise<void> {
  const { extensionUri } = context.extension;
  const html = await page(extensionUri, "Configurations", "search", "media/search.js", "media/search.css");
  const title = `Configurations of ${nameOf(source)}`;
  const panel = vscode.window.createWebviewPanel("distir.search", title, vscode.ViewColumn.Beside, { ...pageOptions, retainContextWhenHidden: true });
  panel.webview.onDidReceiveMessage((message: FromView) => {
    if (message.type === "ready") void panel.webview.postMessage({ type: "show", name: nameOf(source), found });
    else if (Array.isArray(message.steps)) {
      vscode.commands.executeCommand("distir.transformProgram", source, message.steps.map(String)).then(undefined, (error: unknown) => tell(context, error));
    }
  });
  panel.webview.html = html;
}
