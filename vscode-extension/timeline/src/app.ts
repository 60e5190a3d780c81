// What the view does: takes messages, keeps what is seen and selected, and says what was clicked.

import { describe, describeState } from "./describe";
import { button } from "./dom";
import { draw } from "./draw";
import { AXIS, BARS, GUTTER, rowsOf } from "./layout";
import { Model } from "./model";
import type { FromView, ShowMessage, ToView } from "./protocol";
import { modelOf, type Scene, type Selection } from "./scene";
import { neighbour, search } from "./search";
import { buildShell, type Shell } from "./shell";
import { fillTable } from "./table";
import { onThemeChange, readTheme } from "./theme";
import { Viewport } from "./viewport";
import { compared, summary } from "./words";

/** What the view talks to: an editor, or nothing in a plain page. Kept state outlives a reload. */
export interface Host {
  post(message: FromView): void;
  kept(): Kept | undefined;
  keep(state: Kept): void;
}

export interface Kept {
  uri: string;
  from: number;
  to: number;
  top: number;
  event: number | null;
  search: string;
  onlyCritical: boolean;
}

/** What keys and pointers may ask for. */
export interface App {
  readonly shell: Shell;
  readonly viewport: Viewport;
  scene(): Scene | null;
  receive(message: ToView): void;
  redraw(): void;
  zoom(factor: number, at?: number): void;
  move(seconds: number, down: number): void;
  fit(): void;
  zoomToSelection(): void;
  /** `still`: without moving what is seen, since it is seen already. */
  select(selection: Selection | null, still?: boolean): void;
  open(focus: boolean): void;
  along(step: 1 | -1 | "first" | "last"): void;
  across(step: 1 | -1): void;
  next(step: 1 | -1): void;
  toggleCritical(): void;
  toggleTable(): void;
  toggleHosts(): void;
  find(text: string): void;
}

export function makeApp(root: HTMLElement, host: Host): App {
  const shell = buildShell(root);
  const viewport = new Viewport();
  const pen = shell.canvas.getContext("2d", { alpha: true })!;
  let scene: Scene | null = null;
  let shown: ShowMessage | null = null;
  let asked = false;
  let tableFirst = 0;
  let tableTimer: ReturnType<typeof setTimeout> | undefined;
  let keepTimer: ReturnType<typeof setTimeout> | undefined;

  const controls = {
    critical: button("Critical path", "Dim what is not on the critical path (c)", toggleCritical),
    table: button("Table", "What is in view as a table (t)", toggleTable),
    hosts: button("Hosts", "Lanes of what hosts issue (h)", toggleHosts),
  };
  for (const toggle of Object.values(controls)) toggle.setAttribute("aria-pressed", "false");
  controls.hosts.setAttribute("aria-pressed", "true");
  shell.controls.append(
    button("−", "Zoom out (-)", () => zoom(1 / 0.7), "Zoom out"),
    button("+", "Zoom in (+)", () => zoom(0.7), "Zoom in"),
    button("All", "Show everything (0)", fit),
    controls.critical,
    controls.table,
    controls.hosts,
  );

  function redraw(): void {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (scene === null) return;
      draw(pen, scene);
      if (performance.getEntriesByName("distir:first-draw").length === 0) performance.mark("distir:first-draw");
    });
    if (!shell.table.hidden) {
      clearTimeout(tableTimer);
      tableTimer = setTimeout(retable, 120);
    }
    clearTimeout(keepTimer);
    keepTimer = setTimeout(keep, 200);
  }

  function keep(): void {
    if (scene === null) return;
    const { from, to, top } = viewport;
    const { selected, onlyCritical, model } = scene;
    const event = selected === null || selected.isOther ? null : model.events[selected.bar];
    host.keep({ uri: model.side.document.uri, from, to, top, event, search: scene.hits?.text ?? "", onlyCritical });
  }

  function say(text: string): void {
    shell.live.textContent = text;
  }

  function resize(): void {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = shell.chart;
    shell.canvas.width = Math.max(1, Math.round(clientWidth * scale));
    shell.canvas.height = Math.max(1, Math.round(clientHeight * scale));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    viewport.resize(clientWidth - GUTTER, clientHeight - AXIS);
    redraw();
  }

  // Messages.

  function receive(message: ToView): void {
    if (message.type === "show") show(message);
    else if (message.type === "state") describeState(shell, scene !== null, message.state, message.why ?? null);
    else if (message.type === "cursor") putCursor(message.uri, message.position);
  }

  function show(message: ShowMessage): void {
    if (message.timeline.length === 0) return;
    const before = scene;
    const model = new Model(message);
    const other = message.other && message.other.timeline.length > 0 ? new Model(message.other) : null;
    const same = before !== null && before.model.side.document.uri === message.document.uri;
    const kept = before === null ? host.kept() : undefined;
    const hosts = before?.hosts ?? true;
    const rows = rowsOf(model, other, hosts);
    controls.hosts.hidden = !model.hasHosts && other?.hasHosts !== true;
    shown = message;
    shell.tip.hidden = true; // it tells of what was there
    scene = {
      model,
      other,
      rows,
      viewport,
      theme: before?.theme ?? readTheme(),
      selected: null,
      cursor: null,
      hits: null,
      onlyCritical: before?.onlyCritical ?? false,
      hosts,
    };
    viewport.content = (rows.at(-1)?.bottom ?? 0) + 4;
    const total = Math.max(model.latency, other?.latency ?? 0);
    if (same) {
      viewport.retime(total);
      if (before.selected !== null && !before.selected.isOther) {
        const bar = model.counterpart(before.model, before.selected.bar);
        if (bar !== null) scene.selected = { isOther: false, bar, lane: laneFor(model, bar, before.selected.lane) };
      }
      if (before.cursor !== null) scene.cursor = model.statementAt(before.cursor.range!.start);
    } else {
      viewport.retime(total);
      viewport.fit();
      viewport.top = 0;
      if (kept !== undefined && kept.uri === message.document.uri) restore(kept);
    }
    viewport.move(0, 0);
    find(shell.search.value);
    shell.title.textContent = `${message.document.name} @${model.entry}`;
    const missing = model.count < model.allEvents ? ` · the first ${model.count.toLocaleString("en")} bars shown` : "";
    shell.summary.textContent = summary(model) + missing;
    tellComparison();
    describeState(shell, true, "simulated", null);
    tellSelection(false);
    if (same) say(`updated: ${summary(model)}`);
    if (before === null && document.activeElement === document.body) shell.chart.focus({ preventScroll: true });
    if (before === null) resize(); // at once: a page that is printed or read when it has loaded waits for no observer
    else redraw();
  }

  function restore(kept: Kept): void {
    viewport.show(kept.from, kept.to);
    viewport.top = kept.top;
    shell.search.value = kept.search;
    scene!.onlyCritical = kept.onlyCritical;
    controls.critical.setAttribute("aria-pressed", String(kept.onlyCritical));
    const bar = kept.event === null ? -1 : scene!.model.barOf(kept.event);
    if (bar >= 0) scene!.selected = { isOther: false, bar, lane: laneOf(bar) };
  }

  function tellComparison(): void {
    shell.comparison.hidden = scene?.other == null;
    if (scene === null || scene.other === null) return;
    const end = button("×", "End the comparison", () => {
      if (shown === null) return;
      host.post({ type: "closeComparison" });
      show({ ...shown, other: null, comparison: null });
    });
    shell.comparison.replaceChildren(compared(scene.model, scene.other, shown?.comparison ?? null), " ", end);
  }

  function putCursor(uri: string, position: { line: number; character: number }): void {
    if (scene === null || scene.model.side.document.uri !== uri) return;
    const { model } = scene;
    scene.cursor = model.statementAt(position);
    if (scene.cursor !== null) {
      const { bars, op, label } = scene.cursor;
      if (!bars.some((bar) => isSeen(bar))) bringIntoView({ isOther: false, bar: bars[0], lane: laneOf(bars[0]) });
      say(`cursor at ${op} ${label}, ${bars.length === 1 ? "one bar" : `${bars.length} bars`}`);
    }
    redraw();
  }

  function isSeen(bar: number): boolean {
    const { model, rows } = scene!;
    if (model.ends[bar] < viewport.from || model.starts[bar] > viewport.to) return false;
    const row = rows.find((found) => found.lane === laneOf(bar))!;
    return row.top >= viewport.top && row.top + BARS <= viewport.top + viewport.height;
  }

  const laneOf = (bar: number): string => scene!.model.group(bar).lanes[0];

  // What is seen.

  function zoom(factor: number, at = (viewport.from + viewport.to) / 2): void {
    viewport.zoom(factor, at);
    redraw();
  }

  function move(seconds: number, down: number): void {
    viewport.move(seconds, down);
    redraw();
  }

  function fit(): void {
    viewport.fit();
    redraw();
  }

  function zoomToSelection(): void {
    if (scene?.selected == null) return;
    const model = modelOf(scene, scene.selected);
    const [start, end] = [model.starts[scene.selected.bar], model.ends[scene.selected.bar]];
    const room = Math.max(end - start, viewport.total * 1e-6) * 2;
    viewport.show(start - room, end + room);
    redraw();
  }

  function bringIntoView(selection: Selection): void {
    const model = modelOf(scene!, selection);
    const row = scene!.rows.find((found) => found.lane === selection.lane)!;
    viewport.reveal(model.starts[selection.bar], model.ends[selection.bar], row.top - 6, row.bottom);
  }

  // What is selected.

  function select(selection: Selection | null, still = false): void {
    if (scene === null) return;
    scene.selected = selection;
    if (selection !== null && !still) bringIntoView(selection);
    tellSelection(true);
    redraw();
  }

  function tellSelection(isNew: boolean): void {
    const text = describe(shell, scene);
    if (isNew && text !== null && document.activeElement !== shell.chart) say(text);
  }

  function open(focus: boolean): void {
    if (scene?.selected == null) return;
    const model = modelOf(scene, scene.selected);
    const { function: name, index, range } = model.statement(scene.selected.bar);
    const { uri } = model.side.document;
    const event = model.events[scene.selected.bar];
    const path = model.callersOf(scene.selected.bar).map(({ function: caller, statement }) => ({ function: caller, statement }));
    host.post({ type: "reveal", uri, range, function: name, statement: index, path, event, focus });
  }

  function along(step: 1 | -1 | "first" | "last"): void {
    if (scene === null) return;
    const selected = scene.selected;
    const name = selected?.lane ?? scene.rows.find((row) => scene!.model.lanes.get(row.lane)?.bars.length)?.lane;
    const model = selected === null ? scene.model : modelOf(scene, selected);
    const lane = name === undefined ? undefined : model.lanes.get(name);
    if (lane === undefined || name === undefined || lane.bars.length === 0) return;
    const last = lane.bars.length - 1;
    const now = selected === null ? -1 : lane.placeOf(selected.bar);
    const goal = step === "first" ? 0 : step === "last" ? last : now < 0 ? lane.nearest(viewport.from) : now + step;
    select({ isOther: selected?.isOther ?? false, bar: lane.bars[Math.max(0, Math.min(last, goal))], lane: name });
  }

  /** The lane above or below: those of the other program lie between. */
  function across(step: 1 | -1): void {
    if (scene === null) return;
    const { selected, rows, model, other } = scene;
    if (selected === null) return along("first");
    const lanes = rows.flatMap(({ lane }) => [
      ...(model.lanes.get(lane)?.bars.length ? [{ lane, isOther: false }] : []),
      ...(other?.lanes.get(lane)?.bars.length ? [{ lane, isOther: true }] : []),
    ]);
    const now = lanes.findIndex(({ lane, isOther }) => lane === selected.lane && isOther === selected.isOther);
    const goal = lanes[now + step];
    if (goal === undefined) return;
    const from = modelOf(scene, selected);
    const lane = (goal.isOther ? other! : model).lanes.get(goal.lane)!;
    const time = (from.starts[selected.bar] + from.ends[selected.bar]) / 2;
    select({ ...goal, bar: lane.bars[lane.nearest(time)] });
  }

  /** The next hit, or the next op of the critical path. */
  function next(step: 1 | -1): void {
    if (scene === null) return;
    const { hits, model, selected } = scene;
    const bars = hits !== null ? hits.bars : model.path;
    const bar = neighbour(bars, selected === null || selected.isOther ? null : selected.bar, step);
    if (bar === null) return say(hits !== null ? "nothing found" : "no critical path");
    select({ isOther: false, bar, lane: laneFor(model, bar, selected?.lane) });
    const at = bars.indexOf(bar) + 1;
    shell.hits.textContent = hits !== null ? `${at} of ${bars.length}` : "";
  }

  function find(text: string): void {
    if (scene === null) return;
    scene.hits = search(scene.model, text);
    for (const lane of scene.model.lanes.values()) lane.mark(scene.hits?.flags ?? null);
    const count = scene.hits?.bars.length ?? 0;
    shell.hits.textContent = scene.hits === null ? "" : count === 0 ? "nothing found" : `${count} found`;
    if (scene.hits !== null) say(shell.hits.textContent);
    redraw();
  }

  function toggleCritical(): void {
    if (scene === null) return;
    scene.onlyCritical = !scene.onlyCritical;
    controls.critical.setAttribute("aria-pressed", String(scene.onlyCritical));
    redraw();
  }

  function toggleHosts(): void {
    if (scene === null || controls.hosts.hidden) return;
    scene.hosts = !scene.hosts;
    scene.rows = rowsOf(scene.model, scene.other, scene.hosts);
    viewport.content = (scene.rows.at(-1)?.bottom ?? 0) + 4;
    controls.hosts.setAttribute("aria-pressed", String(scene.hosts));
    const { selected } = scene;
    if (selected !== null && !scene.rows.some((row) => row.lane === selected.lane)) {
      scene.selected = { ...selected, lane: modelOf(scene, selected).group(selected.bar).lanes[0] };
    }
    viewport.move(0, 0);
    redraw();
  }

  function toggleTable(): void {
    shell.table.hidden = !shell.table.hidden;
    controls.table.setAttribute("aria-pressed", String(!shell.table.hidden));
    tableFirst = 0;
    if (shell.table.hidden) shell.chart.focus();
    else {
      retable();
      shell.table.focus();
    }
  }

  function retable(): void {
    if (scene === null || shell.table.hidden) return;
    const choose = (bar: number): void => {
      select({ isOther: false, bar, lane: laneOf(bar) });
      open(false);
    };
    fillTable(shell.table, scene, tableFirst, choose, (first) => {
      tableFirst = first;
      retable();
      shell.table.scrollTop = 0;
      shell.table.focus();
    });
  }

  onThemeChange(() => {
    if (scene !== null) scene.theme = readTheme();
    redraw();
  });
  new ResizeObserver(resize).observe(shell.chart);
  readTheme();
  tellSelection(false);
  return {
    shell, viewport, scene: () => scene, receive, redraw, zoom, move, fit, zoomToSelection, select, open, along, across,
    next, toggleCritical, toggleTable, toggleHosts, find,
  };
}

/** The lane to show a bar in: the one wanted, if the bar is there. */
function laneFor(model: Model, bar: number, wanted: string | undefined): string {
  const { lanes } = model.group(bar);
  return wanted !== undefined && lanes.includes(wanted) ? wanted : lanes[0];
}
