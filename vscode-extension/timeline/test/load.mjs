// The view's modules for tests: built from the sources as they are, since they are TypeScript.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

/** One object with all that these modules of `src` export. */
export async function load(...names) {
  const contents = names.map((name) => `export * from "./${name}";`).join("\n");
  const built = await build({
    stdin: { contents, resolveDir: join(here, "../src"), loader: "ts" },
    bundle: true,
    format: "esm",
    write: false,
  });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].text).toString("base64")}`);
}
