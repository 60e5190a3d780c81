// Starts tests/host inside the extension host of a real workbench, and hands on what they say.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { commit, programs } from "./programs.mjs";
import { EXTENSION, PYTHON, startBrowser, startWorkbench } from "./workbench.mjs";

test("commands and providers, inside the extension host", { timeout: 1_500_000 }, async (context) => {
  const bench = await startWorkbench({ settings: { "distir.interpreter": [PYTHON] }, files: programs() });
  commit(bench.workspace);
  const browser = await startBrowser();
  try {
    const page = await browser.context.newPage();
    const said = [];
    await page.exposeFunction("codeAutomationLog", (kind, words) => {
      const text = words.join(" ");
      said.push(text);
      if (/^(ok|FAILED|activate)/.test(text)) context.diagnostic(text);
    });
    const ended = new Promise((resolve) => void page.exposeFunction("codeAutomationExit", resolve));
    const payload = [
      ["extensionDevelopmentPath", bench.remote(join(EXTENSION, "tests/host/python-extension"))],
      ["extensionTestsPath", bench.remote(join(EXTENSION, "dist-test/host"))],
    ];
    await page.goto(bench.url(payload));
    const told = page.locator(".notification-list-item", { hasText: "DistIR needs Python 3.11 or later, and none was found." }).waitFor({ timeout: 400_000 });
    const [code] = await Promise.all([ended, told.catch(() => assert.fail("the user was not told that there is no Python"))]);
    assert.equal(code, 0, said.filter((text) => text.startsWith("FAILED")).join("\n"));
  } finally {
    await browser.close();
    await bench.close();
  }
});
