// What takes how much time, in all or in a stretch of it: by op, phase, microbatch, function, device. Knows no screen.

import type { Lane } from "./lane";
import type { Model } from "./model";

/** Seconds that something takes on all devices together, and how many ops they are. */
export interface Total {
  name: string;
  ops: number;
  seconds: number;
}

/** A device, or equal ones: the shares of the time in which it computes, communicates and does not compute, and idles. */
export interface DeviceTotal {
  device: number;
  computes: number;
  exposed: number;
  idle: number;
}

export interface Totals {
  from: number;
  to: number;
  devices: DeviceTotal[];
  /** By what is summed up, largest first. */
  by: { op: Total[]; phase: Total[]; microbatch: Total[]; function: Total[] };
}

/** Sum up what runs between two times on these devices, parts of ops as far as they are within. */
export function totals(model: Model, from: number, to: number, devices: readonly number[]): Totals {
  const wanted = new Set(devices);
  const seconds = new Float64Array(model.statements.length);
  const ops = new Float64Array(model.statements.length);
  const workSeconds = new Float64Array(model.works.length);
  const workOps = new Float64Array(model.works.length);
  const lanes = new Map<number, Lane[]>(devices.map((device) => [device, []]));
  for (const lane of model.lanes.values()) {
    if (lane.isHost || !wanted.has(lane.device)) continue;
    lanes.get(lane.device)!.push(lane);
    const [first, last] = lane.within(from, to);
    for (let i = first; i < last; i += 1) {
      const inside = Math.min(to, lane.ends[i]) - Math.max(from, lane.starts[i]);
      const bar = lane.bars[i];
      seconds[model.statementOf[bar]] += inside;
      ops[model.statementOf[bar]] += 1;
      workSeconds[model.workOf[bar]] += inside;
      workOps[model.workOf[bar]] += 1;
    }
  }
  const byStatement = (name: (statement: number) => string): Total[] => summed(seconds, ops, name);
  const byWork = (name: (work: number) => string | null): Total[] => summed(workSeconds, workOps, name);
  return {
    from,
    to,
    devices: [...lanes].map(([device, own]) => ({ device, ...shares(model, own, from, to) })),
    by: {
      op: byStatement((i) => model.statements[i].op),
      phase: byWork((i) => model.works[i].phase),
      microbatch: byWork((i) => (model.works[i].microbatch === null ? null : `microbatch ${model.works[i].microbatch}`)),
      function: byStatement((i) => `@${model.statements[i].function}`),
    },
  };
}

/** Sums by name; what has none is left out, and what does not occur. */
function summed(seconds: Float64Array, ops: Float64Array, nameOf: (i: number) => string | null): Total[] {
  const found = new Map<string, Total>();
  for (let i = 0; i < seconds.length; i += 1) {
    const name = ops[i] > 0 ? nameOf(i) : null;
    if (name === null) continue;
    const total = found.get(name) ?? { name, ops: 0, seconds: 0 };
    total.ops += ops[i];
    total.seconds += seconds[i];
    found.set(name, total);
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1));
}

/** Seconds that a device computes, communicates and does not compute, and does neither, on whichever stream. */
function shares(model: Model, lanes: Lane[], from: number, to: number): Omit<DeviceTotal, "device"> {
  const all: [number, number][] = [];
  const computing: [number, number][] = [];
  for (const lane of lanes) {
    const [first, last] = lane.within(from, to);
    for (let i = first; i < last; i += 1) {
      const piece: [number, number] = [Math.max(from, lane.starts[i]), Math.min(to, lane.ends[i])];
      all.push(piece);
      if (model.group(lane.bars[i]).communication === null) computing.push(piece);
    }
  }
  const [busy, computes] = [covered(all), covered(computing)];
  return { computes, exposed: Math.max(0, busy - computes), idle: Math.max(0, to - from - busy) };
}

/** How much time intervals cover, where they overlap once. */
function covered(intervals: [number, number][]): number {
  intervals.sort((a, b) => a[0] - b[0]);
  let [sum, reached] = [0, -Infinity];
  for (const [start, end] of intervals) {
    if (end > reached) {
      sum += end - Math.max(start, reached);
      reached = end;
    }
  }
  return sum;
}
