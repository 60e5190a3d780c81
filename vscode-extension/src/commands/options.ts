// What a search is asked, as fields of a form, and as the words that `distir search` takes. Knows nothing of the editor.

export interface Option {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly check?: (value: string) => string | undefined;
}

/** Options that the command line takes as a word alone. */
const FLAGS: ReadonlySet<string> = new Set(["all-divisors"]);

/** Options that the command line takes as a word alone, with `no-` before it where they are off. */
const SWITCHES: ReadonlySet<string> = new Set(["fuse", "overlap", "sequence-parallel"]);

/** Options that are given once for each word of their field. */
const REPEATED: ReadonlySet<string> = new Set(["bind", "fix"]);

const ON_OFF = ["off", "on"] as const;
const USUAL = "usual";
const SWITCH = [USUAL, "on", "off"] as const;

const whole = (value: string): string | undefined => (/^[1-9]\d*$/.test(value) ? undefined : "expected a number from 1");
const number = (value: string): string | undefined => (/^\d*$/.test(value.trim()) ? undefined : "expected a number");
const multiple = (value: string): string | undefined => (/^(\d+(\.\d+)?)?$/.test(value.trim()) ? undefined : "expected a multiple such as 1.2");
const pairs = (value: string): string | undefined => (/^(\S+=\S+(\s+|$))*$/.test(value.trim()) ? undefined : "expected pairs such as D=2, with spaces between them");
const list = (value: string): string | undefined => (/^(\d+(\s*,\s*\d+)*)?$/.test(value.trim()) ? undefined : "expected comma-separated numbers");

/** Fields with their defaults; `schedules` are those that there are, `before` has values of an earlier search. */
export function options(devices: number, schedules: readonly string[], before: Readonly<Record<string, string>> = {}): Option[] {
  const fields: Option[] = [
    { name: "devices", label: "Devices", detail: "The product of the data, tensor and pipeline degrees.", value: String(devices), check: whole },
    { name: "batch-size", label: "Batch sizes", detail: "Such as 128,256, for the batch dimension. Empty if the program has a fixed batch size.", value: "", check: list },
    { name: "global-batch", label: "Batch sizes of training", detail: "In the place of batch sizes: a training step, for which all that the program and the hardware admit is tried.", value: "", check: list },
    { name: "microbatches", label: "Microbatches", detail: "Numbers to try; empty: 2,4,…,128.", value: "", check: list },
    { name: "accumulate", label: "Microbatches without a pipeline", detail: "Numbers to try where P is 1: gradients of so many are accumulated; empty: 1.", value: "", check: list },
    { name: "micro-batch", label: "Microbatch sizes", detail: "In the place of microbatches: examples in a replica's microbatch, such as 1,2.", value: "", check: list },
    { name: "apply", label: "Steps to apply first", detail: "Such as: grad optimizer=adamw precision=mixed.", value: "" },
    { name: "bind", label: "Sizes of dimensions", detail: "Such as: S=1024 N=8.", value: "", check: pairs },
    { name: "dp", label: "Degrees of data parallelism", detail: "Such as 2,4; empty: all that there are.", value: "", check: list },
    { name: "tp", label: "Degrees of tensor parallelism", detail: "Such as 4,8; empty: all that there are.", value: "", check: list },
    { name: "pp", label: "Degrees of pipeline parallelism", detail: "Such as 1,2; empty: all that there are.", value: "", check: list },
    { name: "cp", label: "Degrees of context parallelism", detail: "How many devices share a sequence, such as 1,2; empty: 1, of training all.", value: "", check: list },
    { name: "cp-kind", label: "Kinds of context parallelism", detail: "Of allgather, a2a (Ulysses) and ring, comma-separated; empty: allgather, of training all.", value: "" },
    { name: "ep", label: "Degrees of expert parallelism", detail: "Over how many replicas experts are split, such as 1,8; empty: all that divide them.", value: "", check: list },
    { name: "skew", label: "Skew of experts", detail: "Tokens of the busiest device, to the mean; empty: 1; 0: room for all.", value: "", check: multiple },
    { name: "max-memory", label: "Memory to use", detail: "The most of each device, such as 70GB; empty: all of it.", value: "" },
    { name: "fix", label: "Fixed degrees", detail: "Such as: D=2,4 T=8.", value: "", check: pairs },
    { name: "all-divisors", label: "All divisors", detail: "Degrees that are not powers of two, too.", value: "off", choices: ON_OFF },
    { name: "schedule", label: "Schedules", detail: `Pipeline schedules, comma-separated; empty: 1f1b, of training several. There are ${schedules.join(", ")}.`, value: "" },
    { name: "virtual", label: "Virtual stages", detail: "Stages of a device to try, for interleaved schedules; empty: 2.", value: "", check: list },
    { name: "zero", label: "ZeRO stages", detail: "From 0 to 3, comma-separated; empty: 0.", value: "", check: list },
    { name: "shard", label: "Groups that partition state", detail: "Of so many replicas (HSDP), beside all as one.", value: "", check: list },
    { name: "checkpoint", label: "Checkpointing", detail: "Whether activations are recomputed; usual: off, of training both.", value: USUAL, choices: [USUAL, "off", "on", "both"] },
    { name: "sequence-parallel", label: "Sequence parallelism", detail: "Whether what tensor parallelism leaves whole is split, too; usual: off, of training both.", value: USUAL, choices: SWITCH },
    { name: "fuse", label: "Fusion", detail: "Whether the ops of each program are fused into kernels; usual: off, of training both.", value: USUAL, choices: SWITCH },
    { name: "overlap", label: "Overlap", detail: "Whether each plan is tried with communication beside computation, too; usual: off, of training both.", value: USUAL, choices: SWITCH },
    { name: "sums", label: "Sums of gradients", detail: "Those of microbatches are added by layer, or by stage, comma-separated.", value: "layer" },
    { name: "method", label: "Method", detail: "grid: all; bounded: skips what bounds exclude; anneal: continues to stages of unequal size.", value: USUAL, choices: [USUAL, "grid", "bounded", "anneal"] },
    { name: "budget", label: "Configurations", detail: "bounded: how many are simulated at most; empty: all, of training 64.", value: "", check: number },
    { name: "steps", label: "Steps of anneal", detail: "Empty: 200.", value: "", check: number },
    { name: "seed", label: "Seed of anneal", detail: "Of its random numbers; empty: 0.", value: "", check: number },
    { name: "jobs", label: "Processes", detail: "Empty, or 0: one per core.", value: "", check: number },
    { name: "backend", label: "Where it runs", detail: "processes, dask://HOST:PORT or ray://HOST:PORT; empty: processes.", value: "" },
  ];
  return fields.map((field) => ({ ...field, value: before[field.name] ?? field.value }));
}

/** Words for the command line; what is empty is left out. */
export function wordsOf(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => {
    const words = value.trim().split(/\s+/).filter((word) => word !== "" && word !== USUAL);
    if (SWITCHES.has(name)) return words.map((word) => (word === "on" ? `--${name}` : `--no-${name}`));
    if (FLAGS.has(name)) return words[0] === "on" ? [`--${name}`] : [];
    if (REPEATED.has(name)) return words.flatMap((word) => [`--${name}`, word]);
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
