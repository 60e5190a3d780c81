// Bundles the extension into dist/, with the timeline and the pages' scripts; --tests: what the tests run, into dist-test/.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { build, context } from "esbuild";

const shared = { bundle: true, platform: "node", format: "cjs", target: "node20", external: ["vscode"], logLevel: "warning" };
const page = "../distir/simulate/page";

if (process.argv.includes("--tests")) {
  rmSync("dist-test", { recursive: true, force: true });
  const named = (folder) => readdirSync(folder).filter((name) => name.endsWith(".test.ts")).map((name) => `${folder}/${name}`);
  await build({ ...shared, entryPoints: named("tests/unit"), outdir: "dist-test/unit" });
  await build({ ...shared, entryPoints: ["tests/host/index.ts"], outdir: "dist-test/host" });
} else {
  rmSync("dist", { recursive: true, force: true });
  mkdirSync("dist");
  cpSync("media", "dist/media", { recursive: true });
  cpSync("../examples/mlp_pipeline.dir", "dist/example.dir");
  writeFileSync("dist/README.md", selfContained(readFileSync("README.md", "utf8")));
  for (const name of ["timeline.js", "timeline.css"]) {
    if (existsSync(`${page}/${name}`)) cpSync(`${page}/${name}`, `dist/${name}`);
    else console.warn(`${page}/${name} is missing: build the timeline first (timeline/README.md)`);
  }
  const options = { ...shared, entryPoints: ["src/desktop.ts"], outfile: "dist/extension.js", minify: true };
  await build({ ...options, platform: "browser", target: "es2022", entryPoints: ["src/browser.ts"], outfile: "dist/browser/extension.js" });
  // In the package for browsers: the server, as the playground has it (make playground).
  const server = process.env.DISTIR_BROWSER_SERVER;
  if (server !== undefined) cpSync(server, "dist/browser/server", { recursive: true });
  if (process.argv.includes("--watch")) await (await context({ ...options, sourcemap: true, minify: false })).watch();
  else await build(options);
}

/** The README for the Extensions view, which loads no files of the package: pictures are in it, links to files are words. */
function selfContained(text) {
  const pictured = text.replace(/!\[([^\]]*)\]\((images\/[\w-]+\.png)\)/g, (_, words, path) => `![${words}](data:image/png;base64,${readFileSync(path, "base64")})`);
  return pictured.replace(/(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]+\)/g, "$1");
}
