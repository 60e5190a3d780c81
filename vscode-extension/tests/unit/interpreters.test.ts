import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, test } from "node:test";

import { type Candidate, type Probed, describe, isOlder } from "../../src/server/found";
import { type Surroundings, candidates, choose, probe } from "../../src/server/interpreters";

const folder = mkdtempSync(join(tmpdir(), "distir path with späces-"));
after(() => rmSync(folder, { recursive: true, force: true }));

function program(path: string, text: string): string {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

const venv = program(join(folder, ".venv/bin/python"), "");
const onPath = program(join(folder, "bin/python3"), "");
const around: Surroundings = { setting: [], pythonExtension: undefined, folders: [folder], isTrusted: true, env: { PATH: ["relative", join(folder, "bin")].join(delimiter) }, platform: "linux" };
const commands = (found: readonly Candidate[]): string[] => found.map(({ argv }) => argv.join(" "));

test("the setting is the only candidate, with its variables replaced", () => {
  const setting = ["${workspaceFolder}/.venv/bin/python", "-X", "${env:MODE}", "~/x"];
  const found = candidates({ ...around, setting, env: { MODE: "dev" } });
  assert.deepEqual(found[0]?.argv, [venv, "-X", "dev", `${homedir()}/x`]);
  assert.equal(found.length, 1);
});

test("else the Python extension's, the workspace's, that on PATH, each once", () => {
  assert.deepEqual(commands(candidates({ ...around, pythonExtension: "/chosen/python" })), ["/chosen/python", venv, onPath]);
  assert.deepEqual(commands(candidates({ ...around, pythonExtension: venv })), [venv, onPath]);
});

test("nothing of a workspace that is not trusted is run, and no relative entry of PATH", () => {
  program(join(folder, "relative/python3"), "");
  assert.deepEqual(commands(candidates({ ...around, pythonExtension: venv, isTrusted: false })), [onPath]);
});

test("versions are compared by their numbers", () => {
  for (const [left, right] of [["0.1.0", "0.1.1"], ["0.9", "0.10"], ["1.0rc1", "1.0.1"], ["3.9.18", "3.11"]] as const) {
    assert.ok(isOlder(left, right), `${left} < ${right}`);
    assert.ok(!isOlder(right, left), `${right} >= ${left}`);
  }
  assert.ok(!isOlder("1.0", "1.0.0"));
});

test("what does not run, is no Python or hangs is told apart, and never rejects", async () => {
  const why = async (argv: string[], ms?: number): Promise<string> => (await probe({ argv, from: "here" }, ms)).why ?? "";
  assert.equal(await why([]), "the command is empty");
  assert.equal(await why([join(folder, "absent")]), "there is no such program");
  assert.equal(await why([program(join(folder, "echo"), "echo hello")]), "it is not a Python interpreter");
  assert.equal(await why([program(join(folder, "broken"), "echo 'bad interpreter' >&2; exit 3")]), "it fails: bad interpreter");
  assert.equal(await why([program(join(folder, "slow"), "exec sleep 5")], 200), "it does not respond");
});

test("the first candidate whose server is new enough is taken; else one that is too old is named", async () => {
  const have: Record<string, Omit<Probed, "candidate">> = {
    bare: { python: "3.12.1", lacks: ["distir_lsp", "pygls"] },
    old: { python: "3.12.1", distir: "0.0.9", lacks: [] },
    partial: { python: "3.12.1", distir: "0.1.0", lacks: ["pygls"] },
    good: { python: "3.11.7", distir: "0.2.0", lacks: [] },
  };
  const ask = (candidate: Candidate): Promise<Probed> => Promise.resolve({ candidate, ...(have[candidate.argv[0] ?? ""] as Omit<Probed, "candidate">) });
  const of = (...names: string[]): Promise<Awaited<ReturnType<typeof choose>>> => choose(names.map((name) => ({ argv: [name], from: "here" })), ask);
  const found = await of("bare", "old", "partial", "good");
  assert.ok(found.kind === "found" && found.server.candidate.argv[0] === "good");
  const old = await of("bare", "old");
  assert.ok(old.kind === "old" && old.server.distir === "0.0.9");
  const none = await of("bare", "partial");
  assert.ok(none.kind === "none");
  assert.deepEqual(none.tried.map(describe), ["`bare` (here): Python 3.12.1 without DistIR", "`partial` (here): DistIR 0.1.0, but no pygls"]);
});
