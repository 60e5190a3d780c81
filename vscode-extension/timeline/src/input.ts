// Wheel, pointers and keys: what each asks the view for.

import type { App } from "./app";
import { element } from "./dom";
import { partsAt } from "./draw_memory";
import { AXIS, GUTTER, OVERVIEW, widen } from "./layout";
import { type Found, pick } from "./pick";
import type { Scene } from "./scene";
import { modelOf } from "./scene";
import { nameOf } from "./slices";
import { deviceFacts, duration, facts, memoryAt, named, waiting } from "./words";

const NUDGE = 1 / 8; // of what is seen, by a key
const STILL = 4; // pixels: a pointer that moved less has clicked
const EDGE = 4; // how near the edge of the column of names is

/** Make the view answer to wheel, pointers and keys. */
export function listen(app: App): void {
  hideTip(app);
  listenToWheel(app);
  listenToPointers(app);
  listenToKeys(app);
  listenToSearch(app);
}

function timeAt(app: App, x: number): number {
  return app.viewport.from + ((x - GUTTER) / app.viewport.width) * app.viewport.span;
}

/** What is said of a place goes away with the pointer, and when something is done: it may be about something else then. */
function hideTip({ shell: { tip, canvas } }: App): void {
  const hide = (): void => {
    tip.hidden = true;
  };
  for (const name of ["pointerleave", "pointercancel"]) canvas.addEventListener(name, hide);
  for (const name of ["keydown", "pointerdown", "wheel"]) document.addEventListener(name, hide, { capture: true, passive: true });
  for (const name of ["blur", "resize"]) addEventListener(name, hide);
  document.documentElement.addEventListener("pointerleave", hide);
}

function listenToWheel(app: App): void {
  app.shell.canvas.addEventListener(
    "wheel",
    (wheel) => {
      wheel.preventDefault();
      const unit = wheel.deltaMode === 1 ? 16 : 1;
      const { viewport } = app;
      if (wheel.shiftKey) app.move(0, (wheel.deltaY || wheel.deltaX) * unit);
      else if (Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) {
        app.move((viewport.span / viewport.width) * wheel.deltaX * unit, 0);
      } else {
        // Browsers say `ctrl` of two fingers that pinch, in smaller steps.
        app.zoom((wheel.ctrlKey ? 1.01 : 1.0018) ** (wheel.deltaY * unit), timeAt(app, Math.max(GUTTER, wheel.offsetX)));
      }
    },
    { passive: false },
  );
}

interface Held {
  x: number;
  y: number;
  moved: boolean;
  /** A range that is being selected: from this time on. */
  range: { from: number } | null;
  /** The overview is held: what is seen follows. */
  overview: boolean;
  /** The edge of the column of names is held. */
  edge: boolean;
}

function listenToPointers(app: App): void {
  const { canvas, chart } = app.shell;
  const held = new Map<number, Held>();
  canvas.addEventListener("pointerdown", (pointer) => {
    canvas.setPointerCapture(pointer.pointerId);
    chart.focus({ preventScroll: true });
    const [x, y] = [pointer.offsetX, pointer.offsetY];
    const edge = isEdge(x);
    const overview = y < OVERVIEW && x >= GUTTER && !edge;
    const range = pointer.shiftKey && !overview && !edge ? { from: timeAt(app, x) } : null;
    held.set(pointer.pointerId, { x, y, moved: held.size > 0, range, overview, edge });
    if (overview) centre(app, x);
  });
  canvas.addEventListener("pointermove", (pointer) => {
    const own = held.get(pointer.pointerId);
    if (own === undefined) {
      canvas.classList.toggle("edge", isEdge(pointer.offsetX));
      if (held.size === 0) showTip(app, pointer.offsetX, pointer.offsetY);
      return;
    }
    const dx = pointer.offsetX - own.x;
    const dy = pointer.offsetY - own.y;
    if (!own.moved && Math.hypot(dx, dy) < STILL) return;
    const { viewport } = app;
    if (own.edge) {
      held.set(pointer.pointerId, { ...own, moved: true });
      widen(pointer.offsetX);
      app.resize();
      return;
    }
    if (own.overview || own.range !== null) {
      held.set(pointer.pointerId, { ...own, moved: true });
      if (own.overview) centre(app, pointer.offsetX);
      else selectTo(app, own, pointer.offsetX, pointer.offsetY);
      return;
    }
    canvas.classList.add("moving");
    const before = [...held.values()].map((finger) => finger.x);
    held.set(pointer.pointerId, { ...own, x: pointer.offsetX, y: pointer.offsetY, moved: true });
    if (held.size === 2) {
      const now = [...held.values()].map((finger) => finger.x);
      const apart = Math.max(10, Math.abs(before[0] - before[1]));
      app.zoom(apart / Math.max(10, Math.abs(now[0] - now[1])), timeAt(app, (now[0] + now[1]) / 2));
    } else app.move((-dx / viewport.width) * viewport.span, -dy);
  });
  const release = (pointer: PointerEvent): Held | undefined => {
    const own = held.get(pointer.pointerId);
    held.delete(pointer.pointerId);
    if (held.size === 0) canvas.classList.remove("moving");
    return own;
  };
  canvas.addEventListener("pointerup", (pointer) => {
    const own = release(pointer);
    const scene = app.scene();
    if (own?.range != null && own.moved) app.selectRange(scene?.range ?? null); // and now its sums: they take room
    if (own === undefined || own.moved || own.edge || scene === null || pointer.button !== 0) return;
    const found = pick(scene, pointer.offsetX, pointer.offsetY);
    if (found?.kind === "name") app.toggleDevice(found.row);
    else if (found?.kind === "slice") app.selectSlice(found.row, found.slices, found.slice);
    else if (found?.kind === "bar") {
      app.select(found.selection, true);
      app.open(false);
    }
  });
  canvas.addEventListener("dblclick", (click) => {
    const scene = app.scene();
    if (isEdge(click.offsetX)) {
      widen();
      app.resize();
    } else if (scene !== null && pick(scene, click.offsetX, click.offsetY)?.kind === "bar") app.open(true);
  });
  canvas.addEventListener("pointercancel", release);
}

/** Whether a place, from the left, is at the edge of the column of names, which can be dragged. */
function isEdge(x: number): boolean {
  return Math.abs(x - GUTTER) <= EDGE;
}

/** See the part of the program around a place of the overview. */
function centre(app: App, x: number): void {
  const { viewport } = app;
  const time = ((x - GUTTER) / viewport.width) * viewport.total;
  app.move(time - (viewport.from + viewport.to) / 2, 0);
}

/** Sum up from where the pointer was pressed to where it is, on the devices in between. */
function selectTo(app: App, { range, y }: Held, x: number, height: number): void {
  const scene = app.scene();
  if (scene === null || range === null) return;
  const [top, bottom] = [Math.min(y, height), Math.max(y, height)].map((at) => at - AXIS + app.viewport.top);
  const touched = scene.rows.filter((row) => row.bottom > top && row.sliceTop <= bottom).flatMap(({ devices }) => devices);
  const now = Math.max(0, Math.min(app.viewport.total, timeAt(app, Math.max(GUTTER, x))));
  const devices = [...new Set(touched)];
  const [from, to] = [Math.min(range.from, now), Math.max(range.from, now)];
  app.selectRange({ from, to, devices: devices.length > 0 ? devices : null, name: null }, true);
}

function showTip(app: App, x: number, y: number): void {
  const { tip, chart } = app.shell;
  const scene = app.scene();
  const found = scene === null ? null : pick(scene, x, y);
  const text = scene === null || found === null ? [] : lines(scene, found);
  tip.hidden = text.length === 0;
  if (tip.hidden) return;
  tip.replaceChildren(...text.map((line) => element("p", {}, line)));
  const right = x + 16 + tip.offsetWidth > chart.clientWidth;
  tip.style.left = `${Math.max(0, right ? x - 12 - tip.offsetWidth : x + 16)}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 16, chart.clientHeight - tip.offsetHeight - 4))}px`;
}

function lines(scene: Scene, found: Found): string[] {
  if (found.kind === "overview") return [];
  if (found.kind === "name") return deviceFacts(scene.model, found.row.devices);
  if (found.kind === "slice") {
    const { slices, slice } = found;
    const part = slices.part(slice);
    const ops = slices.lasts[slice] - slices.firsts[slice] + 1;
    const where = part.kind === "call" && part.place.range !== null ? `, called in line ${part.place.range.start.line + 1}` : "";
    const [from, to] = [slices.starts[slice], slices.ends[slice]];
    return [nameOf(part), `${duration(to - from)} from ${duration(from)}, ${ops} ops here${where}`];
  }
  if (found.kind === "memory") return memoryAt(found.curve, found.curve.points[found.point][1], partsAt(found.curve, found.point));
  if (found.kind === "wait") return waiting(found.model, found.wait);
  const model = modelOf(scene, found.selection);
  const name = found.selection.isOther ? [model.side.document.name] : [];
  const { text } = model.statement(found.selection.bar);
  return [named(model, found.selection.bar), facts(model, found.selection.bar), ...(text === null ? [] : [text]), ...name];
}

/** Keys are the view's wherever the focus is, but for fields, buttons and the table, which have some of their own. */
function isTaken(key: KeyboardEvent): boolean {
  const target = key.target instanceof Element ? key.target : document.body;
  if (target.closest("input, select") !== null) return true;
  if (target.closest("button") !== null && (key.key === "Enter" || key.key === " ")) return true;
  return target.closest("#table, #totals") !== null && /^(Arrow|Page|Home$|End$)/.test(key.key);
}

function listenToKeys(app: App): void {
  const { search } = app.shell;
  const { viewport } = app;
  const step = (): number => viewport.span * NUDGE;
  const plain: Record<string, () => void> = {
    ArrowLeft: () => app.along(-1),
    ArrowRight: () => app.along(1),
    ArrowUp: () => app.across(-1),
    ArrowDown: () => app.across(1),
    Home: () => app.along("first"),
    End: () => app.along("last"),
    Enter: () => app.open(true),
    " ": () => app.open(false),
    PageUp: () => app.move(0, -viewport.height * 0.8),
    PageDown: () => app.move(0, viewport.height * 0.8),
    "+": () => app.zoom(0.7, focusTime(app)),
    "=": () => app.zoom(0.7, focusTime(app)),
    "-": () => app.zoom(1 / 0.7, focusTime(app)),
    "0": () => app.fit(),
    z: () => app.zoomToSelection(),
    n: () => app.next(1),
    p: () => app.next(-1),
    c: () => app.toggleCritical(),
    t: () => app.toggleTable(),
    h: () => app.toggleHosts(),
    k: () => app.colour(),
    g: () => app.toggleEqual(),
    o: () => app.toggleDevice(),
    r: () => app.rangeOfSelection(),
    s: () => app.toggleTotals(),
    "/": () => search.focus(),
    "?": () => app.toggleKeys(),
    Escape: () => {
      app.select(null);
      app.selectRange(null);
    },
  };
  const shifted: Record<string, () => void> = {
    ArrowLeft: () => app.move(-step(), 0),
    ArrowRight: () => app.move(step(), 0),
    ArrowUp: () => app.move(0, -40),
    ArrowDown: () => app.move(0, 40),
  };
  document.addEventListener("keydown", (key) => {
    if (key.ctrlKey || key.metaKey || key.altKey || isTaken(key)) return;
    const act = (key.shiftKey ? shifted[key.key] : undefined) ?? plain[key.key];
    if (act === undefined || (key.shiftKey && key.key.startsWith("Arrow") && shifted[key.key] === undefined)) return;
    key.preventDefault();
    act();
  });
}

/** What keys zoom at: the selected bar where it is seen, else the middle. */
function focusTime(app: App): number | undefined {
  const scene = app.scene();
  if (scene === null || scene.selected === null) return undefined;
  const model = modelOf(scene, scene.selected);
  const time = (model.starts[scene.selected.bar] + model.ends[scene.selected.bar]) / 2;
  return time >= app.viewport.from && time <= app.viewport.to ? time : undefined;
}

function listenToSearch(app: App): void {
  const { search, chart } = app.shell;
  let timer: ReturnType<typeof setTimeout> | undefined;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => app.find(search.value), 100);
  });
  search.addEventListener("keydown", (key) => {
    if (key.key === "Enter") {
      clearTimeout(timer);
      if ((app.scene()?.hits?.text ?? "") !== search.value) app.find(search.value);
      app.next(key.shiftKey ? -1 : 1);
    } else if (key.key === "Escape") {
      search.value = "";
      app.find("");
      chart.focus();
    } else return;
    key.preventDefault();
  });
}
