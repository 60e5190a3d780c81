// VS Code for the Web: the extension in a browser's worker, its server in another, nothing on this machine.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { programs } from "./programs.mjs";
import { startWeb } from "./web.mjs";
import { Workbench, startBrowser } from "./workbench.mjs";

const options = { timeout: 1_500_000 };
const PATIENCE_MS = 240_000;
const PROGRAM = programs()["mlp.dir"];
let web, browser, window;

before(async () => {
  web = await startWeb({ "mlp.dir": PROGRAM });
  browser = await startBrowser();
  const page = await browser.context.newPage();
  await page.goto(web.url);
  await page.waitForSelector(".monaco-editor .view-lines .view-line", { timeout: PATIENCE_MS });
  window = new Workbench(page, PROGRAM.split("\n"));
}, options);

after(async () => {
  await browser?.close();
  await web?.close();
});

test("hints and lenses come from the server in a worker", options, async () => {
  await window.lens(/peak/, 3 * PATIENCE_MS);
  await window.line("%h: f32[8192,1024]@1 = Gemm(%x, %A, %b) +", PATIENCE_MS);
});

test("an error is underlined where it is, and hover tells of ops", options, async () => {
  await window.page.locator(".view-line", { hasText: "Gemm" }).first().click();
  await window.page.keyboard.press("End");
  await window.page.keyboard.type(" (");
  await window.page.locator(".squiggly-error").first().waitFor({ state: "attached", timeout: PATIENCE_MS });
  await window.page.keyboard.press("Control+Z");
  await window.page.locator(".squiggly-error").first().waitFor({ state: "hidden", timeout: PATIENCE_MS });
  assert.match(await window.hover("Relu", "Relu"), /Relu/);
});

test("the timeline opens beside the program", options, async () => {
  await window.command("DistIR: Open Timeline");
  await window.webview("h1", { hasText: "mlp.dir" }).waitFor({ timeout: PATIENCE_MS });
});

test("F9 and F5 step through simulated time, in the server's worker", options, async () => {
  const { page } = window;
  const stopped = (frame, place) => page.waitForSelector(`.debug-call-stack .monaco-list-row:has-text("${frame}"):has-text("${place}")`, { timeout: PATIENCE_MS });
  await window.command("View: Focus First Editor Group");
  await page.locator(".view-line", { hasText: "Gemm" }).first().click();
  await page.keyboard.press("F9");
  await page.waitForSelector(".codicon-debug-breakpoint");
  await page.keyboard.press("F5");
  await page.waitForSelector(".debug-toolbar", { timeout: PATIENCE_MS });
  await page.waitForSelector('.debug-call-stack .monaco-list-row:has-text("device 2")', { timeout: PATIENCE_MS });
  await page.keyboard.press("F5"); // from the first op to the breakpoint
  await stopped("Gemm in @dense", "5:3");
  await page.keyboard.press("F10");
  await stopped("Relu in @dense", "6:3");
  await page.click(".debug-toolbar .codicon-debug-step-back");
  await stopped("Gemm in @dense", "5:3");
  await page.keyboard.press("Shift+F5");
  await page.waitForSelector(".debug-toolbar", { state: "hidden" });
});

test("what needs Python on this machine says so", options, async () => {
  await window.command("DistIR: Install Server");
  await window.message("it is not offered in a browser");
});

test("no other host was asked for the server", options, () => {
  assert.deepEqual([...browser.outside].filter((host) => !host.includes("localhost")), []);
});
