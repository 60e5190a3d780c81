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

// tests/unit/forms.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_test = require("node:test");

// src/commands/options.ts
var whole = (value) => /^[1-9]\d*$/.test(value) ? void 0 : "expected a number from 1";
var list = (value) => /^(\d+(\s*,\s*\d+)*)?$/.test(value.trim()) ? void 0 : "expected numbers with commas between them";
function options(devices, before = {}) {
  const fields = [
    { name: "devices", label: "Devices", detail: "How many; data, tensor and pipeline parallelism multiply to it.", value: String(devices), check: whole },
    { name: "batch-size", label: "Batch sizes", detail: "As in 128,256; they bind the batch dimension. Empty where the program says its size.", value: "", check: list },
    { name: "microbatches", label: "Microbatches", detail: "Numbers to try; empty: 2,4,\u2026,128.", value: "", check: list },
    { name: "schedule", label: "Schedules", detail: "Of pipelines, with commas between them.", value: "1f1b" },
    { name: "zero", label: "ZeRO stages", detail: "Of 0 to 3, with commas between them.", value: "0", check: list },
    { name: "checkpoint", label: "Checkpointing", detail: "Whether activations are recomputed.", value: "off", choices: ["off", "on", "both"] },
    { name: "method", label: "Method", detail: "All; all but what cannot be best; or from there on to unequal stages.", value: "grid", choices: ["grid", "bounded", "anneal"] }
  ];
  return fields.map((field) => ({ ...field, value: before[field.name] ?? field.value }));
}
function wordsOf(values) {
  return Object.entries(values).flatMap(([name, value]) => value.trim() === "" ? [] : [`--${name}`, value.replace(/\s+/g, "")]);
}

// src/commands/steps.ts
var USUAL = ["grad", "checkpoint", "dp", "tp", "pp", "zero", "reschedule"];
var WORDS = {
  schedule: ["1f1b", "gpipe", "interleaved", "zb-h1"],
  optimizer: ["sgd", "momentum", "adam", "none"],
  loss: ["auto", "mse", "cross_entropy", "none"],
  reduction: ["mean", "sum"],
  partition: ["owner", "split"]
};
function fieldsOf(steps, wanted = USUAL) {
  return wanted.map((name) => steps.find((step) => step.name === name)).filter((step) => step !== void 0).flatMap((step) => [stepField(step), ...step.options.map((option) => optionField(step, option))]);
}
function wordsOf2(fields) {
  const words = [];
  let isApplied = false;
  for (const { name, value } of fields) {
    const [step, option] = name.split(" ");
    if (option === void 0) {
      isApplied = isSet(value);
      if (isApplied) words.push(value === "yes" || value === "on" ? step : `${step}=${value}`);
    } else if (isApplied && value !== "") {
      words.push(`${option}=${value}`);
    }
  }
  return words;
}
function isSet(value) {
  return value !== "" && value !== "no" && value !== "off";
}
function stepField(step) {
  const detail = step.documentation.split("\n")[0] ?? "";
  const base = { name: step.name, label: step.name, detail, value: "" };
  if (step.value === null) return { ...base, choices: ["yes", "no"] };
  return step.value.required ? base : { ...base, detail: `${detail} ${step.value.kind === "str" ? "`on`, or a word" : "`on`, or a value"}.` };
}
function optionField(step, option) {
  const choices = option.kind === "bool" ? ["true", "false"] : WORDS[option.name];
  const detail = option.required ? `of \`${step.name}\`` : `of \`${step.name}\`; ${option.default || "none"} if left out`;
  return { name: `${step.name} ${option.name}`, label: `    ${option.name}`, detail, value: "", partOf: step.name, ...choices ? { choices } : {} };
}

// tests/unit/forms.test.ts
var int = (name, required = false, value = "1") => ({ name, kind: "int", required, default: required ? "" : value });
var STEPS = [
  { name: "pp", documentation: "Pipelines.\n\nMore.", value: int("value", true), options: [int("microbatches"), { name: "schedule", kind: "str", required: false, default: "1f1b" }] },
  { name: "dp", documentation: "Replicas.", value: int("value", true), options: [] },
  { name: "grad", documentation: "Gradients.", value: null, options: [{ name: "optimizer", kind: "str", required: false, default: "sgd" }] },
  { name: "cse", documentation: "Once.", value: null, options: [] }
];
(0, import_node_test.test)("fields come in the order in which steps are applied, with the server's documentation", () => {
  const fields = fieldsOf(STEPS);
  import_strict.default.deepEqual(fields.map((field) => field.name), ["grad", "grad optimizer", "dp", "pp", "pp microbatches", "pp schedule"]);
  import_strict.default.equal(fields.find((field) => field.name === "pp")?.detail, "Pipelines.");
  import_strict.default.deepEqual(fields.find((field) => field.name === "grad")?.choices, ["yes", "no"]);
});
(0, import_node_test.test)("words are those of `distir transform`; options of steps that are not applied are left out", () => {
  const filled = (values) => fieldsOf(STEPS).map((field) => ({ ...field, value: values[field.name] ?? "" }));
  import_strict.default.deepEqual(wordsOf2(filled({ grad: "yes", dp: "2", pp: "4", "pp microbatches": "8" })), ["grad", "dp=2", "pp=4", "microbatches=8"]);
  import_strict.default.deepEqual(wordsOf2(filled({ grad: "no", "grad optimizer": "adam", "pp schedule": "gpipe" })), []);
});
(0, import_node_test.test)("a search's words leave out what is empty, and numbers are checked as they are typed", () => {
  const fields = options(8, { method: "bounded" });
  const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  import_strict.default.deepEqual(wordsOf({ ...values, "batch-size": "64, 128" }).join(" "), "--devices 8 --batch-size 64,128 --schedule 1f1b --zero 0 --checkpoint off --method bounded");
  const check = (name, value) => fields.find((field) => field.name === name)?.check?.(value);
  import_strict.default.match(check("devices", "0") ?? "", /expected a number/);
  import_strict.default.match(check("batch-size", "64;rm") ?? "", /expected numbers/);
  import_strict.default.equal(check("batch-size", ""), void 0);
});
