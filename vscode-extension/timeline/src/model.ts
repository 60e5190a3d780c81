// One simulation as columns: what the answers say, in arrays that are quick to search and draw. Knows no screen.

import { expanded } from "./expand";
import { Lane } from "./lane";
import type { BarRow, BarTable, CallPlace, Curve, HostRow, Position, Range, Side, WaitRow, Work } from "./protocol";

/** A statement that bars come from: an op, or a call. `text` is what is there, where that is known. */
export interface Statement {
  function: string;
  index: number;
  op: string;
  label: string;
  range: Range | null;
  text: string | null;
  /** Its bars, ascending. */
  bars: Int32Array;
}

/** Devices that one op runs on, and their lanes. `root`: where its messages begin (`inwards`: end). */
export interface Group {
  devices: number[];
  stream: string;
  lanes: string[];
  communication: string | null;
  root: number | null;
  inwards: boolean;
}

export interface Device {
  device: number;
  busy: number;
  peak: number;
  capacity: number;
  overhead: number;
  fits: boolean;
  /** Whether the errors of simulated memory leave it open. */
  doubtful: boolean;
  memory: Curve | null;
}

/** In place of a stream's name, that of the lane of a device's host; no stream can be called so. */
export const HOST_LANE = "(host)";

/** What a lane is known by, and called: `1`, or `1 reduce` for a stream beside that of compute. */
export function laneName(device: number, stream: string): string {
  return stream === "" ? String(device) : `${device} ${stream}`;
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
  /** What each bar is done for; 0: nothing is known. */
  readonly workOf: Int32Array;
  readonly critical: Uint8Array;
  readonly statements: Statement[] = [];
  readonly groups: Group[] = [];
  readonly paths: string[][] = [];
  /** For each path, the statements that call its functions, of all but the first. */
  readonly callers: CallPlace[][] = [];
  readonly bounds: string[] = [];
  readonly works: Work[] = [{ phase: null, microbatch: null }];
  readonly path: Int32Array;
  readonly links: Int32Array;
  readonly linkStarts: Float64Array;
  readonly devices: Device[];
  /** By name: for each device that of its compute stream, then those of its other streams as far as bars are there. */
  readonly lanes = new Map<string, Lane>();
  readonly latency: number;
  /** Shares of (devices × latency). NaN where they are not known. */
  readonly bubble: number;
  readonly exposed: number;
  readonly hostBound: number;
  /** Whether there are lanes of hosts. */
  get hasHosts(): boolean {
    return [...this.lanes.values()].some((lane) => lane.isHost);
  }
  readonly ops: number;
  readonly allEvents: number;
  readonly hardware: string;
  readonly entry: string;
  /** How many calls lead to an op at the most. */
  readonly depth: number;
  /** For each path its calls by number, outermost first: two bars have the same number where the same call leads to them. */
  private readonly callsOf: number[][] = [];
  private readonly located: { range: Range; statement: () => Statement }[];

  constructor(readonly side: Side) {
    const [first] = side.timeline;
    this.latency = first.latency_s;
    this.bubble = first.bubble ?? NaN;
    this.exposed = first.exposed_communication ?? NaN;
    this.hostBound = first.host_bound ?? 0;
    this.ops = first.ops;
    this.allEvents = first.events;
    this.hardware = first.hardware;
    this.entry = first.function;
    const hosts: HostRow[] = [];
    const tables = side.timeline.map(({ blocks, table, bars, hosts: stated }) => {
      const whole = blocks ? expanded(blocks) : null;
      hosts.push(...(whole?.hosts ?? stated ?? []));
      return whole ?? table ?? tabulated(bars);
    });
    const count = tables.reduce((sum, table) => sum + table.event.length, 0);
    this.events = new Int32Array(count);
    this.starts = new Float64Array(count);
    this.ends = new Float64Array(count);
    this.slack = new Float64Array(count);
    this.statementOf = new Int32Array(count);
    this.groupOf = new Int32Array(count);
    this.pathOf = new Int32Array(count);
    this.boundOf = new Int32Array(count);
    this.workOf = new Int32Array(count);
    this.critical = new Uint8Array(count);
    this.readTables(tables);
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
      overhead: row.overhead_bytes ?? 0,
      fits: row.fits ?? row.peak_memory_bytes <= row.capacity_bytes,
      doubtful: row.fit === "may not fit",
      memory: side.memory?.memories.find((curve) => curve.devices.includes(row.device)) ?? null,
    }));
    const calls = this.numberCalls();
    this.depth = this.callsOf.reduce((most, calls) => Math.max(most, calls.length), 0);
    this.makeLanes(hosts);
    this.located = [
      ...this.statements.map((found) => ({ range: found.range, statement: () => found })),
      ...calls.map(([place, name]) => ({ range: place.range, statement: () => this.call(place, name) })),
    ].filter((found): found is { range: Range; statement: () => Statement } => found.range !== null);
    this.located.sort((a, b) => before(a.range.start, b.range.start));
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

  /** The statement at a position in the text, an op or a call; null where no bar comes from there. */
  statementAt(position: Position): Statement | null {
    let low = 0;
    let high = this.located.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.located[middle].range.start, position) <= 0) low = middle + 1;
      else high = middle;
    }
    const [last, next] = [this.located[low - 1], this.located[low]];
    if (last !== undefined && before(position, last.range.end) <= 0) return last.statement();
    // A cursor before the statement, or behind it, in a line that holds nothing else.
    if (next !== undefined && next.range.start.line === position.line) return next.statement();
    return last !== undefined && last.range.end.line === position.line ? last.statement() : null;
  }

  /** The statements that call the functions which lead to a bar, outermost first. */
  callersOf(bar: number): CallPlace[] {
    return this.callers[this.pathOf[bar]];
  }

  /** The number of the call that leads to a bar, so many calls deep; 0: there is none. */
  callAt(bar: number, depth: number): number {
    return this.callsOf[this.pathOf[bar]][depth - 1] ?? 0;
  }

  private numberCalls(): [place: CallPlace, called: string][] {
    const found: [CallPlace, string][] = [];
    const byKey = new Map<string, number>();
    const known = new Map<CallPlace, number>(); // paths are many, and share their places: a key is made of each once
    this.callers.forEach((places, path) =>
      places.forEach((place, i) => {
        if (known.has(place)) return;
        const key = keyOf(place);
        const number = byKey.get(key) ?? found.push([place, this.paths[path][i + 1]]) - 1;
        byKey.set(key, number);
        known.set(place, number);
      }),
    );
    const numbers = new Map<number, number>();
    for (const places of this.callers) {
      let call = 0;
      this.callsOf.push(
        places.map((place) => {
          const key = call * found.length + known.get(place)!;
          call = numbers.get(key) ?? numbers.size + 1;
          numbers.set(key, call);
          return call;
        }),
      );
    }
    return found;
  }

  /** A call as a statement: its bars are those of all that the function does there. */
  private call(place: CallPlace, name: string): Statement {
    const within = this.callers.map((places) => places.some((found) => keyOf(found) === keyOf(place)));
    const found: number[] = [];
    for (let bar = 0; bar < this.count; bar += 1) if (within[this.pathOf[bar]]) found.push(bar);
    const bars = Int32Array.from(found);
    const { function: caller, statement: index, range } = place;
    return { function: caller, index, op: "call of", label: `@${name}`, range, text: null, bars };
  }

  /** The bar that represents `bar` of another version: the same statement's, the same time round. */
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

  /** Each piece counts on its own: what pieces share is found by what it says. */
  private readTables(tables: BarTable[]): void {
    const statements = new Map<string, number>();
    const groups = new Map<string, number>();
    const paths = new Map<string, number>();
    const bounds = new Map<string, number>();
    const works = new Map([[workKey(this.works[0]), 0]]);
    const lines = this.side.source != null ? this.side.source.split(/\r\n|\n|\r/) : null;
    let bar = 0;
    for (const table of tables) {
      const origins = table.origins.map(({ op, label, function: name, statement, range }) =>
        numbered(statements, `${statement} ${name}`, this.statements, () => {
          const text =
            range !== null && lines !== null ? cut(lines, range) : (this.side.statements?.[name]?.[statement] ?? null);
          return { function: name, index: statement, op, label, range, text, bars: NONE };
        }),
      );
      const calls = table.calls.map((names, i) => {
        const places = (table.callers?.[i] ?? []).map((place) => table.places![place]);
        // One piece has each path once; pieces share them.
        const key = tables.length === 1 ? String(i) : JSON.stringify([names, places.map(keyOf)]);
        return numbered(paths, key, this.paths, () => {
          this.callers.push(places);
          return names;
        });
      });
      const kinds = table.kinds.map((kind) => {
        const communication = kind.communication ?? (kind.devices.length > 1 ? "" : null);
        const root = kind.root ?? null;
        const inwards = communication !== null && INWARDS.has(communication);
        const { devices, stream = "" } = kind;
        const lanes = devices.map((device) => laneName(device, stream));
        const group = { devices, stream, lanes, communication, root, inwards };
        return numbered(groups, JSON.stringify(group), this.groups, () => group);
      });
      const limits = table.kinds.map(({ bound }) => numbered(bounds, bound, this.bounds, () => bound));
      const purposes = (table.works ?? []).map((work) => numbered(works, workKey(work), this.works, () => work));
      for (let i = 0; i < table.event.length; i += 1, bar += 1) {
        const kind = table.kind[i];
        this.events[bar] = table.event[i];
        this.starts[bar] = table.start_s[i];
        this.ends[bar] = table.start_s[i] + table.kinds[kind].duration_s;
        this.slack[bar] = table.slack_s === null ? NaN : table.slack_s[i];
        this.statementOf[bar] = origins[table.origin[i]];
        this.groupOf[bar] = kinds[kind];
        this.boundOf[bar] = limits[kind];
        this.pathOf[bar] = calls[table.call[i]];
        this.workOf[bar] = table.work === undefined ? 0 : purposes[table.work[i]];
      }
    }
    const own = sorted(this.count, this.statements.length, (bar, put) => put(this.statementOf[bar]));
    this.statements.forEach((statement, i) => (statement.bars = own[i]));
  }

  private makeLanes(hosts: readonly HostRow[]): void {
    const streams = new Map(this.devices.map(({ device }) => [device, new Set([""])]));
    for (const { devices, stream } of this.groups) for (const device of devices) streams.get(device)?.add(stream);
    const names = [...streams].flatMap(([device, own]) => [...own].map((stream) => laneName(device, stream)));
    const numbers = new Map(names.map((name, lane) => [name, lane]));
    /** By group, the lanes by number; -1: of a device that is not shown. */
    const lanesOf = this.groups.map(({ lanes }) => Int32Array.from(lanes, (name) => numbers.get(name) ?? -1));
    const own = sorted(this.count, names.length, (bar, put) => {
      const lanes = lanesOf[this.groupOf[bar]];
      for (let i = 0; i < lanes.length; i += 1) if (lanes[i] >= 0) put(lanes[i]);
    });
    const waits: WaitRow[][] = names.map(() => []);
    for (const { waits: rows } of this.side.timeline) {
      for (const wait of rows) waits[numbers.get(laneName(wait.device, wait.stream ?? "")) ?? -1]?.push(wait);
    }
    if (this.side.timeline.some(({ blocks }) => blocks)) this.idleTimes(lanesOf, waits, hosts);
    for (const [device, found] of streams) {
      for (const stream of [...found].sort()) {
        const name = laneName(device, stream);
        const lane = numbers.get(name)!;
        this.lanes.set(name, new Lane(device, stream, own[lane], waits[lane], this));
      }
    }
    this.makeHosts(hosts);
  }

  /**
   * Of a timeline in blocks, which has none: the times between the bars of a lane. What is waited for is the bar before, on
   * another lane of the op, that ends as it starts; -1, the host, where that has issued the op only then; else -2.
   */
  private idleTimes(lanesOf: Int32Array[], waits: WaitRow[][], hosts: readonly HostRow[]): void {
    const least = this.latency * 1e-9;
    const last = new Int32Array(waits.length).fill(-1);
    const issuing = new Map(hosts.map((row) => [row.device, { row, next: 0 }]));
    const issued = (device: number, event: number): number => {
      const host = issuing.get(device);
      if (host === undefined) return NaN;
      while (host.row.event[host.next] < event) host.next += 1;
      return host.row.event[host.next] === event ? host.row.end_s[host.next] : NaN;
    };
    for (let bar = 0; bar < this.count; bar += 1) {
      const group = this.groupOf[bar];
      const lanes = lanesOf[group];
      const start = this.starts[bar];
      let blocker = -2;
      for (let i = 0; lanes.length > 1 && i < lanes.length; i += 1) {
        const before = last[lanes[i]] ?? -1;
        if (before >= 0 && start - this.ends[before] <= least) blocker = this.events[before];
      }
      for (let i = 0; i < lanes.length; i += 1) {
        const lane = lanes[i];
        if (lane < 0) continue;
        const free = last[lane] < 0 ? 0 : this.ends[last[lane]];
        if (start - free > least) {
          const { devices, stream } = this.groups[group];
          const [device, before] = [devices[i], this.events[bar]];
          const until = blocker === -2 && start - issued(device, before) <= least ? -1 : blocker;
          waits[lane].push({ device, start_s: free, duration_s: start - free, before, blocker: until, stream });
        }
        last[lane] = bar;
      }
    }
  }

  private makeHosts(rows: readonly HostRow[]): void {
    const hosts = new Map<number, { bars: number[]; starts: number[]; ends: number[] }>();
    for (const { device, event, start_s, end_s } of rows) {
      if (!hosts.has(device)) hosts.set(device, { bars: [], starts: [], ends: [] });
      const own = hosts.get(device)!;
      for (let i = 0; i < event.length; i += 1) {
        const bar = this.barOf(event[i]);
        if (bar < 0) continue;
        own.bars.push(bar);
        own.starts.push(start_s[i]);
        own.ends.push(end_s[i]);
      }
    }
    for (const [device, own] of hosts) {
      this.lanes.set(laneName(device, HOST_LANE), new Lane(device, HOST_LANE, Int32Array.from(own.bars), [], this, own));
    }
  }
}

const NONE = new Int32Array(0);

/** The numbers from 0 to before `count` by what they are put under, of so many, ascending. */
function sorted(count: number, kinds: number, each: (number: number, put: (kind: number) => void) => void): Int32Array[] {
  const sizes = new Int32Array(kinds);
  const measure = (kind: number): void => void (sizes[kind] += 1);
  for (let i = 0; i < count; i += 1) each(i, measure);
  const found = Array.from(sizes, (size) => new Int32Array(size));
  const filled = new Int32Array(kinds);
  let current = 0;
  const put = (kind: number): void => void (found[kind][filled[kind]++] = current);
  for (; current < count; current += 1) each(current, put);
  return found;
}

/** The values at these places. */
export function picked(values: Float64Array, places: ArrayLike<number>): Float64Array {
  const found = new Float64Array(places.length);
  for (let i = 0; i < found.length; i += 1) found[i] = values[places[i]];
  return found;
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

/** Rows as columns. */
function tabulated(rows: BarRow[]): BarTable {
  const made = {
    origins: [] as BarTable["origins"], calls: [] as string[][], callers: [] as number[][], places: [] as CallPlace[],
    kinds: [] as BarTable["kinds"], works: [] as Work[], event: [] as number[], origin: [] as number[],
    call: [] as number[], kind: [] as number[], work: [] as number[], start_s: [] as number[], slack_s: [] as number[],
  };
  const [origins, calls, places, kinds, works] = Array.from({ length: 5 }, () => new Map<string, number>());
  for (const row of rows) {
    const { duration_s, devices, bound, communication, root, stream } = row;
    const kind = { duration_s, devices, bound, communication, root, stream };
    made.event.push(row.event);
    made.origin.push(numbered(origins, `${row.statement} ${row.function}`, made.origins, () => row));
    const callers = (row.callers ?? []).map((place) => numbered(places, keyOf(place), made.places, () => place));
    const way = `${row.calls.join("\n")}|${callers.join()}`;
    if (!calls.has(way)) made.callers.push(callers);
    made.call.push(numbered(calls, way, made.calls, () => row.calls));
    const key = `${duration_s}|${devices.join()}|${bound}|${communication}|${root}|${stream}`;
    made.kind.push(numbered(kinds, key, made.kinds, () => kind));
    const work = { phase: row.phase ?? null, microbatch: row.microbatch ?? null };
    made.work.push(numbered(works, workKey(work), made.works, () => work));
    made.start_s.push(row.start_s);
    made.slack_s.push(row.slack_s ?? NaN);
  }
  return made;
}

function keyOf({ statement, function: name }: CallPlace): string {
  return `${statement} ${name}`;
}

function workKey({ phase, microbatch }: Work): string {
  return `${phase ?? ""} ${microbatch ?? ""}`;
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
