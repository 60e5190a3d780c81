import assert from "node:assert/strict";
import { test } from "node:test";

import { inWords, options, progressIn, wordsOf as searchWords } from "../../src/commands/options";
import { fieldsOf, wordsOf } from "../../src/commands/steps";
import type { Step } from "../../src/requests";

const int = (name: string, required = false, value = "1") => ({ name, kind: "int", required, default: required ? "" : value });
const STEPS: Step[] = [
  { name: "pp", documentation: "Pipelines.\n\nMore.", value: int("value", true), options: [int("microbatches"), { name: "schedule", kind: "str", required: false, default: "1f1b" }] },
  { name: "dp", documentation: "Replicas.", value: int("value", true), options: [] },
  { name: "grad", documentation: "Gradients.", value: null, options: [{ name: "optimizer", kind: "str", required: false, default: "sgd" }] },
  { name: "cse", documentation: "Once.", value: null, options: [] },
];

test("fields come in the order in which steps are applied, with the server's documentation", () => {
  const fields = fieldsOf(STEPS);
  assert.deepEqual(fields.map((field) => field.name), ["grad", "grad optimizer", "dp", "pp", "pp microbatches", "pp schedule"]);
  assert.equal(fields.find((field) => field.name === "pp")?.detail, "Pipelines.");
  assert.deepEqual(fields.find((field) => field.name === "grad")?.choices, ["yes", "no"]);
});

test("words are those of `distir transform`; options of steps that are not applied are left out", () => {
  const filled = (values: Record<string, string>) => fieldsOf(STEPS).map((field) => ({ ...field, value: values[field.name] ?? "" }));
  assert.deepEqual(wordsOf(filled({ grad: "yes", dp: "2", pp: "4", "pp microbatches": "8" })), ["grad", "dp=2", "pp=4", "microbatches=8"]);
  assert.deepEqual(wordsOf(filled({ grad: "no", "grad optimizer": "adam", "pp schedule": "gpipe" })), []);
});

test("a search's words leave out what is empty, and numbers are checked as they are typed", () => {
  const fields = options(8, { method: "bounded" });
  const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  assert.deepEqual(searchWords({ ...values, "batch-size": "64, 128" }).join(" "), "--devices 8 --batch-size 64,128 --schedule 1f1b --zero 0 --checkpoint off --method bounded");
  const check = (name: string, value: string) => fields.find((field) => field.name === name)?.check?.(value);
  assert.match(check("devices", "0") ?? "", /expected a number/);
  assert.match(check("batch-size", "64;rm") ?? "", /expected numbers/);
  assert.equal(check("batch-size", ""), undefined);
});

test("a search's progress is told apart from its errors, and said in words", () => {
  const lines = ['{"done": 0, "of": 6, "best": null}', '{"done": 2, "of": 6, "best": {"plan": "4/1/1/1", "throughput": 3838123.4}}'];
  const { latest, rest } = progressIn(`${lines.join("\n")}\nerror: no space is left\n{"done": 3, "o`);
  assert.equal(rest, 'error: no space is left\n{"done": 3, "o');
  assert.ok(latest);
  assert.equal(inWords(latest), "2 of 6, best so far 4/1/1/1: 3,838,000 examples/s");
  assert.equal(inWords({ done: 0, of: 6, best: null }), "0 of 6");
  assert.match(inWords({ done: 8, of: 6, best: null }), /^6 of 6, then 2 more$/);
});
