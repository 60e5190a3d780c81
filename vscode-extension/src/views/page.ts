// The frame of a page in a webview: it holds its script and its style, and nothing else may load or run.

import * as vscode from "vscode";

/** Options of a panel with a page: it runs a script, and reads no files. */
export const pageOptions: vscode.WebviewOptions = { enableScripts: true, localResourceRoots: [] };

/**
 * A page with an empty element `id`, a script and a style sheet of `dist/`. What is shown is sent as data later.
 *
 * Script and style are in the page: files beside it are handed out by a service worker, which in VS Code for the Web all
 * webviews of a window may share. Where two of them open at once, one is not served, and its page stays empty.
 */
export async function page(extension: vscode.Uri, title: string, id: string, script: string, style: string): Promise<string> {
  const nonce = crypto.randomUUID();
  const read = async (name: string): Promise<string> => new TextDecoder().decode(await vscode.workspace.fs.readFile(vscode.Uri.joinPath(extension, "dist", ...name.split("/"))));
  const [code, rules] = await Promise.all([read(script), read(style)]);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<style nonce="${nonce}">${rules}</style>
<title>${title}</title>
</head>
<body>
<div id="${id}"></div>
<script nonce="${nonce}">${code}</script>
</body>
</html>`;
}
