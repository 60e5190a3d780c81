// Drawing on the canvas. What it costs goes by the pixels that are seen, not by the bars that there are.

import { type Colouring, mixOf, type Paint, paintsOf } from "./colouring";
import { drawGutter } from "./draw_gutter";
import { drawLinks, drawCriticalSteps } from "./draw_links";
import { drawMemory } from "./draw_memory";
import { drawSlices } from "./draw_slices";
import { AXIS, GUTTER, OVERVIEW, type Row } from "./layout";
import type { Lane } from "./lane";
import type { Model } from "./model";
import { drawOverview } from "./overview";
import type { Scene } from "./scene";
import { pixel, Strip } from "./strip";

export type Pen = CanvasRenderingContext2D;

export const SMALL = "11px system-ui, sans-serif";
export const LABEL = "11px ui-monospace, Menlo, Consolas, monospace";
const LETTER_HEIGHT = 14; // of LABEL, with room above and below
const DIM = 0.2;
const MANY_LANES = 12;

let letter = 0; // the width of a letter of LABEL
let strip: Strip; // made with the first drawing: there may be no page yet

export function draw(pen: Pen, scene: Scene): void {
  const { viewport, rows, theme } = scene;
  const paints = paintsOf(theme, scene.colouring);
  const otherPaints = scene.otherColouring === null ? paints : paintsOf(theme, scene.otherColouring);
  strip ??= new Strip(1);
  pen.clearRect(0, 0, GUTTER + viewport.width, AXIS + viewport.height);
  pen.textBaseline = "middle";
  const seen = rows.filter((row) => row.bottom > viewport.top && row.sliceTop < viewport.top + viewport.height);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, viewport.width, viewport.height);
  pen.clip();
  pen.translate(GUTTER, AXIS - viewport.top);
  for (const row of seen) {
    const lane = scene.model.lanes.get(row.lane);
    if (lane !== undefined) {
      drawSlices(pen, scene, row, lane);
      drawWaits(pen, scene, lane, row.top, row.bars);
      drawLane(pen, scene, { model: scene.model, lane, top: row.top, high: row.bars, strength: 1, colouring: scene.colouring, paints });
    }
    const otherLane = scene.other?.lanes.get(row.lane);
    if (scene.other !== null && otherLane !== undefined) {
      drawWaits(pen, scene, otherLane, row.otherTop, row.otherBars);
      const colouring = scene.otherColouring ?? scene.colouring;
      drawLane(pen, scene, {
        model: scene.other, lane: otherLane, top: row.otherTop, high: row.otherBars, strength: 0.65, colouring, paints: otherPaints,
      });
    }
    if (row.stripTop !== null) drawMemory(pen, scene, row);
  }
  drawLinks(pen, scene);
  drawCriticalSteps(pen, scene);
  drawEnds(pen, scene);
  drawSelected(pen, scene);
  drawRange(pen, scene);
  pen.restore();
  drawGutter(pen, scene, seen);
  drawOverview(pen, scene);
  drawAxis(pen, scene);
  drawScroll(pen, scene);
}

/** Which part of the lanes is seen, where it is not all of them. */
function drawScroll(pen: Pen, { viewport, theme }: Scene): void {
  const { top, height, content, width } = viewport;
  if (content <= height) return;
  pen.globalAlpha = 0.6;
  pen.fillStyle = theme.faint;
  pen.fillRect(GUTTER + width - 5, AXIS + (top / content) * height, 4, Math.max(12, (height / content) * height));
  pen.globalAlpha = 1;
}

/** A lane to draw: where, how strong, and in which colours. */
interface Drawn {
  model: Model;
  lane: Lane;
  top: number;
  high: number;
  strength: number;
  colouring: Colouring;
  paints: Paint[];
}

function drawLane(pen: Pen, scene: Scene, { model, lane, top, high, strength, colouring, paints }: Drawn): void {
  const { viewport, theme, hits, cursor, onlyCritical } = scene;
  const { from, to, width } = viewport;
  const factor = width / (to - from);
  const mix = mixOf(lane, colouring);
  const fixed = ((lane.device % paints.length) + paints.length) % paints.length; // of the device
  const own = model === scene.model;
  const hasHits = hits !== null && own;
  const cursorBars = own && cursor !== null ? cursor : null;
  pen.font = LABEL;
  letter ||= pen.measureText("0").width || 7;
  let slot = fixed;
  pen.fillStyle = paints[slot].fill;

  // Changing the pen's state costs more than a rectangle: colours change only where they must, and what marks the
  // critical path is drawn at the end, in one piece as far as it reaches.
  let alpha = (pen.globalAlpha = 1);
  const fade = (wanted: number): void => {
    if (alpha !== wanted) pen.globalAlpha = alpha = wanted;
  };
  const marks: number[] = []; // from, to, from, to, …
  const mark = (left: number, right: number): void => {
    if (marks.length > 0 && left <= marks[marks.length - 1] + 0.6) marks[marks.length - 1] = right;
    else marks.push(left, right);
  };

  strip.begin(width);
  // Of many lanes the columns are coarser: what is seen of each is less, and a frame costs as much.
  const step = scene.rows.length > MANY_LANES ? 2 : 1;
  const columns = Math.ceil(width / step);
  lane.paint(from, from + (columns * step) / factor, columns, {
    column(number, first, last, full) {
      const column = number * step;
      const critical = lane.criticalIn(first, last) > 0;
      const hit = hasHits && lane.markedIn(first, last) > 0;
      const dim = (onlyCritical && !critical) || (hasHits && !hit);
      const shade = (dim ? DIM : 1) * strength * (0.3 + 0.7 * full);
      if (critical) mark(column, column + step);
      strip.put(column, column + step, pixel(hit ? theme.hitParts : paints[mix?.most(first, last) ?? fixed].parts, shade));
    },
    bar(i) {
      const bar = lane.bars[i];
      const left = Math.max(-2, (lane.starts[i] - from) * factor);
      const wide = Math.min(width + 2, (lane.ends[i] - from) * factor) - left;
      const hit = hasHits && hits.flags[bar] === 1;
      const dim = (onlyCritical && model.critical[bar] === 0) || (hasHits && !hit);
      const right = left + wide - (wide > 3 ? 0.5 : 0);
      fade((dim ? DIM : 1) * strength);
      if (mix !== null && mix.slotOf[bar] !== slot) pen.fillStyle = paints[(slot = mix.slotOf[bar])].fill;
      if (hit && wide <= 5) pen.fillStyle = theme.hit;
      pen.fillRect(left, top, right - left, high);
      if (hit && wide <= 5) pen.fillStyle = paints[slot].fill;
      if (model.critical[bar] === 1) mark(left, right);
      if (wide <= 5) return;
      // Beyond this there are few: no more than fit beside each other.
      const { op, label } = model.statement(bar);
      const text = wide > 4 * letter && high >= LETTER_HEIGHT ? fitting(op, label, Math.floor((wide - 6) / letter)) : "";
      const written = text === "" ? 0 : 6 + text.length * letter;
      if (model.group(bar).communication !== null) stripe(pen, theme.ground, left, top, wide, high, written);
      if (hit) ring(pen, theme.hit, left, top, wide, high);
      if (text !== "") {
        pen.globalAlpha = dim ? 0.5 : 1;
        pen.fillStyle = dim || strength < 1 ? theme.text : paints[slot].ink;
        pen.fillText(text, left + 4, top + high / 2);
      }
      pen.fillStyle = paints[slot].fill;
      pen.globalAlpha = alpha;
    },
  });
  strip.paint(pen, top, high);
  pen.globalAlpha = 1;
  pen.fillStyle = theme.mark;
  const edge = high < 14 ? 1 : 2;
  for (let i = 0; i < marks.length; i += 2) {
    pen.fillRect(marks[i], top, marks[i + 1] - marks[i], edge);
    pen.fillRect(marks[i], top + high - edge, marks[i + 1] - marks[i], edge);
  }
  if (cursorBars !== null) drawCursor(pen, scene, lane, cursorBars.bars, top, high);
}

/** As much of a bar's name as there is room for, in letters; nothing rather than one or two. */
function fitting(op: string, label: string, room: number): string {
  const whole = label === op ? op : `${op} ${label}`;
  if (whole.length <= room) return whole;
  if (op.length <= room && op.length + 3 > room) return op;
  return room >= 4 ? `${whole.slice(0, room - 1)}…` : "";
}

/** The bars of the statement that the cursor is in, each column once. */
function drawCursor(pen: Pen, scene: Scene, lane: Lane, bars: Int32Array, top: number, high: number): void {
  const { from, to, width } = scene.viewport;
  const factor = width / (to - from);
  let reached = -Infinity;
  for (const bar of bars) {
    const start = scene.model.starts[bar];
    if (scene.model.ends[bar] < from || start > to) continue;
    const left = Math.max(-2, (start - from) * factor);
    if (left < reached + 1 || lane.placeOf(bar) < 0) continue;
    const wide = Math.max(2, Math.min(width + 2, (scene.model.ends[bar] - from) * factor) - left);
    ring(pen, scene.theme.hit, left, top, wide, high);
    reached = left;
  }
}

/** Fine lines in the colour behind: a bar that sends, receives or combines. Where its name is `written`, none. */
function stripe(
  pen: Pen, colour: string, left: number, top: number, wide: number, high: number, written: number,
): void {
  const before = pen.globalAlpha;
  pen.globalAlpha = before * 0.45;
  pen.fillStyle = colour;
  for (let y = top + Math.min(4, high / 3); y < top + high - 3; y += 4) {
    const from = Math.abs(y + 0.5 - (top + high / 2)) < LETTER_HEIGHT / 2 ? written : 0;
    if (from < wide - 0.5) pen.fillRect(left + from, y, wide - 0.5 - from, 1);
  }
  pen.globalAlpha = before;
}

function ring(pen: Pen, colour: string, left: number, top: number, wide: number, high: number): void {
  pen.globalAlpha = 1;
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.strokeRect(left + 1, top - 1, Math.max(1, wide - 2), high + 2);
}

/** Times at which the stream is free but the next op waits for another one, or for the host. */
function drawWaits(pen: Pen, scene: Scene, lane: Lane, top: number, high: number): void {
  const { from, to, width } = scene.viewport;
  const factor = width / (to - from);
  pen.strokeStyle = scene.theme.faint;
  pen.fillStyle = scene.theme.faint;
  pen.lineWidth = 1;
  let reached = -Infinity;
  pen.beginPath();
  strip.begin(width);
  const { waits } = lane;
  let low = 0;
  let bound = waits.length;
  while (low < bound) {
    const middle = (low + bound) >> 1;
    if (waits[middle].start_s + waits[middle].duration_s <= from) low = middle + 1;
    else bound = middle;
  }
  for (let i = low; i < waits.length && waits[i].start_s < to; i += 1) {
    const left = Math.max(0, (waits[i].start_s - from) * factor);
    const right = Math.min(width, (waits[i].start_s + waits[i].duration_s - from) * factor);
    if (right < reached + 1) continue; // within a column that has one
    reached = right;
    if (right - left < 4) {
      strip.put(Math.floor(left), Math.ceil(right), pixel(scene.theme.faintParts, 0.35));
      continue;
    }
    pen.globalAlpha = 0.12;
    const inset = Math.min(3, Math.floor(high / 5));
    pen.fillRect(left, top + inset, right - left, high - 2 * inset);
    const middle = Math.round(top + high / 2) + 0.5;
    pen.moveTo(left + 1, middle);
    pen.lineTo(right - 1, middle);
    const reach = Math.min(8, high / 2 - 2);
    pen.moveTo(right - 4.5, middle - reach);
    pen.lineTo(right - 1, middle);
    pen.lineTo(right - 4.5, middle + reach);
  }
  pen.globalAlpha = 0.7;
  pen.stroke();
  strip.paint(pen, top + high / 2 - 1, 2);
  pen.globalAlpha = 1;
}

/** Where each program is done. */
function drawEnds(pen: Pen, scene: Scene): void {
  for (const [model, dashes] of [[scene.model, []], [scene.other, [4, 4]]] as [Model | null, number[]][]) {
    if (model === null || (model === scene.model && scene.other === null)) continue;
    const at = Math.round(scene.viewport.x(model.latency)) - 0.5;
    pen.strokeStyle = scene.theme.text;
    pen.lineWidth = 1;
    pen.setLineDash(dashes);
    pen.beginPath();
    pen.moveTo(at, scene.viewport.top);
    pen.lineTo(at, scene.viewport.top + scene.viewport.height);
    pen.stroke();
    pen.setLineDash([]);
  }
}

function drawSelected(pen: Pen, scene: Scene): void {
  const { selected, viewport, theme } = scene;
  if (selected === null) return;
  const model = selected.isOther ? scene.other : scene.model;
  if (model === null) return;
  const factor = viewport.width / viewport.span;
  const left = Math.max(-6, (model.starts[selected.bar] - viewport.from) * factor);
  const right = Math.min(viewport.width + 6, (model.ends[selected.bar] - viewport.from) * factor);
  if (right < -4 || left > viewport.width + 4) return;
  const drawn = new Set<Row>();
  for (const lane of model.group(selected.bar).lanes) {
    const row = scene.rowOf.get(lane);
    if (row === undefined || drawn.has(row)) continue;
    drawn.add(row);
    const [top, high] = selected.isOther ? [row.otherTop, row.otherBars] : [row.top, row.bars];
    pen.strokeStyle = theme.ground;
    pen.lineWidth = 5;
    pen.strokeRect(left - 1, top - 2, Math.max(2, right - left + 2), high + 4);
    pen.strokeStyle = theme.focus;
    pen.lineWidth = lane === selected.lane ? 3 : 1.5;
    pen.strokeRect(left - 1, top - 2, Math.max(2, right - left + 2), high + 4);
  }
}

/** The stretch that is summed up: its lanes in a frame, the others faded. */
function drawRange(pen: Pen, { range, rows, viewport, theme }: Scene): void {
  if (range === null) return;
  const [left, right] = [viewport.x(range.from), viewport.x(range.to)];
  const chosen = rows.filter(({ devices }) => range.devices === null || devices.some((device) => range.devices!.includes(device)));
  if (chosen.length === 0) return;
  pen.fillStyle = theme.ground;
  pen.globalAlpha = 0.45;
  pen.fillRect(0, viewport.top, Math.max(0, left), viewport.height);
  pen.fillRect(right, viewport.top, Math.max(0, viewport.width - right), viewport.height);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.focus;
  pen.lineWidth = 2;
  let [top, bottom] = [chosen[0].sliceTop, chosen[0].bottom];
  const frame = (): void => pen.strokeRect(left, top - 1, Math.max(1, right - left), bottom - top);
  for (const row of chosen.slice(1)) {
    if (row.sliceTop > bottom + 1) {
      frame();
      top = row.sliceTop;
    }
    bottom = row.bottom;
  }
  frame();
}

function drawAxis(pen: Pen, scene: Scene): void {
  const { viewport, theme } = scene;
  pen.font = SMALL;
  pen.fillStyle = theme.faint;
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  const ticks = viewport.ticks(110);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
  pen.beginPath();
  for (const time of ticks) {
    const at = GUTTER + Math.round(viewport.x(time)) + 0.5;
    pen.moveTo(at, AXIS - 5);
    pen.lineTo(at, AXIS);
    const text = tick(time, step);
    if (at + 4 + pen.measureText(text).width <= GUTTER + viewport.width) pen.fillText(text, at + 4, OVERVIEW + (AXIS - OVERVIEW) / 2);
  }
  pen.stroke();
}

/** A time on the axis, exact enough to tell it from the next one. */
function tick(time: number, step: number): string {
  if (time === 0) return "0s";
  const [unit, size] = time >= 1 ? ["s", 1] : time >= 1e-3 ? ["ms", 1e-3] : time >= 1e-6 ? ["us", 1e-6] : ["ns", 1e-9];
  const digits = step > 0 ? Math.max(0, Math.ceil(-Math.log10(step / (size as number)) - 1e-9)) : 0;
  return `${(time / (size as number)).toFixed(Math.min(9, digits))}${unit}`;
}
