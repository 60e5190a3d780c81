// The slices above a lane: phases and microbatches, and the functions that are called.

import { LABEL, type Pen } from "./draw";
import type { Lane } from "./lane";
import { type Row, SLICE } from "./layout";
import type { Scene } from "./scene";
import { fittedName, slicesOf } from "./slices";
import { pixel, Strip } from "./strip";
import { HUES } from "./theme";

let strip: Strip; // made with the first drawing: there may be no page yet

/** Draw the levels that a row has room for. */
export function drawSlices(pen: Pen, scene: Scene, row: Row, lane: Lane): void {
  if (row.levels === 0) return;
  const { viewport, theme, model } = scene;
  const { from, to, width } = viewport;
  const factor = width / (to - from);
  strip ??= new Strip(1);
  pen.font = LABEL;
  const letter = pen.measureText("0").width || 7;
  slicesOf(model, lane).slice(0, row.levels).forEach((slices, level) => {
    const top = row.sliceTop + level * SLICE;
    const high = SLICE - 1;
    strip.begin(width);
    slices.paint(from, to, width, {
      column(column, _first, _last, full) {
        strip.put(column, column + 1, pixel(theme.faintParts, 0.1 + 0.25 * full));
      },
      bar(i) {
        const left = Math.max(-2, (slices.starts[i] - from) * factor);
        const wide = Math.min(width + 2, (slices.ends[i] - from) * factor) - left;
        const part = slices.part(i);
        const hue = part.kind === "work" && part.work.phase !== null ? HUES[part.work.phase] : undefined;
        pen.fillStyle = hue === undefined ? theme.faint : theme.devices[hue];
        pen.globalAlpha = hue === undefined ? (i % 2 === 0 ? 0.16 : 0.26) : i % 2 === 0 ? 0.3 : 0.42;
        pen.fillRect(left, top, wide - (wide > 3 ? 1 : 0), high);
        pen.globalAlpha = 1;
        const text = fittedName(part, Math.floor((wide - 6) / letter));
        if (text === "") return;
        pen.fillStyle = theme.text;
        pen.fillText(text, left + 3, top + high / 2 + 0.5);
      },
    });
    strip.paint(pen, top, high);
  });
}
