// The strip below each lane: the memory in use over time, against the capacity.

import { type Pen, SMALL } from "./draw";
import type { Row } from "./layout";
import type { Model } from "./model";
import type { Curve } from "./protocol";
import type { Scene } from "./scene";
import { pixel, Strip } from "./strip";
import { bytes } from "./words";

const areas = new Map<number, Strip>(); // by their heights

/** What ops have made, among the parts of a memory; the others are parameters. */
const MADE = "activations and other results";

/** The bytes of parameters in a memory, as far as its parts say. */
export function parametersOf(curve: Curve): number {
  return (curve.parts ?? []).reduce((sum, { name, nbytes }) => sum + (name === MADE ? 0 : nbytes), 0);
}

/**
 * The memory of a row's device, this program's as an area, the other's as a line. The area is darker as far up as the
 * parameters reach that are there at the peak.
 */
export function drawMemory(pen: Pen, scene: Scene, { device, stripTop, strip: high }: Row): void {
  const { viewport, theme } = scene;
  const top = stripTop!;
  const own = curveOf(scene.model, device);
  const other = scene.other === null ? null : curveOf(scene.other, device);
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  pen.strokeRect(-1, top + 0.5, viewport.width + 2, high - 1);
  const most = Math.max(...[own, other].map((curve) => curve?.peak_bytes ?? 0));
  const capacity = Math.max(...[own, other].map((curve) => curve?.capacity_bytes ?? 0));
  const full = topOf(most, capacity);
  if (own !== null) {
    let area = areas.get(high);
    if (area === undefined) areas.set(high, (area = new Strip(high)));
    area.begin(viewport.width);
    const parts = own.peak_bytes > own.capacity_bytes ? theme.overParts : theme.memoryParts;
    const [colour, lower] = [pixel(parts, 0.6), pixel(parts)];
    const held = Math.round(high - (parametersOf(own) / full) * (high - 2));
    trace(scene, own, top, high, full, (left, right, height) => {
      const line = Math.round(height - top);
      area.put(left, right, colour, line);
      if (held < high) area.put(left, right, lower, Math.max(line, held));
    });
    area.paint(pen, top, high);
  }
  if (other !== null) {
    pen.strokeStyle = theme.text;
    pen.setLineDash([3, 2]);
    pen.beginPath();
    pen.moveTo(-1, top + high);
    trace(scene, other, top, high, full, (left, right, height) => {
      pen.lineTo(left, height);
      pen.lineTo(right, height);
    });
    pen.stroke();
    pen.setLineDash([]);
  }
  if (capacity > 0 && capacity <= full) {
    const at = Math.round(top + high - (capacity / full) * (high - 2)) + 0.5;
    pen.strokeStyle = most > capacity ? theme.over : theme.faint;
    pen.beginPath();
    pen.moveTo(0, at);
    pen.lineTo(viewport.width, at);
    pen.stroke();
  }
  if (high >= 30 && full > 1) drawScale(pen, scene, top, high, full);
}

/** Bytes beside lines: what the height means. */
function drawScale(pen: Pen, { viewport, theme }: Scene, top: number, high: number, full: number): void {
  pen.font = SMALL;
  pen.fillStyle = theme.text;
  pen.strokeStyle = theme.line;
  pen.textAlign = "right";
  const steps = high >= 70 ? [1, 0.5] : [1];
  for (const share of steps) {
    const y = Math.round(top + high - share * (high - 2)) + 0.5;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    pen.moveTo(0, y);
    pen.lineTo(viewport.width, y);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillText(bytes(full * share), viewport.width - 10, y + 8);
  }
  pen.textAlign = "left";
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
  high: number,
  full: number,
  step: (left: number, right: number, height: number) => void,
): void {
  const { from, to, width } = scene.viewport;
  const factor = width / (to - from);
  const { points } = curve;
  const base = top + high;
  const height = (nbytes: number): number => base - (nbytes / full) * (high - 2);
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
