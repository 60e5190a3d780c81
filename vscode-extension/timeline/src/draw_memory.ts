// The strip below each lane: the memory in use over time, against the capacity.

import { type Pen, SMALL } from "./draw";
import type { Row } from "./layout";
import type { Model } from "./model";
import type { Curve } from "./protocol";
import type { Scene } from "./scene";
import { pixel, type Rgb, Strip } from "./strip";
import { type Theme } from "./theme";
import { bytes } from "./words";

const areas = new Map<number, Strip>(); // by their heights

/** What is in a memory, lowest in the strip first, with the palette's colours: none that a phase has. */
export const PARTS: readonly (readonly [string, number])[] = [
  ["weights", 15], ["buffers", 9], ["optimizer state", 4], ["caches", 5], ["inputs", 7],
  ["gradients", 13], ["activations", 8], ["temporary", -1],
];

const layers = new WeakMap<Curve, Float64Array[]>();

/** By kind of `PARTS`: how high it reaches at each point of a curve, in bytes; null where that is not known. */
export function layersOf(curve: Curve): readonly Float64Array[] | null {
  if (curve.parts?.some(({ changes }) => changes === undefined) !== false) return null;
  let found = layers.get(curve);
  if (found === undefined) {
    const parts = new Map(curve.parts.map((part) => [part.name, part.changes!]));
    let below = new Float64Array(curve.points.length);
    found = PARTS.map(([name]) => {
      const top = Float64Array.from(below);
      const changes = parts.get(name) ?? [];
      changes.forEach(([first, nbytes], i) => {
        const end = changes[i + 1]?.[0] ?? top.length;
        for (let at = first; at < end; at += 1) top[at] += nbytes;
      });
      return (below = top);
    });
    layers.set(curve, found);
  }
  return found;
}

/** The bytes of each kind at a point of a curve; null where they are not known. */
export function partsAt(curve: Curve, point: number): [string, number][] | null {
  const tops = layersOf(curve);
  if (tops === null || point < 0) return null;
  return PARTS.map(([name], kind): [string, number] => [name, tops[kind][point] - (kind > 0 ? tops[kind - 1][point] : 0)])
    .filter(([, nbytes]) => nbytes > 0);
}

/** How parts are painted. */
export function partPaints(theme: Theme): { fill: string; parts: Rgb }[] {
  return PARTS.map(([, hue]) =>
    hue < 0 ? { fill: theme.faint, parts: theme.faintParts } : { fill: theme.devices[hue], parts: theme.deviceParts[hue] },
  );
}

/**
 * The memory of a row's device, this program's as an area, the other's as a line. The area has the colours of its parts;
 * where these are not known, and above the capacity, one of its own.
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
  const full = topOf(most, capacity, Math.max(...[own, other].map((curve) => (curve === null ? 0 : usualOf(curve)))));
  if (own !== null) {
    const area = areas.get(high) ?? new Strip(high);
    areas.set(high, area);
    area.begin(viewport.width);
    const tops = layersOf(own);
    const paints = partPaints(theme).map(({ parts }) => pixel(parts));
    const line = (nbytes: number): number => Math.round(high - (nbytes / full) * (high - 2));
    const [plain, over] = [pixel(theme.memoryParts), pixel(theme.overParts)];
    const limit = line(own.capacity_bytes);
    trace(scene, own, top, high, full, (left, right, height, point) => {
      let upper = Math.round(height - top);
      if (upper < limit) area.put(left, right, over, upper, limit);
      upper = Math.max(upper, limit);
      if (tops === null || point < 0) return area.put(left, right, plain, upper);
      for (let kind = PARTS.length - 1; kind >= 0 && upper < high; kind -= 1) {
        const lower = kind === 0 ? high : Math.max(upper, line(tops[kind - 1][point]));
        area.put(left, right, paints[kind], upper, lower);
        upper = lower;
      }
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
  for (const curve of [own, other]) if (curve !== null && curve.peak_bytes > full) drawSpike(pen, scene, curve, top);
}

/** A peak that is beyond the strip, and how high it is. */
function drawSpike(pen: Pen, { viewport, theme }: Scene, curve: Curve, top: number): void {
  const at = viewport.x(curve.peak_s);
  if (at < 0 || at > viewport.width) return;
  const text = `▲ ${bytes(curve.peak_bytes)}`;
  pen.font = SMALL;
  const wide = pen.measureText(text).width;
  pen.strokeStyle = theme.ground;
  pen.fillStyle = theme.text;
  pen.lineWidth = 3;
  const left = Math.max(0, Math.min(at - 4, viewport.width - wide - 80)); // beside the scale
  pen.strokeText(text, left, top + 8);
  pen.fillText(text, left, top + 8);
  pen.lineWidth = 1;
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
    // Upon whatever part is there.
    pen.strokeStyle = theme.ground;
    pen.lineWidth = 3;
    pen.strokeText(bytes(full * share), viewport.width - 10, y + 8);
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.fillText(bytes(full * share), viewport.width - 10, y + 8);
  }
  pen.textAlign = "left";
}

/**
 * What the strip's height represents. The capacity, or the peak where that is more; of programs that need little of
 * the capacity, a quarter more than their peak, since nothing could be seen else. The bar beside it is to scale. Of a
 * peak of a moment, twice as high as what is in use otherwise, `usual`, the strip shows the lower part, and says how high
 * it is.
 */
export function topOf(peak: number, capacity: number, usual = peak): number {
  const highest = usual > 0 && peak > 2 * usual ? 1.5 * usual : peak;
  return Math.max(1, peak > capacity / 4 ? Math.max(peak, capacity) : highest * 1.25);
}

/** Beyond what is usual a curve is for so small a part of the time. */
const MOMENT = 0.01;

const usual = new WeakMap<Curve, number>();

/** The bytes that are exceeded for a moment only. */
export function usualOf(curve: Curve): number {
  const known = usual.get(curve);
  if (known !== undefined) return known;
  const { points } = curve;
  const steps = points.slice(0, -1).map(([start, nbytes], i): [number, number] => [nbytes, points[i + 1][0] - start]);
  const total = steps.reduce((sum, [, seconds]) => sum + seconds, 0);
  let above = 0;
  const level = steps.sort((a, b) => b[0] - a[0]).find(([, seconds]) => (above += seconds) > MOMENT * total);
  const found = level?.[0] ?? curve.peak_bytes;
  usual.set(curve, found);
  return found;
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
  step: (left: number, right: number, height: number, point: number) => void,
): void {
  const { from, to, width } = scene.viewport;
  const factor = width / (to - from);
  const { points } = curve;
  const base = top + high;
  const height = (nbytes: number): number => base - (Math.min(nbytes, full) / full) * (high - 2);
  let i = pointAt(curve, from);
  const heightOf = (point: number): number => (point >= 0 ? height(points[point][1]) : base);
  let left = -1; // from where it has been
  let shown = i; // the point that is
  let latest = i; // what is in use behind the column that was visited last
  const go = (at: number, point: number): void => {
    if (point === shown) return;
    if (at > left) step(left, at, heightOf(shown), shown);
    left = at;
    shown = point;
  };
  let end = -1; // of that column
  i = Math.max(0, i + 1);
  while (i < points.length && points[i][0] <= to) {
    const at = Math.round((points[i][0] - from) * factor);
    if (at > end) go(end, latest);
    let highest = at < end && shown >= 0 ? shown : i;
    for (; i < points.length && Math.round((points[i][0] - from) * factor) === at; i += 1) {
      latest = i;
      if (points[i][1] > points[highest][1]) highest = i;
    }
    go(at, highest);
    end = at + 1;
  }
  go(end, latest);
  step(left, width + 1, heightOf(shown), shown);
}
