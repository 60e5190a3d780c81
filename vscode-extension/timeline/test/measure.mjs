// First paint and frames a second in headless Chromium: `node test/measure.mjs [bars] [devices]`, 100,000 on 16 by
// default; `node test/measure.mjs PAGE.html`, of a page that `distir simulate --html` has written.
// Prints numbers; fails only where something is broken. Wall time: says the load of the machine, too.

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch, missing } from "./browser.mjs";
import { inColumns, schedule } from "./samples.mjs";

const given = process.argv[2]?.endsWith(".html") ? resolve(process.argv[2]) : null;
const [count = 100_000, devices = 16] = given === null ? process.argv.slice(2).map(Number) : [];
if (missing) {
  console.log(missing);
  process.exit(0);
}
const built = join(dirname(fileURLToPath(import.meta.url)), "../../../distir/simulate/page");
const folder = mkdtempSync(join(tmpdir(), "timeline-"));
const file = given ?? join(folder, "page.html");
const part = (name) => readFileSync(join(built, name), "utf8");
const data = given === null ? JSON.stringify(inColumns(schedule(count, devices, 1))) : "";
if (given === null) writeFileSync(
  file,
  `<!doctype html><meta charset="utf-8"><style>${part("timeline.css")}</style><div id="timeline"></div>
<script type="application/json" id="data">${data}</script><script>${part("timeline.js")}</script>`,
);

const browser = await launch();
try {
  const system = await browser.newBrowserCDPSession();
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto("about:blank");
  const before = await cpu(system);
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => performance.getEntriesByName("distir:first-draw").length > 0);
  const first = await page.evaluate(() => performance.getEntriesByName("distir:first-draw")[0].startTime);
  const spent = (await cpu(system)) - before;
  const [load] = loadavg();
  const bars = await page.locator("#summary").textContent();
  console.log(`${bars}: a page of ${(statSync(file).size / 1e6).toFixed(1)} MB, load ${load.toFixed(1)}`);
  console.log(`first paint ${first.toFixed(0)} ms after the page was asked for, ${spent.toFixed(0)} ms of CPU`);
  await frames(page, system, "zoom", { deltaY: 60 });
  await frames(page, system, "pan", { deltaX: 60 });
  await page.locator("#search").fill("a");
  await page.locator("#hits").getByText("found").waitFor();
  await frames(page, system, "zoom with a search", { deltaY: 60 });
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}

/** Milliseconds of CPU that all processes of the browser have taken so far. */
async function cpu(system) {
  const { processInfo } = await system.send("SystemInfo.getProcessInfo");
  return processInfo.reduce((sum, { cpuTime }) => sum + cpuTime * 1000, 0);
}

/** Turn the wheel in every frame, 150 of them, there and back: frames a second, and what one of them costs. */
async function frames(page, system, what, wheel) {
  const before = await cpu(system);
  const { seconds, script } = await page.evaluate(
    (by) =>
      new Promise((done) => {
        const canvas = document.querySelector("canvas");
        const real = window.requestAnimationFrame.bind(window);
        let script = 0;
        window.requestAnimationFrame = (draw) =>
          real((time) => {
            const began = performance.now();
            draw(time);
            script += performance.now() - began;
          });
        const began = performance.now();
        let step = 0;
        const turn = () => {
          if (step === 150) {
            window.requestAnimationFrame = real;
            done({ seconds: (performance.now() - began) / 1000, script: script / 150 });
            return;
          }
          const way = step % 50 < 25 ? -1 : 1;
          const { left, top } = canvas.getBoundingClientRect();
          const turned = { deltaX: way * (by.deltaX ?? 0), deltaY: way * (by.deltaY ?? 0) };
          canvas.dispatchEvent(
            new WheelEvent("wheel", { ...turned, clientX: left + 700, clientY: top + 200, cancelable: true }),
          );
          step += 1;
          real(turn);
        };
        real(turn);
      }),
    wheel,
  );
  const spent = ((await cpu(system)) - before) / 150;
  const rate = (150 / seconds).toFixed(0);
  console.log(`${what}: ${rate} frames/s, a frame ${spent.toFixed(1)} ms of CPU, of that script ${script.toFixed(1)} ms`);
}
