import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { test } from "node:test";

const read = (name: string): string => readFileSync(name, "utf8");
const manifest = JSON.parse(read("package.json"));
const palette: Record<string, string[]> = JSON.parse(read("palette.json"));
/** Which of its colours the axes of a mesh have: orange and blue first, which most eyes tell apart. */
const AXES = [0, 2, 1, 9, 7, 11, 3, 12];
const readme = read("README.md").replace(/\s+/g, " ");
const { contributes } = manifest;

test("each setting and each command stands in the README", () => {
  for (const name of Object.keys(contributes.configuration.properties)) assert.ok(readme.includes(`\`${name}\``), name);
  for (const { title } of contributes.commands) assert.ok(readme.includes(`DistIR: ${title.replace("…", "")}`), title);
});

test("pictures that the README and the walkthrough name are there", () => {
  const steps = contributes.walkthroughs[0].steps as { media: Record<string, string> }[];
  const files = [...readme.matchAll(/\]\((images\/[^)]+)\)/g)].map((match) => match[1] as string);
  for (const file of [...files, manifest.icon, ...steps.map(({ media }) => media.image ?? media.markdown)]) assert.ok(read(file as string).length > 0, file);
  for (const match of readme.matchAll(/!\[(.*?)\]/g)) assert.ok((match[1] as string).length > 10, "a picture needs a description");
});

test("each picture, of the walkthrough and the project's README too, is taken by a test", () => {
  const taken = ["main", "trouble"].flatMap((name) => [...read(`e2e/${name}.test.mjs`).matchAll(/\.picture\("(\w+)"\)/g)].map((match) => `${match[1]}.png`));
  const shown = [...readme.matchAll(/\]\(images\/([^)]+\.png)\)/g), ...read("../README.md").matchAll(/\]\(vscode-extension\/images\/([^)]+)\)/g)];
  const steps = contributes.walkthroughs[0].steps as { media: Record<string, string> }[];
  const files = [...shown.map(([, file]) => file), ...steps.flatMap(({ media }) => media.image?.replace("images/", "") ?? [])] as string[];
  assert.ok(files.length > 5);
  for (const file of files) assert.ok(taken.includes(file), file);
  for (const file of taken) assert.ok(files.includes(file), `nobody shows ${file}`);
  for (const file of taken) assert.ok(read(`images/${file}`).length > 0, file);
});

test("each setting is changed by a test that looks for its effect", () => {
  const tests = ["tests/host/index.ts", "e2e/main.test.mjs", "e2e/trouble.test.mjs"].map(read).join("\n");
  for (const name of Object.keys(contributes.configuration.properties)) {
    const short = name.replace("distir.", "");
    const isThere = tests.includes(`"${short}"`) || (short.startsWith("hints.") && tests.includes(`${short.slice(6)}: `));
    assert.ok(isThere, name);
  }
});

test("devices have the palette's colours, in text and timeline, and each can be read on its background", () => {
  const rules = contributes.configurationDefaults["editor.semanticTokenColorCustomizations"];
  const grounds: Record<string, [string, object, string]> = {
    dark: ["#1f1f1f", rules["[*Dark*]"].rules, "dark"],
    light: ["#ffffff", rules["[*Light*]"].rules, "light"],
    highContrastDark: ["#000000", rules["[*High Contrast*]"].rules, "highContrast"],
    highContrastLight: ["#ffffff", rules["[*High Contrast Light*]"].rules, "highContrastLight"],
  };
  for (const [name, [ground, themed, key]] of Object.entries(grounds)) {
    const needed = name.startsWith("highContrast") ? 7 : 4.5;
    palette[name]?.forEach((colour, device) => {
      assert.ok(contrast(colour, ground) >= needed, `${name} ${device}: ${contrast(colour, ground)}`);
      assert.equal((themed as Record<string, string>)[`*.device${device}:distir`], colour);
      assert.equal(contributes.colors[device].defaults[key], colour);
    });
    AXES.forEach((index, axis) => assert.equal((themed as Record<string, string>)[`*.axis${axis}:distir`], palette[name]?.[index]));
    assert.equal(new Set(palette[name]).size, 16);
  }
  for (const colour of palette.any ?? []) for (const ground of ["#ffffff", "#1f1f1f"]) assert.ok(contrast(colour, ground) >= 3);
});

test("scripts that the documentation names are there; all tests run the package and the workbench's by them", () => {
  for (const page of ["README.md", "timeline/README.md", "../docs/editors.md", "test.sh"]) {
    const { scripts } = page.startsWith("timeline") ? JSON.parse(read("timeline/package.json")) : manifest;
    for (const [, name] of read(page).matchAll(/npm run (?:--silent )?([\w:]+)/g)) assert.ok(scripts[name as string] ?? name === "test", `${page}: ${name}`);
  }
  for (const name of ["package", "test:workbench"]) assert.match(read("test.sh"), new RegExp(`npm run --silent ${name}\\b`));
});

test("the package builds what it holds; its README, which the editor shows by itself, has its pictures in it", () => {
  rmSync("dist", { recursive: true, force: true });
  execFileSync("npm", ["run", "--silent", "package"], { stdio: ["ignore", "ignore", "inherit"] });
  assert.ok(existsSync("dist/extension.js") && existsSync("dist/timeline.js"));
  const text = read("dist/README.md");
  const links = [...text.matchAll(/\]\(([^)\s]{1,40})/g)].map(([, link]) => link as string);
  assert.ok(links.length > 0 && links.every((link) => /^(data:image\/png;base64,|https:|#)/.test(link)), links.join(" "));
  assert.ok(links.filter((link) => link.startsWith("data:")).length <= 3);
});

test("lock files name no registry's host", () => {
  for (const file of ["package-lock.json", "e2e/package-lock.json"]) assert.ok(!/"resolved": "https?:/.test(read(file)), file);
});

function contrast(left: string, right: string): number {
  const [high, low] = [luminance(left), luminance(right)].sort((a, b) => b - a) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
