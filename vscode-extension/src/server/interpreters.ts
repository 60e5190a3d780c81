// Where a Python with the server may be, and whether one has it. Knows nothing of the editor.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";

import { type Candidate, type Choice, OLDEST_PYTHON, OLDEST_SERVER, type Probed, isOlder } from "./found";

/** What tells candidates apart from each other, and what they are looked for in. */
export interface Surroundings {
  readonly setting: readonly string[];
  readonly pythonExtension: string | undefined;
  readonly folders: readonly string[];
  readonly isTrusted: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
}

/**
 * Candidates in the order in which they are tried. A setting is the only one: who names an interpreter wants no other.
 * In a workspace that is not trusted nothing that it contains is run, and no relative entry of PATH.
 */
export function candidates(around: Surroundings): Candidate[] {
  if (around.setting.length > 0) {
    const argv = around.setting.map((word) => substituted(word, around));
    return [{ argv, from: "the setting `distir.interpreter`" }];
  }
  const found: Candidate[] = [];
  if (around.isTrusted) {
    if (around.pythonExtension) found.push({ argv: [around.pythonExtension], from: "the Python extension" });
    for (const folder of around.folders) {
      for (const name of [".venv", "venv"]) {
        const python = inEnvironment(join(folder, name), around.platform);
        if (existsSync(python)) found.push({ argv: [python], from: `\`${name}\` in the workspace` });
      }
    }
  }
  found.push(...onPath(around));
  const seen = new Set<string>();
  return found.filter(({ argv }) => !seen.has(argv.join("\0")) && seen.add(argv.join("\0")));
}

/** The Python of a virtual environment. */
export function inEnvironment(folder: string, platform: NodeJS.Platform): string {
  return platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

/** The first candidate whose server is new enough; else the first that has one; else what was tried. */
export async function choose(found: readonly Candidate[], ask: typeof probe = probe): Promise<Choice> {
  const tried: Probed[] = [];
  for (const candidate of found) {
    const probed = await ask(candidate);
    if (probed.distir !== undefined && probed.lacks.length === 0 && !isOlder(probed.distir, OLDEST_SERVER)) {
      return { kind: "found", server: probed };
    }
    tried.push(probed);
  }
  const old = tried.find((p) => p.distir !== undefined && isOlder(p.distir, OLDEST_SERVER));
  return old ? { kind: "old", server: old } : { kind: "none", tried };
}

/** Run a candidate and look what it has. Never rejects. */
export function probe(candidate: Candidate, timeoutMs = 20_000): Promise<Probed> {
  const [program, ...first] = candidate.argv;
  if (!program) return Promise.resolve({ candidate, lacks: [], why: "the command is empty" });
  return new Promise((resolve) => {
    const options = { timeout: timeoutMs, cwd: homedir(), env: environment(), windowsHide: true };
    execFile(program, [...first, "-c", LOOK], options, (error, stdout, stderr) => {
      try {
        const said = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { python: string; distir: string | null; lacks: string[] };
        const lacks = isOlder(said.python, OLDEST_PYTHON) ? [`Python ${OLDEST_PYTHON} (it is ${said.python})`, ...said.lacks] : said.lacks;
        resolve({ candidate, python: said.python, ...(said.distir ? { distir: said.distir } : {}), lacks });
      } catch {
        resolve({ candidate, lacks: [], why: whyNot(error, stderr) });
      }
    });
  });
}

/** The environment of every Python that is run: the folder it runs in is not searched for modules. */
export function environment(): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONSAFEPATH: "1", PYTHONUTF8: "1" };
}

// Runs in any Python from 2.7 on, and imports nothing that takes long.
const LOOK = `
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

function onPath({ env, platform }: Surroundings): Candidate[] {
  const names = platform === "win32" ? ["python.exe", "python3.exe"] : ["python3", "python"];
  const entries = (env.PATH ?? env.Path ?? "").split(delimiter).filter((entry) => isAbsolute(entry));
  const found: Candidate[] = [];
  for (const name of names) {
    const entry = entries.find((folder) => existsSync(join(folder, name)));
    if (entry !== undefined) found.push({ argv: [join(entry, name)], from: "PATH" });
  }
  return found;
}

function substituted(word: string, { folders, env }: Surroundings): string {
  return word
    .replace(/\$\{workspaceFolder\}/g, () => folders[0] ?? "")
    .replace(/\$\{userHome\}|^~(?=$|[\\/])/g, () => homedir())
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => env[name] ?? "");
}

function whyNot(error: (Error & { code?: unknown; killed?: boolean }) | null, stderr: string): string {
  if (error?.code === "ENOENT") return "there is no such program";
  if (error?.code === "EACCES") return "permission denied";
  if (error?.killed) return "it does not respond";
  const last = stderr.trim().split("\n").at(-1);
  return last ? `it fails: ${last}` : "it is not a Python interpreter";
}
