// The playground as its user meets it, in chromium: one page for all, since each start of Python takes seconds.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { launch, missing, numpy, opened, served } from "./browser.mjs";

const PATIENCE = { timeout: 300_000 };
const WATCHED = { ...PATIENCE, polling: 100 }; // at each frame, as by default, the page would do little else
let browser, context, server, page, problems;

const options = { skip: missing, timeout: 300_000 };
before(async () => {
  if (missing) return;
  server = await served();
  browser = await launch();
  context = await browser.newContext({ viewport: { width: 1300, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] });
  ({ page, problems } = await opened(context, server.address));
}, { timeout: 120_000 });
after(async () => {
  await browser?.close();
  await server?.stop();
});

const says = (pattern, at = page) => at.waitForFunction((source) => new RegExp(source).test(document.getElementById("status").value), pattern.source, WATCHED);
/** Waits for a text in the lines that are seen, hints included. */
const showing = (pattern, at = page) =>
  at.waitForFunction((source) => new RegExp(source).test(document.querySelector("#editor .view-lines").innerText.replaceAll("\u00a0", " ")), pattern.source, WATCHED);
const packed = (text) => deflateRawSync(text).toString("base64").replaceAll("+", "-").replaceAll("/", "_");
const choose = async (name) => {
  await page.locator("#examples").selectOption(name);
  await page.frameLocator("#timeline").locator("h1", { hasText: name.replace(/\.dir$/, "") }).waitFor(PATIENCE); // simulated
};

test("the first program is checked and simulated, and its hints say types, devices and times", options, async () => {
  await says(/^\d.*s on dgx-a100, .*B at the peak$/);
  await showing(/%h: f32\[16384,1024\]@1 = Gemm\(.*\+\S+s @/);
  await page.locator("#editor .codelens-decoration", { hasText: "2 calls" }).first().waitFor(PATIENCE);
});

test("the timeline is the one of the editor, and leads to the text", options, async () => {
  const frame = page.frameLocator("#timeline");
  await frame.locator("h1", { hasText: "mlp_sequential.dir @mlp" }).waitFor(PATIENCE);
  assert.match(await frame.locator("body").innerText(), /23 ops/);
  const chart = frame.locator("canvas").first();
  await chart.click({ position: { x: 180, y: 40 } }); // a bar: the first op
  await page.waitForFunction(() => document.querySelector("#editor .current-line") !== null, null, WATCHED);
});

test("an error is shown where it is, and is gone when it is mended", options, async () => {
  await page.locator("#editor .view-line", { hasText: "Relu" }).first().click();
  await page.keyboard.press("End");
  await page.keyboard.type(" (");
  await says(/^1 error$/);
  await page.locator("#editor .squiggly-error").first().waitFor({ state: "attached", ...PATIENCE });
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Backspace");
  await page.keyboard.type(")");
  await says(/on dgx-a100/);
});

test("hover tells the type, completion the ops", options, async () => {
  await page.locator("#editor .view-line", { hasText: "ReduceSum" }).locator("span", { hasText: /^ReduceSum$/ }).first().hover();
  await page.locator(".monaco-hover", { hasText: "ReduceSum" }).first().waitFor(PATIENCE);
  await page.locator("#editor .view-line", { hasText: "Relu" }).first().click();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("%new = Matm");
  await page.keyboard.press("Control+Space");
  await page.locator(".suggest-widget", { hasText: "MatMul" }).waitFor(PATIENCE);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+K"); // the line
  await says(/on dgx-a100/);
});

test("lines that are typed and taken back at speed, while all is asked for, are never coloured as other text", options, async () => {
  await page.locator("#editor .view-line").first().click();
  await page.keyboard.press("Control+Home");
  for (let round = 0; round < 12; round++) {
    await page.keyboard.type("// one\n// two\n\n");
    await page.waitForTimeout(60 * (round % 4)); // requests come a while after an edit: the next edits meet them on their way
    await page.keyboard.press("Control+Home");
    for (let line = 0; line < 3; line++) await page.keyboard.press("Control+Shift+K");
  }
  await showing(/%h: .* = Gemm\(.*\+\S+s @/);
  await says(/on dgx-a100/);
});

test("a transform opens its result beside the program, simulated for the same machine", options, async () => {
  await choose("mlp_training.dir");
  await page.locator("#steps").fill("dp=2");
  await page.locator("#transform button").click();
  await page.locator("#programs button", { hasText: "mlp_training_dp2.dir" }).waitFor(PATIENCE);
  await page.frameLocator("#timeline").locator("h1", { hasText: "mlp_training_dp2.dir" }).waitFor(PATIENCE);
  await says(/on dgx-a100/);
  await page.locator("#steps").fill("dp=3x");
  await page.locator("#transform button").click();
  await says(/dp=3x|number|integer/);
});

test("what the example list has can all be simulated here", { ...options, timeout: 600_000 }, async () => {
  const names = await page.locator("#examples option").allInnerTexts();
  assert.ok(names.length >= 10);
  for (const name of names) await choose(name);
});

test("the address of a shared program opens it, with its machine", options, async () => {
  await choose("mlp_pipeline.dir");
  await page.locator("#hardware").selectOption("dgx-h100");
  await says(/on dgx-h100/);
  await page.locator("#share").click();
  await says(/the address of this program/);
  const address = await page.evaluate(() => location.href);
  const { page: second } = await opened(context, `${address.replace(/&at=[^&]*/, "")}&at=6-3-6-5`);
  await says(/on dgx-h100/, second);
  await showing(/pipeline/, second);
  await second.locator("#editor .selected-text").waitFor({ state: "attached", ...PATIENCE });
  assert.equal(await second.locator("#editor .active-line-number").innerText(), "6", "at the place that was selected");
  await second.close();
});

test("an address with a program that is damaged, or far too long, says so, and goes on saying it", options, async () => {
  const huge = packed("// ".padEnd(30e6));
  assert.ok(huge.length < 100_000);
  for (const [program, words] of [["bm90aGluZw", /cut off or damaged/], [huge, /more than 20 MB/]]) {
    const { page: other, problems: found } = await opened(context, `${server.address}#program=${encodeURIComponent(program)}`);
    await says(words, other);
    await showing(/\+\S+s @/, other); // what is shown in its place is simulated
    await other.waitForTimeout(500); // news of it
    assert.match(await other.evaluate(() => document.getElementById("status").value), words);
    assert.deepEqual(found, []);
    await other.close();
  }
});

test("the pages run nothing but their own files", options, async () => {
  for (const frame of [page.mainFrame(), page.frame({ url: /timeline\.html$/ })]) {
    const refused = await frame.evaluate(async () => {
      const found = [];
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => found.push(effectiveDirective));
      const script = document.createElement("script");
      script.textContent = "document.title = 'owned'";
      const image = new Image();
      image.src = "https://example.org/x.png";
      document.body.append(script, image);
      await new Promise((resolve) => setTimeout(resolve, 200));
      for (const each of [script, image]) each.remove();
      return [...found.sort(), document.title];
    });
    assert.deepEqual(refused.slice(0, -1), ["img-src", "script-src-elem"]);
    assert.notEqual(refused.at(-1), "owned");
  }
  problems.splice(0); // what was refused is said in the console
});

/** The address of a program, as a shared one has. */
const addressed = async (name, text) => `${server.address}#program=${encodeURIComponent(packed(text))}&name=${name}`;

const SMALL = "func @f(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1]) {\n  %s = Shape(%x)\n  %n = Gather(%s, [0])\n  %y = MatMul(%x, %w)\n  return %y, %n\n}\n";

test("a program that needs numpy is analysed with it, or it is said that it lacks", options, async () => {
  const { page: other, problems: found } = await opened(context, await addressed("shape.dir", SMALL));
  if (numpy) await says(/on dgx-a100/, other);
  else await says(/needs the Python package `numpy`/, other);
  assert.deepEqual(found, []);
  await other.close();
});

test("a run shows the values of a program, and a transform is verified", options, async () => {
  const { page: other } = await opened(context, await addressed("values.dir", SMALL.replace(/  %[sn] = .*\n/g, "").replace(", %n", "")));
  await says(/on dgx-a100/, other);
  await other.locator("#run:enabled").click(PATIENCE);
  if (!numpy) await says(/needs the Python package `numpy`/, other);
  else {
    const row = other.locator("#values tbody tr");
    await row.waitFor(PATIENCE);
    assert.match(await row.innerText(), /%y\s+Float32\s+\(8, 4\)\s+1\s+-?\d/);
    await other.locator("#values button").click();
    await other.locator("#verify").check();
    await other.locator("#steps").fill("dp=2");
    await other.locator("#transform button").click();
    await says(/verified: the same 1 result/, other);
  }
  await other.close();
});

test("it works without a network once it is loaded", options, async () => {
  await page.evaluate(() => navigator.serviceWorker.ready);
  await server.stop();
  const { page: alone } = await opened(context, server.address);
  await says(/on dgx-a100/, alone);
  await showing(/@1 = Gemm/, alone);
  await alone.close();
});

test("nothing went wrong on the way, and no other host was asked", options, () => assert.deepEqual(problems, []));
