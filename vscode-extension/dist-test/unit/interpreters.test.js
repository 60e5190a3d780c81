"use strict";
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));

// tests/unit/interpreters.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_fs2 = require("node:fs");
var import_node_os2 = require("node:os");
var import_node_path2 = require("node:path");
var import_node_test = require("node:test");

// src/server/interpreters.ts
var import_node_child_process = require("node:child_process");
var import_node_fs = require("node:fs");
var import_node_os = require("node:os");
var import_node_path = require("node:path");
var OLDEST_SERVER = "0.1.0";
var OLDEST_PYTHON = "3.11";
function candidates(around2) {
  if (around2.setting.length > 0) {
    const argv = around2.setting.map((word) => substituted(word, around2));
    return [{ argv, from: "the setting `distir.interpreter`" }];
  }
  const found = [];
  if (around2.isTrusted) {
    if (around2.pythonExtension) found.push({ argv: [around2.pythonExtension], from: "the Python extension" });
    for (const folder2 of around2.folders) {
      for (const name of [".venv", "venv"]) {
        const python = inEnvironment((0, import_node_path.join)(folder2, name), around2.platform);
        if ((0, import_node_fs.existsSync)(python)) found.push({ argv: [python], from: `\`${name}\` in the workspace` });
      }
    }
  }
  found.push(...onPath(around2));
  const seen = /* @__PURE__ */ new Set();
  return found.filter(({ argv }) => !seen.has(argv.join("\0")) && seen.add(argv.join("\0")));
}
function inEnvironment(folder2, platform) {
  return platform === "win32" ? (0, import_node_path.join)(folder2, "Scripts", "python.exe") : (0, import_node_path.join)(folder2, "bin", "python");
}
async function choose(found, ask = probe) {
  const tried = [];
  for (const candidate of found) {
    const probed = await ask(candidate);
    if (probed.distir !== void 0 && probed.lacks.length === 0 && !isOlder(probed.distir, OLDEST_SERVER)) {
      return { kind: "found", server: probed };
    }
    tried.push(probed);
  }
  const old = tried.find((p) => p.distir !== void 0 && isOlder(p.distir, OLDEST_SERVER));
  return old ? { kind: "old", server: old } : { kind: "none", tried };
}
function probe(candidate, timeoutMs = 2e4) {
  const [program2, ...first] = candidate.argv;
  if (!program2) return Promise.resolve({ candidate, lacks: [], why: "the command is empty" });
  return new Promise((resolve) => {
    const options = { timeout: timeoutMs, cwd: (0, import_node_os.homedir)(), env: environment(), windowsHide: true };
    (0, import_node_child_process.execFile)(program2, [...first, "-c", LOOK], options, (error, stdout, stderr) => {
      try {
        const said = JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
        const lacks = isOlder(said.python, OLDEST_PYTHON) ? [`Python ${OLDEST_PYTHON} (it is ${said.python})`, ...said.lacks] : said.lacks;
        resolve({ candidate, python: said.python, ...said.distir ? { distir: said.distir } : {}, lacks });
      } catch {
        resolve({ candidate, lacks: [], why: whyNot(error, stderr) });
      }
    });
  });
}
function environment() {
  return { ...process.env, PYTHONSAFEPATH: "1", PYTHONUTF8: "1" };
}
function isOlder(version, than) {
  const [left, right] = [numbers(version), numbers(than)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}
function describe({ candidate, python, distir, lacks, why }) {
  const command = `\`${candidate.argv.join(" ")}\` (${candidate.from})`;
  if (why !== void 0) return `${command}: ${why}`;
  const has = distir === void 0 ? `Python ${python ?? "?"} without DistIR` : `DistIR ${distir}`;
  return lacks.length > 0 && distir !== void 0 ? `${command}: ${has}, but no ${lacks.join(", no ")}` : `${command}: ${has}`;
}
var LOOK = `
import json, sys
try:
    import distir
    version = distir.__version__
except Exception:
    version = None
lacks = []
try:
    from importlib.util import find_spec
    lacks = [name for name in ("distir_lsp", "pygls") if find_spec(name) is None]
except ImportError:
    pass
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "distir": version, "lacks": lacks}))
`;
function onPath({ env, platform }) {
  const names = platform === "win32" ? ["python.exe", "python3.exe"] : ["python3", "python"];
  const entries = (env.PATH ?? env.Path ?? "").split(import_node_path.delimiter).filter((entry) => (0, import_node_path.isAbsolute)(entry));
  const found = [];
  for (const name of names) {
    const entry = entries.find((folder2) => (0, import_node_fs.existsSync)((0, import_node_path.join)(folder2, name)));
    if (entry !== void 0) found.push({ argv: [(0, import_node_path.join)(entry, name)], from: "PATH" });
  }
  return found;
}
function substituted(word, { folders, env }) {
  return word.replace(/\$\{workspaceFolder\}/g, () => folders[0] ?? "").replace(/\$\{userHome\}|^~(?=$|[\\/])/g, () => (0, import_node_os.homedir)()).replace(/\$\{env:(\w+)\}/g, (_, name) => env[name] ?? "");
}
function numbers(version) {
  return (/^\d+(\.\d+)*/.exec(version.trim())?.[0] ?? "0").split(".").map(Number);
}
function whyNot(error, stderr) {
  if (error?.code === "ENOENT") return "there is no such program";
  if (error?.code === "EACCES") return "it may not be run";
  if (error?.killed) return "it does not answer";
  const last = stderr.trim().split("\n").at(-1);
  return last ? `it fails: ${last}` : "it is no Python";
}

// tests/unit/interpreters.test.ts
var folder = (0, import_node_fs2.mkdtempSync)((0, import_node_path2.join)((0, import_node_os2.tmpdir)(), "distir path with sp\xE4ces-"));
(0, import_node_test.after)(() => (0, import_node_fs2.rmSync)(folder, { recursive: true, force: true }));
function program(path, text) {
  (0, import_node_fs2.mkdirSync)((0, import_node_path2.join)(path, ".."), { recursive: true });
  (0, import_node_fs2.writeFileSync)(path, `#!/bin/sh
${text}
`);
  (0, import_node_fs2.chmodSync)(path, 493);
  return path;
}
var venv = program((0, import_node_path2.join)(folder, ".venv/bin/python"), "");
var onPath2 = program((0, import_node_path2.join)(folder, "bin/python3"), "");
var around = { setting: [], pythonExtension: void 0, folders: [folder], isTrusted: true, env: { PATH: ["relative", (0, import_node_path2.join)(folder, "bin")].join(import_node_path2.delimiter) }, platform: "linux" };
var commands = (found) => found.map(({ argv }) => argv.join(" "));
(0, import_node_test.test)("the setting is the only candidate, with its variables replaced", () => {
  const setting = ["${workspaceFolder}/.venv/bin/python", "-X", "${env:MODE}", "~/x"];
  const found = candidates({ ...around, setting, env: { MODE: "dev" } });
  import_strict.default.deepEqual(found[0]?.argv, [venv, "-X", "dev", `${(0, import_node_os2.homedir)()}/x`]);
  import_strict.default.equal(found.length, 1);
});
(0, import_node_test.test)("else the Python extension's, the workspace's, that on PATH, each once", () => {
  import_strict.default.deepEqual(commands(candidates({ ...around, pythonExtension: "/chosen/python" })), ["/chosen/python", venv, onPath2]);
  import_strict.default.deepEqual(commands(candidates({ ...around, pythonExtension: venv })), [venv, onPath2]);
});
(0, import_node_test.test)("nothing of a workspace that is not trusted is run, and no relative entry of PATH", () => {
  program((0, import_node_path2.join)(folder, "relative/python3"), "");
  import_strict.default.deepEqual(commands(candidates({ ...around, pythonExtension: venv, isTrusted: false })), [onPath2]);
});
(0, import_node_test.test)("versions are compared by their numbers", () => {
  for (const [left, right] of [["0.1.0", "0.1.1"], ["0.9", "0.10"], ["1.0rc1", "1.0.1"], ["3.9.18", "3.11"]]) {
    import_strict.default.ok(isOlder(left, right), `${left} < ${right}`);
    import_strict.default.ok(!isOlder(right, left), `${right} >= ${left}`);
  }
  import_strict.default.ok(!isOlder("1.0", "1.0.0"));
});
(0, import_node_test.test)("what does not run, is no Python or hangs is told apart, and never rejects", async () => {
  const why = async (argv, ms) => (await probe({ argv, from: "here" }, ms)).why ?? "";
  import_strict.default.equal(await why([]), "the command is empty");
  import_strict.default.equal(await why([(0, import_node_path2.join)(folder, "absent")]), "there is no such program");
  import_strict.default.equal(await why([program((0, import_node_path2.join)(folder, "echo"), "echo hello")]), "it is no Python");
  import_strict.default.equal(await why([program((0, import_node_path2.join)(folder, "broken"), "echo 'bad interpreter' >&2; exit 3")]), "it fails: bad interpreter");
  import_strict.default.equal(await why([program((0, import_node_path2.join)(folder, "slow"), "exec sleep 5")], 200), "it does not answer");
});
(0, import_node_test.test)("the first candidate whose server is new enough is taken; else one that is too old is named", async () => {
  const have = {
    bare: { python: "3.12.1", lacks: ["distir_lsp", "pygls"] },
    old: { python: "3.12.1", distir: "0.0.9", lacks: [] },
    partial: { python: "3.12.1", distir: "0.1.0", lacks: ["pygls"] },
    good: { python: "3.11.7", distir: "0.2.0", lacks: [] }
  };
  const ask = (candidate) => Promise.resolve({ candidate, ...have[candidate.argv[0] ?? ""] });
  const of = (...names) => choose(names.map((name) => ({ argv: [name], from: "here" })), ask);
  const found = await of("bare", "old", "partial", "good");
  import_strict.default.ok(found.kind === "found" && found.server.candidate.argv[0] === "good");
  const old = await of("bare", "old");
  import_strict.default.ok(old.kind === "old" && old.server.distir === "0.0.9");
  const none = await of("bare", "partial");
  import_strict.default.ok(none.kind === "none");
  import_strict.default.deepEqual(none.tried.map(describe), ["`bare` (here): Python 3.12.1 without DistIR", "`partial` (here): DistIR 0.1.0, but no pygls"]);
});
