// A real VS Code workbench without a screen: code-server with the packaged extension, and a page of headless Chromium.
import { spawn } from "node:child_process";
import { cpSync, createWriteStream, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const HERE = fileURLToPath(new URL(".", import.meta.url));
export const EXTENSION = join(HERE, "..");
export const PROJECT = join(EXTENSION, "..");
export const PYTHON = process.env.DISTIR_PYTHON ?? join(PROJECT, ".venv/bin/python");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const VSIX = join(EXTENSION, "distir.vsix");
const ENTRY = join(HERE, "node_modules/code-server/out/node/entry.js");
const PATIENCE_MS = 240_000;
/** How often a page is looked at while something is waited for: at each frame, as by default, it would do little else. */
const LOOKS_EVERY_MS = 100;

const EDITOR = {
  "editor.hover.delay": 100,
  "editor.cursorBlinking": "solid", // what moves is drawn, without a graphics card
  "workbench.reduceMotion": "on",
  "editor.minimap.enabled": false,
  "editor.fontSize": 13,
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.enableExperiments": false,
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.activityBar.location": "hidden",
  "workbench.layoutControl.enabled": false,
  "window.commandCenter": false,
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "update.mode": "none",
  "telemetry.telemetryLevel": "off",
  "files.autoSave": "off",
  "files.hotExit": "off",
  "diffEditor.renderSideBySide": true,
};

/**
 * A code-server of its own with the extension installed. `settings`: the user's; `files`: what the workspace holds, by
 * path; `trust`: whether VS Code asks for the trust of workspaces; `env`: of the server's process.
 */
export async function startWorkbench({ settings = {}, files = {}, folder = "work", trust = false, env = {} } = {}) {
  const home = mkdtempSync(join(tmpdir(), "distir-workbench-"));
  const workspace = join(home, folder);
  const data = join(home, "data");
  const all = { ...EDITOR, "security.workspace.trust.enabled": trust, ...settings };
  for (const place of ["User", "Machine"]) {
    mkdirSync(join(data, place), { recursive: true });
    // Settings of scope `machine` are read from Machine alone in a remote workbench, others from User.
    writeFileSync(join(data, place, "settings.json"), JSON.stringify(place === "User" ? all : settings));
  }
  mkdirSync(workspace, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    const path = join(workspace, name);
    mkdirSync(join(path, ".."), { recursive: true });
    if (typeof content === "string") writeFileSync(path, content);
    else cpSync(content.from, path);
  }
  writeFileSync(join(home, "config.yaml"), "auth: none\n");
  // The extension host has the PATH of a login shell, which would set its own.
  if (env.PATH) for (const name of [".profile", ".bash_profile", ".bashrc", ".zshenv"]) writeFileSync(join(home, name), `export PATH='${env.PATH}'\n`);

  const environment = { ...process.env, HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home, EXTENSIONS_GALLERY: '{"serviceUrl":""}', ...env };
  for (const name of Object.keys(environment)) if (/^(VSCODE_|ELECTRON_)/.test(name)) delete environment[name];
  const common = [ENTRY, "--user-data-dir", data, "--extensions-dir", join(home, "extensions"), "--config", join(home, "config.yaml")];
  const log = createWriteStream(join(home, "code-server.log"));
  const launch = (args, options) => {
    const child = spawn(process.execPath, [...common, ...args], { env: environment, stdio: ["ignore", "pipe", "pipe"], ...options });
    for (const stream of [child.stdout, child.stderr]) stream.pipe(log, { end: false });
    return child;
  };
  const installed = launch(["--install-extension", VSIX, "--force"]);
  const code = await new Promise((resolve) => installed.on("exit", resolve));
  if (code !== 0) throw new Error(`installing the extension ended with ${code}: ${readFileSync(join(home, "code-server.log"), "utf8")}`);

  const port = await freePort();
  const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check", "--disable-getting-started-override", "--disable-proxy"];
  const server = launch([...flags, ...(trust ? [] : ["--disable-workspace-trust"])], { detached: true });
  const base = `http://127.0.0.1:${port}`;
  const until = Date.now() + PATIENCE_MS;
  while (!(await fetch(`${base}/healthz`).then((answer) => answer.ok, () => false))) {
    if (Date.now() > until) throw new Error(`code-server does not answer: ${readFileSync(join(home, "code-server.log"), "utf8")}`);
    await sleep(50);
  }
  return {
    home,
    workspace,
    data,
    port,
    url: (payload, folderOpened = workspace) => `${base}/?folder=${encodeURIComponent(folderOpened)}&payload=${encodeURIComponent(JSON.stringify(payload))}`,
    remote: (path) => `vscode-remote://127.0.0.1:${port}${path}`,
    /** What the extension's logs hold. */
    logs() {
      const folder = join(data, "logs");
      const names = existsSync(folder) ? readdirSync(folder, { recursive: true }).filter((name) => /DistIR( Server)?\.log$/.test(name)) : [];
      return names.map((name) => readFileSync(join(folder, name), "utf8")).join("\n");
    },
    async close() {
      for (const signal of ["SIGTERM", "SIGKILL"]) {
        try {
          process.kill(-server.pid, signal); // its own group: extension host, language server
        } catch {
          break;
        }
        await sleep(200);
      }
      log.end();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Chromium; `outside` collects hosts that pages asked for and must not. */
export async function startBrowser() {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US" });
  context.setDefaultTimeout(PATIENCE_MS);
  const outside = new Set();
  await context.route(
    (url) => !["127.0.0.1", "localhost"].includes(url.hostname) && !url.hostname.endsWith(".localhost") && !url.hostname.endsWith(".vscode-cdn.net"),
    (route) => (outside.add(new URL(route.request().url()).host), route.abort()),
  );
  return { browser, context, outside, close: () => browser.close() };
}

/** A window of the workbench with a file open, in a folder of the workspace, and what a user does in one. */
export async function openFile(browser, bench, name, folder = bench.workspace) {
  const page = await browser.context.newPage();
  await page.goto(bench.url([["openFile", bench.remote(join(folder, name))]], folder));
  await page.waitForSelector(".monaco-editor .view-lines .view-line");
  await page.keyboard.press("Control+B"); // the side bar takes room, and is looked at by nobody here
  return new Workbench(page, readFileSync(join(folder, name), "utf8").split("\n"));
}

export class Workbench {
  constructor(page, text) {
    this.page = page;
    this.text = text;
  }

  /** Wait until something holds in the page, and give it. */
  until(predicate, given, timeout = PATIENCE_MS) {
    return this.page.waitForFunction(predicate, given, { timeout, polling: LOOKS_EVERY_MS });
  }

  /** Wait until a line of an editor, its hints included, holds a text, however many blanks align what. VS Code writes spaces as U+00A0. */
  async line(text, timeout = PATIENCE_MS) {
    await this.until(
      (wanted) => [...document.querySelectorAll(".view-line")].some((line) => line.textContent.replace(/[\u200b-\u200d\u2060\ufeff]/g, "").replace(/\s+/g, " ").includes(wanted)),
      text.replace(/\s+/g, " "),
      timeout,
    );
  }

  /** The lines in view. */
  lines() {
    return this.page.$$eval(".view-line", (found) => found.map((line) => line.textContent.replace(/[\u00a0\u2000-\u200a]/g, " ").replace(/[\u200b-\u200d\u2060\ufeff]/g, "")));
  }

  /** The text of the lens that matches, when there is one. */
  async lens(pattern, timeout = PATIENCE_MS) {
    const handle = await this.until(
      ([source]) => [...document.querySelectorAll(".codelens-decoration a, .codelens-decoration span")].map((a) => a.textContent.replace(/\u00a0/g, " ")).find((text) => new RegExp(source).test(text)),
      [pattern.source],
      timeout,
    );
    return handle.jsonValue();
  }

  /** Click a lens until what it opens is there: lenses are drawn anew while a program is simulated. */
  async clickLens(text, opened) {
    for (let attempt = 0; attempt < 5; attempt++) {
      await this.page.locator(".codelens-decoration a", { hasText: text }).first().click();
      if (await this.page.waitForSelector(opened, { timeout: 8000 }).then(() => true, () => false)) return;
    }
    throw new Error(`the lens ${text} opens nothing`);
  }

  /** Run a command of the palette. It is opened again where something else takes the keyboard, which closes it. */
  async command(title) {
    const input = this.page.locator(".quick-input-widget input[type=text]");
    let failure;
    for (let attempt = 0; attempt < 6; attempt++) {
      try {
        if (!(await input.isVisible())) {
          await this.page.keyboard.press("F1"); // in vain while another list is closing
          await input.waitFor({ state: "visible", timeout: 5000 });
        }
        await input.fill(`>${title}`, { timeout: 5000 });
        await this.row(title).click({ timeout: 15_000 });
        return;
      } catch (error) {
        failure = error;
        await this.page.keyboard.press("Escape");
      }
    }
    throw failure;
  }

  /** The row of the list that is open whose label begins with a text. */
  row(text) {
    const label = this.page.locator(".label-name", { hasText: new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`) });
    return this.page.locator(".quick-input-list .monaco-list-row").filter({ has: label }).first();
  }

  /** Choose a row. Of long lists only the rows in view are there: `typed` types its name first. */
  async pick(text, { typed = false, timeout = PATIENCE_MS } = {}) {
    if (typed) await this.page.locator(".quick-input-widget input[type=text]").fill(text, { timeout });
    await this.row(text).click({ timeout });
  }

  /** Type into the box that is open, whose title holds a text, and accept. */
  async enter(text, title) {
    if (title) await this.page.locator(".quick-input-title", { hasText: title }).waitFor();
    const input = this.page.locator(".quick-input-widget input").last();
    await input.waitFor({ state: "visible" });
    await input.fill(text);
    await this.page.keyboard.press("Enter");
  }

  /** Put the cursor to a column, from 1, of the line of the file that holds a text; it may be out of view. */
  async goTo(text, column = 1) {
    const line = this.text.findIndex((each) => each.includes(text)) + 1;
    await this.page.keyboard.press("Control+G");
    await this.enter(`:${line}:${column}`);
    await this.until((wanted) => document.querySelector("#status\\.editor\\.selection")?.textContent.startsWith(wanted), `Ln ${line}, Col ${column}`);
  }

  /** Wait until the cursor is in a line. */
  async at(line) {
    await this.page.waitForSelector(`#status\\.editor\\.selection:has-text("Ln ${line},")`);
  }

  /** Choose an entry of the menu of actions: keyboard or a real click, for its rows ignore synthetic ones. */
  async action(text) {
    const row = this.page.locator(".action-widget .monaco-list-row", { hasText: text }).first();
    for (let attempt = 0; attempt < 6; attempt++) {
      await this.page.keyboard.press("Control+.");
      if (await row.waitFor({ timeout: 4000 }).then(() => true, () => false)) break;
      await this.page.keyboard.press("Escape");
    }
    return async () => {
      const box = await row.boundingBox();
      await this.page.mouse.move(box.x + 40, box.y + 10);
      await sleep(150);
      await this.page.mouse.click(box.x + 40, box.y + 10);
    };
  }

  /** What the hover over a word in a line says. The pointer must come to rest: one jump shows nothing. */
  async hover(word, expected) {
    const place = this.page.locator(".view-line span span", { hasText: word }).first();
    for (let attempt = 0; attempt < 8; attempt++) {
      const box = await place.boundingBox().catch(() => null); // none while the line is drawn anew
      if (box === null) {
        await sleep(LOOKS_EVERY_MS);
        continue;
      }
      await this.page.mouse.move(box.x + 6, box.y + box.height / 2);
      await sleep(60);
      await this.page.mouse.move(box.x + 9 + attempt, box.y + box.height / 2);
      const found = await this.until(
        (wanted) => [...document.querySelectorAll(".monaco-hover:not(.hidden)")].map((hover) => hover.innerText).find((text) => text.includes(wanted)),
        expected,
        3000,
      ).catch(() => undefined);
      if (found) return found.jsonValue();
    }
    throw new Error(`no hover over ${word} says ${expected}`);
  }

  /** A message whose text matches. */
  async message(text, timeout = PATIENCE_MS) {
    const found = this.page.locator(".notification-list-item", { hasText: text }).first();
    await found.waitFor({ timeout });
    return found;
  }

  messages() {
    return this.page.$$eval(".notification-list-item-message", (found) => found.map((each) => each.textContent));
  }

  /** The document of our webview: a frame in a frame. */
  webview(selector, options) {
    return this.page.frameLocator('iframe.webview.ready[src*="extensionId=distir"]').frameLocator("#active-frame").locator(selector, options);
  }

  /** Wait until as many pixels of a canvas in a webview as are wanted have a colour, given as `#rrggbb`. */
  async pixels(selector, hex, wanted) {
    for (let waited = 0; waited < PATIENCE_MS; waited += 100) {
      const count = await this.webview(selector).evaluate((canvas, [red, green, blue]) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let found = 0;
        for (let i = 0; i < data.length; i += 4) found += Number(data[i] === red && data[i + 1] === green && data[i + 2] === blue);
        return found;
      }, [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
      if (wanted(count)) return;
      await sleep(100);
    }
    throw new Error(`no such number of pixels has the colour ${hex}`);
  }

  /** Take a picture for the README, where there is none yet or DISTIR_PICTURES is set: each is a little different. */
  async picture(name) {
    const path = join(EXTENSION, "images", `${name}.png`);
    if (existsSync(path) && !process.env.DISTIR_PICTURES) return;
    await this.page.waitForTimeout(400); // what fades in has done so
    await this.page.screenshot({ path });
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
