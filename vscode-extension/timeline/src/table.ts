// The timeline as tables: for those who do not see the lanes, and for exact numbers.

import { button, element } from "./dom";
import type { Model } from "./model";
import type { Scene } from "./scene";
import { bytes, deviceNames, duration, percent, place } from "./words";

/** So many bars are listed at a time. */
export const PAGE = 200;

/** What is in view: the hits of a search if there is one, of the critical path if only that is shown, else all. */
export function listed(scene: Scene): number[] {
  const { model, viewport, hits, onlyCritical } = scene;
  const bars: number[] = [];
  for (let bar = 0; bar < model.count; bar += 1) {
    if (model.ends[bar] < viewport.from || model.starts[bar] > viewport.to) continue;
    if (hits !== null && hits.flags[bar] === 0) continue;
    if (hits === null && onlyCritical && model.critical[bar] === 0) continue;
    bars.push(bar);
  }
  return bars.sort((a, b) => model.starts[a] - model.starts[b] || a - b);
}

/** Fill the section: the devices with their streams, then a page of ops. `choose` is called with the bar that is picked. */
export function fillTable(
  section: HTMLElement,
  scene: Scene,
  first: number,
  choose: (bar: number) => void,
  turn: (first: number) => void,
): void {
  const { model } = scene;
  const bars = listed(scene);
  const start = Math.max(0, Math.min(first, Math.floor(Math.max(0, bars.length - 1) / PAGE) * PAGE));
  const shown = bars.slice(start, start + PAGE);
  const what = scene.hits !== null ? "hits in view" : scene.onlyCritical ? "critical bars in view" : "bars in view";
  const range = bars.length === 0 ? "" : `: ${start + 1} to ${start + shown.length} of ${bars.length}`;
  const turns = element("p");
  if (start > 0) turns.append(button("Previous", "Previous bars of the table", () => turn(start - PAGE)));
  if (start + PAGE < bars.length) turns.append(button("Next", "Next bars of the table", () => turn(start + PAGE)));
  const filled = [devices(model), ops(model, shown, `${what}${range}`, choose), turns];
  const isSame = filled.every((part, at) => part.isEqualNode(section.childNodes[at] ?? null));
  if (!isSame) section.replaceChildren(...filled); // else clicks under way would be lost
}

function devices(model: Model): HTMLTableElement {
  const rows = [...model.lanes].map(([name, lane]) => {
    const waits = lane.waits.reduce((sum, wait) => sum + wait.duration_s, 0);
    const device = lane.stream === "" ? model.devices.find((found) => found.device === lane.device)! : null;
    const busy = device?.busy ?? lane.total; // of the device, whichever of its streams is
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      number(String(lane.bars.length)),
      number(`${duration(busy)} (${percent(model.latency > 0 ? busy / model.latency : 0)})`),
      number(duration(waits)),
      ...[device?.peak, device?.overhead, device?.capacity].map((size) => number(size === undefined ? "" : bytes(size))),
    );
  });
  return table("devices", ["device", "bars", "busy", "waits", "peak memory", "overhead", "capacity"], rows);
}

function ops(model: Model, bars: number[], caption: string, choose: (bar: number) => void): HTMLTableElement {
  const rows = bars.map((bar) => {
    const { op, label } = model.statement(bar);
    const { devices, stream } = model.group(bar);
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, button(op, `Select ${op} ${label}`, () => choose(bar))),
      element("td", {}, label === op ? "" : label),
      number(`${deviceNames(devices).replace(/^devices? /, "")}${stream === "" ? "" : ` ${stream}`}`),
      number(duration(model.starts[bar])),
      number(duration(model.ends[bar] - model.starts[bar])),
      number(Number.isNaN(model.slack[bar]) ? "" : duration(model.slack[bar])),
      element("td", {}, model.critical[bar] === 1 ? "critical" : ""),
      element("td", {}, place(model, bar)),
    );
  });
  return table(caption, ["op", "result", "devices", "start", "duration", "slack", "path", "statement"], rows);
}

const NUMBERS = new Set(["bars", "busy", "waits", "peak memory", "overhead", "capacity", "devices", "start", "duration", "slack"]);

function table(caption: string, heads: string[], rows: HTMLElement[]): HTMLTableElement {
  const head = heads.map((text) => element("th", { scope: "col", ...(NUMBERS.has(text) && { class: "number" }) }, text));
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows),
  );
}

function number(text: string): HTMLTableCellElement {
  return element("td", { class: "number" }, text);
}
