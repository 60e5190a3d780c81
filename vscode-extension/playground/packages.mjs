// Packages of compiled code for Pyodide, which are fetched by the page when a program first needs them.
//
// `node packages.mjs fetch FOLDER` gets those that are missing there from Pyodide's distribution; it ends with 1 if numpy
// is still missing.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadPyodide } from "pyodide";

const LOCK = JSON.parse(readFileSync(join(dirname(fileURLToPath(import.meta.url)), "node_modules/pyodide/pyodide-lock.json"), "utf8"));

/** By the name that is imported, the name in the lock file. numpy has none for BFloat16 and 8-bit floats. */
const WANTED = { numpy: "numpy", ml_dtypes: "ml-dtypes" };

/** By the name that is imported, the files in a folder that are the ones that Pyodide's lock file names. */
export function packagesIn(folder) {
  const found = {};
  for (const [imported, name] of Object.entries(WANTED)) {
    const { file_name: file, sha256 } = LOCK.packages[name];
    if (!existsSync(join(folder, file))) continue;
    const digest = createHash("sha256").update(readFileSync(join(folder, file))).digest("hex");
    if (digest !== sha256) throw new Error(`${join(folder, file)}: expected the SHA-256 digest ${sha256}, found ${digest}; remove the file`);
    found[imported] = file;
  }
  return found;
}

const [command, folder] = process.argv.slice(2);
if (command === "fetch") {
  const missing = Object.keys(WANTED).filter((name) => !(name in packagesIn(folder)));
  if (missing.length > 0) {
    const python = await loadPyodide({ packageCacheDir: folder });
    const silent = { messageCallback: () => undefined, errorCallback: () => undefined };
    await python.loadPackage(missing.map((name) => WANTED[name]), silent).catch(() => undefined); // there is no network
  }
  process.exit("numpy" in packagesIn(folder) ? 0 : 1);
}
