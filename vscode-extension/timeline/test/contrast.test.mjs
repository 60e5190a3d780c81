// Whether what is shown can be seen: WCAG 2.2, AA, in all themes. Elements by axe; what is drawn, by its colours.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, describe, test } from "node:test";
import { drawn, launch, missing, webview } from "./browser.mjs";
import { load } from "./load.mjs";
import { training } from "./samples.mjs";
import palette from "../../palette.json" with { type: "json" };

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const { luminance } = await load("theme");

const THEMES = {
  light: "vscode-light",
  dark: "vscode-dark",
  highContrastDark: "vscode-high-contrast",
  highContrastLight: "vscode-high-contrast vscode-high-contrast-light",
};
const TEXT = 4.5; // success criterion 1.4.3
const SHAPE = 3; // success criterion 1.4.11

function contrast(a, b) {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

describe("contrast", { skip: missing }, () => {
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser?.close());

  for (const [kind, theme] of Object.entries(THEMES)) {
    test(`of elements, with all that can be opened: ${kind}`, async () => {
      const { page, send } = await webview(browser, { theme, bypassCSP: true });
      const message = training();
      message.memory.memories[0].parts = [
        { name: "weights", nbytes: 1e9, changes: [[0, 1e9]] },
        { name: "activations", nbytes: 1e9, changes: [[1, 1e9], [2, 0]] },
      ];
      await send(message);
      await page.locator("h1").getByText("@main").waitFor();
      for (const key of ["t", "s", "n"]) await page.keyboard.press(key);
      await page.locator("#search").fill("a");
      await send({ type: "state", state: "stale" });
      await drawn(page);
      await page.addScriptTag({ path: axe });
      const { violations } = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }));
      assert.deepEqual(violations.map(({ id, nodes }) => [id, ...nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]), []);
      await page.close();
    });

    test(`of what is drawn: ${kind}`, async () => {
      const { page } = await webview(browser, { theme });
      const names = ["ground", "raised", "text", "faint", "mark", "focus", "hit", "memory", "over"];
      await drawn(page);
      const colours = await page.evaluate(
        (wanted) => Object.fromEntries(wanted.map((name) => [name, getComputedStyle(document.body).getPropertyValue(`--${name}`).trim()])),
        names,
      );
      const low = [];
      const expect = (least, what, a, b) => {
        const found = contrast(a, b);
        if (found < least) low.push(`${what}: ${found.toFixed(2)} of ${least}`);
      };
      for (const ground of ["ground", "raised"]) {
        for (const text of ["text", "faint", "over"]) expect(TEXT, `${text} on ${ground}`, colours[text], colours[ground]);
      }
      for (const shape of ["mark", "focus", "hit", "memory"]) expect(SHAPE, shape, colours[shape], colours.ground);
      palette[kind].forEach((fill, i) => {
        expect(SHAPE, `bars of colour ${i}`, fill, colours.ground);
        expect(TEXT, `text on bars of colour ${i}`, luminance(fill) > 0.18 ? "#000000" : "#ffffff", fill);
      });
      palette.any.forEach((fill, i) => expect(SHAPE, `bars of colour ${i} of unknown themes`, fill, colours.ground));
      expect(TEXT, "text on grey bars", luminance(colours.ground) > 0.18 ? "#ffffff" : "#000000", colours.faint);
      assert.deepEqual(low, []);
      await page.close();
    });
  }
});
