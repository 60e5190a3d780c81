// What is at a place of the lanes.

import { curveOf, pointAt } from "./draw_memory";
import { AXIS, BARS, GUTTER, OTHER, rowAt, STRIP } from "./layout";
import type { Model } from "./model";
import type { Curve, WaitRow } from "./protocol";
import type { Scene, Selection } from "./scene";

export type Found =
  | { kind: "bar"; selection: Selection }
  | { kind: "wait"; wait: WaitRow; model: Model }
  | { kind: "memory"; curve: Curve; nbytes: number };

/** What is `x` pixels from the left and `y` from the top of the canvas; null: nothing. */
export function pick(scene: Scene, x: number, y: number): Found | null {
  const { viewport, rows } = scene;
  if (x < GUTTER || y < AXIS) return null;
  const height = y - AXIS + viewport.top;
  const row = rowAt(rows, height);
  if (row === null) return null;
  const time = viewport.from + ((x - GUTTER) / viewport.width) * viewport.span;
  const within = (top: number, high: number): boolean => height >= top - 1 && height <= top + high;
  if (row.stripTop !== null && within(row.stripTop, STRIP)) {
    const curve = curveOf(scene.model, row.device);
    if (curve === null || time > scene.model.latency) return null;
    const i = pointAt(curve, time);
    return i < 0 ? null : { kind: "memory", curve, nbytes: curve.points[i][1] };
  }
  const isOther = scene.other !== null && within(row.otherTop, OTHER);
  if (!isOther && !within(row.top, BARS)) return null;
  const model = isOther ? scene.other! : scene.model;
  const lane = model.lanes.get(row.lane);
  if (lane === undefined) return null;
  const at = lane.at(time, (viewport.span / viewport.width) * 2);
  if (at >= 0) return { kind: "bar", selection: { isOther, bar: lane.bars[at], lane: row.lane } };
  const wait = lane.waitAt(time);
  return wait === null ? null : { kind: "wait", wait, model };
}
