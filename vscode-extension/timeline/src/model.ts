// One simulation as columns: what the answers say, in arrays that are quick to search and draw. Knows no screen.

import { Lane } from "./lane";
import type { Curve, Position, Range, Side } from "./protocol";

/** A statement that bars come from. `text` is what stands there, where that is known. */
export interface Statement {
  function: string;
  index: number;
  op: string;
  label: string;
  range: Range | null;
  text: string | null;
  /** Its bars, ascending. */
  bars: number[];
}

/** Devices that one op runs on. `root`: where its messages begin (`inwards`: end). */
export interface Group {
  devices: number[];
  communication: string | null;
  root: number | null;
  inwards: boolean;
}

export interface Device {
  device: number;
  busy: number;
  peak: number;
  capacity: number;
  memory: Curve | null;
}

/** Patterns that end at their root; all others with a root begin there. */
const INWARDS = new Set(["gather", "reduce"]);

/** A simulation. Bars are numbered from 0 in program order; `events` has the numbers that the server gave them. */
export class Model {
  readonly events: Int32Array;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** NaN where it is not known. */
  readonly slack: Float64Array;
  readonly statementOf: Int32Array;
  readonly groupOf: Int32Array;
  readonly pathOf: Int32Array;
  readonly boundOf: Int32Array;
  readonly critical: Uint8Array;
  readonly statements: Statement[] = [];
  readonly groups: Group[] = [];
  readonly paths: string[][] = [];
  readonly bounds: string[] = [];
  readonly path: Int32Array;
  readonly links: Int32Array;
  readonly linkStarts: Float64Array;
  readonly devices: Device[];
  readonly lanes = new Map<number, Lane>();
  readonly latency: number;
  readonly ops: number;
  readonly allEvents: number;
  readonly hardware: string;
  readonly entry: string;
  private readonly located: number[];

  constructor(readonly side: Side) {
    const [first] = side.timeline;
    this.latency = first.latency_s;
    this.ops = first.ops;
    this.allEvents = first.events;
    this.hardware = first.hardware;
    this.entry = first.function;
    const count = side.timeline.reduce((sum, answer) => sum + answer.bars.length, 0);
    this.events = new Int32Array(count);
    this.starts = new Float64Array(count);
    this.ends = new Float64Array(count);
    this.slack = new Float64Array(count);
    this.statementOf = new Int32Array(count);
    this.groupOf = new Int32Array(count);
    this.pathOf = new Int32Array(count);
    this.boundOf = new Int32Array(count);
    this.critical = new Uint8Array(count);
    this.readBars();
    this.path = this.barsOf(side.timeline.flatMap((answer) => answer.critical_path));
    for (const bar of this.path) this.critical[bar] = 1;
    const links: number[] = [];
    for (let bar = 0; bar < count; bar += 1) if (this.groups[this.groupOf[bar]].devices.length > 1) links.push(bar);
    links.sort((a, b) => this.starts[a] - this.starts[b] || a - b);
    this.links = Int32Array.from(links);
    this.linkStarts = Float64Array.from(links, (bar) => this.starts[bar]);
    this.devices = first.devices.map((row) => ({
      device: row.device,
      busy: row.busy_s,
      peak: row.peak_memory_bytes,
      capacity: row.capacity_bytes,
      memory: side.memory?.memories.find((curve) => curve.devices.includes(row.device)) ?? null,
    }));
    this.makeLanes();
    this.located = this.statements.map((_, i) => i).filter((i) => this.statements[i].range !== null);
    this.located.sort((a, b) => before(this.statements[a].range!.start, this.statements[b].range!.start));
  }

  get count(): number {
    return this.events.length;
  }

  /** The bar of a server's event; -1 where it was not given. */
  barOf(event: number): number {
    const at = upTo(this.events, event) - 1;
    return at >= 0 && this.events[at] === event ? at : -1;
  }

  statement(bar: number): Statement {
    return this.statements[this.statementOf[bar]];
  }

  group(bar: number): Group {
    return this.groups[this.groupOf[bar]];
  }

  /** The innermost statement at a position in the text; null where no bar comes from there. */
  statementAt(position: Position): Statement | null {
    let low = 0;
    let high = this.located.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.statements[this.located[middle]].range!.start, position) <= 0) low = middle + 1;
      else high = middle;
    }
    if (low > 0) {
      const found = this.statements[this.located[low - 1]];
      if (before(position, found.range!.end) <= 0) return found;
    }
    // A cursor before the statement, or behind it, in a line that holds nothing else.
    const next = low < this.located.length ? this.statements[this.located[low]] : null;
    if (next !== null && next.range!.start.line === position.line) return next;
    const last = low > 0 ? this.statements[this.located[low - 1]] : null;
    return last !== null && last.range!.end.line === position.line ? last : null;
  }

  /** The bar that stands for `bar` of another version: the same statement's, the same time round. */
  counterpart(other: Model, bar: number): number | null {
    const wanted = other.statement(bar);
    const round = wanted.bars.indexOf(bar);
    let best: Statement | null = null;
    for (const found of this.statements) {
      if (found.function !== wanted.function || found.op !== wanted.op || found.label !== wanted.label) continue;
      if (best === null || Math.abs(found.index - wanted.index) < Math.abs(best.index - wanted.index)) best = found;
    }
    return best === null ? null : best.bars[Math.min(round, best.bars.length - 1)];
  }

  private barsOf(events: number[]): Int32Array {
    return Int32Array.from(events.map((event) => this.barOf(event)).filter((bar) => bar >= 0));
  }

  private readBars(): void {
    const statements = new Map<string, Map<number, number>>();
    const groups = new Map<string, number>();
    const paths = new Map<string, number>();
    const bounds = new Map<string, number>();
    const lines = this.side.source != null ? this.side.source.split(/\r\n|\n|\r/) : null;
    let bar = 0;
    for (const answer of this.side.timeline) {
      for (const row of answer.bars) {
        this.events[bar] = row.event;
        this.starts[bar] = row.start_s;
        this.ends[bar] = row.start_s + row.duration_s;
        this.slack[bar] = row.slack_s ?? NaN;
        let own = statements.get(row.function);
        if (own === undefined) statements.set(row.function, (own = new Map<number, number>()));
        let number = own.get(row.statement);
        if (number === undefined) {
          own.set(row.statement, (number = this.statements.length));
          const text =
            row.range !== null && lines !== null
              ? cut(lines, row.range)
              : (this.side.statements?.[row.function]?.[row.statement] ?? null);
          const { op, label, range } = row;
          this.statements.push({ function: row.function, index: row.statement, op, label, range, text, bars: [] });
        }
        this.statements[number].bars.push(bar);
        this.statementOf[bar] = number;
        const communication = row.communication ?? (row.devices.length > 1 ? "" : null);
        const root = row.root ?? null;
        this.groupOf[bar] = numbered(groups, `${row.devices.join()}|${communication}|${root}`, this.groups, () => ({
          devices: row.devices,
          communication,
          root,
          inwards: communication !== null && INWARDS.has(communication),
        }));
        this.pathOf[bar] = numbered(paths, row.calls.join("\n"), this.paths, () => row.calls);
        this.boundOf[bar] = numbered(bounds, row.bound, this.bounds, () => row.bound);
        bar += 1;
      }
    }
  }

  private makeLanes(): void {
    const own = new Map<number, number[]>(this.devices.map(({ device }) => [device, []]));
    for (let bar = 0; bar < this.count; bar += 1) {
      for (const device of this.groups[this.groupOf[bar]].devices) own.get(device)?.push(bar);
    }
    for (const { device } of this.devices) {
      const waits = this.side.timeline.flatMap((answer) => answer.waits.filter((wait) => wait.device === device));
      this.lanes.set(device, new Lane(device, own.get(device)!, waits, this));
    }
  }
}

/** How many of the ascending numbers, from number `low`, are at most `value`; counted from the beginning. */
export function upTo(numbers: ArrayLike<number>, value: number, low = 0, high = numbers.length): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function numbered<T>(numbers: Map<string, number>, key: string, entries: T[], make: () => T): number {
  let number = numbers.get(key);
  if (number === undefined) {
    numbers.set(key, (number = entries.length));
    entries.push(make());
  }
  return number;
}

function before(a: Position, b: Position): number {
  return a.line - b.line || a.character - b.character;
}

/** The piece of a text that a range means. */
function cut(lines: string[], range: Range): string {
  const found = lines.slice(range.start.line, range.end.line + 1);
  if (found.length === 0) return "";
  const last = found.length - 1;
  found[last] = found[last].slice(0, range.end.character);
  found[0] = found[0].slice(range.start.character);
  return found.join("\n");
}
