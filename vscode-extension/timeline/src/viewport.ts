// Which part of the time and of the lanes is seen. Pure numbers: times in seconds, places in pixels.

import { ticks } from "d3-array";

/** Across the view when zoomed in as far as it goes: less is below the resolution of the simulation's clock. */
export const NARROWEST_S = 20e-9;

/** What is seen: from one time to another, below the first `top` pixels of all lanes. */
export class Viewport {
  from = 0;
  to = 1;
  top = 0;
  total = 1;
  width = 1;
  height = 1;
  /** How high all lanes are. */
  content = 0;

  /** Where a time is, in pixels from the left of the lanes. */
  x(time: number): number {
    return ((time - this.from) / this.span) * this.width;
  }

  /** Round times that are seen, ascending, about so many pixels apart. */
  ticks(apart: number): number[] {
    return ticks(this.from, this.to, Math.max(2, this.width / apart));
  }

  get span(): number {
    return this.to - this.from;
  }

  /** Whether everything is seen. */
  get isWhole(): boolean {
    return this.from <= 0 && this.to >= this.total;
  }

  /** A program of another length: what is seen stays where it is, and everything stays everything. */
  retime(total: number): void {
    const whole = this.isWhole;
    this.total = total > 0 ? total : 1e-9;
    if (whole) this.fit();
    else this.show(this.from, this.to);
  }

  resize(width: number, height: number): void {
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.move(0, 0);
  }

  fit(): void {
    this.from = 0;
    this.to = this.total;
  }

  /** See this stretch, as far as there is such a one. */
  show(from: number, to: number): void {
    const span = Math.min(this.total, Math.max(Math.min(NARROWEST_S, this.total), to - from));
    this.from = Math.min(Math.max(0, (from + to) / 2 - span / 2), this.total - span);
    this.to = this.from + span;
  }

  /** See `factor` times as much, with the time `at` where it is. */
  zoom(factor: number, at: number): void {
    const span = Math.min(this.total, Math.max(Math.min(NARROWEST_S, this.total), this.span * factor));
    const share = (at - this.from) / this.span;
    const from = Math.min(Math.max(0, at - share * span), this.total - span);
    this.from = from;
    this.to = from + span;
  }

  /** Move by so many seconds, and pixels down. */
  move(seconds: number, down: number): void {
    const span = this.span;
    this.from = Math.min(Math.max(0, this.from + seconds), Math.max(0, this.total - span));
    this.to = this.from + span;
    this.top = Math.max(0, Math.min(this.top + down, this.content - this.height));
  }

  /** Bring a stretch of time and of lanes into view, moving as little as need be, without zooming. */
  reveal(from: number, to: number, top: number, bottom: number): void {
    const covers = from <= this.from && to >= this.to;
    if (!covers && (from < this.from || to > this.to)) {
      // Of what is wider than the view, its beginning.
      const middle = to - from > this.span ? from + this.span / 2 : (from + to) / 2;
      this.move(middle - this.span / 2 - this.from, 0);
    }
    if (top < this.top) this.move(0, top - this.top);
    else if (bottom > this.top + this.height) this.move(0, Math.min(top, bottom - this.height) - this.top);
  }
}
