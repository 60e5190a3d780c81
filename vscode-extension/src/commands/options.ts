// What a search is asked, as fields of a form, and as the words that `distir search` takes. Knows nothing of the editor.

export interface Option {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly check?: (value: string) => string | undefined;
}

const whole = (value: string): string | undefined => (/^[1-9]\d*$/.test(value) ? undefined : "expected a number from 1");
const list = (value: string): string | undefined => (/^(\d+(\s*,\s*\d+)*)?$/.test(value.trim()) ? undefined : "expected comma-separated numbers");

/** Fields with their defaults; `schedules` are those that there are, `before` has values of an earlier search. */
export function options(devices: number, schedules: readonly string[], before: Readonly<Record<string, string>> = {}): Option[] {
  const fields: Option[] = [
    { name: "devices", label: "Devices", detail: "The product of the data, tensor and pipeline degrees.", value: String(devices), check: whole },
    { name: "batch-size", label: "Batch sizes", detail: "Such as 128,256, for the batch dimension. Empty if the program has a fixed batch size.", value: "", check: list },
    { name: "microbatches", label: "Microbatches", detail: "Numbers to try; empty: 2,4,…,128.", value: "", check: list },
    { name: "schedule", label: "Schedules", detail: `Pipeline schedules, comma-separated: ${schedules.join(", ")}.`, value: "1f1b" },
    { name: "zero", label: "ZeRO stages", detail: "From 0 to 3, comma-separated.", value: "0", check: list },
    { name: "checkpoint", label: "Checkpointing", detail: "Whether activations are recomputed.", value: "off", choices: ["off", "on", "both"] },
    { name: "method", label: "Method", detail: "grid: all; bounded: skips what bounds exclude; anneal: continues to stages of unequal size.", value: "grid", choices: ["grid", "bounded", "anneal"] },
  ];
  return fields.map((field) => ({ ...field, value: before[field.name] ?? field.value }));
}

/** Words for the command line; what is empty is left out. */
export function wordsOf(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => (value.trim() === "" ? [] : [`--${name}`, value.replace(/\s+/g, "")]));
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
