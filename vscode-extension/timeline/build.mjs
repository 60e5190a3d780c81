// Builds the one script and the one style sheet, into the Python package. The first line of the script holds a digest
// of all that it is built from, by which a test tells whether it is stale.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../../distir/simulate/page");

/** All that the bundle is built from, in the order of their paths. The lock names the versions of what is bundled. */
export function sources() {
  const own = readdirSync(join(here, "src")).map((name) => `src/${name}`);
  return [...own, "LICENSES.txt", "build.mjs", "package-lock.json", "../palette.json", "../src/figures.ts"].sort();
}

/** SHA-256 of the paths and contents of the sources; line ends do not count. */
export function digest() {
  const hash = createHash("sha256");
  for (const name of sources()) hash.update(`${name}\n${readFileSync(join(here, name), "utf8").replaceAll("\r\n", "\n")}\n`);
  return hash.digest("hex");
}

/** The bundle, as texts: `js` and `css`. */
export async function bundle() {
  const built = await build({
    absWorkingDir: here,
    entryPoints: ["src/main.ts"],
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    write: false,
    outdir: "out",
  });
  const text = (end) => built.outputFiles.find((file) => file.path.endsWith(end)).text;
  const licences = readFileSync(join(here, "LICENSES.txt"), "utf8").replaceAll("*/", "* /");
  return { js: `// sources ${digest()}\n/*!\n${licences}*/\n${text(".js")}`, css: text(".css") };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { js, css } = await bundle();
  writeFileSync(join(out, "timeline.js"), js);
  writeFileSync(join(out, "timeline.css"), css);
  console.log(`timeline.js ${js.length} characters, timeline.css ${css.length}`);
}
