// The options of `distir search` that its form asks for. Made from `distir/cli/search.py`: `make bless` writes it anew.

export interface SearchOption {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  readonly kind: "number" | "factor" | "numbers" | "pairs" | "switch" | "flag" | "choice" | "text";
  readonly choices: readonly string[];
}

export const SEARCH_OPTIONS: readonly SearchOption[] = [
  {"name": "devices", "label": "Devices", "detail": "The number of devices, D·T·P. [default: all of the hardware]", "kind": "number", "choices": []},
  {"name": "batch-size", "label": "Batch sizes", "detail": "Batch sizes to try, for the program's batch dimension.", "kind": "numbers", "choices": []},
  {"name": "global-batch", "label": "Batch sizes of training", "detail": "The same of training: a model by its name becomes a training step, and all that it and the hardware admit is tried, but for what other options say.", "kind": "numbers", "choices": []},
  {"name": "dp", "label": "Degrees of data parallelism", "detail": "D to try. [default: all that there are]", "kind": "numbers", "choices": []},
  {"name": "tp", "label": "Degrees of tensor parallelism", "detail": "T to try. [default: all that there are]", "kind": "numbers", "choices": []},
  {"name": "pp", "label": "Degrees of pipeline parallelism", "detail": "P to try. [default: all that there are]", "kind": "numbers", "choices": []},
  {"name": "ep", "label": "Degrees of expert parallelism", "detail": "Over how many of D experts are split. [default: all that divide them]", "kind": "numbers", "choices": []},
  {"name": "skew", "label": "Skew of experts", "detail": "Tokens of the busiest device, to the mean; 0: room for all. [default: 1]", "kind": "factor", "choices": []},
  {"name": "cp", "label": "Degrees of context parallelism", "detail": "How many devices share a sequence. [default: 1; of training all]", "kind": "numbers", "choices": []},
  {"name": "cp-kind", "label": "Kinds of context parallelism", "detail": "Of these: allgather, a2a (Ulysses), ring. [default: allgather; of training all]", "kind": "text", "choices": []},
  {"name": "schedule", "label": "Schedules", "detail": "Pipeline schedules to try, such as 1f1b,zb-h1. [default: 1f1b]", "kind": "text", "choices": []},
  {"name": "virtual", "label": "Virtual stages", "detail": "Stages of a device to try, for interleaved. [default: 2]", "kind": "numbers", "choices": []},
  {"name": "chunks", "label": "Chunks of sequences", "detail": "Parts of a sequence to try, for seq1f1b. [default: 2,4]", "kind": "numbers", "choices": []},
  {"name": "zero", "label": "ZeRO stages", "detail": "ZeRO stages to try, 0 to 3. [default: 0]", "kind": "numbers", "choices": []},
  {"name": "shard", "label": "Groups that partition state", "detail": "Replicas that partition state by ZeRO, beside all: HSDP.", "kind": "numbers", "choices": []},
  {"name": "checkpoint", "label": "Checkpointing", "detail": "What to recompute: off, on (full), selective, products; of so many layers, as full:16; both: off,on. [default: off]", "kind": "text", "choices": []},
  {"name": "microbatches", "label": "Microbatches", "detail": "K to try. [default: 2,4,…,128]", "kind": "numbers", "choices": []},
  {"name": "balance", "label": "Layers of stages", "detail": "Layers of stages: equally many (uniform), for equal times (cost), for little memory (memory). [default: uniform; of training uniform,cost]", "kind": "text", "choices": []},
  {"name": "etp", "label": "Experts of shards", "detail": "Split each expert over so many of T shards, or over all (0). [default: 0]", "kind": "text", "choices": []},
  {"name": "cp-experts", "label": "Experts over sequence groups", "detail": "Also divide experts among devices that share sequences.", "kind": "switch", "choices": []},
  {"name": "sums", "label": "Sums of gradients", "detail": "Gradients of microbatches: added by layer, or by stage. [default: layer]", "kind": "text", "choices": []},
  {"name": "sequence-parallel", "label": "Sequence parallelism", "detail": "Also split what T leaves whole.", "kind": "switch", "choices": []},
  {"name": "overlap", "label": "Overlap", "detail": "Try each plan with communication beside computation, too.", "kind": "switch", "choices": []},
  {"name": "passes", "label": "Overlap of passes", "detail": "With --overlap, also what layers communicate beside other microbatches.", "kind": "switch", "choices": []},
  {"name": "fuse", "label": "Fusion", "detail": "Fuse each program's ops into kernels.", "kind": "switch", "choices": []},
  {"name": "accumulate", "label": "Microbatches without a pipeline", "detail": "K to try where P is 1: gradients of K microbatches. [default: 1]", "kind": "numbers", "choices": []},
  {"name": "micro-batch", "label": "Microbatch sizes", "detail": "Instead of K, for any P: examples in a replica's microbatch.", "kind": "numbers", "choices": []},
  {"name": "fix", "label": "Fixed degrees", "detail": "Fix a degree to one or more values.", "kind": "pairs", "choices": []},
  {"name": "all-divisors", "label": "All divisors", "detail": "Try all divisors as degrees, not only powers of two.", "kind": "flag", "choices": []},
  {"name": "fp8", "label": "8-bit products", "detail": "Products in 8-bit floats, where the hardware has them.", "kind": "choice", "choices": ["tensor", "block", "delayed"]},
  {"name": "sustained", "label": "Sustained work", "detail": "Devices as after minutes of work, at the limit of their power. [default: of training]", "kind": "switch", "choices": []},
  {"name": "max-memory", "label": "Memory to use", "detail": "How much of a device's memory to use at most, such as 70GB.", "kind": "text", "choices": []},
  {"name": "method", "label": "Method", "detail": "The search method. [default: grid; of training anneal]", "kind": "choice", "choices": ["grid", "bounded", "anneal"]},
  {"name": "budget", "label": "Configurations", "detail": "Simulate the N best by estimate at most. [default: all; of training 6 to 64]", "kind": "number", "choices": []},
  {"name": "steps", "label": "Steps of anneal", "detail": "anneal: the number of steps. [default: 200; behind best-first fewer]", "kind": "number", "choices": []},
  {"name": "seed", "label": "Seed of anneal", "detail": "anneal: the random seed.", "kind": "number", "choices": []},
  {"name": "bind", "label": "Sizes of dimensions", "detail": "The size of a named dimension, or a host parameter's value.", "kind": "pairs", "choices": []},
  {"name": "jobs", "label": "Processes", "detail": "The number of processes; 0: one per core.", "kind": "number", "choices": []},
  {"name": "backend", "label": "Where it runs", "detail": "processes, dask://HOST:PORT or ray://HOST:PORT.", "kind": "text", "choices": []},
  {"name": "framework", "label": "Framework", "detail": "Search what this training framework runs, with all that it costs there: torchtitan, …", "kind": "text", "choices": []},
  {"name": "apply", "label": "Steps to apply first", "detail": "Steps to apply first, such as 'grad optimizer=adamw precision=mixed'.", "kind": "text", "choices": []},
];
