// A transform as fields of a form, and as the words that `distir transform` takes. Which steps there are, in which order,
// with which options and choices, the server says. Knows nothing of the editor.

import { unmarked } from "../figures";
import type { Choice, Step } from "../requests";

const YES = "yes";
const NO = "no";

export interface StepField {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly partOf?: string;
}

/** Fields for steps: one for the step itself (`dp`), one for each of its options (`pp microbatches`), in their order. */
export function fieldsOf(steps: readonly Step[]): StepField[] {
  return steps.flatMap((step) => [stepField(step), ...step.options.map((option) => optionField(step, option))]);
}

/** The words for what the fields say. A step is applied when its own field has a value. */
export function wordsOf(fields: readonly Pick<StepField, "name" | "value">[]): string[] {
  const words: string[] = [];
  let isApplied = false;
  for (const { name, value } of fields) {
    const [step, option] = name.split(" ") as [string, string | undefined];
    if (option === undefined) {
      isApplied = isSet(value);
      if (isApplied) words.push(value === YES ? step : `${step}=${value}`);
    } else if (isApplied && value !== "") {
      words.push(`${option}=${value}`);
    }
  }
  return words;
}

/** The steps that most people look for. */
const USUAL = ["dp", "tp", "pp"];

/** Fields as they are listed: first steps that are chosen, with their options, then the usual ones, then the others. */
export function listed<F extends Pick<StepField, "name" | "value" | "partOf">>(fields: readonly F[]): F[] {
  const chosen = new Set(fields.filter(({ value }) => isSet(value)).map(({ name }) => name));
  const rank = ({ name, partOf }: F): number => {
    if (chosen.has(partOf ?? name)) return -1;
    const usual = USUAL.indexOf(name);
    return usual < 0 ? USUAL.length : usual;
  };
  return fields.map((field, at) => ({ field, at })).sort((a, b) => rank(a.field) - rank(b.field) || a.at - b.at).map(({ field }) => field);
}

/** Whether a value says yes to its field. */
export function isSet(value: string): boolean {
  return value !== "" && value !== NO;
}

function stepField(step: Step): StepField {
  const detail = unmarked(step.documentation.split("\n")[0] ?? "");
  const base = { name: step.name, label: step.name, detail, value: "" };
  if (step.value === null) return { ...base, choices: [YES, NO] };
  if (step.value.choices !== null) return { ...base, choices: [...step.value.choices, NO] };
  return step.value.required ? base : { ...base, detail: `${detail} Type ${YES}, or a value${step.value.default ? `; ${YES} is ${step.value.default}` : ""}.` };
}

function optionField(step: Step, option: Choice): StepField {
  const detail = option.required ? `Option of ${step.name}.` : `Option of ${step.name}; default ${option.default || "none"}.`;
  const choices = option.choices === null ? {} : { choices: option.choices };
  return { name: `${step.name} ${option.name}`, label: `    ${option.name}`, detail, value: "", partOf: step.name, ...choices };
}
