// The view as people use it, in Chromium, under the policy of a webview: pointer, keys, cursor, updates, comparison.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { drawn, launch, missing, webview } from "./browser.mjs";
import { load } from "./load.mjs";
import { calling, inColumns, replicas, small, streaming, training } from "./samples.mjs";

const GUTTER = 132;
const LANES = 54; // the overview and the times

/** Where in the canvas a time of the small program is, when all of it is seen. */
const at = (share, height) => ({ x: GUTTER + share * (1000 - GUTTER), y: LANES + height });
const FIRST = 20; // the height of the first lane's bars

const { Model, rowsOf, SLICE } = await load("model", "layout");

/** The rows of a program, each device in one of its own, as high as the view is. */
async function rowsIn({ page }, message) {
  const height = await page.evaluate(() => document.querySelector("#chart").clientHeight);
  const model = new Model(message);
  const groups = model.devices.map(({ device }) => [device]);
  return rowsOf(model, null, { groups, hosts: true, levels: 0, chosen: new Map(), height: height - LANES });
}

/** Where, from the left, pixels of the first lane have the colour that marks the cursor's statement. */
const marks = (page) =>
  page.evaluate(() => {
    const canvas = document.querySelector("canvas");
    const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 70);
    const [red, green, blue] = [0xb5, 0x00, 0x7f]; // --hit of light themes
    const found = [];
    for (let i = 0; i < data.length; i += 4) if (data[i] === red && data[i + 1] === green && data[i + 2] === blue) found.push((i / 4) % width);
    return found;
  });

describe("the view in a browser", { skip: missing }, () => {
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser?.close());

  async function opened(message = small(), options = {}) {
    const view = await webview(browser, options);
    assert.equal((await view.told("ready")).length, 1);
    await view.send(message);
    await view.page.locator("h1").getByText("@main").waitFor();
    await drawn(view.page);
    return view;
  }

  async function done({ page, problems }) {
    assert.deepEqual(problems, []);
    await page.close();
  }

  test("a click on a bar asks for its statement; a double click, to go there", async () => {
    const view = await opened();
    const canvas = view.page.locator("canvas");
    await canvas.click({ position: at(0.3, FIRST) });
    const [{ type, ...asked }] = await view.told("reveal");
    assert.equal(type, "reveal");
    const { range } = small().timeline[0].bars[1];
    assert.deepEqual(asked, { uri: "file:///a.dir", range, function: "main", statement: 1, path: [], event: 1, focus: false });
    await canvas.dblclick({ position: at(0.1, FIRST) });
    assert.deepEqual((await view.told("reveal")).at(-1).focus, true);
    const count = (await view.told("reveal")).length;
    await canvas.click({ position: at(0.9, FIRST) });
    assert.equal((await view.told("reveal")).length, count, "nothing is there");
    await done(view);
  });

  test("what is under the pointer is told: ops, waits, memory", async () => {
    const view = await opened();
    const canvas = view.page.locator("canvas");
    const tip = view.page.locator("#tip");
    const [first, second] = await rowsIn(view, small());
    const told = [[0.1, first.top + 5, "MatMul %h"], [0.2, second.top + 5, "device 2 waits 2.00ms"], [0.5, first.stripTop + 5, "in use of 4.00GB"]];
    for (const [share, height, text] of told) {
      await canvas.hover({ position: at(share, height) });
      await tip.getByText(text).waitFor();
    }
    await done(view);
  });

  test("what runs on a stream is in a lane of its own", async () => {
    const view = await opened(inColumns(streaming()));
    const { page } = view;
    const canvas = page.locator("canvas");
    const tip = page.locator("#tip");
    const [, reduce] = await rowsIn(view, streaming());
    const told = [[0.3, FIRST, "Relu %a on device 1"], [0.3, reduce.top + 5, "MPIAllreduce %b on devices 1, 2, stream reduce"]];
    for (const [share, height, text] of [...told, [0.6, FIRST, "for the host"], [0.5, reduce.stripTop + 5, "in use of 4.00GB"]]) {
      await canvas.hover({ position: at(share, height) });
      await tip.getByText(text).waitFor();
    }
    await page.locator("#chart").focus();
    const labels = [];
    for (const key of ["Home", "ArrowDown", "ArrowDown"]) {
      await page.keyboard.press(key);
      labels.push(await page.locator("#chart").getAttribute("aria-label"));
    }
    assert.deepEqual(labels, ["device 1", "device 1, stream reduce", "device 2, stream reduce"]);
    await page.keyboard.press("t");
    const heads = page.locator("#table table").first().locator("tbody th");
    assert.deepEqual(await heads.allTextContents(), ["1", "1 reduce", "2", "2 reduce"]);
    assert.match(await page.locator("#summary").textContent(), /13% host-bound/);
    await done(view);
  });

  test("lanes of hosts are shown and hidden", async () => {
    const message = streaming();
    message.timeline[0].hosts = [{ device: 1, event: [0, 1, 3], start_s: [0, 1e-4, 2e-4], end_s: [1e-4, 2e-4, 3e-4] }];
    const view = await opened(message);
    const { page } = view;
    const button = page.getByRole("button", { name: "Lanes of what hosts issue" });
    const labels = async () => {
      const found = [];
      for (const key of ["Home", "ArrowDown", "ArrowDown"]) {
        await page.keyboard.press(key);
        found.push(await page.locator("#chart").getAttribute("aria-label"));
      }
      await page.keyboard.press("Escape");
      return found;
    };
    await page.locator("#chart").focus();
    assert.deepEqual(await labels(), ["device 1", "host of device 1", "device 1, stream reduce"]);
    await page.keyboard.press("h");
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.deepEqual(await labels(), ["device 1", "device 1, stream reduce", "device 2, stream reduce"]);
    await done(view);
    const plain = await opened(streaming());
    assert.equal(await plain.page.getByRole("button", { name: "Lanes of what hosts issue" }).isVisible(), false);
    await done(plain);
  });

  test("a program with streams beside one without", async () => {
    const view = await opened({ ...streaming(), other: small({ uri: "file:///old.dir", name: "old.dir" }) });
    const { page } = view;
    const labels = [];
    for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"]) {
      await page.keyboard.press(key);
      labels.push(await page.locator("#chart").getAttribute("aria-label"));
    }
    const streams = [1, 2].map((device) => `device ${device}, stream reduce`);
    const others = [1, 2].map((device) => `device ${device}, the other program`);
    assert.deepEqual(labels, ["device 1", others[0], streams[0], others[1], streams[1]]);
    await done(view);
  });

  test("what is told goes away with the pointer, and when something else is done", async () => {
    const view = await opened();
    const { page } = view;
    const tip = page.locator("#tip");
    for (const act of [
      () => page.keyboard.press("ArrowRight"),
      () => page.mouse.wheel(0, -100),
      () => page.mouse.down().then(() => page.mouse.up()),
      () => view.send(small({ version: 2 })),
      () => page.evaluate(() => window.dispatchEvent(new Event("blur"))),
      () => page.mouse.move(20, 5),
    ]) {
      await page.locator("canvas").hover({ position: { ...at(0.1, FIRST), x: 150 } });
      await page.mouse.move(152, (await page.locator("canvas").boundingBox()).y + LANES + FIRST);
      await tip.waitFor();
      await act();
      await tip.waitFor({ state: "hidden" });
      await page.keyboard.press("0");
    }
    await done(view);
  });

  test("keys work at once, and wherever the focus is, but where they mean something else", async () => {
    const view = await opened();
    const { page } = view;
    const option = page.locator("#bar");
    await page.keyboard.press("Home");
    assert.match(await option.textContent(), /^MatMul %h/);
    await page.getByRole("button", { name: "Critical path" }).click();
    await page.keyboard.press("ArrowRight");
    assert.match(await option.textContent(), /^Relu %a/);
    await page.keyboard.press("Enter"); // the button's own
    assert.deepEqual([(await view.told("reveal")).length, (await view.remembered()).onlyCritical], [0, false]);
    await page.locator("#search").fill("");
    await page.locator("#search").press("c");
    assert.equal(await page.locator("#search").inputValue(), "c");
    await done(view);
  });

  test("a cursor on a call marks all that it does there; a click tells the calls that lead to an op", async () => {
    const { message, calls } = calling();
    for (const sent of [message, inColumns(message)]) {
      const view = await opened(sent);
      const { page } = view;
      const cursor = (line) => view.send({ type: "cursor", uri: "file:///a.dir", position: { line, character: 4 } });
      await cursor(calls[1].range.start.line);
      await page.locator("#live").getByText("cursor at call of @layer, 2 bars").waitFor({ state: "attached" });
      const marked = await marks(page);
      assert.ok(marked.every((x) => x > at(0.45, 0).x), "of the second call only");
      await cursor(1);
      await page.locator("#live").getByText("cursor at MatMul %h, 2 bars").waitFor({ state: "attached" });
      await page.locator("canvas").click({ position: at(0.6, FIRST + SLICE) });
      const [asked] = await view.told("reveal");
      assert.deepEqual([asked.function, asked.statement, asked.path], ["layer", 0, [{ function: "main", statement: 1 }]]);
      await done(view);
    }
  });

  test("names of bars that communicate stand on plain ground", async () => {
    const message = small();
    const view = await opened(message, { theme: "vscode-high-contrast" });
    const [{ top, bars }] = await rowsIn(view, message);
    // Behind a name no row of pixels is of another colour than the bar; further on, some are.
    const rows = await view.page.evaluate(([from, to, top]) => {
      const pen = document.querySelector("canvas").getContext("2d");
      const plain = (x) => Array.from({ length: 12 }, (_, y) => pen.getImageData(x, top + y, 1, 1).data.slice(0, 3).join());
      return [new Set(plain(from)).size, new Set(plain(to)).size];
    }, [Math.round(at(0.5, 0).x) + 3, Math.round(at(0.74, 0).x), LANES + top + Math.floor(bars / 2) - 6]);
    assert.equal(rows[0], 1);
    assert.ok(rows[1] > 1);
    await done(view);
  });

  test("the text's colours are the bars', by the theme's name, unless the user has chosen others", async () => {
    const view = await opened(small(), { theme: "vscode-dark" });
    const { page } = view;
    const { default: palette } = await import("../../palette.json", { with: { type: "json" } });
    const colour = async () => {
      await drawn(page);
      await drawn(page);
      return page.evaluate(([x, y]) => {
        const { data } = document.querySelector("canvas").getContext("2d").getImageData(x, y, 1, 1);
        return `#${[...data.slice(0, 3)].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
      }, [Math.round(at(0.2, 0).x), LANES + 10]);
    };
    for (const [theme, kind, name] of [
      ["vscode-dark", "dark", "Default Dark Modern"],
      ["vscode-dark", "any", "Monokai"],
      ["vscode-light", "any", "Solarized"],
      ["vscode-light", "light", "Quiet Light"],
      ["vscode-high-contrast", "highContrastDark", "Default High Contrast"],
      ["vscode-high-contrast vscode-high-contrast-light", "highContrastLight", "Default High Contrast Light"],
    ]) {
      await page.evaluate(([className, id, own]) => {
        document.body.className = className;
        document.body.style.setProperty("--vscode-distir-device1", own); // what the manifest contributes
        document.body.dataset.vscodeThemeId = id;
      }, [theme, name, palette[theme.includes("light") && theme.includes("contrast") ? "highContrastLight" : theme.includes("contrast") ? "highContrastDark" : theme.slice(7)][1]]);
      assert.equal(await colour(), palette[kind][1], name);
    }
    await page.evaluate(() => {
      document.body.style.setProperty("--vscode-distir-device1", "#123456");
      document.body.dataset.vscodeThemeId = "Monokai";
    });
    assert.equal(await colour(), "#123456");
    await done(view);
  });

  test("keys go along a lane and across lanes, and each bar is said", async () => {
    const view = await opened();
    const { page } = view;
    const chart = page.locator("#chart");
    const option = page.locator("#bar");
    await chart.focus();
    for (const [key, text, place] of [
      ["Home", "MatMul %h on device 1", "1"],
      ["ArrowRight", "Relu %a on device 1", "2"],
      ["ArrowRight", "Send %b on devices 1, 2", "3"],
      ["ArrowRight", "Send %b on devices 1, 2", "3"],
      ["ArrowDown", "Send %b on devices 1, 2", "1"],
      ["End", "MatMul %c on device 2", "2"],
      ["ArrowUp", "Send %b on devices 1, 2", "3"],
    ]) {
      await page.keyboard.press(key);
      assert.ok((await option.textContent()).startsWith(text), `${key}: ${await option.textContent()}`);
      assert.equal(await option.getAttribute("aria-posinset"), place);
    }
    assert.equal(await chart.getAttribute("aria-activedescendant"), "bar");
    assert.equal(await chart.getAttribute("aria-label"), "device 1");
    await page.keyboard.press("Enter");
    const [asked] = await view.told("reveal");
    assert.deepEqual([asked.event, asked.focus], [2, true]);
    await page.keyboard.press("Escape");
    assert.equal(await chart.getAttribute("aria-activedescendant"), null);
    await done(view);
  });

  test("an edit leaves zoom, place and selection; another document does not", async () => {
    const view = await opened();
    const { page } = view;
    await page.locator("canvas").click({ position: at(0.3, FIRST) });
    for (let i = 0; i < 4; i += 1) await page.mouse.wheel(0, -400);
    await drawn(page);
    const before = await view.remembered();
    assert.ok(before.to - before.from < 1e-3, "zoomed");
    await view.send({ type: "state", state: "pending" });
    await page.locator("#state").getByText("being simulated").waitFor();
    await view.send(small({ scale: 1.5, version: 2 }));
    await page.locator("#summary").getByText("6.00ms").waitFor();
    assert.equal(await page.locator("#state").isVisible(), false);
    const { from, to, event } = await view.remembered();
    assert.deepEqual([from, to, event], [before.from, before.to, 1]);
    assert.ok((await page.locator("#details").textContent()).includes("1.50ms from 1.50ms"));
    await view.send(small({ uri: "file:///b.dir", name: "b.dir" }));
    await page.locator("h1").getByText("b.dir").waitFor();
    const other = await view.remembered();
    assert.deepEqual([other.from, other.to, other.event], [0, 4e-3, null]);
    await done(view);
  });

  test("what was seen outlives a reload", async () => {
    const kept = {
      uri: "file:///a.dir", from: 1e-3, to: 2e-3, top: 0, event: 1, search: "relu", onlyCritical: true,
      colouredBy: "op", equal: false,
    };
    const view = await opened(small(), { kept });
    assert.deepEqual(await view.remembered(), kept);
    assert.equal(await view.page.locator("#hits").textContent(), "1 found");
    await done(view);
  });

  test("the cursor's statement is marked and brought into view, without zooming", async () => {
    const view = await opened();
    const { page } = view;
    await page.locator("canvas").hover({ position: at(0.05, FIRST) });
    for (let i = 0; i < 4; i += 1) await page.mouse.wheel(0, -400);
    const before = await view.remembered();
    assert.ok(before.to < 3e-3);
    await view.send({ type: "cursor", uri: "file:///else.dir", position: { line: 4, character: 3 } });
    await view.send({ type: "cursor", uri: "file:///a.dir", position: { line: 4, character: 3 } });
    await page.locator("#live").getByText("cursor at MatMul %c, one bar").waitFor({ state: "attached" });
    const now = await view.remembered();
    assert.ok(Math.abs(now.from - 3e-3) < 1e-9, "of what is wider than the view, its beginning");
    assert.ok(Math.abs(now.to - now.from - (before.to - before.from)) < 1e-12);
    assert.deepEqual(await view.told("reveal"), [], "the cursor is not sent back");
    await done(view);
  });

  test("a search counts its hits and goes from one to the next", async () => {
    const view = await opened();
    const { page } = view;
    await page.locator("#chart").focus();
    await page.keyboard.press("/");
    await page.keyboard.type("matmul");
    await page.locator("#hits").getByText("2 found").waitFor();
    for (const [key, text, at] of [["Enter", "%h", "1 of 2"], ["Enter", "%c", "2 of 2"], ["Enter", "%h", "1 of 2"], ["Shift+Enter", "%c", "2 of 2"]]) {
      await page.keyboard.press(key);
      assert.ok((await page.locator("#bar").textContent()).includes(text));
      assert.equal(await page.locator("#hits").textContent(), at);
    }
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#hits").textContent(), "");
    assert.equal(await page.evaluate(() => document.activeElement.id), "chart");
    await done(view);
  });

  test("the table holds what is in view, and leads to statements", async () => {
    const view = await opened();
    const { page } = view;
    await page.locator("#chart").focus();
    await page.keyboard.press("t");
    const rows = page.locator("#table table").nth(1).locator("tbody tr");
    assert.equal(await rows.count(), 4);
    assert.match(await rows.nth(1).textContent(), /Relu%a11.00ms1.00ms0scriticalline 3, in @main/);
    assert.equal(await page.locator("#table table").first().locator("tbody tr").count(), 2);
    await rows.nth(3).getByRole("button").click();
    assert.equal((await view.told("reveal")).at(-1).event, 3);
    await page.locator("#search").fill("send");
    await page.locator("#table caption").getByText("hits in view: 1 to 1 of 1").waitFor();
    await done(view);
  });

  test("two programs, lane by lane, until the comparison is ended", async () => {
    const other = small({ uri: "file:///old.dir", name: "old.dir", scale: 2, op: "Tanh" });
    const comparison = { speedup: 2, shared: 1, this_parting: { op: "Relu", label: "%a", function: "main" } };
    const view = await opened({ ...small(), other, comparison });
    const { page } = view;
    const text = await page.locator("#comparison").textContent();
    assert.ok(text.startsWith("old.dir: 8.00ms → 4.00ms, 2.00x faster; the critical paths part at Relu %a"), text);
    await page.locator("#chart").focus();
    for (const key of ["Home", "ArrowRight", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    const [asked] = await view.told("reveal");
    assert.equal(asked.uri, "file:///old.dir");
    assert.equal(asked.event, 0, "the other is twice as slow: its first op still runs");
    assert.equal(await page.locator("#chart").getAttribute("aria-label"), "device 1, the other program");
    await page.locator("#comparison button").click();
    assert.equal((await view.told("closeComparison")).length, 1);
    assert.equal(await page.locator("#comparison").isVisible(), false);
    assert.equal((await view.remembered()).to, 4e-3, "all of what is left");
    await done(view);
  });

  test("bars have the devices' colours of the theme, also when it changes", async () => {
    const view = await opened();
    const { page } = view;
    const pixel = (share, height) =>
      page.evaluate(([x, y]) => {
        const { data } = document.querySelector("canvas").getContext("2d").getImageData(x, y, 1, 1);
        return `#${[...data.slice(0, 3)].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
      }, [Math.round(at(share, height).x), LANES + height]);
    const [first, second] = (await rowsIn(view, small())).map(({ top }) => top + 6);
    const { default: palette } = await import("../../palette.json", { with: { type: "json" } });
    for (const [theme, kind] of [
      ["vscode-light", "light"],
      ["vscode-dark", "dark"],
      ["vscode-high-contrast", "highContrastDark"],
      ["vscode-high-contrast vscode-high-contrast-light", "highContrastLight"],
    ]) {
      await page.evaluate((name) => (document.body.className = name), theme);
      await drawn(page);
      await drawn(page);
      assert.equal(await pixel(0.2, first), palette[kind][1], theme);
      assert.equal(await pixel(0.95, second), palette[kind][2], theme);
    }
    await page.evaluate(() => document.body.style.setProperty("--vscode-distir-device1", "#123456"));
    await page.evaluate(() => (document.body.className = "vscode-dark"));
    await drawn(page);
    await drawn(page);
    assert.equal(await pixel(0.2, first), "#123456");
    await done(view);
  });

  test("names and texts are shown, not believed", async () => {
    const bad = `<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>`;
    const message = small({ name: bad, op: bad });
    for (const bar of message.timeline[0].bars) Object.assign(bar, { label: bad, function: bad, calls: [bad, bad] });
    const view = await opened({ ...message, other: small({ name: bad, op: bad }) });
    const { page } = view;
    await page.locator("canvas").hover({ position: at(0.1, FIRST) });
    await page.locator("#chart").focus();
    for (const key of ["Home", "ArrowRight", "t"]) await page.keyboard.press(key);
    await view.send({ type: "state", state: "failed", why: bad });
    await page.locator("#state").getByText("<img").waitFor();
    assert.equal(await page.locator("img, #timeline script").count(), 0);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.ok((await page.locator("h1").textContent()).startsWith(bad));
    await done(view);
  });

  test("messages that mean nothing change nothing", async () => {
    const view = await opened();
    for (const message of [null, 3, "show", {}, { type: "no such" }, { type: "show", document: {}, timeline: [] }]) {
      await view.send(message);
    }
    await drawn(view.page);
    assert.match(await view.page.locator("h1").textContent(), /^a\.dir @main/);
    await done(view);
  });

  test("a program that takes no time", async () => {
    const message = small();
    Object.assign(message.timeline[0], { bars: [], critical_path: [], waits: [], latency_s: 0 });
    const view = await opened({ ...message, memory: null });
    await view.page.locator("#chart").focus();
    for (const key of ["Home", "ArrowDown", "n", "+", "0", "z", "c", "Enter", "t"]) await view.page.keyboard.press(key);
    await done(view);
  });

  test("where a machine is too small, one that is large enough is a click away", async () => {
    const view = await opened();
    const offer = view.page.locator("#state button");
    assert.equal(await offer.count(), 0);
    for (const state of ["failed", "simulated"]) {
      await view.send({ type: "state", state, why: state === "failed" ? "`a` has no device 9" : null, enough: "ax2" });
      await offer.getByText("simulate on ax2").click();
    }
    assert.deepEqual((await view.told("simulateOn")).map(({ machine }) => machine), ["ax2", "ax2"]);
    await view.send({ type: "state", state: "simulated" });
    assert.equal(await view.page.locator("#state").isHidden(), true);
    await done(view);
  });

  test("the column of names is as wide as its edge is dragged, and as before after a double click", async () => {
    const view = await opened();
    const { page } = view;
    const canvas = page.locator("canvas");
    const box = await canvas.boundingBox();
    const wide = 400;
    await page.mouse.move(box.x + GUTTER, box.y + 120);
    assert.equal(await canvas.evaluate((found) => getComputedStyle(found).cursor), "col-resize");
    await page.mouse.down();
    await page.mouse.move(box.x + wide, box.y + 120, { steps: 4 });
    await page.mouse.up();
    await drawn(page);
    const asked = async () => (await view.told("reveal")).at(-1)?.event;
    await canvas.click({ position: { x: wide + 0.1 * (1000 - wide), y: LANES + FIRST } }); // where the second bar was
    assert.equal(await asked(), 0);
    await canvas.dblclick({ position: { x: wide, y: 120 } });
    await drawn(page);
    await canvas.click({ position: at(0.4, FIRST) });
    assert.equal(await asked(), 1);
    await done(view);
  });

  test("Shift and a drag sum up a stretch, on the devices that it touches", async () => {
    const view = await opened(training());
    const { page } = view;
    const [first] = await rowsIn(view, training());
    const box = await page.locator("canvas").boundingBox();
    const go = (share, height) => page.mouse.move(box.x + at(share, height).x, box.y + at(share, height).y);
    await page.keyboard.down("Shift");
    await go(0.25, first.top + 40);
    await page.mouse.down();
    await go(0.5, first.top + 42);
    await go(0.75, first.top + 44);
    await page.mouse.up();
    await page.keyboard.up("Shift");
    const totals = page.locator("#totals");
    await totals.getByText("2.00ms from 1.00ms, device 1: computes 50%, exposed communication 50%, idle 0%").waitFor();
    assert.deepEqual(await totals.locator("table").first().locator("tbody th").allTextContents(), ["Relu", "Send"]);
    await page.keyboard.press("Escape");
    await totals.getByText("The whole program: 4.00ms, all devices: computes 38%, exposed communication 25%, idle 38%").waitFor();
    await page.keyboard.press("s");
    assert.equal(await totals.isVisible(), false);
    await done(view);
  });

  test("a click on a slice sums up the call and asks for its statement", async () => {
    const { message, calls } = calling();
    const view = await opened(message);
    const { page } = view;
    await page.locator("canvas").hover({ position: at(0.6, 12) });
    await page.locator("#tip").getByText("2.00ms from 2.00ms, 2 ops here, called in line 12").waitFor();
    await page.locator("canvas").click({ position: at(0.6, 12) });
    await page.locator("#totals").getByText("@layer: 2.00ms from 2.00ms").waitFor();
    const [asked] = await view.told("reveal");
    assert.deepEqual([asked.function, asked.statement, asked.path, asked.range], ["main", 1, [], calls[1].range]);
    await done(view);
  });

  test("colours say what is chosen, and what they mean", async () => {
    const view = await opened(training());
    const { page } = view;
    const [first] = await rowsIn(view, training());
    const legend = page.locator("#legend");
    const pixel = () =>
      page.evaluate(([x, y]) => document.querySelector("canvas").getContext("2d").getImageData(x, y, 1, 1).data.join(), [
        Math.round(at(0.3, 0).x), LANES + Math.round(first.top) + 50,
      ]);
    assert.equal(await page.getByLabel("Colour by").inputValue(), "phase", "what says most");
    assert.match(await legend.textContent(), /forward.*backward.*communication/);
    const entries = async () => (await legend.locator("span:not(.heading)").allTextContents()).filter((text) => /communicat|critical/.test(text));
    assert.deepEqual(await entries(), ["communication", "critical path"], "each once");
    const seen = new Set([await pixel()]);
    for (const [by, text] of [["microbatch", "microbatch 1"], ["op", "Relu"], ["critical path", "critical path"]]) {
      await page.getByLabel("Colour by").selectOption(by);
      await drawn(page);
      assert.ok((await legend.textContent()).includes(text), by);
      assert.equal((await entries()).length, 2, by);
      seen.add(await pixel());
    }
    assert.ok(seen.size > 1);
    await page.locator("#chart").focus();
    await page.keyboard.press("k");
    assert.equal(await page.getByLabel("Colour by").inputValue(), "device", "round again");
    assert.equal((await view.remembered()).colouredBy, "device");
    await done(view);
  });

  test("a device is closed and opened, and equal ones are one lane", async () => {
    const view = await opened(replicas(6));
    const { page } = view;
    const live = page.locator("#live");
    const button = page.getByRole("button", { name: "Equal devices as one lane" });
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    const tip = page.locator("#tip");
    await page.locator("canvas").hover({ position: { x: 40, y: LANES + 20 } });
    await tip.getByText("devices 1, 3, 4, 5, 6: equal, shown as one").waitFor();
    await page.locator("canvas").click({ position: { x: 40, y: LANES + 20 } });
    await live.getByText("device 1 closed").waitFor({ state: "attached" });
    await page.keyboard.press("o");
    await live.getByText("device 1 opened").waitFor({ state: "attached" });
    await page.keyboard.press("g");
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    await page.locator("canvas").hover({ position: { x: 40, y: LANES + 20 } });
    await tip.getByText("device 1", { exact: true }).waitFor();
    await done(view);
  });

  test("keys are told when they are asked for; in a narrow window what colours mean is, too", async () => {
    const view = await opened();
    const { page } = view;
    const [keys, legend] = [page.locator("#keys"), page.locator("#legend")];
    assert.deepEqual([await keys.isVisible(), await legend.isVisible()], [false, true]);
    await page.keyboard.press("?");
    assert.ok(await keys.isVisible());
    await page.setViewportSize({ width: 450, height: 520 });
    assert.ok(await legend.isVisible());
    await page.getByRole("button", { name: "Keys" }).click();
    assert.deepEqual([await keys.isVisible(), await legend.isVisible()], [false, false]);
    assert.ok((await page.locator("header").evaluate((header) => header.clientHeight)) < 120);
    await done(view);
  });

  test("what is printed is the picture with its legend, on white", async () => {
    const view = await opened();
    const { page } = view;
    await page.emulateMedia({ media: "print" });
    assert.deepEqual([await page.locator("#tools").isVisible(), await page.locator("#legend").isVisible()], [false, true]);
    assert.ok(await page.locator("canvas").evaluate((canvas) => canvas.clientHeight > 100));
    assert.equal(await page.locator("#timeline").evaluate((root) => getComputedStyle(root).backgroundColor), "rgb(255, 255, 255)");
    await done(view);
  });

  test("with colours that the system forces, the legend has those of what is drawn", async () => {
    const view = await opened(training(), { forcedColors: "active" });
    const { page } = view;
    const fills = await page.locator("#legend .colour").evaluateAll((all) => all.map((each) => getComputedStyle(each).backgroundColor));
    assert.ok(fills.length > 2 && new Set(fills).size === fills.length, fills.join());
    await page.keyboard.press("c");
    const pressed = page.getByRole("button", { name: "Dim what is not on the critical path" });
    const { adjusted, ground, ink } = await pressed.evaluate((each) => {
      const { forcedColorAdjust: adjusted, backgroundColor: ground, color: ink } = getComputedStyle(each);
      return { adjusted, ground, ink };
    });
    assert.equal(adjusted, "none", "the system paints no ground of its own behind its letters, which would hide them");
    assert.notEqual(ground, ink);
    await done(view);
  });

  test("the overview moves what is seen", async () => {
    const view = await opened();
    const { page } = view;
    for (const key of ["+", "+", "+"]) await page.keyboard.press(key);
    await page.locator("canvas").click({ position: { x: at(0.9, 0).x, y: 10 } });
    const { from, to } = await view.remembered();
    assert.ok(to === 4e-3 && from > 2e-3, "to the end");
    await done(view);
  });
});
