// The server's requests of our own, as docs/lsp-requests.md has them: their answers, and how to ask.

import type { Range } from "vscode-languageclient";
import { type TimelinePiece, allPieces } from "./pieces";

/** The version of the requests that this extension knows. */
export const PROTOCOL = 1;

/** Whether a program has enough memory, as far as simulated memory is known to be right. */
export type Fit = "fits" | "may not fit" | "does not fit";

export interface Status {
  state: "simulated" | "stale" | "pending" | "on_demand" | "failed";
  why: string | null;
  version: number;
  function: string | null;
  hardware: string;
  errors: number;
  warnings: number;
  statements: number;
  latency_s: number | null;
  ops: number | null;
  peak_memory_bytes: number | null;
  /** What the process holds beside tensors. */
  overhead_bytes?: number | null;
  /** Of all devices. */
  fit?: Fit | null;
  /** Whether these figures are of an earlier version; `stale_why` says of which, and why. */
  stale: boolean;
  stale_why: string | null;
  /** Where the machine is too small, one that is large enough. */
  enough?: string | null;
}

/** Columns: an entry for each line that takes time, or is on the critical path. */
export interface LineTimes {
  version: number;
  stale: boolean;
  latency_s: number;
  line: number[];
  share: number[];
  critical: boolean[];
}

/** Columns: an entry for each line whose time differs from that in the other version. */
export interface LineChanges {
  latency_s: number;
  line: number[];
  devices: number[];
  each_s: number[];
  device_s: number[];
  change_s: (number | null)[];
  device_change_s: (number | null)[];
}

export interface DiffTimes {
  other: LineChanges;
  this: LineChanges;
}

/** What is marked in a program on a mesh: collectives that communicate, names of values that are pending. */
export interface PlacementMarks {
  version: number;
  resharding: Range[];
  pending: Range[];
}

export interface Goal {
  range: Range | null;
  /** Null where the op is not simulated, as a collective need not be. */
  start_s: number | null;
  duration_s: number | null;
  wait_s?: number;
}

/** Why a statement takes long; lines are Markdown. */
export interface Why {
  version: number;
  name: string;
  roof: "compute" | "memory" | "latency" | "link" | "host" | "free" | null;
  start_s: number;
  duration_s: number;
  latency_s: number;
  why: string[];
  waited_s: number | null;
  waits: string[];
  won: string;
  shown: string;
  lane: { device: number; computes: number[]; communicates: number[]; waits_for_host: number[] };
  advice: string[];
  stale: boolean;
}

export interface Advice {
  number: number;
  title: string;
  kind: "move" | "recompute" | "step";
  range: Range;
  speedup: number | null;
  latency_s: number;
  saved_bytes: number;
  devices: number;
  fit: Fit;
  /** Why the results are the same, in words. */
  results: string;
}

export interface AdviceList {
  program: { latency_s: number; peak_memory_bytes: number; devices: number; fit: Fit };
  advice: Advice[];
  untried: string[];
}

export interface Cost {
  name: string;
  function: string;
  hardware: string;
  latency_s: number;
  ops: number;
  busy_s: Record<string, number>;
  peak_memory_bytes: Record<string, number>;
  communication_bytes: Record<string, number>;
}

export interface Comparison {
  other: Cost;
  this: Cost;
  speedup: number | null;
}

export interface RankProgram {
  rank: number;
  ranks: number[];
  text: string;
  links: { line: number; function: string; statement: number; range: Range | null }[];
}

export interface Choice {
  name: string;
  kind: string;
  required: boolean;
  default: string;
  /** The words that it is limited to; null where it is typed. */
  choices: string[] | null;
}

export interface Step {
  name: string;
  documentation: string;
  value: Choice | null;
  options: Choice[];
}

export interface Transformed {
  function: string;
  text: string;
  /** Comments that have no place in the result. */
  left_out: string[];
  why: string | null;
  comparison: Comparison | null;
}

export interface Hardware {
  profiles: { name: string; title: string; devices: number }[];
  chosen?: {
    name: string;
    changes: Record<string, string>;
    figures: { figure: string; value: string; unit: string; source: string }[];
  };
}

export interface WhatIf {
  changes: Record<string, string>;
  summary: string;
  comparison: Comparison;
}

export interface Calls {
  function: string;
  calls: { number: number; caller: string; range: Range | null; shown: boolean; start_s: number | null; duration_s: number | null; devices: number[] }[];
}

/** A request was answered with a reason why not; the message is for the user. */
export class Refused extends Error {}

/** What sends requests: a language client, or a stand-in. */
export interface Asked {
  sendRequest(method: string, params: unknown): Promise<unknown>;
}

/** Ask about a document. Throws Refused with the server's reason. */
export async function ask<T>(server: Asked, name: string, uri: string | undefined, params: object = {}): Promise<T> {
  const about = uri === undefined ? {} : { textDocument: { uri } };
  const answer = (await server.sendRequest(`distir/${name}`, { ...about, ...params })) as { error?: string; protocol?: number };
  if (typeof answer.protocol === "number" && answer.protocol > PROTOCOL) {
    throw new Refused(`The server answers in version ${answer.protocol} of its requests, this extension knows ${PROTOCOL}: update the extension.`);
  }
  if (typeof answer.error === "string") throw new Refused(answer.error);
  return answer as T;
}

/** The whole timeline of a document, in pieces. */
export function timeline(server: Asked, uri: string): Promise<TimelinePiece[]> {
  return allPieces((firstEvent) => ask(server, "timeline", uri, { firstEvent, limit: 200_000, columns: true, blocks: true }));
}
