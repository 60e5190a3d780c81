// What ops are part of, as slices above them: what they are done for, and the functions that are called, outermost first.

import { withoutMiddle } from "../../src/figures";
import type { Lane } from "./lane";
import type { Model } from "./model";
import type { CallPlace, Work } from "./protocol";
import { Track } from "./track";

/** Of deeper calls the outermost are shown. */
export const MOST_CALLS = 3;

/** What a slice is: a stretch of one phase and microbatch, or one call. */
export type Part = { kind: "work"; work: Work } | { kind: "call"; name: string; place: CallPlace };

/** Stretches of a lane in which all ops are part of the same; `first` and `last` are places in the lane. */
export class Slices extends Track {
  constructor(
    starts: Float64Array,
    ends: Float64Array,
    readonly firsts: Int32Array,
    readonly lasts: Int32Array,
    readonly part: (slice: number) => Part,
  ) {
    super(starts, ends);
  }
}

const cutUp = new WeakMap<Lane, Slices[]>();

/** How many levels of slices a model's lanes have. */
export function levelsOf(model: Model): number {
  return (model.works.length > 1 ? 1 : 0) + Math.min(MOST_CALLS, model.depth);
}

/** The slices of a lane, level by level: work where it is known, then calls. Found once. */
export function slicesOf(model: Model, lane: Lane): Slices[] {
  let found = cutUp.get(lane);
  if (found === undefined) {
    found = [];
    if (model.works.length > 1) {
      found.push(cut(lane, (bar) => model.workOf[bar], (bar) => ({ kind: "work", work: model.works[model.workOf[bar]] }), LONG_PAUSE * model.latency));
    }
    for (let depth = 1; depth <= Math.min(MOST_CALLS, model.depth); depth += 1) {
      const callOf = (bar: number): number => model.callAt(bar, depth);
      found.push(
        cut(lane, callOf, (bar) => {
          const path = model.pathOf[bar];
          return { kind: "call", name: model.paths[path][depth], place: model.callers[path][depth - 1] };
        }),
      );
    }
    cutUp.set(lane, found);
  }
  return found;
}

/** Work is cut at pauses that are longer than this share of the program: nothing is done for it there. */
const LONG_PAUSE = 0.005;

/** Cut a lane where a number changes, and at pauses of some seconds; stretches of 0 are left out. */
function cut(lane: Lane, numberOf: (bar: number) => number, part: (bar: number) => Part, pause = Infinity): Slices {
  const firsts: number[] = [];
  const lasts: number[] = [];
  const { bars, starts, ends } = lane;
  for (let i = 0, last = 0; i < bars.length; i += 1) {
    const number = numberOf(bars[i]);
    const pauses = i > 0 && starts[i] - ends[i - 1] > pause;
    if (number !== 0 && number === last && !pauses) lasts[lasts.length - 1] = i;
    else if (number !== 0) {
      firsts.push(i);
      lasts.push(i);
    }
    last = number;
  }
  return new Slices(
    Float64Array.from(firsts, (i) => starts[i]),
    Float64Array.from(lasts, (i) => ends[i]),
    Int32Array.from(firsts),
    Int32Array.from(lasts),
    (slice) => part(bars[firsts[slice]]),
  );
}

/** What is written on a slice. */
export function nameOf(part: Part): string {
  return part.kind === "call" ? `@${part.name}` : workName(part.work);
}

/** So many letters of a name, at its start or its end, tell something. */
const LEAST = 3;

/** The same in so many letters. A microbatch keeps its number, alone where no more has room: the phase has a colour. */
export function fittedName(part: Part, room: number): string {
  const whole = nameOf(part);
  if (whole.length <= room) return whole;
  const number = part.kind === "work" ? String(part.work.microbatch ?? "") : "";
  if (number === "" && room >= 2 * LEAST) return withoutMiddle(whole, room - 1);
  if (number === "") return room > LEAST ? `${whole.slice(0, room - 1)}…` : "";
  const letters = room - number.length - 2;
  return letters >= LEAST ? `${whole.slice(0, letters)}… ${number}` : number.length <= room ? number : "";
}

/** A phase and a microbatch in words: `backward 3`. */
export function workName({ phase, microbatch }: Work): string {
  return [phase ?? (microbatch === null ? "" : "microbatch"), microbatch ?? ""].filter((word) => word !== "").join(" ");
}
