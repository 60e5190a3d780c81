// Seconds and bytes as DistIR writes them everywhere: three significant digits, decimal units. Knows nothing of the editor.

/** Seconds: `12.4us`, `1.20ms`, `4210s`. */
export function seconds(value: number): string {
  return scaled(value, [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]]);
}

/** Bytes: `512B`, `31.2GB`. */
export function bytes(value: number): string {
  return scaled(value, [["PB", 1e15], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]);
}

/** How one program compares with another in time: `1.94x faster`, `1.20x slower`, `+0.4 %` of time, `as fast as before`. */
export function gain(speedup: number | null): string {
  if (speedup === null) return "takes no time";
  if (Math.abs(speedup - 1) < 5e-4) return "as fast as before";
  const change = 1 / speedup - 1;
  if (Math.abs(change) < 0.01) return `${change > 0 ? "+" : "-"}${(100 * Math.abs(change)).toFixed(1)} %`;
  return speedup > 1 ? `${factor(speedup)}x faster` : `${factor(1 / speedup)}x slower`;
}

/** A text without Markdown's marks for code, which forms and messages would show as they are. */
export function unmarked(text: string): string {
  return text.replace(/`/g, "'");
}

/** So many letters of a text, without its middle: names that begin alike differ at their ends. */
export function withoutMiddle(text: string, letters: number): string {
  return `${text.slice(0, Math.ceil(letters / 2))}…${text.slice(text.length - Math.floor(letters / 2))}`;
}

/** A text in lines of at most so many characters, as far as its words allow. */
export function wrapped(text: string, width = 72): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= width) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A text as a message's text: the editor makes links, even of commands, of what looks like one. */
export function plain(text: string): string {
  return unmarked(text).replace(/\]\(/g, "] (");
}

function factor(value: number): string {
  return value < 1000 ? value.toPrecision(3) : Math.round(value).toString();
}

// A value is shown in the first unit in which it reads at least 1 once rounded: 999.7us is 1.00ms.
function scaled(value: number, units: readonly (readonly [string, number])[]): string {
  const base = units.find(([, size]) => size === 1)?.[0] ?? "";
  if (value === 0 || !Number.isFinite(value)) return `${value}${base}`;
  const [sign, size] = value < 0 ? ["-", -value] : ["", value];
  const [unit, one] = units.find(([, each]) => size / each >= 0.9995) ?? (units.at(-1) as readonly [string, number]);
  const count = size / one;
  if (unit === "B") return `${sign}${Number(count.toPrecision(3))}B`;
  return `${sign}${count.toFixed(count < 9.995 ? 2 : count < 99.95 ? 1 : 0)}${unit}`;
}
