// Where lanes stand, one below the other. Pixels from the top of all lanes.

import type { Model } from "./model";

export const GUTTER = 132;
export const AXIS = 24;
export const BARS = 26;
export const OTHER = 16;
export const STRIP = 30;
const GAP = 14;

/** One device's place: bars at `top`, those of the other program at `otherTop`, memory at `stripTop`. */
export interface Row {
  device: number;
  top: number;
  otherTop: number;
  stripTop: number;
  bottom: number;
}

/** A row for each device of either program, in the order of their numbers. */
export function rowsOf(model: Model, other: Model | null): Row[] {
  const devices = new Set([...model.lanes.keys(), ...(other?.lanes.keys() ?? [])]);
  const step = BARS + (other !== null ? OTHER + 2 : 0) + STRIP + 4 + GAP;
  return [...devices]
    .sort((a, b) => a - b)
    .map((device, number) => {
      const top = 6 + number * step;
      const stripTop = top + BARS + 4 + (other !== null ? OTHER + 2 : 0);
      return { device, top, otherTop: top + BARS + 2, stripTop, bottom: top + step };
    });
}

/** The row at a height; null: none. */
export function rowAt(rows: Row[], y: number): Row | null {
  if (rows.length === 0 || y < rows[0].top) return null;
  const step = rows[0].bottom - rows[0].top;
  return rows[Math.floor((y - rows[0].top) / step)] ?? null;
}
