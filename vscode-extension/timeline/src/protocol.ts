// What the view receives and what it sends: the answers of `distir/timeline`, `distir/memory` and `distir/compare`
// (docs/lsp-requests.md), and the messages of README.md. Seconds, bytes, zero-based positions. No code.

export interface Position {
  line: number;
  character: number;
}

export interface Range {
  start: Position;
  end: Position;
}

/** A statement that calls a function. */
export interface CallPlace {
  function: string;
  statement: number;
  range: Range | null;
}

export interface BarRow {
  event: number;
  op: string;
  label: string;
  function: string;
  statement: number;
  calls: string[];
  /** The statements that call these functions, of all but the first. */
  callers?: CallPlace[];
  range: Range | null;
  start_s: number;
  duration_s: number;
  devices: number[];
  bound: string;
  slack_s: number | null;
  /** The pattern of messages, such as `send`; absent or null for what is no communication. */
  communication?: string | null;
  /** The device that a pattern begins at, or ends at. */
  root?: number | null;
  /** Absent or empty: that of compute. */
  stream?: string;
  /** What it is done for, where the program says so. */
  phase?: string | null;
  microbatch?: number | null;
}

/** Numbers, one for each bar. */
export type Column = ArrayLike<number>;

/** What ops are done for; null where nothing is known. */
export interface Work {
  phase: string | null;
  microbatch: number | null;
}

/** Bars as columns. `origin`, `call`, `kind` and `work` count in the lists. */
export interface BarTable {
  origins: { op: string; label: string; function: string; statement: number; range: Range | null }[];
  calls: string[][];
  /** For each of `calls`, the statements that call these functions, of all but the first; they count in `places`. */
  callers?: number[][];
  places?: CallPlace[];
  kinds: {
    duration_s: number;
    devices: number[];
    bound: string;
    communication?: string | null;
    root?: number | null;
    stream?: string;
  }[];
  works?: Work[];
  event: Column;
  origin: Column;
  call: Column;
  kind: Column;
  work?: Column;
  start_s: Column;
  slack_s: Column | null;
}

/**
 * A call's other names for the devices of its block, in pairs of the block's and its own. `microbatch`: its number of
 * the one that the block calls 1, from which it counts on; null: it has none.
 */
export interface Renaming {
  devices: [number, number][];
  microbatch: number | null;
}

/**
 * What a call runs, in program order, with times and events from its first op. `kind`: of an op; of a call of block b,
 * -1 - b. `name`: of a call its renaming, -1 for none. `host_s`: of a call, when hosts begin its block, from when they
 * begin this one; absent or empty where no op takes a host time.
 */
export interface Block {
  function: string;
  events: number;
  statement: number[];
  kind: number[];
  name: number[];
  event: number[];
  start_s: number[];
  host_s?: number[];
  /**
   * What hosts do for its ops: an op's item, a device of it, from when until when, from when they begin the block.
   * Absent: nothing that takes time.
   */
  issued?: { item: number[]; device: number[]; start_s: number[]; end_s: number[] };
}

/** A long timeline as blocks, each once for all calls that run alike; the last one is the entry function. */
export interface BlockTable {
  statements: BarTable["origins"];
  kinds: (BarTable["kinds"][number] & Work)[];
  renamings: Renaming[];
  blocks: Block[];
}

export interface WaitRow {
  device: number;
  start_s: number;
  duration_s: number;
  before: number;
  /** The event waited for; -1: the host, which has yet to issue the op. */
  blocker: number;
  /** Which stream of the device idles; absent or empty: that of compute. */
  stream?: string;
}

/** The host of a device: the events that it issues, and from when until when. */
export interface HostRow {
  device: number;
  event: number[];
  start_s: number[];
  end_s: number[];
}

export interface DeviceRow {
  device: number;
  busy_s: number;
  idle_s: number;
  comm_s: number;
  peak_memory_bytes: number;
  capacity_bytes: number;
  /** What the process holds beside tensors. */
  overhead_bytes?: number;
  fits?: boolean;
  /** The same with the errors of simulated memory. */
  fit?: "fits" | "may not fit" | "does not fit";
}

export interface TimelineAnswer {
  version?: number;
  hardware: string;
  function: string;
  latency_s: number;
  /** Shares of (devices × latency): in which devices do nothing, or communicate and do not compute. */
  bubble?: number;
  exposed_communication?: number;
  /** The share that is spent waiting for hosts alone. */
  host_bound?: number | null;
  ops: number;
  events: number;
  devices: DeviceRow[];
  bars: BarRow[];
  /** In place of `bars`, if it was asked for. */
  table?: BarTable | null;
  /** In place of both, of a long program, if they were asked for. */
  blocks?: BlockTable | null;
  next_event: number | null;
  critical_path: number[];
  waits: WaitRow[];
  /** Of hosts that take time to issue ops. */
  hosts?: HostRow[];
}

export interface Resident {
  name: string;
  nbytes: number;
}

/** What values of one kind take: at the peak, and from which of the curve's points on how many bytes. */
export interface MemoryPart extends Resident {
  changes?: [number, number][];
}

export interface Curve {
  devices: number[];
  capacity_bytes: number;
  overhead_bytes?: number;
  peak_bytes: number;
  peak_op: string | null;
  peak_s: number;
  values: Resident[];
  /** What all values are, by kind. */
  parts?: MemoryPart[];
  points: [number, number][];
}

export interface MemoryAnswer {
  memories: Curve[];
}

export interface CompareAnswer {
  speedup: number | null;
  shared: number;
  this_parting: { label: string; op: string; function: string } | null;
}

export interface DocumentName {
  uri: string;
  name: string;
  version?: number;
}

/** One simulation. `source` and `statements` (by function, by number) only in the page, which has no editor. */
export interface Side {
  document: DocumentName;
  timeline: TimelineAnswer[];
  memory?: MemoryAnswer | null;
  source?: string | null;
  statements?: Record<string, Record<string, string>>;
}

export interface ShowMessage extends Side {
  type: "show";
  other?: Side | null;
  comparison?: CompareAnswer | null;
}

export type State = "simulated" | "stale" | "pending" | "failed";

export type ToView =
  | ShowMessage
  | { type: "state"; state: State; why?: string | null; enough?: string | null }
  | { type: "cursor"; uri: string; position: Position };

export type FromView =
  | { type: "ready" }
  | {
      type: "reveal";
      uri: string;
      range: Range | null;
      function: string;
      statement: number;
      /** The calls that lead there, outermost first. */
      path: { function: string; statement: number }[];
      event: number;
      focus: boolean;
    }
  | { type: "closeComparison" }
  | { type: "simulateOn"; machine: string }
  | { type: "error"; message: string };
