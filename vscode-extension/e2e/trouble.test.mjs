// What a user is told when there is no server, an old one, one that crashes, or a workspace that is not trusted.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import { programs } from "./programs.mjs";
import { EXTENSION, PROJECT, PYTHON, Workbench, startBrowser, startWorkbench } from "./workbench.mjs";

const PROGRAM = programs()["mlp.dir"];
const tools = mkdtempSync(join(tmpdir(), "distir-tools-"));
let browser;

before(async () => (browser = await startBrowser()));
after(async () => {
  await browser.close();
  rmSync(tools, { recursive: true, force: true });
});

function script(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** A PATH with nothing on it but Node, a shell's tools, and a `python3`. */
function pathWith(name, python) {
  const folder = join(tools, name);
  mkdirSync(folder, { recursive: true });
  symlinkSync(process.execPath, join(folder, "node"));
  if (typeof python === "string") symlinkSync(python, join(folder, "python3"));
  else python(join(folder, "python3"));
  return folder;
}

/** A stand-in that says it has a server of a version; `serve`: what it does when it is to run it. */
const pretender = (path, version, serve) =>
  script(path, `case "$1" in -c) echo '{"python": "3.12.0", "distir": "${version}", "lacks": []}' ;; -m) ${serve} ;; esac`);

/**
 * What makes `pip install distir[lsp]` install a wheel of this tree, without asking a registry: what the wheel needs is
 * found in a folder on Python's path, as if it were installed already.
 */
function installable() {
  const [wheels, needed] = [join(tools, "wheels"), join(tools, "needed")];
  const look = "import sysconfig, importlib.util as u; print(sysconfig.get_path('purelib')); print(u.find_spec('hatchling') is not None)";
  const [site, canBuild] = execFileSync(PYTHON, ["-c", look], { encoding: "utf8" }).trim().split("\n");
  const isolation = canBuild === "True" ? ["--no-build-isolation"] : []; // else pip fetches hatchling
  execFileSync(PYTHON, ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", ...isolation, "--wheel-dir", wheels, PROJECT], { stdio: ["ignore", "ignore", "inherit"] });
  mkdirSync(needed);
  for (const name of readdirSync(site)) if (!/distir|\.pth$|__pycache__/.test(name)) symlinkSync(join(site, name), join(needed, name));
  return { PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels, PYTHONPATH: needed };
}

async function openIn(bench, folder, file) {
  const page = await browser.context.newPage();
  await page.goto(bench.url([["openFile", bench.remote(join(folder, file))]], folder));
  return new Workbench(page, []);
}

test("no server, one that is too old, one that always crashes: each is told once, with what to do", { timeout: 1_500_000 }, async (context) => {
  // A Python without any package: `-I -S` would do, but a server may not be found in it whatever it is called with.
  const bare = (path) => script(path, `exec ${realpathSync(PYTHON)} -I -S "$@"`);
  const starts = join(tools, "starts");
  const old = pretender(join(tools, "old"), "0.0.1", "exit 1");
  const crashing = pretender(join(tools, "crashing"), "9.9.9", `echo start >> ${starts}; echo 'ImportError: broken' >&2; exit 1`);
  const named = (python) => JSON.stringify({ "distir.interpreter": [python] });
  const bench = await startWorkbench({
    env: { PATH: `${pathWith("bare", bare)}:/usr/bin:/bin`, ...installable() },
    files: {
      "none/mlp.dir": PROGRAM,
      "old/mlp.dir": PROGRAM,
      "old/.vscode/settings.json": named(old),
      "crashing/mlp.dir": PROGRAM,
      "crashing/.vscode/settings.json": named(crashing),
      "absent/mlp.dir": PROGRAM,
      "absent/.vscode/settings.json": named("/absent/python"),
    },
  });
  try {
    await context.test("none", async () => {
      const window = await openIn(bench, join(bench.workspace, "none"), "mlp.dir");
      const told = await window.message("The DistIR server is not installed in");
      await told.locator(".monaco-button", { hasText: "Install Server" }).click();
      // Colours need no server.
      await window.until(() => new Set([...document.querySelectorAll(".view-line span span")].map((span) => span.className)).size > 3);
      await window.pick("A new .venv in the workspace");
      await window.message("Installing distir[lsp]");
      await window.lens(/· peak /, 90_000);
      assert.match(bench.logs(), /Successfully installed distir-/);
      assert.match(bench.logs(), /starting: \S+\/none\/\.venv\/bin\/python -m distir_lsp/);
      assert.deepEqual(await window.messages(), []);
      await window.page.close();
    });
    await context.test("named, but absent", async () => {
      const window = await openIn(bench, join(bench.workspace, "absent"), "mlp.dir");
      await window.message("DistIR cannot start: `/absent/python` (the setting `distir.interpreter`): there is no such program");
      await window.page.close();
    });
    await context.test("too old", async () => {
      const window = await openIn(bench, join(bench.workspace, "old"), "mlp.dir");
      const told = await window.message("DistIR 0.0.1 (");
      assert.match(await told.textContent(), /is too old for this extension, which needs 0\.1\.0 or later/);
      assert.equal((await window.messages()).length, 1);
      await window.page.close();
    });
    await context.test("crashing", async () => {
      const window = await openIn(bench, join(bench.workspace, "crashing"), "mlp.dir");
      await window.message("The DistIR server crashed three times in a row.");
      await window.page.waitForTimeout(2000); // whatever else might come
      assert.equal(readFileSync(starts, "utf8"), "start\n".repeat(3));
      assert.equal((await window.messages()).length, 1);
      await window.page.close();
    });
  } catch (error) {
    await browser.context.pages().at(-1)?.screenshot({ path: join(EXTENSION, "e2e", "failed.png") });
    throw error;
  } finally {
    await bench.close();
  }
});

test("in a workspace that is not trusted nothing of it is run, until it is trusted", { timeout: 900_000 }, async () => {
  const ran = join(tools, "ran");
  const spying = `echo "$0" >> ${ran}; exec ${PYTHON} "$@"`;
  const bench = await startWorkbench({
    trust: true,
    env: { PATH: `${pathWith("good", (path) => script(path, `exec ${PYTHON} "$@"`))}:/usr/bin:/bin` },
    files: { "mlp.dir": PROGRAM },
  });
  try {
    script(join(bench.workspace, ".venv/bin/python"), spying);
    const window = await openIn(bench, bench.workspace, "mlp.dir");
    await window.page.locator(".monaco-dialog-box .monaco-button", { hasText: "No, I don't trust" }).click();
    await window.lens(/· peak /);
    assert.ok(!existsSync(ran), "the workspace's own Python was run");
    await window.command("Workspaces: Manage Workspace Trust");
    await window.page.locator(".workspace-trust-editor .monaco-button", { hasText: "Trust" }).first().click();
    for (let waited = 0; !existsSync(ran); waited += 200) {
      assert.ok(waited < 30_000, "the server was not started anew");
      await window.page.waitForTimeout(200);
    }
    assert.match(readFileSync(ran, "utf8"), /\.venv\/bin\/python/);
  } catch (error) {
    await browser.context.pages().at(-1)?.screenshot({ path: join(EXTENSION, "e2e", "failed.png") });
    throw error;
  } finally {
    await bench.close();
  }
});
