// What a visitor waits for: `node test/measure.mjs` prints JSON, of the site in build/playground.
//
// Times by the clock, in milliseconds, and beside them the CPU time of all of the browser's processes: on a machine that
// is busy with other work, the clock says more about that work.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launchKept, served } from "./browser.mjs";

const EDITS = 12;
const REST_MS = 4000; // what the browser does for itself, and keeps of a page after its start, is done
const WATCHED = { timeout: 120_000, polling: 50 }; // at each frame, it would be what is measured

const server = await served();
const folder = mkdtempSync(join(tmpdir(), "distir-visitor-"));
const context = await launchKept(folder);
const page = await context.newPage();
const session = await context.browser().newBrowserCDPSession();

async function cpuMs() {
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return 1000 * processInfo.reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** Milliseconds by the clock, and of CPU time, that something takes. */
async function timed(what) {
  const [clock, cpu] = [performance.now(), await cpuMs()];
  await what();
  return { ms: Math.round(performance.now() - clock), cpu_ms: Math.round((await cpuMs()) - cpu) };
}

const hinted = () => page.waitForFunction(() => /\+\S+s @/.test(document.querySelector("#editor .view-lines")?.innerText.replaceAll("\u00a0", " ") ?? ""), null, WATCHED);

/** Until the first hint of a page that is opened. */
async function started(address = server.address) {
  await page.goto("about:blank");
  await page.waitForTimeout(REST_MS);
  const found = await timed(async () => {
    await page.goto(address);
    await hinted();
  });
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.waitForTimeout(REST_MS);
  return found;
}

const cold = await started();
const warm = await started();

// A program of 100 lines, one of whose sizes is typed again and again; the hints below change with it.
const body = Array.from({ length: 97 }, (_, i) => `  %v${i + 1} = MatMul(%v${i}, %w)`);
const program = ["func @long(%v0: Tensor[Float32, (16, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {", ...body, "  return %v97", "}"].join("\n");
const fragment = await page.evaluate(async (text) => {
  const packed = new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer());
  return btoa(String.fromCharCode(...packed)).replaceAll("+", "-").replaceAll("/", "_");
}, program);
await started(`${server.address}#name=long.dir&program=${encodeURIComponent(fragment)}`);
await page.locator("#editor .view-line", { hasText: "@long" }).first().click();
await page.keyboard.press("Control+Home");
for (let at = 0; at < "func @long(%v0: Tensor[Float32, (16".length; at++) await page.keyboard.press("ArrowRight");
const waits = [];
const edits = await timed(async () => {
  for (let edit = 0; edit < EDITS; edit++) {
    const key = String(edit % 10);
    await page.waitForTimeout(400);
    // From the key to the first frame in which the type of %v1 has the new size.
    await page.evaluate((digit) => {
      window.waited = new Promise((resolve) => {
        addEventListener("keydown", () => {
          const begun = performance.now();
          const lines = document.querySelector("#editor .view-lines");
          const look = () => {
            if (!new RegExp(`%v1: f32\\[16${digit},`).test(lines.innerText.replaceAll("\u00a0", " "))) return;
            observer.disconnect();
            requestAnimationFrame(() => resolve(performance.now() - begun));
          };
          const observer = new MutationObserver(look);
          observer.observe(lines, { childList: true, subtree: true, characterData: true });
        }, { once: true, capture: true });
      });
    }, key);
    await page.keyboard.press(key);
    waits.push(await page.evaluate(() => Promise.race([window.waited, new Promise((_, fail) => setTimeout(() => fail(new Error(document.querySelector("#editor .view-lines").innerText.slice(0, 200))), 20000))])));
    await page.keyboard.press("Backspace");
  }
});
waits.sort((left, right) => left - right);
console.log(
  JSON.stringify({
    cold,
    warm,
    key_to_hint: { lines: program.split("\n").length, edits: EDITS, median_ms: Math.round(waits[EDITS / 2]), worst_ms: Math.round(waits.at(-1)), cpu_ms_each: Math.round(edits.cpu_ms / (2 * EDITS)) },
  }),
);
await context.close();
await server.stop();
rmSync(folder, { recursive: true, force: true });
