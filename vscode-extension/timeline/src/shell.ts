// The page's elements: what stands where. What they do is `app.ts` and `input.ts`.

import { COLOURED_BY, paintsOf } from "./colouring";
import { element } from "./dom";
import { layersOf, partPaints, PARTS } from "./draw_memory";
import type { Scene } from "./scene";

export interface Shell {
  title: HTMLElement;
  summary: HTMLElement;
  state: HTMLElement;
  comparison: HTMLElement;
  controls: HTMLElement;
  colours: HTMLSelectElement;
  legend: HTMLElement;
  totals: HTMLElement;
  search: HTMLInputElement;
  hits: HTMLElement;
  main: HTMLElement;
  chart: HTMLElement;
  canvas: HTMLCanvasElement;
  option: HTMLElement;
  tip: HTMLElement;
  details: HTMLElement;
  keys: HTMLElement;
  table: HTMLElement;
  live: HTMLElement;
}

const KEYS: [string, string][] = [
  ["← →", "bars of the lane"],
  ["↑ ↓", "lanes"],
  ["Enter", "statement"],
  ["+ −", "or wheel: zoom"],
  ["0", "all"],
  ["n p", "hits or critical path"],
  ["c", "critical path"],
  ["k", "colours"],
  ["o", "open or close a device"],
  ["g", "equal devices"],
  ["r", "or Shift+drag: range"],
  ["s", "totals"],
  ["h", "hosts"],
  ["/", "search"],
  ["t", "table"],
  ["?", "keys"],
];

/** Build the page within an element. */
export function buildShell(root: HTMLElement): Shell {
  const title = element("h1");
  const summary = element("p", { id: "summary" });
  const state = element("p", { id: "state", role: "status", hidden: "" });
  const comparison = element("p", { id: "comparison", hidden: "" });
  const controls = element("div", { id: "controls", role: "toolbar", "aria-label": "View" });
  const colours = element("select", { "aria-label": "Colour by", title: "What colours say (k)" });
  for (const by of COLOURED_BY) colours.append(element("option", { value: by }, `by ${by}`));
  const legend = element("div", { id: "legend", role: "group", "aria-label": "Legend" });
  const totals = element("section", { id: "totals", "aria-label": "Totals", hidden: "", tabindex: "0" });
  const search = element("input", {
    id: "search",
    type: "search",
    placeholder: "Search",
    "aria-label": "Search ops, results and functions",
    spellcheck: "false",
    autocomplete: "off",
  });
  const hits = element("span", { id: "hits" });
  const finder = element("div", { id: "finder", role: "search" }, search, hits);
  const option = element("div", { id: "bar", role: "option", class: "hidden-text" });
  const canvas = element("canvas", { "aria-hidden": "true" });
  const chart = element(
    "div",
    { id: "chart", role: "listbox", tabindex: "0", "aria-describedby": "keys", "aria-label": "Timeline" },
    canvas,
    option,
  );
  const tip = element("div", { id: "tip", "aria-hidden": "true", hidden: "" });
  const main = element("main", {}, chart, tip);
  const details = element("div", { id: "details" });
  const table = element("section", { id: "table", "aria-label": "Table", hidden: "", tabindex: "-1" });
  const live = element("div", { id: "live", "aria-live": "polite", class: "hidden-text" });
  const keys = element("p", { id: "keys", hidden: "" });
  for (const [key, what] of KEYS) keys.append(element("kbd", {}, key), ` ${what}  `);
  root.replaceChildren(
    element("header", {}, title, summary, comparison, state, legend, element("div", { id: "tools" }, finder, colours, controls)),
    main,
    totals,
    table,
    element("footer", { tabindex: "0", "aria-label": "Selected op, and keys", role: "region" }, details, keys),
    live,
  );
  return {
    title, summary, state, comparison, controls, colours, legend, totals, search, hits, main, chart, canvas, option, tip, details, keys, table, live,
  };
}

/** Say what colours and lines mean. */
export function fillLegend(legend: HTMLElement, { colouring, theme, model }: Scene): void {
  const entry = (kind: string, text: string, colour = ""): HTMLElement => {
    const swatch = element("i", { class: kind });
    if (colour !== "") swatch.style.background = colour;
    return element("span", {}, swatch, text);
  };
  const used = new Set(colouring.slotOf ?? []);
  const paints = paintsOf(theme, colouring);
  const classes = colouring.names.flatMap((name, slot) => (used.has(slot) ? [entry("colour", name, paints[slot].fill)] : []));
  /** What bars are marked with, unless they have a colour of that meaning. */
  const marked = (kind: string, text: string): HTMLElement[] =>
    colouring.names.some((name, slot) => name === text && used.has(slot)) ? [] : [entry(kind, text)];
  const hasCommunication = model.groups.some(({ communication }) => communication !== null);
  const memories = model.devices.flatMap(({ memory }) => (memory !== null && layersOf(memory) !== null ? [memory] : []));
  const held = new Set(memories.flatMap((curve) => curve.parts!.map((part) => part.name)));
  const fills = partPaints(theme);
  const parts = PARTS.flatMap(([name], i) => (held.has(name) ? [entry("colour", name, fills[i].fill)] : []));
  legend.replaceChildren(
    ...(classes.length > 0 ? classes : [entry("compute", "computes")]),
    ...(hasCommunication ? marked("communication", "communication") : []),
    entry("wait", "waits"),
    ...marked("critical", "critical path"),
    ...(parts.length > 0 ? [element("span", { class: "heading" }, "memory:"), ...parts] : [entry("memory", "memory")]),
  );
}
