// What the view does: takes messages, keeps what is seen and selected, and says what was clicked.

import { describe, describeState } from "./describe";
import { button } from "./dom";
import { draw } from "./draw";
import { type ColouredBy, bestColouring, colouring, colouringsOf } from "./colouring";
import { equalDevices } from "./equal";
import { AXIS, GUTTER, type Row, rowsOf } from "./layout";
import { laneName, Model } from "./model";
import type { FromView, ShowMessage, ToView } from "./protocol";
import { modelOf, type Range, type Scene, type Selection } from "./scene";
import { neighbour, search } from "./search";
import { buildShell, fillLegend, type Shell } from "./shell";
import { levelsOf, nameOf, type Slices } from "./slices";
import { fillTable } from "./table";
import { totals } from "./totals";
import { fillTotals } from "./totals_view";
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
  colouredBy?: ColouredBy;
  equal?: boolean;
}

/** What keys and pointers may ask for. */
export interface App {
  readonly shell: Shell;
  readonly viewport: Viewport;
  scene(): Scene | null;
  receive(message: ToView): void;
  redraw(): void;
  /** Take the size of the page, and of the column of names, anew. */
  resize(): void;
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
  toggleTotals(): void;
  toggleKeys(): void;
  toggleEqual(): void;
  /** Open or close a device: show slices and memory, or low bars alone; without one that of the selected lane. */
  toggleDevice(row?: Row): void;
  colour(by?: ColouredBy): void;
  /** Sum up a stretch of time; null: none. `open`: it is still being chosen, and nothing is summed up yet. */
  selectRange(range: Range | null, open?: boolean): void;
  selectSlice(row: Row, slices: Slices, slice: number): void;
  /** Sum up while the selected op runs; without one, what is in view. */
  rangeOfSelection(): void;
  find(text: string): void;
}

/** Of more devices, equal ones are shown as one at first. */
const FEW_DEVICES = 4;

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
    totals: button("Totals", "What takes how much time, in all or in the selected stretch (s)", toggleTotals),
    equal: button("Equal as one", "Equal devices as one lane (g)", toggleEqual),
    keys: button("?", "Keys, and what colours mean (?)", toggleKeys, "Keys"),
    hosts: button("Hosts", "Lanes of what hosts issue (h)", toggleHosts),
  };
  for (const toggle of Object.values(controls)) toggle.setAttribute("aria-pressed", "false");
  controls.hosts.setAttribute("aria-pressed", "true");
  shell.colours.addEventListener("change", () => colour(shell.colours.value as ColouredBy));
  shell.controls.append(
    button("−", "Zoom out (-)", () => zoom(1 / 0.7), "Zoom out"),
    button("+", "Zoom in (+)", () => zoom(0.7), "Zoom in"),
    button("All", "Show everything (0)", fit),
    controls.critical,
    controls.totals,
    controls.table,
    controls.equal,
    controls.hosts,
    controls.keys,
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
    const { uri } = model.side.document;
    const { colouring: { by: colouredBy }, equal } = scene;
    host.keep({ uri, from, to, top, event, search: scene.hits?.text ?? "", onlyCritical, colouredBy, equal });
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
    if (scene !== null) arrange();
    redraw();
  }

  // Messages.

  function receive(message: ToView): void {
    if (message.type === "show") show(message);
    else if (message.type === "state") {
      const { state, why = null, enough } = message;
      const machine = enough ?? null;
      describeState(shell, scene !== null, state, why, machine === null ? null : [machine, () => host.post({ type: "simulateOn", machine })]);
    }
    else if (message.type === "cursor") putCursor(message.uri, message.position);
  }

  function show(message: ShowMessage): void {
    if (message.timeline.length === 0) return;
    const before = scene;
    const model = new Model(message);
    const other = message.other && message.other.timeline.length > 0 ? new Model(message.other) : null;
    const same = before !== null && before.model.side.document.uri === message.document.uri;
    const kept = before === null ? host.kept() : undefined;
    const known = same ? before : null;
    const groups = equalDevices(model, other);
    const several = groups.some((group) => group.length > 1);
    const equal = several && (known?.equal ?? kept?.equal ?? model.devices.length > FEW_DEVICES);
    controls.equal.hidden = !several;
    controls.hosts.hidden = !model.hasHosts && other?.hasHosts !== true;
    shown = message;
    shell.tip.hidden = true; // it tells of what was there
    const useful = colouringsOf(model);
    const by = [known?.colouring.by, kept?.colouredBy].find((wanted) => wanted !== undefined && useful.includes(wanted)) ?? bestColouring(model);
    scene = {
      model,
      other,
      rows: [],
      rowOf: new Map(),
      groups,
      equal,
      chosen: known?.chosen ?? new Map(),
      colouring: colouring(model, by),
      otherColouring: other === null ? null : colouring(other, by),
      range: null,
      viewport,
      theme: before?.theme ?? readTheme(),
      selected: null,
      cursor: null,
      hits: null,
      onlyCritical: before?.onlyCritical ?? false,
      hosts: before?.hosts ?? true,
    };
    arrange();
    tellColours();
    const total = Math.max(model.latency, other?.latency ?? 0);
    if (known !== null) {
      const before = known;
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
    tellTotals();
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
    const { model, rowOf } = scene!;
    if (model.ends[bar] < viewport.from || model.starts[bar] > viewport.to) return false;
    const row = rowOf.get(laneOf(bar));
    return row !== undefined && row.top >= viewport.top && row.top + row.bars <= viewport.top + viewport.height;
  }

  const laneOf = (bar: number): string => scene!.model.group(bar).lanes[0];

  // How it is arranged and coloured.

  /** Place the lanes anew. */
  function arrange(): void {
    if (scene === null) return;
    const { model, other, equal, groups, hosts, chosen } = scene;
    const shown = equal ? groups : groups.flat().sort((a, b) => a - b).map((device) => [device]);
    const { height } = viewport;
    scene.rows = rowsOf(model, other, { groups: shown, hosts, levels: levelsOf(model), chosen, height });
    scene.rowOf = new Map(
      scene.rows.flatMap((row) => row.devices.map((device): [string, Row] => [laneName(device, row.stream), row])),
    );
    viewport.content = (scene.rows.at(-1)?.bottom ?? 0) + 4;
    viewport.move(0, 0);
    controls.equal.setAttribute("aria-pressed", String(equal));
  }

  function toggleEqual(): void {
    if (scene === null || controls.equal.hidden) return;
    scene.equal = !scene.equal;
    arrange();
    say(scene.equal ? "equal devices are one lane" : "each device has its own lane");
    redraw();
  }

  function toggleDevice(row = scene?.selected == null ? scene?.rows[0] : scene.rowOf.get(scene.selected.lane)): void {
    if (scene === null || row === undefined) return;
    scene.chosen = new Map([...scene.chosen, [row.device, !row.isOpen]]);
    arrange();
    say(`device ${row.device} ${row.isOpen ? "closed" : "opened"}`);
    redraw();
  }

  /** Colour by this; without one, by the next. */
  function colour(by?: ColouredBy): void {
    if (scene === null) return;
    const { model, other } = scene;
    const useful = colouringsOf(model);
    const next = by ?? useful[(useful.indexOf(scene.colouring.by) + 1) % useful.length];
    scene.colouring = colouring(model, next);
    scene.otherColouring = other === null ? null : colouring(other, next);
    tellColours();
    say(`coloured by ${next}`);
    redraw();
  }

  function tellColours(): void {
    if (scene === null) return;
    const useful = colouringsOf(scene.model);
    for (const option of shell.colours.options) option.hidden = option.disabled = !useful.includes(option.value as ColouredBy);
    shell.colours.value = scene.colouring.by;
    fillLegend(shell.legend, scene);
  }

  // What is summed up.

  function selectRange(range: Range | null, open = false): void {
    if (scene === null) return;
    const ends = range === null && scene.range !== null;
    scene.range = range;
    if (range !== null && !open && shell.totals.hidden) toggleTotals();
    else if (!open && (range !== null || ends)) tellTotals();
    redraw();
  }

  function selectSlice(row: Row, slices: Slices, slice: number): void {
    if (scene === null) return;
    const { model } = scene;
    const part = slices.part(slice);
    const name = nameOf(part);
    selectRange({ from: slices.starts[slice], to: slices.ends[slice], devices: row.devices, name });
    if (part.kind !== "call") return;
    const bar = model.lanes.get(row.lane)!.bars[slices.firsts[slice]];
    const callers = model.callersOf(bar);
    const at = callers.indexOf(part.place);
    const path = callers.slice(0, at).map(({ function: caller, statement }) => ({ function: caller, statement }));
    const { function: caller, statement, range } = part.place;
    const { uri } = model.side.document;
    host.post({ type: "reveal", uri, range, function: caller, statement, path, event: model.events[bar], focus: false });
  }

  function rangeOfSelection(): void {
    if (scene === null) return;
    const { selected } = scene;
    if (selected === null) return selectRange({ from: viewport.from, to: viewport.to, devices: null, name: "in view" });
    if (selected.isOther) return;
    const { model } = scene;
    const { op, label } = model.statement(selected.bar);
    const name = `${op} ${label}`;
    selectRange({ from: model.starts[selected.bar], to: model.ends[selected.bar], devices: null, name });
  }

  function toggleTotals(): void {
    shell.totals.hidden = !shell.totals.hidden;
    controls.totals.setAttribute("aria-pressed", String(!shell.totals.hidden));
    tellTotals();
  }

  function tellTotals(): void {
    if (scene === null || shell.totals.hidden) return;
    const { model, range } = scene;
    const devices = range?.devices ?? model.devices.map(({ device }) => device);
    const found = totals(model, range?.from ?? 0, range?.to ?? model.latency, devices);
    const text = fillTotals(shell.totals, scene, found, () => selectRange(null));
    if (range !== null) say(text);
  }

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
    const row = scene!.rowOf.get(selection.lane);
    if (row === undefined) return;
    viewport.reveal(model.starts[selection.bar], model.ends[selection.bar], row.sliceTop - 6, row.bottom);
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
    const own = scene.rowOf.get(selected.lane)?.lane;
    const now = lanes.findIndex(({ lane, isOther }) => lane === own && isOther === selected.isOther);
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

  /** Show what keys do, and in narrow windows what colours mean. */
  function toggleKeys(): void {
    shell.keys.hidden = !shell.keys.hidden;
    shell.legend.classList.toggle("asked", !shell.keys.hidden);
    controls.keys.setAttribute("aria-pressed", String(!shell.keys.hidden));
  }

  function toggleHosts(): void {
    if (scene === null || controls.hosts.hidden) return;
    scene.hosts = !scene.hosts;
    arrange();
    controls.hosts.setAttribute("aria-pressed", String(scene.hosts));
    const { selected } = scene;
    if (selected !== null && !scene.rowOf.has(selected.lane)) {
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
    tellColours();
    redraw();
  });
  new ResizeObserver(resize).observe(shell.chart);
  readTheme();
  tellSelection(false);
  return {
    shell, viewport, scene: () => scene, receive, redraw, resize, zoom, move, fit, zoomToSelection, select, open, along, across,
    next, toggleCritical, toggleTable, toggleHosts, toggleTotals, toggleKeys, toggleEqual, toggleDevice, colour, selectRange,
    selectSlice, rangeOfSelection, find,
  };
}

/** The lane to show a bar in: the one wanted, if the bar is there. */
function laneFor(model: Model, bar: number, wanted: string | undefined): string {
  const { lanes } = model.group(bar);
  return wanted !== undefined && lanes.includes(wanted) ? wanted : lanes[0];
}
