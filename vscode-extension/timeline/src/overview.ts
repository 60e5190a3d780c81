// The whole program in small: how much of it devices spend on what, over time, and which part of it is seen.

import { type Colouring, mixOf, paintsOf } from "./colouring";
import type { Pen } from "./draw";
import { GUTTER, OVERVIEW } from "./layout";
import type { Scene } from "./scene";

/** No more lanes times columns are summed up. */
const MOST_CELLS = 100_000;

/** By column and class, the share of all devices that is busy with it. */
export interface Shares {
  columns: number;
  slots: number;
  values: Float32Array;
}

let shares: { scene: Scene["rows"]; colouring: Colouring; width: number; found: Shares } | null = null;

/** Sum up the shown devices' streams of compute; equal devices count as often as they are there. */
export function sharesOf({ model, rows, colouring, viewport: { width, total } }: Pick<Scene, "model" | "rows" | "colouring" | "viewport">): Shares {
  const heads = rows.filter(({ stream, lane }) => stream === "" && model.lanes.has(lane));
  const columns = Math.max(1, Math.min(Math.floor(width), Math.max(100, Math.floor(MOST_CELLS / Math.max(1, heads.length)))));
  const slots = Math.max(1, colouring.names.length);
  const values = new Float32Array(columns * slots);
  const all = heads.reduce((sum, { devices }) => sum + devices.length, 0);
  for (const { lane: name, devices } of heads) {
    const lane = model.lanes.get(name)!;
    const mix = mixOf(lane, colouring);
    const weight = devices.length / all / (total / columns);
    for (let column = 0; column < columns; column += 1) {
      const [from, to] = [(total * column) / columns, (total * (column + 1)) / columns];
      const [first, last] = lane.within(from, to);
      if (first >= last) continue;
      const add = (slot: number, seconds: number): void => {
        values[column * slots + slot] += seconds * weight;
      };
      const inside = (i: number): number => Math.max(0, Math.min(to, lane.ends[i]) - Math.max(from, lane.starts[i]));
      const slotAt = (i: number): number => (mix === null ? 0 : mix.slotOf[lane.bars[i]]);
      add(slotAt(first), inside(first));
      if (last - 1 > first) add(slotAt(last - 1), inside(last - 1));
      if (last - first <= 2) continue;
      if (mix === null) add(0, lane.secondsIn(first + 1, last - 1));
      else mix.seconds(first + 1, last - 1).forEach((seconds, slot) => seconds > 0 && add(slot, seconds));
    }
  }
  return { columns, slots, values };
}

export function drawOverview(pen: Pen, scene: Scene): void {
  const { viewport, theme, colouring, rows } = scene;
  if (shares === null || shares.scene !== rows || shares.colouring !== colouring || shares.width !== viewport.width) {
    shares = { scene: rows, colouring, width: viewport.width, found: sharesOf(scene) };
  }
  const { columns, slots, values } = shares.found;
  const paints = paintsOf(theme, colouring);
  const [high, wide] = [OVERVIEW - 6, viewport.width / columns];
  for (let slot = 0; slot < slots; slot += 1) {
    pen.fillStyle = colouring.slotOf === null ? theme.faint : paints[slot].fill;
    pen.beginPath();
    for (let column = 0; column < columns; column += 1) {
      const share = values[column * slots + slot];
      if (share < 1e-3) continue;
      let below = 0;
      for (let under = 0; under < slot; under += 1) below += values[column * slots + under];
      const left = GUTTER + Math.floor(column * wide);
      pen.rect(left, 2 + high * (1 - Math.min(1, below + share)), GUTTER + Math.floor((column + 1) * wide) - left, high * share);
    }
    pen.fill();
  }
  if (scene.range !== null) {
    const [from, to] = [scene.range.from, scene.range.to].map((time) => GUTTER + (time / viewport.total) * viewport.width);
    pen.fillStyle = theme.focus;
    pen.fillRect(from, OVERVIEW - 3, Math.max(2, to - from), 3);
  }
  const [left, right] = [viewport.from, viewport.to].map((time) => GUTTER + (time / viewport.total) * viewport.width);
  pen.globalAlpha = 0.65;
  pen.fillStyle = theme.ground;
  pen.fillRect(GUTTER, 1, left - GUTTER, OVERVIEW - 3);
  pen.fillRect(right, 1, GUTTER + viewport.width - right, OVERVIEW - 3);
  pen.globalAlpha = 1;
  pen.strokeStyle = viewport.isWhole ? theme.line : theme.text;
  pen.lineWidth = 1;
  pen.strokeRect(left + 0.5, 1.5, Math.max(2, right - left - 1), OVERVIEW - 4);
}
