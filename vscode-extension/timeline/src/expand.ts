// A long timeline comes as blocks: what a call runs, once for all calls that run alike. Here they become bars again.

import type { BarTable, BlockTable, CallPlace, HostRow, Renaming, Work } from "./protocol";

/** Of more bars the first are shown: beyond, a browser runs out of memory before people run out of patience. */
export const MOST_EXPANDED = 2_000_000;

/** A call under way: the items of its block from `next` on, with what they are added to and renamed by. */
interface Frame {
  block: number;
  next: number;
  /** The entries of `issued` before this one are of items before `next`. */
  issued: number;
  start: number;
  /** When hosts begin it. */
  host: number;
  event: number;
  path: number;
  naming: number;
}

/** What the devices of a block are called in the entry function. */
interface Devices {
  names: Map<number, number>;
  /** By kind of op, one more than its number there; 0: not asked for yet. */
  kinds: Int32Array;
}

/** The same with the first microbatch, 0 for none. Many differ in it alone: all layers are on the same devices. */
interface Naming {
  devices: Devices;
  first: number;
  /** By work, one more than its number there. */
  works: Int32Array;
  /** By renaming, its number here. */
  inner: Map<number, number>;
}

/** The bars of a timeline, in program order, as a table: at most so many; and what hosts do for them. */
export function expanded(table: BlockTable, most = MOST_EXPANDED): BarTable & { hosts: HostRow[] } {
  const { blocks, statements, renamings } = table;
  const entry = blocks.length - 1;
  const count = Math.min(most, blocks[entry].events);
  const event = new Int32Array(count);
  const origin = new Int32Array(count);
  const call = new Int32Array(count);
  const kind = new Int32Array(count);
  const work = new Int32Array(count);
  const start = new Float64Array(count);
  const hosts = new Map<number, HostRow>();
  const found: BarTable = {
    origins: statements, calls: [[blocks[entry].function]], callers: [[]],
    places: statements.map(({ function: name, statement, range }): CallPlace => ({ function: name, statement, range })),
    kinds: [], works: [], event, origin, call, kind, work, start_s: start, slack_s: null,
  };
  const names = new Names(table, found);
  const frames: Frame[] = [{ block: entry, next: 0, issued: 0, start: 0, host: 0, event: 0, path: 0, naming: 0 }];
  let bar = 0;
  while (frames.length > 0 && bar < count) {
    const frame = frames[frames.length - 1];
    const block = blocks[frame.block];
    const naming = names.all[frame.naming];
    for (; frame.next < block.kind.length && bar < count; frame.next += 1) {
      const i = frame.next;
      if (block.kind[i] < 0) break;
      event[bar] = frame.event + block.event[i];
      origin[bar] = block.statement[i];
      call[bar] = frame.path;
      const own = block.kind[i];
      kind[bar] = (naming.devices.kinds[own] || names.kind(naming.devices, own)) - 1;
      work[bar] = (naming.works[names.workOf[own]] || names.work(naming, names.workOf[own])) - 1;
      start[bar] = frame.start + block.start_s[i];
      for (const issued = block.issued; issued?.item[frame.issued] === i; frame.issued += 1) {
        const own = issued.device[frame.issued];
        const device = naming.devices.names.get(own) ?? own;
        let row = hosts.get(device);
        if (row === undefined) hosts.set(device, (row = { device, event: [], start_s: [], end_s: [] }));
        row.event.push(event[bar]);
        row.start_s.push(frame.host + issued.start_s[frame.issued]);
        row.end_s.push(frame.host + issued.end_s[frame.issued]);
      }
      bar += 1;
    }
    const i = frame.next;
    if (i >= block.kind.length) {
      frames.pop();
      continue;
    }
    if (block.kind[i] >= 0) break; // an op for which there is no room
    frame.next += 1;
    const callee = -1 - block.kind[i];
    found.calls.push([...found.calls[frame.path], blocks[callee].function]);
    found.callers!.push([...found.callers![frame.path], block.statement[i]]);
    frames.push({
      block: callee,
      next: 0,
      issued: 0,
      start: frame.start + block.start_s[i],
      host: frame.host + (block.host_s?.[i] ?? 0),
      event: frame.event + block.event[i],
      path: found.calls.length - 1,
      naming: names.inside(frame.naming, block.name[i], block.name[i] < 0 ? null : renamings[block.name[i]]),
    });
  }
  return { ...found, hosts: [...hosts.values()].sort((a, b) => a.device - b.device) };
}

/** The namings that occur, and the kinds of ops under each. */
class Names {
  readonly all: Naming[] = [];
  /** By kind of op, what it is done for, as the block numbers microbatches. */
  readonly workOf: Int32Array;
  private readonly works: Work[] = [];
  private readonly numbers = new Map<string, number>();
  private readonly devices = new Map<string, Devices>();
  private readonly kindNumbers = new Map<string, number>();
  private readonly workNumbers = new Map<string, number>();

  constructor(
    private readonly table: BlockTable,
    private readonly found: BarTable,
  ) {
    const numbers = new Map<string, number>();
    this.workOf = Int32Array.from(table.kinds, ({ phase, microbatch }) => numbered(numbers, this.works, { phase, microbatch }));
    this.naming(new Map(), 0);
  }

  /** The naming of a call in one of a block. */
  inside(outer: number, number: number, renaming: Renaming | null): number {
    if (renaming === null) return outer;
    const { inner, devices, first } = this.all[outer];
    let known = inner.get(number);
    if (known === undefined) {
      const own = new Map(devices.names);
      for (const [theirs, ours] of renaming.devices) own.set(theirs, devices.names.get(ours) ?? ours);
      known = this.naming(own, countedOn(first, renaming.microbatch ?? 0));
      inner.set(number, known);
    }
    return known;
  }

  private naming(names: Map<number, number>, first: number): number {
    const there = [...names].sort((a, b) => a[0] - b[0]).join(" ");
    const key = `${there}|${first}`;
    let number = this.numbers.get(key);
    if (number === undefined) {
      this.numbers.set(key, (number = this.all.length));
      let devices = this.devices.get(there);
      if (devices === undefined) this.devices.set(there, (devices = { names, kinds: new Int32Array(this.table.kinds.length) }));
      this.all.push({ devices, first, works: new Int32Array(this.works.length), inner: new Map() });
    }
    return number;
  }

  /** One more than the number of a kind of op on certain devices. */
  kind(devices: Devices, number: number): number {
    const { phase: _phase, microbatch: _microbatch, ...own } = this.table.kinds[number];
    const there = (device: number): number => devices.names.get(device) ?? device;
    const { root = null } = own;
    const kind = { ...own, devices: own.devices.map(there), root: root === null ? null : there(root) };
    return (devices.kinds[number] = 1 + numbered(this.kindNumbers, this.found.kinds, kind));
  }

  /** One more than the number of a work under a naming. */
  work(naming: Naming, number: number): number {
    const { phase, microbatch } = this.works[number];
    const work = { phase, microbatch: microbatch === null ? null : countedOn(naming.first, microbatch) };
    return (naming.works[number] = 1 + numbered(this.workNumbers, this.found.works!, work));
  }
}

/** The number of a microbatch, counted from 1 in a block whose first one is `first`, 0 for none. */
function countedOn(first: number, number: number): number {
  return first > 0 && number > 0 ? first + number - 1 : first || number;
}

function numbered<T>(numbers: Map<string, number>, entries: T[], entry: T): number {
  const key = JSON.stringify(entry);
  let number = numbers.get(key);
  if (number === undefined) {
    numbers.set(key, (number = entries.length));
    entries.push(entry);
  }
  return number;
}
