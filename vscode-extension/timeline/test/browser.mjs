// Chromium, and the view in it as in a webview: the same policy, and an editor that remembers what it is told.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, "../../../distir/simulate/page");

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const executablePath = places.find((place) => place && existsSync(place));
/** Why tests are skipped; false: they are not. */
export const missing = executablePath ? false : "needs chromium (CHROMIUM=path)";

export const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

const EDITOR = `
  const told = [], kept = { now: undefined };
  window.told = told;
  window.kept = kept;
  window.acquireVsCodeApi = () => ({
    postMessage: (message) => told.push(message),
    getState: () => kept.now,
    setState: (state) => { kept.now = state; },
  });`;

/** The view in a page of its own. `problems`: errors, broken policies, requests that went anywhere else. */
export async function webview(browser, { kept, theme = "vscode-light", ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1000, height: 520 }, ...options });
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.stack));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.route("**/*", (route) => {
    const { pathname, host } = new URL(route.request().url());
    if (host !== "view.test") {
      problems.push(`asked for ${route.request().url()}`);
      return route.abort();
    }
    if (pathname === "/timeline.js" || pathname === "/timeline.css") {
      const contentType = pathname.endsWith("js") ? "text/javascript" : "text/css";
      return route.fulfill({ body: readFileSync(join(built, pathname), "utf8"), contentType });
    }
    if (pathname !== "/") return route.fulfill({ status: 204 });
    const body = `<!doctype html><html lang="en"><head><meta charset="utf-8">
      <meta http-equiv="Content-Security-Policy"
        content="default-src 'none'; style-src http://view.test; script-src 'nonce-n0'">
      <link rel="stylesheet" href="timeline.css"><title>Timeline</title></head>
      <body class="${theme}"><div id="timeline"></div>
      <script nonce="n0">${EDITOR} kept.now = ${JSON.stringify(kept) ?? "undefined"};</script>
      <script nonce="n0" src="timeline.js"></script></body></html>`;
    return route.fulfill({ body, contentType: "text/html" });
  });
  await page.goto("http://view.test/");
  const send = (message) =>
    page.evaluate((data) => {
      const heard = new Promise((done) => window.addEventListener("message", done, { once: true })); // behind the view
      window.postMessage(data, "*");
      return heard.then(() => null);
    }, message);
  const told = (type) =>
    page.evaluate((wanted) => window.told.filter((message) => message.type === wanted), type);
  /** What the view remembers, once it has been still for a while. */
  const remembered = async () => {
    await page.waitForTimeout(350);
    return page.evaluate(() => window.kept.now);
  };
  return { page, problems, send, told, remembered };
}

/** Two frames later: what was asked for is drawn. */
export const drawn = (page) =>
  page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
