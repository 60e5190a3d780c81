// The bars and waits of one stream of a device.

import { HOST_LANE, type Model, picked, upTo } from "./model";
import type { WaitRow } from "./protocol";
import { Track } from "./track";

/**
 * The bars of one stream of a device, one after the other: a stream runs one op at a time. Or what its host issues, with
 * times of its own.
 */
export class Lane extends Track {
  private readonly criticals: Int32Array;
  private marks: Int32Array | null = null;
  readonly waits: WaitRow[];
  readonly waitStarts: Float64Array;

  constructor(
    readonly device: number,
    readonly stream: string,
    readonly bars: Int32Array,
    waits: WaitRow[],
    private readonly model: Model,
    issued: { starts: number[]; ends: number[] } | null = null,
  ) {
    super(
      issued === null ? picked(model.starts, bars) : Float64Array.from(issued.starts),
      issued === null ? picked(model.ends, bars) : Float64Array.from(issued.ends),
    );
    this.criticals = this.sums(model.critical);
    this.waits = [...waits].sort((a, b) => a.start_s - b.start_s);
    this.waitStarts = Float64Array.from(this.waits, (wait) => wait.start_s);
  }

  /** Whether it is of a host, which issues what other lanes run. */
  get isHost(): boolean {
    return this.stream === HOST_LANE;
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
