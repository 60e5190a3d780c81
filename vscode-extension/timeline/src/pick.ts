// What is at a place of the lanes.

import { curveOf, pointAt } from "./draw_memory";
import { AXIS, GUTTER, OVERVIEW, type Row, rowAt, SLICE } from "./layout";
import type { Model } from "./model";
import type { Curve, WaitRow } from "./protocol";
import type { Scene, Selection } from "./scene";
import { type Slices, slicesOf } from "./slices";

export type Found =
  | { kind: "bar"; selection: Selection }
  | { kind: "overview"; time: number }
  | { kind: "name"; row: Row }
  | { kind: "slice"; row: Row; slices: Slices; slice: number }
  | { kind: "wait"; wait: WaitRow; model: Model }
  | { kind: "memory"; curve: Curve; point: number };

/** What is `x` pixels from the left and `y` from the top of the canvas; null: nothing. */
export function pick(scene: Scene, x: number, y: number): Found | null {
  const { viewport, rows } = scene;
  if (x >= GUTTER && y < OVERVIEW) return { kind: "overview", time: ((x - GUTTER) / viewport.width) * viewport.total };
  if (y < AXIS) return null;
  const height = y - AXIS + viewport.top;
  const row = rowAt(rows, height);
  if (row === null) return null;
  if (x < GUTTER) return { kind: "name", row };
  const time = viewport.from + ((x - GUTTER) / viewport.width) * viewport.span;
  const within = (top: number, high: number): boolean => height >= top - 1 && height <= top + high;
  if (row.stripTop !== null && within(row.stripTop, row.strip)) {
    const curve = curveOf(scene.model, row.device);
    if (curve === null || time > scene.model.latency) return null;
    const i = pointAt(curve, time);
    return i < 0 ? null : { kind: "memory", curve, point: i };
  }
  const isOther = scene.other !== null && within(row.otherTop, row.otherBars);
  if (!isOther && !within(row.top, row.bars)) return sliceAt(scene, row, height, time);
  const model = isOther ? scene.other! : scene.model;
  const lane = model.lanes.get(row.lane);
  if (lane === undefined) return null;
  const at = lane.at(time, (viewport.span / viewport.width) * 2);
  if (at >= 0) return { kind: "bar", selection: { isOther, bar: lane.bars[at], lane: row.lane } };
  const wait = lane.waitAt(time);
  return wait === null ? null : { kind: "wait", wait, model };
}

function sliceAt({ model, viewport }: Scene, row: Row, height: number, time: number): Found | null {
  const level = Math.floor((height - row.sliceTop) / SLICE);
  const lane = model.lanes.get(row.lane);
  if (lane === undefined || level < 0 || level >= row.levels) return null;
  const slices = slicesOf(model, lane)[level];
  const slice = slices?.at(time, viewport.span / viewport.width) ?? -1;
  return slice < 0 ? null : { kind: "slice", row, slices, slice };
}
