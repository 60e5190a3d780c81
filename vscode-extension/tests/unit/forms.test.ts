import assert from "node:assert/strict";
import { test } from "node:test";

import { inWords, options, progressIn, wordsOf as searchWords } from "../../src/commands/options";
import { SEARCH_OPTIONS } from "../../src/commands/search-options";
import { fieldsOf, listed, wordsOf } from "../../src/commands/steps";
import { unmarked, wrapped } from "../../src/figures";
import type { Step } from "../../src/requests";

const int = (name: string, required = false, value = "1") => ({ name, kind: "int", required, default: required ? "" : value, choices: null });
const word = (name: string, choices: string[] | null, value = "") => ({ name, kind: "str", required: false, default: value, choices });
const STEPS: Step[] = [
  { name: "grad", documentation: "Gradients.", value: null, options: [word("optimizer", ["sgd", "adam"], "sgd")] },
  { name: "mine", documentation: "A plugin's, over `value` things.\n\nMore.", value: int("value", true), options: [word("tone", ["low", "high"])] },
  { name: "checkpoint", documentation: "Recomputes.", value: word("value", null, "block"), options: [] },
  { name: "pp", documentation: "Pipelines.", value: int("value", true), options: [int("microbatches"), word("schedule", ["1f1b", "sideways"], "1f1b")] },
  { name: "dp", documentation: "Replicas.", value: int("value", true), options: [] },
  { name: "zero", documentation: "Partitions.", value: { ...int("value", true), choices: ["1", "2", "3"] }, options: [] },
];

test("fields are the server's: its steps in its order, its options, its choices, its documentation", () => {
  const fields = fieldsOf(STEPS);
  const named = Object.fromEntries(fields.map((field) => [field.name, field]));
  assert.deepEqual(Object.keys(named), ["grad", "grad optimizer", "mine", "mine tone", "checkpoint", "pp", "pp microbatches", "pp schedule", "dp", "zero"]);
  assert.deepEqual(named["pp schedule"]?.choices, ["1f1b", "sideways"]);
  assert.deepEqual([named.grad?.choices, named.zero?.choices], [["yes", "no"], ["1", "2", "3", "no"]]);
  assert.equal(named["pp microbatches"]?.choices, undefined);
  assert.equal(named.mine?.detail, "A plugin's, over 'value' things.");
  for (const { label, detail } of fields) assert.ok(!`${label}${detail}`.includes("`"), detail);
});

test("words are those of `distir transform`, in the order of the fields; options of steps that are not applied are left out", () => {
  const filled = (values: Record<string, string>) => fieldsOf(STEPS).map((field) => ({ ...field, value: values[field.name] ?? "" }));
  assert.deepEqual(wordsOf(filled({ dp: "2", grad: "yes", pp: "4", "pp microbatches": "8" })), ["grad", "pp=4", "microbatches=8", "dp=2"]);
  assert.deepEqual(wordsOf(filled({ checkpoint: "yes", zero: "no" })), ["checkpoint"]);
  assert.deepEqual(wordsOf(filled({ checkpoint: "16GB", zero: "2" })), ["checkpoint=16GB", "zero=2"]);
  assert.deepEqual(wordsOf(filled({ grad: "no", "grad optimizer": "adam", "pp schedule": "gpipe" })), []);
});

test("what is refused is said in lines that can be read, without marks", () => {
  const text = "`pp` expected a program on one device, found devices 1, 2 in `@mlp`; the steps are applied in turn, and their order is pp, dp";
  const lines = wrapped(unmarked(text), 60);
  assert.ok(lines.length === 3 && lines.every((line) => line.length <= 60 && !line.includes("`")), lines.join("|"));
  assert.equal(lines.join(" "), text.replaceAll("`", "'"));
  assert.deepEqual(wrapped(""), []);
});

test("a form lists what is chosen first, with its options, then the usual strategies", () => {
  const names = (fields: ReturnType<typeof fieldsOf>) => listed(fields).map(({ name }) => name);
  const fields = fieldsOf(STEPS);
  assert.deepEqual(names(fields).slice(0, 2), ["dp", "pp"]);
  for (const field of fields) if (["grad", "pp"].includes(field.name)) field.value = field.name === "pp" ? "2" : "yes";
  assert.deepEqual(names(fields).slice(0, 6), ["grad", "grad optimizer", "pp", "pp microbatches", "pp schedule", "dp"]);
});

test("the form of a search has every option in a group, and degrees of data, tensor and pipeline parallelism first", () => {
  const fields = options(8, []);
  assert.deepEqual(fields.slice(0, 3).map(({ name }) => name), ["dp", "tp", "pp"]);
  assert.deepEqual(fields.map(({ name }) => name).sort(), SEARCH_OPTIONS.map(({ name }) => name).sort());
  const groups = fields.map(({ group }) => group);
  assert.ok(groups.every((group, i) => group === groups[i - 1] || !groups.slice(0, i).includes(group)), groups.join());
});

test("a search's words leave out what is empty, and numbers are checked as they are typed", () => {
  const fields = options(8, ["gpipe", "mine"], { method: "bounded" });
  assert.match(fields.find((field) => field.name === "schedule")?.detail ?? "", /gpipe, mine/);
  const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  assert.deepEqual(searchWords({ ...values, "batch-size": "64, 128" }).join(" "), "--devices 8 --batch-size 64,128 --method bounded");
  assert.deepEqual(searchWords({ fuse: "off", overlap: "usual", checkpoint: "usual", "sequence-parallel": "on" }), ["--no-fuse", "--sequence-parallel"]);
  const more = { fuse: "on", "all-divisors": "off", fix: "D=2,4  T=8", bind: " S=16 ", apply: " grad  optimizer=adamw" };
  assert.deepEqual(searchWords(more), ["--fuse", "--fix", "D=2,4", "--fix", "T=8", "--bind", "S=16", "--apply", "grad optimizer=adamw"]);
  const named = Object.fromEntries(fields.map((field) => [field.name, field]));
  assert.deepEqual([named.method?.choices?.[0], named.fuse?.choices, named["all-divisors"]?.value], ["usual", ["usual", "on", "off"], "off"]);
  assert.equal(named.devices?.value, "8");
  const check = (name: string, value: string) => fields.find((field) => field.name === name)?.check?.(value);
  assert.match(check("devices", "0") ?? "", /expected a number/);
  assert.match(check("batch-size", "64;rm") ?? "", /expected comma-separated numbers/);
  assert.equal(check("batch-size", ""), undefined);
  assert.match(check("fix", "D 2") ?? "", /expected pairs/);
  assert.deepEqual([check("fix", "D=2,4 T=8"), check("bind", ""), check("seed", "")], [undefined, undefined, undefined]);
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
