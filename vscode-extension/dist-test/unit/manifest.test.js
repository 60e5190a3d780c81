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

// tests/unit/manifest.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_fs = require("node:fs");
var import_node_test = require("node:test");
var read = (name) => (0, import_node_fs.readFileSync)(name, "utf8");
var manifest = JSON.parse(read("package.json"));
var palette = JSON.parse(read("palette.json"));
var readme = read("README.md").replace(/\s+/g, " ");
var { contributes } = manifest;
(0, import_node_test.test)("each setting and each command stands in the README", () => {
  for (const name of Object.keys(contributes.configuration.properties)) import_strict.default.ok(readme.includes(`\`${name}\``), name);
  for (const { title } of contributes.commands) import_strict.default.ok(readme.includes(`DistIR: ${title.replace("\u2026", "")}`), title);
});
(0, import_node_test.test)("pictures that the README and the walkthrough name are there", () => {
  const steps = contributes.walkthroughs[0].steps;
  const files = [...readme.matchAll(/\]\((images\/[^)]+)\)/g)].map((match) => match[1]);
  for (const file of [...files, manifest.icon, ...steps.map(({ media }) => media.image ?? media.markdown)]) import_strict.default.ok(read(file).length > 0, file);
  for (const match of readme.matchAll(/!\[(.*?)\]/g)) import_strict.default.ok(match[1].length > 10, "a picture needs a description");
});
(0, import_node_test.test)("devices have the palette's colours, in text and timeline, and each can be read on its background", () => {
  const rules = contributes.configurationDefaults["editor.semanticTokenColorCustomizations"];
  const grounds = {
    dark: ["#1f1f1f", rules["[*Dark*]"].rules, "dark"],
    light: ["#ffffff", rules["[*Light*]"].rules, "light"],
    highContrastDark: ["#000000", rules["[*High Contrast*]"].rules, "highContrast"],
    highContrastLight: ["#ffffff", rules["[*High Contrast Light*]"].rules, "highContrastLight"]
  };
  for (const [name, [ground, themed, key]] of Object.entries(grounds)) {
    const needed = name.startsWith("highContrast") ? 7 : 4.5;
    palette[name]?.forEach((colour, device) => {
      import_strict.default.ok(contrast(colour, ground) >= needed, `${name} ${device}: ${contrast(colour, ground)}`);
      import_strict.default.equal(themed[`*.device${device}:distir`], colour);
      import_strict.default.equal(contributes.colors[device].defaults[key], colour);
    });
    import_strict.default.equal(new Set(palette[name]).size, 16);
  }
  for (const colour of palette.any ?? []) for (const ground of ["#ffffff", "#1f1f1f"]) import_strict.default.ok(contrast(colour, ground) >= 3);
});
(0, import_node_test.test)("lock files name no registry's host", () => {
  for (const file of ["package-lock.json", "e2e/package-lock.json"]) import_strict.default.ok(!/"resolved": "https?:/.test(read(file)), file);
});
function contrast(left, right) {
  const [high, low] = [luminance(left), luminance(right)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
