// What the colour of a bar says: its device, its phase, its microbatch, its op, or whether it is on the critical path.

import type { Lane } from "./lane";
import type { Model } from "./model";
import { HUES, luminance, type Theme } from "./theme";
import type { Rgb } from "./strip";

export const COLOURED_BY = ["device", "phase", "microbatch", "op", "critical path"] as const;
export type ColouredBy = (typeof COLOURED_BY)[number];

/** Bars in classes, each of which has a colour. Without `slotOf` a lane has the colour of its device. */
export interface Colouring {
  by: ColouredBy;
  /** By bar, the number of its class. */
  slotOf: Uint8Array | null;
  names: string[];
  /** Which of the palette's colours each class has; -1: grey. */
  hues: number[];
}

/** As many ops have colours of their own; the others, which take least time, share one. */
const MOST_OPS = 12;
const GREY = -1;

const PHASES = Object.entries(HUES);
export const COMMUNICATION = 6;

/** What says most of a program at first sight. */
export function bestColouring(model: Model): ColouredBy {
  return model.works.some(({ phase }) => phase !== null) ? "phase" : "device";
}

/** Those that say something of a program. */
export function colouringsOf(model: Model): ColouredBy[] {
  return COLOURED_BY.filter((by) => {
    if (by === "phase") return model.works.some(({ phase }) => phase !== null);
    if (by === "microbatch") return model.works.some(({ microbatch }) => microbatch !== null);
    return by !== "critical path" || model.path.length > 0;
  });
}

export function colouring(model: Model, by: ColouredBy): Colouring {
  if (by === "device") return { by, slotOf: null, names: [], hues: [] };
  if (by === "op") return byOp(model);
  if (by === "critical path") {
    return { by, slotOf: model.critical.slice(), names: ["not critical", "critical path"], hues: [GREY, 0] };
  }
  const slotOf = new Uint8Array(model.count);
  if (by === "microbatch") {
    const most = model.works.reduce((found, { microbatch }) => Math.max(found, microbatch ?? 0), 0);
    const used = Math.min(16, most);
    const slots = model.works.map(({ microbatch }) => (microbatch === null ? used : (microbatch - 1) % 16));
    for (let bar = 0; bar < model.count; bar += 1) slotOf[bar] = slots[model.workOf[bar]];
    const again = (slot: number): string => (slot + 17 <= most ? `${slot + 1}, ${slot + 17}, …` : String(slot + 1));
    const names = Array.from({ length: used }, (_, slot) => `microbatch ${again(slot)}`);
    return { by, slotOf, names: [...names, "no microbatch"], hues: [...names.map((_, slot) => slot), GREY] };
  }
  const slots = model.works.map(({ phase }) => {
    const at = PHASES.findIndex(([name]) => name === phase);
    return at < 0 ? PHASES.length + 1 : at;
  });
  const communicates = model.groups.map(({ communication }) => communication !== null);
  for (let bar = 0; bar < model.count; bar += 1) {
    slotOf[bar] = communicates[model.groupOf[bar]] ? PHASES.length : slots[model.workOf[bar]];
  }
  const names = [...PHASES.map(([name]) => name), "communication", "other"];
  return { by, slotOf, names, hues: [...PHASES.map(([, hue]) => hue), COMMUNICATION, GREY] };
}

function byOp(model: Model): Colouring {
  const seconds = new Map<string, number>();
  for (let bar = 0; bar < model.count; bar += 1) {
    const { op } = model.statement(bar);
    const devices = model.group(bar).devices.length;
    seconds.set(op, (seconds.get(op) ?? 0) + devices * (model.ends[bar] - model.starts[bar]));
  }
  const names = [...seconds.keys()].sort((a, b) => seconds.get(b)! - seconds.get(a)!).slice(0, MOST_OPS);
  const slots = model.statements.map(({ op }) => (names.includes(op) ? names.indexOf(op) : names.length));
  const slotOf = Uint8Array.from(model.statementOf, (statement) => slots[statement]);
  return { by: "op", slotOf, names: [...names, "other ops"], hues: [...names.map((_, i) => i), GREY] };
}

/** A class as it is painted. */
export interface Paint {
  fill: string;
  parts: Rgb;
  /** Of text upon it. */
  ink: string;
}

/** The colours of the classes; of a colouring by device, those of the devices. */
export function paintsOf(theme: Theme, { slotOf, hues }: Colouring): Paint[] {
  const grey: Paint = { fill: theme.faint, parts: theme.faintParts, ink: luminance(theme.ground) > 0.18 ? "#ffffff" : "#000000" };
  const own = theme.devices.map((fill, i) => ({ fill, parts: theme.deviceParts[i], ink: theme.inks[i] }));
  return slotOf === null ? own : hues.map((hue) => (hue === GREY ? grey : own[hue % own.length]));
}

/** Sums by class over blocks of a lane: of many bars, what takes most of their time is found without visiting each. */
export class Mix {
  private readonly sums: Float64Array;
  private readonly found: Float64Array;
  /** By place in the lane, side by side: a frame reads them all. */
  private readonly own: Uint8Array;
  private readonly lengths: Float32Array;

  constructor(
    lane: Lane,
    readonly slotOf: Uint8Array,
    private readonly slots: number,
  ) {
    const { bars, starts, ends } = lane;
    this.own = new Uint8Array(bars.length);
    this.lengths = new Float32Array(bars.length);
    for (let i = 0; i < bars.length; i += 1) {
      this.own[i] = slotOf[bars[i]];
      this.lengths[i] = ends[i] - starts[i];
    }
    const blocks = bars.length >> BLOCK;
    this.sums = new Float64Array((blocks + 1) * slots);
    this.found = new Float64Array(slots);
    for (let block = 0; block < blocks; block += 1) {
      const [at, next] = [block * slots, (block + 1) * slots];
      this.sums.copyWithin(next, at, next);
      for (let i = block << BLOCK; i < (block + 1) << BLOCK; i += 1) {
        this.sums[next + this.own[i]] += ends[i] - starts[i];
      }
    }
  }

  /** Seconds by class that the bars `first` to before `last` take. Valid until it is called again. */
  seconds(first: number, last: number): Float64Array {
    const { slots, sums, found, own, lengths } = this;
    found.fill(0);
    const add = (from: number, to: number): void => {
      for (let i = from; i < to; i += 1) found[own[i]] += lengths[i];
    };
    const [from, to] = [(first + (1 << BLOCK) - 1) >> BLOCK, last >> BLOCK];
    if (from >= to) {
      add(first, last);
      return found;
    }
    add(first, from << BLOCK);
    for (let slot = 0; slot < slots; slot += 1) found[slot] += sums[to * slots + slot] - sums[from * slots + slot];
    add(to << BLOCK, last);
    return found;
  }

  /** The class that takes most of them. */
  most(first: number, last: number): number {
    if (last === first + 1) return this.own[first];
    const seconds = this.seconds(first, last);
    let best = 0;
    for (let slot = 1; slot < this.slots; slot += 1) if (seconds[slot] > seconds[best]) best = slot;
    return best;
  }
}

const BLOCK = 3; // 2 to that power bars are a block

const mixes = new WeakMap<Lane, Mix>();

/** The sums of a lane in a colouring; null in that by device. Those of the last colouring are kept. */
export function mixOf(lane: Lane, { slotOf, names }: Colouring): Mix | null {
  if (slotOf === null) return null;
  let found = mixes.get(lane);
  if (found === undefined || found.slotOf !== slotOf) mixes.set(lane, (found = new Mix(lane, slotOf, names.length)));
  return found;
}
