// Sums as tables, beside the lanes: of the whole program, or of the stretch that is selected.

import { button, element } from "./dom";
import type { Scene } from "./scene";
import type { Total, Totals } from "./totals";
import { deviceNames, duration, percent } from "./words";

/** So many rows of each table are shown. */
const MOST_ROWS = 12;

/** Fill the section, and say in a line what it holds. `clear` ends the selection. */
export function fillTotals(section: HTMLElement, scene: Scene, sums: Totals, clear: () => void): string {
  const { range, model } = scene;
  const span = sums.to - sums.from;
  const all = span * sums.devices.length;
  const part = (of: "computes" | "exposed" | "idle"): string => {
    return percent(all > 0 ? sums.devices.reduce((sum, device) => sum + device[of], 0) / all : 0);
  };
  const numbers = sums.devices.map(({ device }) => device);
  const where = range === null || numbers.length === model.devices.length ? "all devices" : deviceNames(numbers);
  const what = range === null ? "The whole program" : (range.name ?? "Selected");
  const times = range === null ? duration(span) : `${duration(span)} from ${duration(sums.from)}`;
  const text = `${what}: ${times}, ${where}: computes ${part("computes")}, exposed communication ${part("exposed")}, idle ${part("idle")}`;
  const head = element("p", {}, element("strong", {}, text));
  if (range !== null) head.append(" ", button("×", "End the selection (Escape)", clear));
  const tables = element("div", { class: "tables" });
  for (const [name, rows] of Object.entries(sums.by)) if (rows.length > 0) tables.append(table(name, rows));
  if (sums.devices.length > 1) tables.append(deviceTable(sums, span));
  section.replaceChildren(head, tables);
  return text;
}

function table(what: string, totals: Total[]): HTMLTableElement {
  const all = totals.reduce((sum, { seconds }) => sum + seconds, 0);
  const rows = totals.slice(0, MOST_ROWS).map(({ name, ops, seconds }) =>
    row([name, String(ops), duration(seconds), percent(all > 0 ? seconds / all : 0)]),
  );
  const rest = totals.slice(MOST_ROWS);
  if (rest.length > 0) {
    const [ops, seconds] = [rest.reduce((sum, each) => sum + each.ops, 0), rest.reduce((sum, each) => sum + each.seconds, 0)];
    rows.push(row([`${rest.length} more`, String(ops), duration(seconds), percent(all > 0 ? seconds / all : 0)]));
  }
  return made(`by ${what}`, [what, "ops", "time", "share"], rows);
}

function deviceTable(sums: Totals, span: number): HTMLTableElement {
  const share = (seconds: number): string => percent(span > 0 ? seconds / span : 0);
  const sorted = [...sums.devices].sort((a, b) => b.idle - a.idle || a.device - b.device);
  const rows = sorted.slice(0, MOST_ROWS).map(({ device, computes, exposed, idle }) =>
    row([String(device), share(computes), share(exposed), share(idle)]),
  );
  const more = sorted.length - rows.length;
  return made(`by device${more > 0 ? `, the ${rows.length} most idle of ${sorted.length}` : ""}`, ["device", "computes", "exposed", "idle"], rows);
}

function row([head, ...cells]: string[]): HTMLTableRowElement {
  return element("tr", {}, element("th", { scope: "row" }, head), ...cells.map((text) => element("td", { class: "number" }, text)));
}

function made(caption: string, heads: string[], rows: HTMLElement[]): HTMLTableElement {
  const head = heads.map((text, i) => element("th", { scope: "col", ...(i > 0 && { class: "number" }) }, text));
  return element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}
