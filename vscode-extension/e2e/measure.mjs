// What the extension weighs, and how long the editor waits for it: `npm run measure`. The timeline's own measure follows.
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";

import { programs } from "./programs.mjs";
import { EXTENSION, PYTHON, openFile, startBrowser, startWorkbench } from "./workbench.mjs";

const RUNS = 5;

console.log(`distir.vsix: ${Math.round(statSync(join(EXTENSION, "distir.vsix")).size / 1000)} kB (at most 1500)`);
const bench = await startWorkbench({ settings: { "distir.interpreter": [PYTHON] }, files: { "mlp.dir": programs()["mlp.dir"] } });
const browser = await startBrowser();
try {
  const found = [];
  for (let run = 0; run < RUNS; run++) {
    const window = await openFile(browser, bench, "mlp.dir");
    await window.lens(/· peak /);
    await window.command("Developer: Show Running Extensions");
    const row = window.page.locator(".runtime-extensions-editor .monaco-list-row", { hasText: "distir" }).first();
    found.push(Number(/Activation: (\d+)\s*ms/.exec(await row.textContent())[1]));
    await window.page.close();
  }
  const [load] = loadavg();
  console.log(`activation, loading of its code included: ${found.sort((a, b) => a - b).join(", ")} ms (at most 150), load ${load.toFixed(1)}`);
  const started = [...bench.logs().matchAll(/answers after (\d+) ms/g)].map((match) => match[1]);
  console.log(`the server's start, which the editor does not wait for: ${started.join(", ")} ms`);
} finally {
  await browser.close();
  await bench.close();
}
execFileSync("npm", ["run", "--silent", "measure"], { cwd: join(EXTENSION, "timeline"), stdio: "inherit" });
