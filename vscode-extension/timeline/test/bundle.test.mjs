// What is committed in the Python package is what these sources give, and all that it holds of others is named.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { bundle } from "../build.mjs";
import { launch, missing } from "./browser.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../..");
const python = [process.env.PYTHON, join(root, ".venv/bin/python")].find((place) => place && existsSync(place));

test("the bundle in the Python package is not stale", async () => {
  const built = await bundle();
  for (const kind of ["js", "css"]) {
    const committed = readFileSync(join(root, `distir/simulate/page/timeline.${kind}`), "utf8");
    assert.ok(committed === built[kind], `timeline.${kind} is stale: npm run build`);
  }
});

test("all that is bundled is named among the licences, in its version", async () => {
  const { metafile } = await build({
    absWorkingDir: join(here, ".."), entryPoints: ["src/main.ts"], bundle: true, write: false, outdir: "out", metafile: true,
  });
  const licences = readFileSync(join(here, "../LICENSES.txt"), "utf8");
  const packages = new Set(
    Object.values(metafile.outputs)
      .flatMap(({ inputs }) => Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0))
      .flatMap(([path]) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? []),
  );
  assert.ok(packages.size > 0);
  for (const name of packages) {
    const { version } = JSON.parse(readFileSync(join(here, `../node_modules/${name}/package.json`), "utf8"));
    assert.ok(licences.includes(`${name} ${version}\n`), `${name} ${version}`);
  }
});

test("no code is made of text, and nothing is asked of a network", async () => {
  const { js, css } = await bundle();
  for (const word of ["eval(", "new Function", "innerHTML", "outerHTML", "document.write", "fetch(", "XMLHttpRequest", "import("]) {
    assert.ok(!js.includes(word), word);
  }
  assert.ok(!/https?:\/\//.test(js + css) && !css.includes("url(") && !css.includes("@import"));
});

const PROGRAM = `func @half(%x) {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (8, 8), 1]) {
  %a = @half(%x)
  %b = Send[device = 2](%a)   // over </script><script>window.hacked = 1</script>
  %c = @half(%b)
  return %c
}
`;

const skip = missing || (python === undefined && "needs a Python with distir (PYTHON=path)");
test("the page of `distir simulate --html`", { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "pâge one-"));
  const [program, file] = [join(folder, "two.dir"), join(folder, "out.html")];
  writeFileSync(program, PROGRAM);
  execFileSync(python, ["-c", "from distir.cli import main; main()", "simulate", program, "--html", file], { stdio: "pipe" });
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 900, height: 500 }, colorScheme: "dark" });
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.stack));
    page.on("console", (message) => problems.push(message.text()));
    page.on("request", (request) => request.url().startsWith("file:") || problems.push(request.url()));
    await page.goto(pathToFileURL(file).href);
    await page.locator("#summary").getByText("3 ops").waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.locator("#chart").focus();
    const statements = [];
    for (const key of ["n", "n", "n"]) {
      await page.keyboard.press(key);
      statements.push(await page.locator("#details code").textContent());
    }
    assert.deepEqual(statements, ["%y = Relu(%x)", "%b = Send[device = 2](%a)", "%y = Relu(%x)"]);
    assert.match(await page.locator("#details p").textContent(), /line 2, in @half, called by @main$/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(problems, []);
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
});
