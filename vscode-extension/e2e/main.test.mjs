// What a user sees and does, in a real workbench. The pictures of the README are taken on the way.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { HOSTILE_FILE, commit, programs } from "./programs.mjs";
import { EXTENSION, PYTHON, Workbench, openFile, startBrowser, startWorkbench } from "./workbench.mjs";

const palette = JSON.parse(readFileSync(join(EXTENSION, "palette.json"), "utf8"));
let bench;
let browser;
const HIT = "#ff6ad5"; // what the timeline marks with, in dark themes
let windows = 0;

before(async () => {
  bench = await startWorkbench({ settings: { "distir.interpreter": [PYTHON], "editor.formatOnSave": true } });
  browser = await startBrowser();
});

after(async () => {
  const outside = [...browser.outside];
  await browser.close();
  await bench.close();
  assert.deepEqual(outside, [], "no page asks for anything outside of this machine");
});

/**
 * A test with a window, and a folder with one program, of its own; where it fails, a picture of the window says why.
 *
 * It is tried twice: lists and boxes of a workbench close when something else takes the keyboard, which on a busy machine
 * it does at any time. What is wrong with us fails both times; that a second try was needed is told.
 */
function inWindow(name, file, run) {
  test(name, { timeout: 1_500_000 }, async (context) => {
    try {
      await once(file, run);
    } catch (error) {
      context.diagnostic(`tried again after: ${error.message}`);
      await once(file, run);
    }
  });
}

async function once(file, run) {
  const folder = join(bench.workspace, `${++windows} größer als 名`, "examples");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, file), programs()[file]);
  commit(folder);
  const window = await openFile(browser, bench, file, folder);
  try {
    await run(window, folder);
  } catch (error) {
    await window.page.screenshot({ path: join(EXTENSION, "e2e", `failed-${windows}.png`) });
    throw error;
  } finally {
    await window.page.close();
  }
}

/** The latency that the lens above the entry function says, in seconds. */
async function latency(window, pattern = /· peak /) {
  const [, count, unit] = /^([\d.]+)(s|ms|us)/.exec(await window.lens(pattern));
  return Number(count) * { s: 1, ms: 1e-3, us: 1e-6 }[unit];
}

async function until(what, isThere) {
  for (const end = Date.now() + 240_000; !isThere(); await new Promise((resolve) => setTimeout(resolve, 100))) assert.ok(Date.now() < end, `never came: ${what}`);
}

async function eventually(what, isThere) {
  for (const end = Date.now() + 240_000; !(await isThere()); await new Promise((resolve) => setTimeout(resolve, 200))) assert.ok(Date.now() < end, `never came: ${what}`);
}

/** Where on the screen, from the left, the times of lines begin whose texts match. */
function timesAt(lines, source) {
  return lines.flatMap((line) => {
    if (!new RegExp(source).test(line.textContent.replace(/\s/g, " "))) return [];
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const at = node.textContent.search(/[+~][\d.]+[mu]?s\s+@/);
      if (at < 0) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + 1);
      return [range.getBoundingClientRect().left];
    }
    return [];
  });
}

/** Wait until a word has a colour, given as `#rrggbb`. */
function coloured(window, word, hex) {
  const colour = `rgb(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(", ")})`;
  return window.until(
    ([text, wanted]) => [...document.querySelectorAll(".view-line span span")].some((span) => span.textContent.trim() === text && getComputedStyle(span).color === wanted),
    [word, colour],
  );
}

inWindow("a program shows types, times, lenses, hover, and a colour for each device; themes have their own", "mlp.dir", async (window) => {
  await window.line("%h: f32[8192,1024]@1 = Gemm(%x, %A, %b) +");
  await window.lens(/· peak 1: .*2: .* idle/);
  await eventually("times of a function in one column", async () => {
    const found = await window.page.$$eval(".view-line", timesAt, "^ *%d[hAbx]:");
    return found.length === 4 && Math.max(...found) - Math.min(...found) < 1;
  });
  await window.page.waitForSelector('#status\\.editor\\.mode:has-text("DistIR")');
  await window.page.waitForSelector('[id="status.languageStatus"][aria-label*="12.9ms on dgx-a100"]');
  await coloured(window, "%h", palette.dark[1]);
  await coloured(window, "%wb", palette.dark[2]);
  const said = await window.hover("Gemm", "bound by arithmetic");
  assert.match(said, /Gemm/);
  await window.picture("hints");
  await window.page.mouse.move(5, 5);
  const themes = { "Light High Contrast": palette.highContrastLight, "Light Modern": palette.light, "Dark Modern": palette.dark };
  for (const [theme, colours] of Object.entries(themes)) {
    await window.command("Preferences: Color Theme");
    await window.pick(theme, { typed: true });
    await coloured(window, "%wb", colours[2]);
  }
  // The other tests have the theme that the settings name now.
  await until("the theme in the settings", () => readFileSync(join(bench.data, "User/settings.json"), "utf8").includes('"Default Dark Modern"'));
});

inWindow("lines have bars by their share of the time; the status bar says whether the program fits; git's diff what changed", "mlp.dir", async (window, folder) => {
  const style = (pseudo, property) => window.page.$$eval(".view-overlays div, .view-line span", (found, [part, name]) => found.map((each) => getComputedStyle(each, part || null)[name]), [pseudo, property]);
  await window.page.waitForSelector('.statusbar-item:has-text("12.9ms · dgx-a100 · fits")');
  await eventually("bars", async () => (await style("", "borderLeftWidth")).filter((width) => width === "4px").length > 5);
  writeFileSync(join(folder, "mlp.dir"), programs()["mlp.dir"].replace("  %ar_1: D2 =", "  %again = Relu(%as_1)\n  %ar_1: D2 ="));
  await window.page.waitForSelector('.statusbar-item:has-text("13.0ms · dgx-a100 · fits")');
  await window.page.waitForSelector('.statusbar-item:has-text("master*")'); // before git knows of the change, it has none to open
  await window.command("Git: Open Changes");
  await eventually("the time of the new line", async () => (await style("::after", "content")).some((text) => /new [\d.]+[mu]s/.test(text)));
});

inWindow("a program on a mesh: placements where they change, pending sums underlined, hues by axis, glyphs at collectives", "mesh.dir", async (window) => {
  const AXES = [0, 2]; // which of the palette's colours the first two axes have
  await window.lens(/^dp=4 · tp=2$/);
  await window.line("%p: f32[512@dp,256] Σtp = MatMul(%a, %w2) +");
  await window.line("%a: f32[512,1024] = Relu(%h) +");
  await window.line("%loss: f32[1,1] whole = AllReduce");
  const underlined = () => window.page.$$eval(".view-line span span", (spans) => spans.filter((span) => getComputedStyle(span).textDecorationStyle === "dotted").map((span) => span.textContent));
  await eventually("pending names", async () => [...new Set(await underlined())].sort().join() === "%dw1_own,%dw2_own,%loss_own,%p");
  await eventually("a glyph at each collective", async () => (await window.page.locator(".glyph-margin-widgets .cgmr").count()) === 4);
  for (const [theme, colours] of [["Light Modern", palette.light], ["Dark High Contrast", palette.highContrastDark], ["Dark Modern", palette.dark]]) {
    await window.command("Preferences: Color Theme");
    await window.pick(theme, { typed: true });
    await coloured(window, "%target", colours[AXES[0]]);
    await coloured(window, "%dw1", colours[AXES[1]]);
  }
  await until("the theme in the settings", () => readFileSync(join(bench.data, "User/settings.json"), "utf8").includes('"Default Dark Modern"'));
  await window.hover("%p", "ended by AllReduce, line 12");
});

inWindow("why a statement is slow, in one place: it follows the cursor, its lines are links, and it is read in all themes", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.goTo("%a = Relu(%h)", 4);
  await window.command("DistIR: Why Is This Slow");
  const view = (selector, options) => window.webview(selector, options);
  await view("h1", { hasText: "Relu %a, line 6" }).waitFor();
  assert.equal(await view("[aria-current]").textContent(), "memory");
  await view("section", { hasText: "Waits for it" }).locator("li", { hasText: "device 2 waits 1.01ms before %ar_1" }).waitFor();
  await view("section", { hasText: "To be won" }).locator("p", { hasText: /^at most 139us of 12\.9ms \(1\.1%\)/ }).waitFor();
  await view("figcaption", { hasText: /^Device 1: computes \d+ % of the time, communicates \d+ %/ }).waitFor();
  assert.ok((await view("svg .computes").count()) > 50);
  for (const theme of ["Light Modern", "Dark High Contrast", "Dark Modern"]) {
    await window.command("Preferences: Color Theme");
    await window.pick(theme, { typed: true });
    await window.page.waitForSelector(`.monaco-workbench.${{ L: "vs", D: "vs-dark" }[theme[0]]}, .monaco-workbench.hc-black`);
    await eventually("another colour of the text", async () => {
      const [ink, ground] = await view("h1").evaluate((head) => [getComputedStyle(head).color, getComputedStyle(document.documentElement).getPropertyValue("--vscode-editor-background")]);
      return ink !== ground;
    });
    if (process.env.DISTIR_LOOK) await window.page.screenshot({ path: `${process.env.DISTIR_LOOK}/why-${theme}.png` });
  }
  await view("button", { hasText: "line 38" }).click();
  await window.at(38);
  await view("h1", { hasText: "Send %ar_1, line 38" }).waitFor();
  assert.equal(await view("[aria-current]").textContent(), "link");
  await window.goTo("%A, %b = UnpackTuple", 4);
  await view(".nothing", { hasText: "Put the cursor on a statement" }).waitFor();
  await window.goTo("%as_2: D1", 4);
  await view("p", { hasText: "at most 1.01ms" }).or(view("p", { hasText: "nothing: a critical path is without it" })).waitFor();
  assert.deepEqual(await window.messages(), []);
});

inWindow("a program for several devices is folded into one line for all of them, which says how many there are; a click opens it", "two.devices.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Fold Copies for Devices");
  await window.line("%h_1: f32[512,512]@1 = Gemm(%x_1, %w_1, %b_1)");
  const numbers = async () => (await window.page.$$eval(".line-numbers", (found) => found.map((each) => Number(each.textContent)))).sort((a, b) => a - b);
  await eventually("folded lines", async () => (await numbers()).join() === "1,2,4,6,8,9,11,13,14,15,16");
  const behind = () => window.page.$$eval(".view-line span", (found) => found.map((each) => getComputedStyle(each, "::after").content).filter((text) => text.includes("×")));
  await eventually("how many each is for", async () => (await behind()).join() === Array(5).fill('"… ×2"').join());
  await window.goTo("%h_1 = Gemm");
  await window.command("Unfold");
  await window.line("%h_2: f32[512,512]@2 = Gemm(%x_2, %w_2, %b_2)");
  await eventually("four are folded", async () => (await behind()).length === 4);
});

inWindow("text and timeline have the same colours in themes whose names say neither Dark nor Light", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Open Timeline to the Side");
  await window.webview("#chart canvas").waitFor();
  for (const [theme, colours] of [["Monokai", palette.any], ["Abyss", palette.any], ["Dark High Contrast", palette.highContrastDark], ["Dark Modern", palette.dark]]) {
    await window.command("Preferences: Color Theme");
    await window.pick(theme, { typed: true });
    for (const [device, value] of [[1, "%h"], [2, "%wb"]]) {
      await coloured(window, value, colours[device]);
      await window.pixels("#chart canvas", colours[device], (count) => count > 200);
    }
  }
  await until("the theme in the settings", () => readFileSync(join(bench.data, "User/settings.json"), "utf8").includes('"Default Dark Modern"'));
});

inWindow("a mistake is underlined, and goes with its cause", "broken.dir", async (window) => {
  await window.page.waitForSelector(".cdr.squiggly-error");
  assert.match(await window.page.textContent("#status\\.problems"), /[1-9]/);
  await window.lens(/not simulated: the program has errors/);
  await window.hover("nothing", "DIR2");
  await window.page.mouse.move(5, 5);
  await window.goTo("Relu(%nothing)");
  await window.page.keyboard.press("Control+Shift+K");
  await window.page.keyboard.insertText("  %y = Relu(%x)\n");
  await window.page.waitForSelector(".cdr.squiggly-error", { state: "detached" });
  await window.lens(/· peak /);
});

inWindow("an edit changes the latency at once; the file on disk and git's HEAD are compared with it", "mlp.dir", async (window) => {
  const first = await latency(window);
  await window.goTo("%p_1: D2");
  await window.page.keyboard.press("End");
  await window.page.keyboard.press("Enter");
  await window.page.keyboard.insertText("%q_1: D2 = Relu(%p_1)\n%q_2: D2 = Relu(%q_1)");
  await window.page.keyboard.press("Escape");
  await window.until(
    (before) => [...document.querySelectorAll(".codelens-decoration a")].some((a) => a.textContent.includes("peak") && !a.textContent.replace(/\u00a0/g, " ").startsWith(before)),
    `${(first * 1e3).toPrecision(3)}ms`,
  );
  assert.ok((await latency(window)) > first);
  await window.command("DistIR: Compare with Git HEAD");
  const told = await window.message("against HEAD");
  assert.match(await told.textContent(), /\+0\.\d %, 12\.9ms → 1\d\.\dms/);
  await window.page.waitForSelector(".diff-editor, .monaco-diff-editor");
  await told.locator(".monaco-button", { hasText: "Timelines" }).click();
  const comparison = window.webview("#comparison");
  await comparison.filter({ hasText: /^mlp\.HEAD\.dir: 12\.9ms → 1\d\.\d+ms, \+0\.\d %/ }).waitFor();
  await window.command("DistIR: Compare with Saved");
  const saved = await window.message("against saved");
  assert.match(await saved.textContent(), /\+0\.\d %/);
  // The saved version took the tab of HEAD's; the timeline goes on to compare with HEAD, also after an edit.
  const before = await comparison.textContent();
  await window.command("View: Focus First Editor Group");
  await window.page.keyboard.press("Control+End");
  await window.goTo("%p_1: D2");
  await window.page.keyboard.press("End");
  await window.page.keyboard.press("Enter");
  await window.page.keyboard.insertText("%q_3: D2 = Relu(%p_1)");
  await comparison.filter({ hasNotText: before.slice(0, 40) }).waitFor();
  assert.match(await comparison.textContent(), /^mlp\.HEAD\.dir: 12\.9ms → /);
  await saved.locator(".monaco-button", { hasText: "Timelines" }).click();
  await comparison.filter({ hasText: /^mlp\.saved\.dir: / }).waitFor();
  await window.page.waitForSelector('.tab:has-text("mlp.dir: saved ↔ now, +0")');
});

inWindow("typing at 20 keys a second: completion opens, nothing complains, and hints in the end are those of the text", "mlp.dir", async (window) => {
  const { page } = window;
  const KEY = { delay: 50 };
  await window.lens(/· peak /);
  const said = [];
  // Of the workbench itself: it lacks ripgrep here, and gives up tasks where the machine is busy.
  const isOwn = (text) => /ripgrep|Timed out getting tasks|\[lifecycle\]/.test(text);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !isOwn(message.text()) && said.push(message.text()));
  const logged = bench.logs().length;
  await window.goTo("%p_1: D2");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("%q_1 = Mat", KEY);
  await page.locator(".suggest-widget.visible .monaco-list-row.focused", { hasText: "MatMul" }).waitFor();
  await page.keyboard.press("Escape");
  for (const end = Date.now() + (process.env.DISTIR_TEST_ALL === "1" ? 60_000 : 15_000); Date.now() < end; ) {
    await page.keyboard.type("Mul(%ar_1, ", KEY);
    for (let count = 0; count < 12; count++) await page.keyboard.press("Backspace", KEY); // the closing bracket goes with its opening one
    await page.keyboard.type("t", KEY);
  }
  for (let count = 0; count < 3; count++) await page.keyboard.press("Backspace", KEY);
  await page.keyboard.type("Relu(%p_1", KEY);
  await window.line("%q_1: f32[8192,1024]@2 = Relu(%p_1) +");
  await window.lens(/^12\.\dms · peak |^13\.\dms · peak /);
  assert.deepEqual(said, []);
  assert.doesNotMatch(bench.logs().slice(logged), /\[(error|warning)\]|cancel/i);
  assert.deepEqual(await window.messages(), []);
});

inWindow("F9 sets a breakpoint, F5 steps through simulated time: forward, into calls, and back", "mlp.dir", async (window) => {
  const { page } = window;
  await window.lens(/· peak /);
  await window.goTo("%h = Gemm(%x, %A, %b)");
  await page.keyboard.press("F9");
  await page.waitForSelector(".codicon-debug-breakpoint");
  await page.keyboard.press("F5");
  await page.waitForSelector(".debug-toolbar");
  const stopped = async (frame, place) => {
    await page.waitForSelector(`.debug-call-stack .monaco-list-row:has-text("${frame}"):has-text("${place}")`);
    await page.waitForSelector(".debug-top-stack-frame-line");
  };
  await page.waitForSelector('.debug-call-stack .monaco-list-row:has-text("device 2")');
  await page.keyboard.press("F5"); // from the first op to the breakpoint
  await stopped("Gemm in @dense", "5:3");
  await page.waitForSelector('.monaco-list-row:has-text("0s: on the critical path")');
  await page.keyboard.press("F10");
  await stopped("Relu in @dense", "6:3");
  await page.click(".debug-toolbar .codicon-debug-step-back");
  await stopped("Gemm in @dense", "5:3");
  await page.keyboard.press("Shift+F5");
  await page.waitForSelector(".debug-toolbar", { state: "hidden" });
});

inWindow("the advice to move an op makes the program faster", "swapped.dir", async (window) => {
  const first = await latency(window);
  await window.goTo("%ar_2: D2 = Send");
  const choose = await window.action("faster");
  await window.picture("action");
  await choose();
  await window.until(() => [...document.querySelectorAll(".codelens-decoration a")].some((a) => a.textContent.replace(/\u00a0/g, " ").startsWith("12.9ms")));
  assert.ok((await latency(window)) < first);
});

inWindow("the timeline opens with the cursor's statement marked; keys work at once; Enter on a bar and a click on one go to its statement", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.goTo("%h = Gemm(%x, %A, %b)", 4);
  await window.clickLens("timeline", '.tab:has-text("Timeline of mlp.dir")');
  const chart = window.webview("#chart");
  await chart.waitFor();
  await window.webview("#chart canvas").waitFor();
  await window.webview("#live", { hasText: "cursor at Gemm %h, 4 bars" }).waitFor({ state: "attached" });
  await window.pixels("#chart canvas", HIT, (count) => count > 100);
  await window.until(() => document.activeElement?.classList.contains("webview"));
  await window.page.keyboard.press("Home");
  await window.page.keyboard.press("ArrowRight");
  await window.webview("#bar", { hasText: "on device 1" }).waitFor({ state: "attached" });
  await window.picture("timeline");
  await window.page.keyboard.press("Enter");
  await window.at(/line (\d+),/.exec(await window.webview("#bar").textContent())[1]);
  const box = await window.webview("#chart canvas").boundingBox();
  await window.page.mouse.click(box.x + box.width * 0.6, box.y + 45);
  await window.webview("#bar", { hasText: "on device 1" }).waitFor({ state: "attached" });
  const line = /line (\d+),/.exec(await window.webview("#bar").textContent())[1];
  await window.command("View: Focus First Editor Group"); // a single click leaves the keyboard in the timeline
  await window.at(line);
  await window.goTo("Figure 2");
  await window.pixels("#chart canvas", HIT, (count) => count === 0);
});

inWindow("a cursor on a call marks all that it does; a click on a bar shows its function for that call, and hints follow", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Open Timeline to the Side");
  await window.webview("#chart canvas").waitFor();
  await window.command("View: Focus First Editor Group");
  await window.goTo("%p_1: D2 = @dense", 4);
  await window.webview("#live", { hasText: "cursor at call of @dense, 2 bars" }).waitFor({ state: "attached" });
  await window.pixels("#chart canvas", HIT, (count) => count > 100);
  await window.command("DistIR: Open Timeline to the Side"); // gives it the keyboard back
  await window.webview("#chart").focus();
  const before = await window.lens(/4 calls, shown: 1, by @mlpPP/);
  await window.page.keyboard.press("Home");
  await window.page.keyboard.press("ArrowDown"); // on device 2
  for (let i = 0; i < 12 && !/Gemm %h .*in @dense, called/.test(await window.webview("#bar").textContent()); i++) await window.page.keyboard.press("ArrowRight");
  const [, whole, unit] = /from (\d+)[\d.]*([mu]?s)/.exec(await window.webview("#bar").textContent()); // hints of a function have digits of their own
  await window.page.keyboard.press("Enter");
  const after = await window.lens(/4 calls, shown: [2-4], by @mlpPP/);
  assert.notEqual(before, after);
  await window.until(
    (start) => [...document.querySelectorAll(".view-line")].some((line) => line.textContent.includes("Gemm") && new RegExp(`@${start[0]}\\.\\d+${start[1]}`).test(line.textContent)),
    [whole, unit],
  ); // the hint of that statement
});

inWindow("hostile text, and a hostile file name, are only text in the pages, which run nothing but our own files", HOSTILE_FILE, async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Open Timeline to the Side");
  await window.webview("#chart canvas").waitFor();
  await window.webview("#chart").focus();
  await window.page.keyboard.press("Home");
  assert.ok((await window.webview("h1").textContent()).startsWith(HOSTILE_FILE));
  const document = window.webview("html");
  assert.equal(await document.evaluate((html) => html.querySelectorAll("#owned, img").length + Number(html.ownerDocument.title === "owned")), 0);
  const refused = await document.evaluate(async (html) => {
    const policies = [];
    html.ownerDocument.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => policies.push(effectiveDirective));
    const script = html.ownerDocument.createElement("script");
    script.textContent = "document.title = 'owned'";
    const image = html.ownerDocument.createElement("img");
    image.src = "https://example.org/x.png";
    html.ownerDocument.body.append(script, image);
    setTimeout("document.title = 'owned'");
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const each of [script, image]) each.remove();
    return { policies: policies.sort(), title: html.ownerDocument.title };
  });
  assert.deepEqual(refused, { policies: ["img-src", "script-src", "script-src-elem"], title: "Timeline" });
});

inWindow("a program in Markdown has colours, and words around it have not", "notes.md", async (window) => {
  const colours = () =>
    window.page.$$eval(".view-line", (lines) =>
      lines.map((line) => [...line.querySelectorAll("span span")].map((span) => [span.textContent.trim().replace(/\u00a0/g, " "), getComputedStyle(span).color])),
    );
  await coloured(window, "func", "#569cd6");
  const all = await colours();
  const of = (word) => all.flat().find(([text]) => text.startsWith(word))?.[1];
  assert.equal(new Set(["func", "@main", "%x", "Tensor"].map(of)).size, 4);
  const words = all.flat().filter(([text]) => text.startsWith("func is a word"));
  assert.equal(words.length, 2, "one before, one after");
  for (const [, colour] of words) assert.equal(colour, of("~~~"));
});

inWindow("the Extensions view shows the README with its pictures", "mlp.dir", async (window) => {
  await window.page.keyboard.press("Control+Shift+X");
  await window.page.locator(".extension-list-item", { hasText: "DistIR" }).first().click();
  const pictures = window.page.frameLocator("iframe.webview.ready").frameLocator("#active-frame").locator("img");
  await pictures.first().waitFor();
  const widths = await pictures.evaluateAll((all) => Promise.all(all.map((img) => img.decode().then(() => img.naturalWidth, () => 0))));
  assert.ok(widths.length >= 2 && widths.every((width) => width > 100), widths.join());
});

inWindow("the walkthrough opens, and what its steps offer works", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  const walkthrough = async () => {
    // A list closes when the walkthrough takes the keyboard, which it does some time after a step is opened.
    for (let attempt = 0; attempt < 5; attempt++) {
      await window.command("Welcome: Open Walkthrough");
      const chosen = window.pick("First steps with DistIR", { typed: true, timeout: 15_000 });
      if (await chosen.then(() => true, () => false)) return;
    }
    throw new Error("the walkthrough is not offered");
  };
  const step = async (title, button) => {
    await walkthrough();
    const found = window.page.locator(".getting-started-step", { hasText: title });
    await found.click();
    const picture = window.page.locator(".getting-started-media img");
    if (await picture.count()) assert.ok(await picture.first().evaluate((img) => img.decode().then(() => img.naturalWidth > 100)), title);
    return found.locator(".monaco-button", { hasText: button });
  };
  for (const [title, button, expected] of [
    ["Install the server", "Install Server", "Install distir[lsp]"],
    ["Install the server", "Select Interpreter", "The Python that runs the DistIR server"],
    ["Make it faster", "Transform Program", "Transform mlp.dir"],
    ["Ask what if", "Pick Hardware", "Simulate mlp.dir on"],
  ]) {
    const offer = await step(title, button);
    const list = window.page.locator(".quick-input-title", { hasText: expected });
    let opened = false; // what closes it is the walkthrough, which takes the keyboard once more: it was there
    for (let attempt = 0; attempt < 6 && !opened; attempt++) {
      await offer.click();
      opened = await list.waitFor({ timeout: 15_000 }).then(() => true, () => false);
    }
    assert.ok(opened, `${button} opens the list ${expected}`);
    await window.page.keyboard.press("Escape");
  }
  await (await step("See its timeline", "Open Timeline")).click();
  await window.webview("#chart canvas").waitFor();
  assert.equal(await window.webview("script[src], link").count(), 0, "the page holds all it needs: webviews that open at once may get no files");
  await (await step("Open a program", "Open an Example")).click();
  await window.page.waitForSelector('.tab.active:has-text("Untitled-1")');
  await window.lens(/12\.9ms · peak /);
  await walkthrough();
  await window.until(() => document.querySelectorAll(".getting-started-step .codicon.complete").length === 5);
});

// Of the server tests/lsp says it, of the extension tests/host with a lower limit.
if (process.env.DISTIR_TEST_ALL === "1") inWindow("a text of 50 MB opens when the user insists, is not looked at, and keeps nothing else from working", "mlp.dir", async (window, folder) => {
  await window.lens(/· peak /);
  const line = "  %y = Relu(%x) // a statement that comes again and again\n";
  writeFileSync(join(folder, "large.dir"), line.repeat(Math.ceil(50e6 / line.length)));
  const [server] = servers();
  const page = await browser.context.newPage();
  try {
    await page.goto(bench.url([["openFile", bench.remote(join(folder, "large.dir"))]], folder));
    const asked = page.locator(".monaco-editor-pane-placeholder", { hasText: "very large" });
    await asked.locator(".monaco-button", { hasText: "Open Anyway" }).click();
    const large = new Workbench(page, []);
    await large.line("%y = Relu(%x)", 80_000);
    await page.keyboard.press("Control+Home");
    await page.keyboard.insertText("// ");
    await large.line("//   %y = Relu(%x)");
    await page.waitForSelector('#status\\.editor\\.mode:has-text("DistIR")');
    await large.message("turned off for this large file"); // the editor's own
    await large.message("is longer than 20,000,000 characters and not analysed", 90_000);
    const own = servers().find((pid) => pid !== server);
    assert.ok(spent(own) < 10, `the server has worked for ${spent(own)} s`); // to read such a text takes it a minute
  } finally {
    await page.close();
  }
  await window.goTo("%p_1: D2");
  await window.page.keyboard.press("End");
  await window.page.keyboard.press("Enter");
  await window.page.keyboard.insertText("%more: D2 = Relu(%p_1)");
  await window.line("%more: D2 f32[8192,1024]@2");
});

inWindow("renaming changes every use", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.goTo("%A, %b = UnpackTuple", 4);
  await window.page.keyboard.press("F2");
  const box = window.page.locator(".rename-box input");
  await box.waitFor();
  await box.fill("%weights");
  await window.page.keyboard.press("Enter");
  await window.line("Gemm(%x, %weights, %b)");
});

inWindow("a program is formatted when it is saved", "unformatted.dir", async (window, folder) => {
  await window.lens(/· peak /);
  await window.goTo("%b=Relu");
  await window.page.keyboard.press("End");
  await window.page.keyboard.insertText(" ");
  await window.page.keyboard.press("Control+S");
  await window.line("  %b: f32[4,4]@1 = Relu(%a)");
  await window.page.waitForSelector(".tab.dirty", { state: "detached" });
  assert.match(readFileSync(join(folder, "unformatted.dir"), "utf8"), /^ {2}%b = Relu\(%a\)$/m);
});

inWindow("other hardware is picked from the lens, and what-if is answered before it is kept", "mlp.dir", async (window) => {
  const first = await latency(window);
  await window.clickLens("dgx-a100", ".quick-input-list .monaco-list-row");
  await window.picture("hardware");
  await window.pick("dgx-h100", { typed: true });
  await window.lens(/^dgx-h100$/);
  assert.ok((await latency(window)) < first);
  await window.command("DistIR: What If the Hardware Were Different");
  await window.pick("nvlink send bandwidth", { typed: true });
  await window.enter("1GB/s", "nvlink send bandwidth");
  const told = await window.message("nvlink send bandwidth 1GB/s");
  assert.match(await told.textContent(), /slower/);
  await told.locator("a, .monaco-button", { hasText: "Keep" }).first().click();
  await window.until((before) => [...document.querySelectorAll(".codelens-decoration a")].some((a) => a.textContent.includes("peak") && parseFloat(a.textContent) > before), first * 1e3);
});

inWindow("a transform is chosen in a form, previewed with its gain, and saved as a new file", "sequential.dir", async (window, folder) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Transform Program");
  await window.pick("dp", { typed: true });
  await window.enter("2", ": dp");
  await window.row("Preview dp=2").waitFor();
  assert.ok(!(await window.page.locator(".quick-input-widget").innerText()).includes("`"), "no marks of Markdown in a form");
  await window.pick("Preview dp=2");
  const told = await window.message("dp=2: 1.");
  await window.page.waitForSelector(".monaco-diff-editor");
  await window.line("%w1_2: Tuple[");
  await window.picture("transform");
  await told.locator(".monaco-button", { hasText: "Save as New" }).first().click();
  await window.page.waitForSelector('.tab:has-text("sequential.dp2.dir")');
  const text = readFileSync(join(folder, "sequential.dp2.dir"), "utf8");
  assert.match(text, /MPIAllreduce/);
  assert.match(text, /^ {2}\/\/ Weight update \(WU\)$/m);
});

inWindow("steps are applied in the order that they need, whatever the order of choosing; what is refused is said in the form, which stays", "sequential.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Transform Program");
  await window.pick("dp", { typed: true });
  await window.enter("7", ": dp");
  await window.pick("Preview dp=7");
  await window.row("dimension 0 of").or(window.page.locator(".quick-input-list .monaco-list-row", { hasText: "does not split" })).first().waitFor();
  assert.deepEqual(await window.messages(), []);
  await window.pick("dp", { typed: true });
  await window.enter("2", ": dp");
  await window.pick("pp", { typed: true });
  await window.enter("2", ": pp");
  await window.pick("microbatches", { typed: true });
  await window.enter("2", "microbatches");
  await window.pick("schedule", { typed: true });
  for (const name of ["gpipe", "1f1b", "interleaved", "zb-h1"]) await window.row(name).waitFor();
  await window.pick("gpipe");
  await window.pick("Preview pp=2 microbatches=2 schedule=gpipe dp=2");
  await window.message("pp=2 microbatches=2 schedule=gpipe dp=2: ");
  await window.page.waitForSelector(".monaco-diff-editor");
});

inWindow("a preview and a rank are looked at for the machine that was picked", "sequential.dir", async (window) => {
  await window.clickLens("dgx-a100", ".quick-input-list .monaco-list-row");
  await window.pick("dgx-h100", { typed: true });
  await window.lens(/^dgx-h100$/);
  const [, first] = /^([\d.]+)ms/.exec(await window.lens(/· peak /));
  await window.command("DistIR: Transform Program");
  await window.pick("cse", { typed: true });
  await window.pick("yes");
  await window.pick("Preview cse");
  await window.message("cse: as fast as before");
  await window.page.waitForSelector(".monaco-diff-editor");
  // Both sides say the same times beside the same statements.
  const times = (side) =>
    window.page.$$eval(`.monaco-diff-editor .editor.${side} .view-line`, (lines) => lines.flatMap((line) => /\+[\d.]+[mu]?s +@\S+s\b/.exec(line.textContent.replace(/\s/g, " "))?.[0] ?? []));
  let [left, right] = [[], []];
  await window.until(() => document.querySelector(".monaco-diff-editor"));
  for (let waited = 0; waited < 300 && (left.length === 0 || left.join() !== right.join()); waited++) {
    [left, right] = [await times("original"), await times("modified")];
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(left.length > 1, left.join());
  assert.deepEqual(right, left);
  assert.ok(Number(first) > 0);
});

inWindow("a search runs in the background; a configuration opens as a program", "sequential.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Search Configurations");
  await window.row("Search on").waitFor();
  const labels = await window.page.$$eval(".quick-input-list .monaco-list-row .label-name", (found) => found.map((each) => each.textContent));
  assert.deepEqual(labels.filter((label) => label.startsWith("Degrees")).slice(0, 3), ["data", "tensor", "pipeline"].map((kind) => `Degrees of ${kind} parallelism`));
  await window.page.locator(".quick-input-list-separator", { hasText: "Degrees" }).first().waitFor();
  await window.pick("Devices", { typed: true });
  await window.enter("4", ": Devices");
  await window.row("Degrees of data").waitFor(); // the form is back
  await window.pick("Microbatches", { typed: true });
  await window.enter("4", ": Microbatches");
  const told = window.message(/Searching configurations of sequential\.dir/); // with its counts for moments only
  await window.pick("Search on");
  await told;
  await window.webview("tbody tr").first().waitFor();
  assert.equal(await window.webview("tbody tr").count(), 6);
  assert.ok((await window.webview("circle").count()) > 3);
  assert.match(await window.webview("svg text.name").first().textContent(), /^\d\/\d\/\d\/\d/);
  await window.webview("tbody button", { hasText: "4/1/1" }).first().click();
  await window.message("dtp=4,1,1");
});

inWindow("the program of a rank opens beside, and its lines lead back", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  await window.command("DistIR: Show the Program of a Rank");
  await window.pick("Rank 2");
  await window.page.waitForSelector('.tab:has-text("mlp.rank2.dir")');
  await window.until(() => document.querySelectorAll(".detected-link").length > 3);
});

inWindow("a server that is killed comes back by itself", "mlp.dir", async (window) => {
  await window.lens(/· peak /);
  const [first] = servers();
  process.kill(first, "SIGKILL");
  await until("a new server", () => servers().some((pid) => pid !== first));
  await window.goTo("%p_1: D2");
  await window.page.keyboard.press("End");
  await window.page.keyboard.press("Enter");
  await window.page.keyboard.insertText("%slow: D2 = Relu(%p_1)");
  await window.line("%slow: D2 f32[8192,1024]@2");
  assert.deepEqual((await window.messages()).filter((text) => /server/i.test(text)), []);
  assert.match(bench.logs(), /the server crashed; restarting it/);
});

/** The language servers of this workbench: known by the home that they were given. */
function servers() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("distir_lsp") && readFileSync(`/proc/${pid}/environ`, "utf8").includes(`HOME=${bench.home}\0`);
      } catch {
        return false;
      }
    });
}

/** Seconds of CPU that a process has taken so far. */
function spent(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

assert.ok(existsSync(join(EXTENSION, "distir.vsix")), "package the extension first: npm run package");
