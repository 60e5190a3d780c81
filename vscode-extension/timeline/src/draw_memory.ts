// The strip below each lane: the memory in use over time, against the capacity.

import type { Pen } from "./draw";
import { STRIP } from "./layout";
import type { Model } from "./model";
import type { Curve } from "./protocol";
import type { Scene } from "./scene";
import { pixel, Strip } from "./strip";

let area: Strip; // made with the first drawing: there may be no page yet

/** The memory of a device, this program's as an area, the other's as a line; so far from the top. */
export function drawMemory(pen: Pen, scene: Scene, device: number, top: number): void {
  const { viewport, theme } = scene;
  const own = curveOf(scene.model, device);
  const other = scene.other === null ? null : curveOf(scene.other, device);
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  pen.strokeRect(-1, top + 0.5, viewport.width + 2, STRIP - 1);
  const most = Math.max(...[own, other].map((curve) => curve?.peak_bytes ?? 0));
  const capacity = Math.max(...[own, other].map((curve) => curve?.capacity_bytes ?? 0));
  const full = topOf(most, capacity);
  if (own !== null) {
    area ??= new Strip(STRIP);
    area.begin(viewport.width);
    const colour = pixel(own.peak_bytes > own.capacity_bytes ? theme.overParts : theme.memoryParts);
    trace(scene, own, top, full, (left, right, height) => {
      area.put(left, right, colour, Math.round(height - top));
    });
    area.paint(pen, top, STRIP);
  }
  if (other !== null) {
    pen.strokeStyle = theme.text;
    pen.setLineDash([3, 2]);
    pen.beginPath();
    pen.moveTo(-1, top + STRIP);
    trace(scene, other, top, full, (left, right, height) => {
      pen.lineTo(left, height);
      pen.lineTo(right, height);
    });
    pen.stroke();
    pen.setLineDash([]);
  }
  if (capacity > 0 && capacity <= full) {
    const at = Math.round(top + STRIP - (capacity / full) * (STRIP - 2)) + 0.5;
    pen.strokeStyle = most > capacity ? theme.over : theme.faint;
    pen.beginPath();
    pen.moveTo(0, at);
    pen.lineTo(viewport.width, at);
    pen.stroke();
  }
}

/**
 * What the strip's height represents. The capacity, or the peak where that is more; of programs that need little of
 * the capacity, a quarter more than their peak, since nothing could be seen else. The bar beside it is to scale.
 */
export function topOf(peak: number, capacity: number): number {
  return Math.max(1, peak > capacity / 4 ? Math.max(peak, capacity) : peak * 1.25);
}

/** The place in a curve of what is in use at a time; -1 before it begins. */
export function pointAt(curve: Curve, time: number): number {
  let low = 0;
  let high = curve.points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.points[middle][0] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function curveOf(model: Model, device: number): Curve | null {
  return model.devices.find((found) => found.device === device)?.memory ?? null;
}

/**
 * The steps of a curve, from left to right: from where to where, and how high up. Of each column of pixels it is the
 * highest one.
 */
function trace(
  scene: Scene,
  curve: Curve,
  top: number,
  full: number,
  step: (left: number, right: number, height: number) => void,
): void {
  const { from, to, width } = scene.viewport;
  const factor = width / (to - from);
  const { points } = curve;
  const base = top + STRIP;
  const height = (nbytes: number): number => base - (nbytes / full) * (STRIP - 2);
  let i = pointAt(curve, from);
  let left = -1; // from where it has been
  let shown = i >= 0 ? height(points[i][1]) : base; // so high
  let latest = shown; // what is in use behind the column that was visited last
  const go = (at: number, high: number): void => {
    if (high === shown) return;
    if (at > left) step(left, at, shown);
    left = at;
    shown = high;
  };
  let end = -1; // of that column
  i = Math.max(0, i + 1);
  while (i < points.length && points[i][0] <= to) {
    const at = Math.round((points[i][0] - from) * factor);
    if (at > end) go(end, latest);
    let highest = Infinity;
    for (; i < points.length && Math.round((points[i][0] - from) * factor) === at; i += 1) {
      latest = height(points[i][1]);
      if (latest < highest) highest = latest;
    }
    go(at, Math.min(highest, at < end ? shown : highest));
    end = at + 1;
  }
  go(end, latest);
  step(left, width + 1, shown);
}
