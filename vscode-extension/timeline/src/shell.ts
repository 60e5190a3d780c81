// The page's elements: what stands where. What they do is `app.ts` and `input.ts`.

import { element } from "./dom";

export interface Shell {
  title: HTMLElement;
  summary: HTMLElement;
  state: HTMLElement;
  comparison: HTMLElement;
  controls: HTMLElement;
  search: HTMLInputElement;
  hits: HTMLElement;
  main: HTMLElement;
  chart: HTMLElement;
  canvas: HTMLCanvasElement;
  option: HTMLElement;
  tip: HTMLElement;
  details: HTMLElement;
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
  ["h", "hosts"],
  ["/", "search"],
  ["t", "table"],
];

/** Build the page within an element. */
export function buildShell(root: HTMLElement): Shell {
  const title = element("h1");
  const summary = element("p", { id: "summary" });
  const state = element("p", { id: "state", role: "status", hidden: "" });
  const comparison = element("p", { id: "comparison", hidden: "" });
  const controls = element("div", { id: "controls", role: "toolbar", "aria-label": "View" });
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
  const keys = element("p", { id: "keys" });
  for (const [key, what] of KEYS) keys.append(element("kbd", {}, key), ` ${what}  `);
  root.replaceChildren(
    element("header", {}, title, summary, comparison, state, legend(), element("div", { id: "tools" }, finder, controls)),
    main,
    table,
    element("footer", {}, details, keys),
    live,
  );
  return {
    title, summary, state, comparison, controls, search, hits, main, chart, canvas, option, tip, details, table, live,
  };
}

function legend(): HTMLElement {
  const entry = (kind: string, text: string): HTMLElement => element("span", {}, element("i", { class: kind }), text);
  return element(
    "div",
    { id: "legend", role: "group", "aria-label": "Legend" },
    entry("compute", "computes"),
    entry("communication", "communicates"),
    entry("wait", "waits"),
    entry("critical", "critical path"),
    entry("memory", "memory"),
  );
}
