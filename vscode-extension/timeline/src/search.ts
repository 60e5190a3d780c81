// Which bars a search finds: words in the op, the result, the functions or the statement's text. Knows no screen.

import { type Model, upTo } from "./model";

/** Bars that were found, ascending, and the same as a flag for each bar. */
export interface Hits {
  text: string;
  bars: Int32Array;
  flags: Uint8Array;
}

/**
 * All bars whose statement, or calls, hold every word, whatever the case. Null for an empty search.
 * Each distinct statement and each distinct path of calls is visited once.
 */
export function search(model: Model, text: string): Hits | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const statements = model.statements.map((found) =>
    [found.op, found.label, `@${found.function}`, found.text ?? ""].join("\n").toLowerCase(),
  );
  const paths = model.paths.map((calls) => calls.map((name) => `@${name}`).join("\n").toLowerCase());
  const inStatement = words.map((word) => statements.map((found) => found.includes(word)));
  const inPath = words.map((word) => paths.map((found) => found.includes(word)));
  const flags = new Uint8Array(model.count);
  const bars: number[] = [];
  for (let bar = 0; bar < model.count; bar += 1) {
    const statement = model.statementOf[bar];
    const path = model.pathOf[bar];
    if (words.every((_, i) => inStatement[i][statement] || inPath[i][path])) {
      flags[bar] = 1;
      bars.push(bar);
    }
  }
  return { text, bars: Int32Array.from(bars), flags };
}

/** The next of ascending bars after one, or before it; round at the ends; null where there are none. */
export function neighbour(bars: Int32Array, from: number | null, step: 1 | -1): number | null {
  if (bars.length === 0) return null;
  if (from === null) return bars[step > 0 ? 0 : bars.length - 1];
  const at = step > 0 ? upTo(bars, from) : upTo(bars, from - 1) - 1;
  return bars[(at + bars.length) % bars.length];
}
