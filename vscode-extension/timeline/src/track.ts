// What follows one another on a line of time, with the sums that tell how full any stretch is without walking through it.

import { upTo } from "./model";

/** A piece of a track as it is drawn: one bar, or all bars that begin within one column of pixels. */
export interface Painter {
  /** A bar at least a column wide. */
  bar(bar: number): void;
  /** The bars `first` to before `last` of the track, in column `column`; they fill `full` of it, from 0 to 1. */
  column(column: number, first: number, last: number, full: number): void;
}

/** Bars one after the other: none begins before the one before it ends. */
export class Track {
  /** Before each bar, and at the end: seconds that those before it take. */
  protected readonly busy: Float64Array;

  constructor(
    readonly starts: Float64Array,
    readonly ends: Float64Array,
  ) {
    this.busy = new Float64Array(starts.length + 1);
    for (let i = 0; i < starts.length; i += 1) this.busy[i + 1] = this.busy[i] + (ends[i] - starts[i]);
  }

  /** Seconds that all bars take. */
  get total(): number {
    return this.busy[this.starts.length];
  }

  /** Seconds that the bars `first` to before `last` take. */
  secondsIn(first: number, last: number): number {
    return this.busy[last] - this.busy[first];
  }

  /** The bars of which a part lies between two times: the first, and the one after the last. */
  within(from: number, to: number): [number, number] {
    const first = upTo(this.ends, from);
    return [first, Math.max(first, upTo(this.starts, to))];
  }

  /**
   * Say what is to be painted between two times on so many columns: about two calls for a column at the most, however
   * many bars there are. A bar narrower than a column is one of those that its column represents.
   */
  paint(from: number, to: number, columns: number, painter: Painter): void {
    const { starts, ends, busy } = this;
    const pixel = (to - from) / columns;
    const count = starts.length;
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
    const after = i + 1 < this.starts.length ? this.starts[i + 1] - time : Infinity;
    const before = i >= 0 ? time - this.ends[i] : Infinity;
    if (Math.min(after, before) > slop) return -1;
    return after < before ? i + 1 : i;
  }
}
