// Where lanes stand, one below the other. Pixels from the top of all lanes.

import { laneName, type Model } from "./model";

export const GUTTER = 132;
export const AXIS = 24;
export const BARS = 26;
export const OTHER = 16;
export const STRIP = 30;
const GAP = 14;

/**
 * A lane's place: bars at `top`, those of the other program at `otherTop`. The last lane of a device has the device's
 * memory beneath, at `stripTop`; the others have none there.
 */
export interface Row {
  /** The lane's name. */
  lane: string;
  device: number;
  stream: string;
  top: number;
  otherTop: number;
  stripTop: number | null;
  bottom: number;
}

/**
 * A row for each lane of either program: devices in the order of their numbers, their hosts and other streams after
 * compute. `hosts`: whether those of hosts are shown.
 */
export function rowsOf(model: Model, other: Model | null, hosts = true): Row[] {
  const lanes = new Map([...model.lanes, ...(other?.lanes ?? [])]);
  const shown = [...lanes.values()].filter((lane) => hosts || !lane.isHost);
  const found = shown.sort(
    (a, b) => a.device - b.device || (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : 0),
  );
  let top = 6;
  return found.map(({ device, stream }, number) => {
    const below = top + BARS + 4 + (other !== null ? OTHER + 2 : 0);
    const isLast = found[number + 1]?.device !== device;
    const bottom = below + (isLast ? STRIP + GAP : 0);
    const stripTop = isLast ? below : null;
    const row = { lane: laneName(device, stream), device, stream, top, otherTop: top + BARS + 2, stripTop, bottom };
    top = bottom;
    return row;
  });
}

/** The row at a height; null: none. */
export function rowAt(rows: Row[], y: number): Row | null {
  return rows.find((row) => y >= row.top && y < row.bottom) ?? null;
}
