// What a visitor waits for: `node test/measure.mjs` prints JSON, of the site in build/playground.
//
// Times by the clock, in milliseconds, and beside them the CPU time of all of the browser's processes: on a machine that
// is busy with other work, the clock says more about that work.

import { launch, opened, served } from "./browser.mjs";

const EDITS = 12;
const PATIENCE = { timeout: 120_000 };

const server = await served();
const browser = await launch();
const session = await browser.newBrowserCDPSession();

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

const hinted = (page) => page.waitForFunction(() => /\+\S+s @/.test(document.querySelector("#editor .view-lines")?.innerText.replaceAll("\u00a0", " ") ?? ""), null, { ...PATIENCE, polling: "raf" });

const context = await browser.newContext({ viewport: { width: 1300, height: 900 } });
let page;
const cold = await timed(async () => {
  ({ page } = await opened(context, server.address));
  await hinted(page);
});
await page.evaluate(() => navigator.serviceWorker.ready);
await page.close();
const warm = await timed(async () => {
  ({ page } = await opened(context, server.address));
  await hinted(page);
});

// A program of 100 lines, one of whose sizes is typed again and again; the hints below change with it.
const body = Array.from({ length: 97 }, (_, i) => `  %v${i + 1} = MatMul(%v${i}, %w)`);
const program = ["func @long(%v0: Tensor[Float32, (16, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {", ...body, "  return %v97", "}"].join("\n");
const keys = await page.evaluate(
  async ([text, edits]) => {
    const packed = new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer());
    return [btoa(String.fromCharCode(...packed)).replaceAll("+", "-").replaceAll("/", "_"), edits];
  },
  [program, EDITS],
);
await page.close();
({ page } = await opened(context, `${server.address}#name=long.dir&program=${encodeURIComponent(keys[0])}`));
await hinted(page);
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
          const look = () => {
            const seen = document.querySelector("#editor .view-lines").innerText.replaceAll("\u00a0", " ");
            if (new RegExp(`%v1: f32\\[16${digit},`).test(seen)) resolve(performance.now() - begun);
            else requestAnimationFrame(look);
          };
          look();
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
    key_to_hint: { lines: program.split("\n").length, edits: EDITS, median_ms: Math.round(waits[EDITS / 2]), worst_ms: Math.round(waits.at(-1)), cpu_ms_each: Math.round((edits.cpu_ms) / (2 * EDITS)) },
  }),
);
await browser.close();
await server.stop();
