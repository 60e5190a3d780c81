// The bars and waits of one stream of a device, with the sums that tell how full any stretch of time is without walking its bars.

import { HOST_LANE, type Model, upTo } from "./model";
import type { WaitRow } from "./protocol";

/** A piece of a lane as it is drawn: one bar, or all bars that begin within one column of pixels. */
export interface Painter {
  /** A bar at least a column wide. */
  bar(bar: number): void;
  /** The bars `first` to before `last` of the lane, in column `column`; they fill `full` of it, from 0 to 1. */
  column(column: number, first: number, last: number, full: number): void;
}

/**
 * The bars of one stream of a device, one after the other: a stream runs one op at a time. Or what its host issues, with
 * times of its own.
 */
export class Lane {
  readonly bars: Int32Array;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** Before each bar, and at the end: seconds that those before it take. */
  private readonly busy: Float64Array;
  private readonly criticals: Int32Array;
  private marks: Int32Array | null = null;
  readonly waits: WaitRow[];
  readonly waitStarts: Float64Array;

  constructor(
    readonly device: number,
    readonly stream: string,
    bars: number[],
    waits: WaitRow[],
    private readonly model: Model,
    issued: { starts: number[]; ends: number[] } | null = null,
  ) {
    this.bars = Int32Array.from(bars);
    this.starts = issued === null ? Float64Array.from(bars, (bar) => model.starts[bar]) : Float64Array.from(issued.starts);
    this.ends = issued === null ? Float64Array.from(bars, (bar) => model.ends[bar]) : Float64Array.from(issued.ends);
    this.busy = new Float64Array(bars.length + 1);
    for (let i = 0; i < bars.length; i += 1) this.busy[i + 1] = this.busy[i] + (this.ends[i] - this.starts[i]);
    this.criticals = this.sums(model.critical);
    this.waits = [...waits].sort((a, b) => a.start_s - b.start_s);
    this.waitStarts = Float64Array.from(this.waits, (wait) => wait.start_s);
  }

  /** Whether it is of a host, which issues what other lanes run. */
  get isHost(): boolean {
    return this.stream === HOST_LANE;
  }

  /** Seconds that all bars take. */
  get total(): number {
    return this.busy[this.bars.length];
  }

  /** How many of the bars `first` to before `last` lie on the critical path. */
  criticalIn(first: number, last: number): number {
    return this.criticals[last] - this.criticals[first];
  }

  /** How many of them are marked, as hits of a search. */
  markedIn(first: number, last: number): number {
    return this.marks === null ? 0 : this.marks[last] - this.marks[first];
  }

  /** Mark bars, by number of the model; null: none. */
  mark(marked: Uint8Array | null): void {
    this.marks = marked === null ? null : this.sums(marked);
  }

  /**
   * Say what is to be painted between two times on so many columns: about two calls for a column at the most, however
   * many bars there are. A bar narrower than a column is one of those that its column represents.
   */
  paint(from: number, to: number, columns: number, painter: Painter): void {
    const { starts, ends, busy } = this;
    const pixel = (to - from) / columns;
    const count = this.bars.length;
    let i = upTo(ends, from);
    while (i < count && starts[i] < to) {
      if (ends[i] - starts[i] >= pixel) {
        painter.bar(i);
        i += 1;
        continue;
      }
      const column = Math.floor((starts[i] - from) / pixel);
      const end = from + (column + 1) * pixel;
      // Gallop: most columns hold few bars, some hold thousands.
      let reach = 1;
      while (i + reach < count && starts[i + reach] < end) reach *= 2;
      let next = Math.max(i + 1, upTo(starts, end, i + (reach >> 1), Math.min(count, i + reach)));
      // Only the last of them may reach further than the column; it gets a bar of its own.
      if (next > i + 1 && ends[next - 1] - starts[next - 1] >= pixel) next -= 1;
      painter.column(column, i, next, Math.min(1, (busy[next] - busy[i]) / pixel));
      i = next;
    }
  }

  /** The place in the lane of the bar at a time, or of one at most `slop` seconds away; -1: none. */
  at(time: number, slop: number): number {
    const i = upTo(this.starts, time) - 1;
    if (i >= 0 && this.ends[i] >= time) return i;
    const after = i + 1 < this.bars.length ? this.starts[i + 1] - time : Infinity;
    const before = i >= 0 ? time - this.ends[i] : Infinity;
    if (Math.min(after, before) > slop) return -1;
    return after < before ? i + 1 : i;
  }

  /** The place of the bar nearest to a time; -1 in an empty lane. */
  nearest(time: number): number {
    return this.at(time, Infinity);
  }

  /** The wait at a time. */
  waitAt(time: number): WaitRow | null {
    const wait = this.waits[upTo(this.waitStarts, time) - 1];
    return wait !== undefined && time <= wait.start_s + wait.duration_s ? wait : null;
  }

  /** The place in the lane of a bar of the model; -1: it is not here. */
  placeOf(bar: number): number {
    const at = upTo(this.bars, bar) - 1;
    return at >= 0 && this.bars[at] === bar ? at : -1;
  }

  private sums(flags: Uint8Array): Int32Array {
    const found = new Int32Array(this.bars.length + 1);
    for (let i = 0; i < this.bars.length; i += 1) found[i + 1] = found[i] + flags[this.bars[i]];
    return found;
  }

  /** Whether a bar lies on the critical path, by its place in the lane. */
  isCritical(place: number): boolean {
    return this.model.critical[this.bars[place]] === 1;
  }
}
