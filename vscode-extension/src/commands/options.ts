// What a search is asked, as fields of a form, and as the words that `distir search` takes. Knows nothing of the editor.

import { SEARCH_OPTIONS, type SearchOption } from "./search-options";

export interface Option {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  readonly group: string;
  value: string;
  readonly choices?: readonly string[];
  readonly check?: (value: string) => string | undefined;
}

/** The options by what they are about, in the order in which a form lists them: what most searches state comes first. */
export const GROUPS: readonly (readonly [string, readonly string[]])[] = [
  ["Degrees", ["dp", "tp", "pp", "cp", "ep", "etp", "fix", "devices", "all-divisors"]],
  ["Batches", ["global-batch", "batch-size", "microbatches", "micro-batch", "accumulate"]],
  ["Memory", ["zero", "shard", "checkpoint", "max-memory"]],
  ["Pipelines", ["schedule", "virtual", "chunks", "sums", "balance"]],
  ["Kernels and communication", ["overlap", "passes", "fuse", "fp8", "sequence-parallel"]],
  ["Sequences and experts", ["cp-kind", "cp-experts", "skew"]],
  ["Program and machine", ["apply", "bind", "framework", "sustained"]],
  ["How to search", ["method", "budget", "steps", "seed", "jobs", "backend"]],
];

const SEARCHED: ReadonlyMap<string, SearchOption> = new Map(SEARCH_OPTIONS.map((option) => [option.name, option]));

const USUAL = "usual";
const CHOICES: Partial<Record<SearchOption["kind"], readonly string[]>> = { switch: [USUAL, "on", "off"], flag: ["off", "on"] };

const matches = (pattern: RegExp, expected: string) => (value: string): string | undefined => (pattern.test(value.trim()) ? undefined : `expected ${expected}`);
const CHECKS: Partial<Record<SearchOption["kind"], (value: string) => string | undefined>> = {
  number: matches(/^\d*$/, "a number"),
  factor: matches(/^(\d+(\.\d+)?)?$/, "a multiple such as 1.2"),
  numbers: matches(/^(\d+(\s*,\s*\d+)*)?$/, "comma-separated numbers"),
  pairs: matches(/^(\S+=\S+(\s+|$))*$/, "pairs such as D=2, with spaces between them"),
};

/** Fields with their defaults; `schedules` are those that there are, `before` has values of an earlier search. */
export function options(devices: number, schedules: readonly string[], before: Readonly<Record<string, string>> = {}): Option[] {
  const grouped = GROUPS.flatMap(([group, names]) => names.map((name) => ({ group, option: SEARCHED.get(name) })));
  return grouped.flatMap(({ group, option }) => {
    if (option === undefined) return [];
    const { name, label, detail, kind, choices: stated } = option;
    const choices = kind === "choice" ? [USUAL, ...stated] : CHOICES[kind];
    const usual = name === "devices" ? String(devices) : (choices?.[0] ?? "");
    const check = name === "devices" ? matches(/^[1-9]\d*$/, "a number from 1") : CHECKS[kind];
    const more = name === "schedule" ? ` There are ${schedules.join(", ")}.` : "";
    return [{ name, label, group, detail: `${detail}${more}`, value: before[name] ?? usual, ...(choices && { choices }), ...(check && { check }) }];
  });
}

/** Words for the command line; what is empty is left out. */
export function wordsOf(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const words = value.trim().split(/\s+/).filter((word) => word !== "" && word !== USUAL);
    const kind = SEARCHED.get(name)?.kind;
    if (kind === "switch") return words.map((word) => (word === "on" ? `--${name}` : `--no-${name}`));
    if (kind === "flag") return words[0] === "on" ? [`--${name}`] : [];
    if (kind === "pairs") return words.flatMap((word) => [`--${name}`, word]);
    return words.length === 0 ? [] : [`--${name}`, words.join(name === "apply" ? " " : "")];
  });
}

/** What `distir search --progress json` says of itself. */
export interface Progress {
  readonly done: number;
  readonly of: number;
  readonly best: { readonly plan: string; readonly throughput: number } | null;
}

/** The lines of progress in what was written to standard error, and the rest of it. */
export function progressIn(text: string): { latest: Progress | undefined; rest: string } {
  let latest: Progress | undefined;
  const rest: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith('{"done":') && line.endsWith("}")) latest = JSON.parse(line) as Progress;
    else rest.push(line);
  }
  return { latest, rest: rest.join("\n").trim() };
}

/** `12 of 42, best so far 4/1/1/8: 3,840,000 examples/s`; an annealing search continues beyond the configurations there are. */
export function inWords({ done, of, best }: Progress): string {
  const count = done <= of ? `${done} of ${of}` : `${of} of ${of}, then ${done - of} more`;
  return best === null ? count : `${count}, best so far ${best.plan}: ${best.throughput.toLocaleString("en", { maximumSignificantDigits: 4 })} examples/s`;
}
