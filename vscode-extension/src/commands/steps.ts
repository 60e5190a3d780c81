// A transform as fields of a form, and as the words that `distir transform` takes. Knows nothing of the editor.

import type { Choice, Step } from "../requests";

/** The steps that most programs are distributed with, in the order in which they are applied. */
export const USUAL = ["grad", "checkpoint", "dp", "tp", "pp", "zero", "reschedule"];

/** Words that some options are limited to; the server says whether others will do. */
const WORDS: Record<string, readonly string[]> = {
  schedule: ["1f1b", "gpipe", "interleaved", "zb-h1"],
  optimizer: ["sgd", "momentum", "adam", "none"],
  loss: ["auto", "mse", "cross_entropy", "none"],
  reduction: ["mean", "sum"],
  partition: ["owner", "split"],
};

export interface StepField {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly partOf?: string;
}

/** Fields for some steps: one for the step itself (`dp`), one for each of its options (`pp microbatches`). */
export function fieldsOf(steps: readonly Step[], wanted: readonly string[] = USUAL): StepField[] {
  return wanted
    .map((name) => steps.find((step) => step.name === name))
    .filter((step) => step !== undefined)
    .flatMap((step) => [stepField(step), ...step.options.map((option) => optionField(step, option))]);
}

/** The words for what the fields say. A step is applied when its own field has a value. */
export function wordsOf(fields: readonly Pick<StepField, "name" | "value">[]): string[] {
  const words: string[] = [];
  let isApplied = false;
  for (const { name, value } of fields) {
    const [step, option] = name.split(" ") as [string, string | undefined];
    if (option === undefined) {
      isApplied = isSet(value);
      if (isApplied) words.push(value === "yes" || value === "on" ? step : `${step}=${value}`);
    } else if (isApplied && value !== "") {
      words.push(`${option}=${value}`);
    }
  }
  return words;
}

/** Whether a value says yes to its field. */
export function isSet(value: string): boolean {
  return value !== "" && value !== "no" && value !== "off";
}

function stepField(step: Step): StepField {
  const detail = step.documentation.split("\n")[0] ?? "";
  const base = { name: step.name, label: step.name, detail, value: "" };
  if (step.value === null) return { ...base, choices: ["yes", "no"] };
  return step.value.required ? base : { ...base, detail: `${detail} ${step.value.kind === "str" ? "`on`, or a word" : "`on`, or a value"}.` };
}

function optionField(step: Step, option: Choice): StepField {
  const choices = option.kind === "bool" ? ["true", "false"] : WORDS[option.name];
  const detail = option.required ? `of \`${step.name}\`` : `of \`${step.name}\`; ${option.default || "none"} if left out`;
  return { name: `${step.name} ${option.name}`, label: `    ${option.name}`, detail, value: "", partOf: step.name, ...(choices ? { choices } : {}) };
}
