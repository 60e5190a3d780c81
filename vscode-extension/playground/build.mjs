// Builds the site: `node build.mjs OUT COMPILED WHEEL...`, the wheels being DistIR's and those that it needs, of pure
// Python; COMPILED is the folder of those that are not (packages.mjs).
//
// Python is started here twice: to compile all modules, and to import them and have a session; a snapshot of the second
// one's memory is what the worker starts from. What the first one leaves in its memory is not in it. Nothing in the site
// is fetched from anywhere else. `server/` is what the worker needs: VS Code for the Web runs the same.

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { loadPyodide } from "pyodide";
import { packagesIn } from "./packages.mjs";
import { packed, place } from "./src/files.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const [out, compiled, ...wheels] = process.argv.slice(2);
if (out === undefined || wheels.length === 0) {
  console.error("expected: node build.mjs OUT COMPILED WHEEL...");
  process.exit(2);
}

/** The programs to begin with, simplest first: those of `examples` that need no numpy. */
const EXAMPLES = [
  "mlp_sequential", "mlp_data_parallel", "mlp_pipeline", "mlp_pipeline_swapped", "mlp_zero", "mlp_checkpointing",
  "mixture_of_experts", "strategies/mlp_training", "strategies/mlp_pp_1f1b", "strategies/mlp_pp_zb_h1",
  "strategies/mlp_dtp", "strategies/mlp_zero3",
];

/** So many of them are the rehearsal's: larger ones would leave a larger memory, which each start has to copy. */
const REHEARSED = 8;

const server = join(out, "server");
rmSync(out, { recursive: true, force: true });
mkdirSync(join(server, "pyodide"), { recursive: true });

// The page, the editor's worker, and ours.
const shared = { absWorkingDir: here, bundle: true, minify: true, target: ["es2022"] };
await build({
  ...shared,
  entryPoints: { main: "src/main.ts", server: "src/server.ts" },
  splitting: true, // the server is started while the editor is still being read
  outdir: out,
  format: "esm",
  legalComments: "linked",
  loader: { ".ttf": "file", ".wasm": "file" },
  alias: {
    monaco: join(here, "node_modules/monaco-editor/esm/vs/editor/editor.api.js"),
    "lsp-client": join(here, "node_modules/monaco-editor/esm/external/monaco-lsp-client/out/index.js"),
  },
});
await build({
  ...shared,
  entryPoints: { timeline: "src/timeline.ts", editor: "node_modules/monaco-editor/esm/vs/editor/editor.worker.js" },
  outdir: out,
  format: "esm",
  legalComments: "linked",
});
await build({ ...shared, entryPoints: ["src/worker.ts"], outdir: server, format: "iife" }); // VS Code's workers are scripts
for (const name of ["index.html", "timeline.html", "style.css"]) cpSync(join(here, "src", name), join(out, name));
for (const name of ["timeline.js", "timeline.css"]) cpSync(join(root, "distir/simulate/page", name), join(out, `view.${name.slice(9)}`));
cpSync(join(here, "../images/icon.png"), join(out, "icon.png"));
cpSync(join(here, "node_modules/vscode-oniguruma/release/onig.wasm"), join(out, "onig.wasm"));
const syntax = JSON.parse(readFileSync(join(here, "../syntaxes/distir.tmLanguage.json"), "utf8"));
writeFileSync(join(out, "grammar.json"), JSON.stringify(syntax));
const examples = EXAMPLES.map((name) => ({ name: `${basename(name)}.dir`, text: readFileSync(join(root, "examples", `${name}.dir`), "utf8") }));
writeFileSync(join(out, "examples.json"), JSON.stringify(examples));

// Python.
const from = join(here, "node_modules/pyodide");
for (const name of ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip"]) cpSync(join(from, name), join(server, "pyodide", name));
const compiler = await loadPyodide();
const modules = compiledOf(wheels);
const packages = packagesIn(compiled);
for (const [name, file] of Object.entries(packages)) {
  packages[name] = `${name}.files.gz`;
  writeFileSync(join(server, packages[name]), gzipSync(packed(compiledOf([join(compiled, file)]))));
}
writeFileSync(join(server, "packages.json"), JSON.stringify(packages));
const python = await loadPyodide({ _makeSnapshot: true });
place(packed(modules), python.FS, "/site");
python.FS.writeFile("/programs.json", JSON.stringify(examples.slice(0, REHEARSED).map(({ text }) => text)));
const missing = await python.runPythonAsync(`
import gc, json, sys
from pathlib import Path
sys.path.insert(0, "/site")
from distir_lsp.in_browser import rehearse
missing = await rehearse(json.loads(Path("/programs.json").read_text()))
gc.collect()
", ".join(missing)
`);
const imported = new Set(python.runPython(`[getattr(module, "__file__", None) for module in sys.modules.values()]`).toJs());
writeFileSync(join(server, "python.files.gz"), gzipSync(packed(modules.filter(([name]) => !imported.has(`/site/${name}`)))));
writeFileSync(join(server, "python.snapshot.gz"), gzipSync(python.makeMemorySnapshot(), { level: 6 }));
if (!("numpy" in packages)) console.log("without numpy, which could not be had: programs cannot be run, nor those be analysed that compute with tensors of the host");
if (missing) console.log(`without these modules, which need packages that browsers lack: ${missing}`);

// The service worker, which keeps all of it by a digest of the contents.
const files = list(out).sort();
const digest = createHash("sha256");
for (const name of files) digest.update(name).update(readFileSync(join(out, name)));
await build({
  ...shared,
  entryPoints: ["src/sw.ts"],
  outdir: out,
  format: "iife",
  define: { VERSION: JSON.stringify(digest.digest("hex").slice(0, 16)), FILES: JSON.stringify(files) },
});
const total = files.reduce((sum, name) => sum + statSync(join(out, name)).size, 0);
console.log(`${relative(process.cwd(), out)}: ${files.length} files, ${(total / 1e6).toFixed(1)} MB`);

/** The names and contents of the files of wheels, their modules compiled, so that no import compiles anything in a browser. */
function compiledOf(archives) {
  compiler.runPython(`
import shutil
shutil.rmtree("/site", ignore_errors=True)`);
  for (const archive of archives) compiler.unpackArchive(new Uint8Array(readFileSync(archive)), "zip", { extractDir: "/site" });
  const found = compiler.runPython(`
import compileall, py_compile
from pathlib import Path
compileall.compile_dir("/site", quiet=1, legacy=True, stripdir="/site", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
[str(path.relative_to("/site")) for path in sorted(Path("/site").rglob("*")) if path.is_file() and path.suffix != ".py" and path.name != "RECORD"]
`);
  return found.toJs().map((name) => [name, compiler.FS.readFile(`/site/${name}`)]);
}

function list(folder, under = "") {
  return readdirSync(join(folder, under), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? list(folder, join(under, entry.name)) : [join(under, entry.name)],
  );
}
