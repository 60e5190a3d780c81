// What is said of bars, waits and memory, in words and units. Knows no screen.

import { bytes, gain, seconds as duration } from "../../src/figures";
import { HOST_LANE, type Device, type Model } from "./model";
import { workName } from "./slices";
import type { CompareAnswer, Curve, WaitRow } from "./protocol";

export { bytes, duration };

/** So many devices with too little memory are named. */
const MOST_NAMED = 8;

export function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** The same, and what is little is not nothing. */
function small(share: number): string {
  return share > 0 && share < 0.005 ? "<1%" : percent(share);
}

/** A bar in short: `MatMul %h on device 1`. */
export function named(model: Model, bar: number): string {
  const { op, label } = model.statement(bar);
  const { devices, stream } = model.group(bar);
  const place = `on ${streamOf(deviceNames(devices), stream)}`;
  return label === op ? `${op} ${place}` : `${op} ${label} ${place}`;
}

/** Devices by number, while they are few: `devices 1, 2`, `512 devices from 1 to 512`. */
export function deviceNames(devices: readonly number[]): string {
  if (devices.length === 1) return `device ${devices[0]}`;
  if (devices.length <= 8) return `devices ${devices.join(", ")}`;
  return `${devices.length} devices from ${Math.min(...devices)} to ${Math.max(...devices)}`;
}

/** What is said of a device, or of equal ones. */
export function deviceFacts(model: Model, devices: readonly number[]): string[] {
  const found = model.devices.find(({ device }) => device === devices[0]);
  if (found === undefined) return [];
  const share = model.latency > 0 ? found.busy / model.latency : 0;
  return [
    devices.length === 1 ? `device ${devices[0]}` : `${deviceNames(devices)}: equal, shown as one`,
    `busy ${percent(share)}, ${duration(found.busy)}`,
    `peak memory ${peakOf(found).join(" ")}`,
  ];
}

/** The most memory that a device needs, of how much it has; and what its process holds beside: `+ 1.45GB overhead`. */
export function peakOf({ peak, overhead, capacity }: { peak: number; overhead: number; capacity: number }): string[] {
  return [`${bytes(peak)} of ${bytes(capacity)}`, ...(overhead > 0 ? [`+ ${bytes(overhead)} overhead`] : [])];
}

// As hover says it.
const BOUNDS: Record<string, string> = { compute: "arithmetic", memory: "memory bandwidth", link: "link bandwidth" };

/** A stream of devices, in sentences: `device 1` for that of compute, `device 1, stream reduce`. */
export function streamOf(devices: string, stream: string): string {
  if (stream === HOST_LANE) return `host of ${devices}`;
  return stream === "" ? devices : `${devices}, stream ${stream}`;
}

/** When a bar runs, and what holds it up. */
export function facts(model: Model, bar: number): string {
  const slack = model.slack[bar];
  const work = workName(model.works[model.workOf[bar]]);
  const parts = [
    `${duration(model.ends[bar] - model.starts[bar])} from ${duration(model.starts[bar])}`,
    model.critical[bar] ? "on the critical path" : Number.isNaN(slack) ? "" : `slack ${duration(slack)}`,
  ];
  const bound = model.bounds[model.boundOf[bar]];
  parts.push(bound === "free" ? "free" : `bound by ${BOUNDS[bound] ?? bound}`);
  parts.push(work);
  return parts.filter(Boolean).join(", ");
}

/** Where a bar's statement stands: `line 3, called by @main`. */
export function place(model: Model, bar: number): string {
  const { range, function: name } = model.statement(bar);
  const calls = model.paths[model.pathOf[bar]];
  const line = range === null ? "" : `line ${range.start.line + 1}, `;
  const callers = calls.slice(0, -1).map((caller) => `@${caller}`);
  return callers.length > 0 ? `${line}in @${name}, called by ${callers.join(" / ")}` : `${line}in @${name}`;
}

/** In place of the event that is waited for. */
const HOST = -1;

/** How long a stream waits, and for what. */
export function waiting(model: Model, wait: WaitRow): string[] {
  const blocker = model.barOf(wait.blocker);
  const what = wait.blocker === HOST ? "the host" : blocker < 0 ? "an op that is not shown" : named(model, blocker);
  return [`${streamOf(`device ${wait.device}`, wait.stream ?? "")} waits ${duration(wait.duration_s)}`, `for ${what}`];
}

/** What a memory holds at one of its points; `parts`: by kind, where that is known. */
export function memoryAt(curve: Curve, nbytes: number, parts: [string, number][] | null = null): string[] {
  const share = deviceNames(curve.devices);
  const beside = curve.overhead_bytes ?? 0;
  const largest = curve.values.slice(0, 3).map((value) => `%${value.name} ${bytes(value.nbytes)}`);
  return [
    `${bytes(nbytes)} in use of ${bytes(curve.capacity_bytes)}, memory of ${share}`,
    listed(parts ?? []),
    `at most ${bytes(curve.peak_bytes)}, from ${duration(curve.peak_s)}${largest.length > 0 ? ":" : ""}`,
    largest.join(", "),
    listed((curve.parts ?? []).filter((part) => part.nbytes > 0).map((part) => [part.name, part.nbytes])),
    beside > 0 ? `and overhead ${bytes(beside)}: what the process holds beside tensors` : "",
  ].filter(Boolean);
}

function listed(parts: [string, number][]): string {
  return parts.map(([name, nbytes]) => `${name} ${bytes(nbytes)}`).join(" · ");
}

/** A program in one line. */
export function summary(model: Model): string {
  const host = model.hostBound > 0 ? [`${small(model.hostBound)} host-bound`] : [];
  const shares = [[model.bubble, "bubble"], [model.exposed, "exposed communication"]] as [number, string][];
  const unused = shares.filter(([share]) => !Number.isNaN(share)).map(([share, what]) => `${small(share)} ${what}`);
  const ops = `${model.ops.toLocaleString("en")} ops`;
  return [duration(model.latency), ...lacking(model), ...unused, ...host, ops, model.hardware].join(" · ");
}

/** Which devices have too little memory, as simulated, and of which that is open. */
function lacking(model: Model): string[] {
  return [
    ...saidOf("out of memory", model.devices.filter(({ fits }) => !fits)),
    ...saidOf("may fit all the same", model.devices.filter(({ fits, doubtful }) => doubtful && !fits)),
    ...saidOf("may not fit", model.devices.filter(({ fits, doubtful }) => doubtful && fits)),
  ];
}

/** What is so of devices, the first ones by number, as in a notebook; nothing of none. */
function saidOf(what: string, of: readonly Device[]): string[] {
  if (of.length === 0) return [];
  const named = of.slice(0, MOST_NAMED).map(({ device }) => device).join(", ");
  const more = of.length > MOST_NAMED ? ` and ${of.length - MOST_NAMED} more` : "";
  return [`${what}: device${of.length > 1 ? "s" : ""} ${named}${more}`];
}

/** Two programs in one line. */
export function compared(model: Model, other: Model, answer: CompareAnswer | null): string {
  const speedup = answer?.speedup ?? (model.latency > 0 ? other.latency / model.latency : null);
  const verdict = speedup === null ? "" : `, ${gain(speedup)}`;
  const parting = answer?.this_parting;
  const where = parting ? `; the critical paths part at ${parting.op} ${parting.label} in @${parting.function}` : "";
  return `${other.side.document.name}: ${duration(other.latency)} → ${duration(model.latency)}${verdict}${where}`;
}
