// The names of lanes, left of them: which device, how busy, its memory. A click there opens or closes the device.

import { withoutMiddle } from "../../src/figures";
import { SMALL, type Pen } from "./draw";
import { AXIS, GUTTER, type Row } from "./layout";
import type { Scene } from "./scene";
import { bytes, percent } from "./words";

const NAME = 20; // where names begin

export function drawGutter(pen: Pen, scene: Scene, seen: Row[]): void {
  const { viewport } = scene;
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, GUTTER, viewport.height);
  pen.clip();
  pen.translate(0, AXIS - viewport.top);
  for (const row of seen) drawName(pen, scene, row);
  pen.restore();
}

function drawName(pen: Pen, scene: Scene, row: Row): void {
  const { theme, model } = scene;
  const device = [model, scene.other].flatMap((each) => each?.devices ?? []).find((found) => found.device === row.device)!;
  const { length } = theme.devices;
  pen.fillStyle = theme.devices[((row.device % length) + length) % length];
  pen.fillRect(2, row.top, 4, row.bars);
  const low = row.bars < 24 && row.levels === 0;
  const middle = low ? row.top + row.bars / 2 + 0.5 : row.levels > 0 ? row.sliceTop + 8 : row.top + 8;
  if (row.isHead) {
    pen.fillStyle = theme.faint;
    pen.beginPath();
    if (row.isOpen) [[9, -2], [17, -2], [13, 3]].forEach(([x, y]) => pen.lineTo(x, middle + y));
    else [[11, -4], [11, 4], [16, 0]].forEach(([x, y]) => pen.lineTo(x, middle + y));
    pen.fill();
  }
  const size = low ? Math.max(8, Math.min(12, row.bars)) : 12;
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.fillStyle = theme.text;
  const total = model.latency;
  // In its first lane the device, whichever of its streams is; then each other stream.
  const busy = row.stream === "" ? device.busy : (model.lanes.get(row.lane)?.total ?? 0);
  const share = percent(total > 0 ? busy / total : 0);
  if (low) {
    pen.textAlign = "right";
    pen.font = `${size}px system-ui, sans-serif`;
    pen.fillStyle = theme.faint;
    const wide = pen.measureText(share).width;
    pen.fillText(share, GUTTER - 6, middle);
    pen.textAlign = "left";
    pen.font = `600 ${size}px system-ui, sans-serif`;
    pen.fillStyle = theme.text;
    const room = GUTTER - NAME - 10 - wide;
    const name = nameOf(row);
    const fits = pen.measureText(name).width <= room;
    pen.fillText(fits ? name : shortened(pen, name.replace(/^device /, ""), room), NAME, middle);
    return;
  }
  pen.fillText(shortened(pen, nameOf(row), GUTTER - NAME - 6), NAME, middle);
  pen.font = SMALL;
  pen.fillStyle = theme.faint;
  pen.fillText(`busy ${share}`, NAME, middle + 14);
  if (row.stripTop === null) return;
  pen.fillStyle = !device.fits ? theme.over : theme.faint;
  const overhead = device.overhead > 0 ? [`+${bytes(device.overhead)} overhead`] : [];
  const lines = [`peak ${bytes(device.peak)}`, ...overhead, `of ${bytes(device.capacity)}`];
  const first = row.stripTop + 7;
  lines.slice(0, Math.max(1, Math.floor((row.strip - 2) / 13))).forEach((line, i) => pen.fillText(line, 12, first + 13 * i));
  pen.fillStyle = theme.line;
  pen.fillRect(GUTTER - 9, row.stripTop, 5, row.strip);
  const part = Math.min(1, device.capacity > 0 ? device.peak / device.capacity : 0) * row.strip;
  pen.fillStyle = !device.fits ? theme.over : theme.memory;
  pen.fillRect(GUTTER - 9, row.stripTop + row.strip - part, 5, part);
}

/** What a row is called: `device 1`, `8 devices 1–8`, `1 reduce`. */
function nameOf({ stream, device, devices, lane }: Row): string {
  if (stream !== "") return lane;
  if (devices.length === 1) return `device ${device}`;
  const dense = devices.at(-1)! - device + 1 === devices.length;
  return `${devices.length}× ${device}${dense ? "–" : " … "}${devices.at(-1)}`;
}

/** As much of a text as has room, in pixels. */
export function shortened(pen: Pick<Pen, "measureText">, text: string, room: number): string {
  const fits = (shown: string): boolean => pen.measureText(shown).width <= room;
  if (fits(text)) return text;
  let letters = text.length - 1;
  while (letters > 1 && !fits(withoutMiddle(text, letters))) letters -= 1;
  return withoutMiddle(text, letters);
}
