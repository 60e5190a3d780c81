// Where lanes stand, one below the other. Pixels from the top of all lanes.

import { laneName, type Model } from "./model";

const GUTTER_AT_FIRST = 132;
const GUTTER_WIDTHS = [60, 600] as const;
/** The width of the column of names. */
export let GUTTER = GUTTER_AT_FIRST;
/** Make the column of names so wide, as far as it may be; without a width, as it was at first. */
export function widen(to = GUTTER_AT_FIRST): void {
  GUTTER = Math.round(Math.min(Math.max(to, GUTTER_WIDTHS[0]), GUTTER_WIDTHS[1]));
}
/** The whole program in small, above the axis. */
export const OVERVIEW = 30;
/** The height of what precedes the lanes: the overview, and the times. */
export const AXIS = OVERVIEW + 24;
/** A level of slices. */
export const SLICE = 15;

const BARS = 26;
const STRIP = 36;
const LEAST_BARS = 6;
/** Heights grow to so many times those where there is room. */
const MOST_GROWTH = 8;

/**
 * A lane's place: its slices from `sliceTop`, bars at `top`, those of the other program at `otherTop`. The last lane of
 * an open device has the device's memory beneath, at `stripTop`; the others have none there.
 */
export interface Row {
  /** The lane's name. */
  lane: string;
  device: number;
  stream: string;
  /** The devices that it is shown for: equal ones, the first of which is `device`. */
  devices: number[];
  /** Whether it is the first of its device. */
  isHead: boolean;
  /** Whether slices and memory are shown. */
  isOpen: boolean;
  sliceTop: number;
  levels: number;
  top: number;
  bars: number;
  otherTop: number;
  otherBars: number;
  stripTop: number | null;
  strip: number;
  bottom: number;
}

export interface Arrangement {
  /** Devices in groups of equal ones, each shown as one. */
  groups: number[][];
  /** Whether lanes of hosts are shown. */
  hosts: boolean;
  /** Levels of slices, at the most. */
  levels: number;
  /** Devices that the user has opened or closed; the others are open while all have room. */
  chosen: ReadonlyMap<number, boolean>;
  /** How high the view is. */
  height: number;
}

interface Heights {
  levels: number;
  bars: number;
  strip: number;
  gap: number;
}

/**
 * A row for each lane of either program: devices in the order of their numbers, their hosts and other streams after
 * compute. They fill the view where they can: two devices get high lanes, with slices and memory; of dozens, bars alone
 * are left; of hundreds these are as low as can be, and the view scrolls.
 */
export function rowsOf(model: Model, other: Model | null, arrangement: Arrangement): Row[] {
  const { groups, hosts, levels, chosen, height } = arrangement;
  const lanes = new Map([...model.lanes, ...(other?.lanes ?? [])]);
  const shown = [...lanes.values()].filter((lane) => hosts || !lane.isHost);
  const streams = new Map<number, string[]>();
  for (const { device, stream } of shown) streams.set(device, [...(streams.get(device) ?? []), stream]);
  const blocks = groups
    .filter(([device]) => streams.has(device))
    .map((devices) => ({ devices, streams: streams.get(devices[0])!.sort(), open: chosen.get(devices[0]) }));
  const compared = other !== null;
  const opened: Heights = { levels, bars: BARS, strip: STRIP, gap: 10 };
  const closed: Heights = { levels: 0, bars: 9, strip: 0, gap: 1 };
  const undecided = blocks.filter(({ open }) => open === undefined);
  const taken = blocks.reduce((sum, { open, streams: own }) => {
    return open === undefined ? sum : sum + heightOf(open ? opened : closed, own.length, compared);
  }, 8);
  const most = Math.max(1, ...undecided.map(({ streams: own }) => own.length));
  const each = (height - taken) / Math.max(1, undecided.length);
  const fitted = fit(each, most, opened, compared);
  let top = 6;
  return blocks.flatMap(({ devices, streams: own, open }) => {
    const heights = open === undefined ? fitted : open ? opened : closed;
    return own.map((stream, number) => {
      const isLast = number === own.length - 1;
      const above = stream === "" ? heights.levels : 0;
      const barTop = top + above * SLICE + (above > 0 ? 1 : 0);
      const otherTop = barTop + heights.bars + 2;
      const otherBars = compared ? otherOf(heights.bars) : 0;
      const below = barTop + heights.bars + (compared ? otherBars + 4 : 0) + 2;
      const stripTop = isLast && heights.strip > 0 ? below + 2 : null;
      const bottom = (stripTop === null ? below : stripTop + heights.strip) + (isLast ? heights.gap : 0);
      const row: Row = {
        lane: laneName(devices[0], stream),
        device: devices[0],
        stream,
        devices,
        isHead: number === 0,
        isOpen: heights.strip > 0,
        sliceTop: top,
        levels: above,
        top: barTop,
        bars: heights.bars,
        otherTop,
        otherBars,
        stripTop,
        strip: heights.strip,
        bottom,
      };
      top = bottom;
      return row;
    });
  });
}

const otherOf = (bars: number): number => Math.max(5, Math.round(bars * 0.6));

/** How high a device of so many lanes is. */
function heightOf({ levels, bars, strip, gap }: Heights, lanes: number, compared: boolean): number {
  const lane = bars + 2 + (compared ? otherOf(bars) + 4 : 0);
  return lanes * lane + (levels > 0 ? levels * SLICE + 1 : 0) + (strip > 0 ? strip + 2 : 0) + gap;
}

/** The heights with which a device of so many lanes fills this much, or takes no less than it needs. */
function fit(room: number, lanes: number, opened: Heights, compared: boolean): Heights {
  const whole = heightOf(opened, lanes, compared);
  if (room >= whole) {
    const shares = lanes * BARS * (compared ? 1.6 : 1) + STRIP;
    const growth = Math.min(MOST_GROWTH, 1 + (room - whole) / shares);
    return { ...opened, bars: Math.floor(BARS * growth), strip: Math.floor(STRIP * growth) };
  }
  // The inner calls are given up first, then the memory, then all slices, then the height of bars.
  for (let levels = opened.levels; levels >= 1; levels -= 1) {
    const low: Heights = { levels, bars: 20, strip: 20, gap: 6 };
    if (heightOf(low, lanes, compared) <= room) return low;
  }
  const bare: Heights = { levels: 1, bars: 18, strip: 0, gap: 4 };
  if (opened.levels > 0 && heightOf(bare, lanes, compared) <= room) return bare;
  const fixed = heightOf({ levels: 0, bars: 0, strip: 0, gap: 1 }, lanes, false);
  const bars = Math.floor((room - fixed) / lanes / (compared ? 1.8 : 1));
  return { levels: 0, bars: Math.max(LEAST_BARS, Math.min(BARS, bars)), strip: 0, gap: 1 };
}

/** The row at a height; null: none. */
export function rowAt(rows: Row[], y: number): Row | null {
  return rows.find((row) => y >= row.sliceTop && y < row.bottom) ?? null;
}
