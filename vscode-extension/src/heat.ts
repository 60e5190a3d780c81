// How lines are shown by the time that they take: levels of a bar, and changes in words. Knows nothing of the editor.

import { seconds } from "./figures";

/** Levels of heat; the last one is for the lines that take most. */
export const LEVELS = 5;

/** By level, from 0: the lines to be marked. The square root lets small shares show beside large ones. */
export function levelled(lines: readonly number[], shares: readonly number[]): number[][] {
  const most = Math.max(0, ...shares);
  const found: number[][] = Array.from({ length: LEVELS }, () => []);
  lines.forEach((line, index) => {
    const share = shares[index] ?? 0;
    if (share > 0) found[Math.min(LEVELS, Math.ceil(LEVELS * Math.sqrt(share / most))) - 1]?.push(line);
  });
  return found;
}

/** How a line's time differs: `+12.4us`, `-1.20ms`; of a line that only this version has, `new 12.4us` or `gone 12.4us`. */
export function changed(change: number | null, taken: number, without: "new" | "gone"): string {
  if (change === null) return `${without} ${seconds(taken)}`;
  const before = taken - change;
  const share = before > 0 && Math.abs(change) < before * 10 ? ` (${change > 0 ? "+" : "-"}${percent(Math.abs(change) / before)})` : "";
  return `${change > 0 ? "+" : "-"}${seconds(Math.abs(change))}${share}`;
}

/** The time of a line on all of its devices together: `2 devices, together 132us (+4.5 %)`. */
export function onDevices(devices: number, together: number, change: number | null): string {
  if (devices < 2) return `${devices} device`;
  const before = together - (change ?? together);
  const share = before > 0 && change !== null && change !== 0 ? ` (${change > 0 ? "+" : "-"}${percent(Math.abs(change) / before)})` : "";
  return `${devices} devices, together ${seconds(together)}${share}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}
