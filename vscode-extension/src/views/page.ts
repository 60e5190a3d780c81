// The frame of a page in a webview: nothing but our own files may load or run.

import * as vscode from "vscode";

/** Options under which a page may read the extension's own output, and nothing else. */
export function pageOptions(extension: vscode.Uri): vscode.WebviewOptions {
  return { enableScripts: true, localResourceRoots: [vscode.Uri.joinPath(extension, "dist")] };
}

/** A page with an empty element `id`, a script and a style sheet of `dist/`. What is shown is sent as data later. */
export function page(webview: vscode.Webview, extension: vscode.Uri, title: string, id: string, script: string, style: string): string {
  const nonce = crypto.randomUUID();
  const of = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(extension, "dist", ...name.split("/"))).toString();
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'">
<link rel="stylesheet" href="${of(style)}">
<title>${title}</title>
</head>
<body>
<div id="${id}"></div>
<script nonce="${nonce}" src="${of(script)}"></script>
</body>
</html>`;
}
