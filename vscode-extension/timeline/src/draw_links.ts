// What runs between lanes: messages, and the steps of the critical path from one lane to another.

import type { Pen } from "./draw";
import type { Row } from "./layout";
import { type Group, laneName, type Model, upTo } from "./model";
import type { Scene } from "./scene";

/** Links that begin in one column of pixels beyond these are drawn as one. */
const PER_COLUMN = 3;

/** So many messages a column of pixels, and less, are drawn in full strength. */
const CLEAR = 0.1;
const FAINTEST = 0.08;
/** Steps of the critical path are never fainter than this, so that a picture of the whole shows them. */
const PLAIN = 0.6;

/** Messages: from the lane that they begin at to those where they end; without a root, between all. */
export function drawLinks(pen: Pen, scene: Scene): void {
  const { viewport, theme, model, rowOf: places } = scene;
  const { from, to, width } = viewport;
  const factor = width / (to - from);
  const { links, linkStarts } = model;
  const longest = longestOf(model);
  let i = upTo(linkStarts, from - longest);
  pen.strokeStyle = theme.text;
  pen.fillStyle = theme.text;
  pen.lineWidth = 1;
  let column = -Infinity;
  let drawn = 0;
  let count = 0;
  const paths = new Map<number, Path2D>();
  const heads = new Path2D();
  while (i < links.length && linkStarts[i] < to) {
    const bar = links[i];
    const at = Math.round(((model.starts[bar] + model.ends[bar]) / 2 - from) * factor) + 0.5;
    if (at === column && drawn >= PER_COLUMN) {
      // On to the first link that begins in a later column.
      const later = from + (at + 0.5) / factor - (model.ends[bar] - model.starts[bar]) / 2;
      i = Math.max(i + 1, upTo(linkStarts, later, i));
      continue;
    }
    drawn = at === column ? drawn + 1 : 1;
    column = at;
    i += 1;
    if (at < 0 || at > width) continue;
    const shown = scene.onlyCritical && model.critical[bar] === 0 ? 0.12 : model.critical[bar] === 1 ? 1 : 0.45;
    let path = paths.get(shown);
    if (path === undefined) paths.set(shown, (path = new Path2D()));
    const roomy = (model.ends[bar] - model.starts[bar]) * factor > 9;
    count += 1;
    addLink(path, roomy && shown > 0.2 ? heads : null, model.group(bar), places, at);
  }
  // Where they stand close, they would hide what is beneath them.
  const strength = Math.max(FAINTEST, Math.min(1, (CLEAR * width) / count));
  for (const [alpha, path] of paths) {
    pen.globalAlpha = alpha * strength;
    pen.stroke(path);
  }
  pen.globalAlpha = 0.8 * strength;
  pen.fill(heads);
  pen.globalAlpha = 1;
}

/** The critical path where it goes over to another lane. */
export function drawCriticalSteps(pen: Pen, scene: Scene): void {
  const { viewport, theme, model, rowOf: places } = scene;
  const { from, to, width } = viewport;
  const factor = width / (to - from);
  const { path } = model;
  let i = firstFrom(model, from);
  let column = -Infinity;
  let drawn = 0;
  pen.strokeStyle = theme.mark;
  pen.lineWidth = 2;
  let count = 0;
  pen.beginPath();
  for (; i < path.length && model.starts[path[i]] <= to; i += 1) {
    const at = Math.round((model.starts[path[i]] - from) * factor);
    if (at === column && drawn >= PER_COLUMN) {
      i = Math.max(i, firstFrom(model, from + (at + 0.5) / factor) - 1);
      column = -Infinity;
      continue;
    }
    drawn = at === column ? drawn + 1 : 1;
    column = at;
    if (i === 0) continue;
    const [before, now] = [model.group(path[i - 1]), model.group(path[i])];
    if (before.lanes.some((lane) => now.lanes.includes(lane))) continue;
    // From one stream of a device to another, if both are on one.
    const common = before.devices.find((device) => now.devices.includes(device));
    const [a, b] = [before, now].map(({ devices, stream }) => places.get(laneName(common ?? devices[0], stream)));
    if (a === undefined || b === undefined || a === b) continue;
    count += 1;
    pen.moveTo(at, a.top + (b.top > a.top ? a.bars : 0));
    pen.lineTo(at, b.top + (b.top > a.top ? 0 : b.bars));
  }
  pen.globalAlpha = Math.max(PLAIN, Math.min(1, (CLEAR * width) / count));
  pen.stroke();
  pen.globalAlpha = 1;
}

function firstFrom(model: Model, time: number): number {
  let low = 0;
  let high = model.path.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (model.starts[model.path[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const longests = new WeakMap<Model, number>();

/** The longest of all messages: those that began earlier are over. */
function longestOf(model: Model): number {
  let found = longests.get(model);
  if (found === undefined) {
    found = 0;
    for (const bar of model.links) found = Math.max(found, model.ends[bar] - model.starts[bar]);
    longests.set(model, found);
  }
  return found;
}

function addLink(path: Path2D, heads: Path2D | null, group: Group, places: Map<string, Row>, at: number): void {
  const found = group.lanes.map((lane) => places.get(lane)).filter((row): row is Row => row !== undefined);
  const rows = [...new Set(found)].sort((a, b) => a.top - b.top);
  if (rows.length < 2) return; // equal devices are one row
  path.moveTo(at, rows[0].top + rows[0].bars);
  path.lineTo(at, rows[rows.length - 1].top);
  if (heads === null) return;
  const root = group.root === null ? undefined : places.get(laneName(group.root, group.stream));
  for (const row of rows) {
    if (root === undefined) {
      heads.rect(at - 2, row.top + row.bars / 2 - 2, 4, 4);
    } else if ((row === root) === group.inwards) {
      // An arrow at each end of the messages, on the side that they come from.
      const others = rows.filter((found) => found !== row).map((found) => found.top);
      const source = group.inwards ? others[0] : root.top;
      const down = row.top > source;
      const tip = down ? row.top : row.top + row.bars;
      const back = down ? -6 : 6;
      heads.moveTo(at, tip);
      heads.lineTo(at - 4, tip + back);
      heads.lineTo(at + 4, tip + back);
      heads.closePath();
    }
  }
}
