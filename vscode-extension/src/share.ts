// Programs in addresses, of the playground and for it: `#program=…&name=…&hardware=…&at=…`, the text deflated and in
// base64url. Browsers send nothing behind the `#` to a server.

export interface Shared {
  readonly name: string;
  readonly text: string;
  readonly hardware: string | undefined;
  /** What is selected: first line and column, last line and column, from 1. */
  readonly selection?: Selected | undefined;
}

export type Selected = readonly [number, number, number, number];

/** Browsers refuse longer addresses. */
export const LONGEST_ADDRESS = 2_000_000;

/** Throws, with words for the user, for a program that is too long for an address. */
export async function toFragment({ name, text, hardware, selection }: Shared): Promise<string> {
  const packed = await transformed(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const program = btoa(Array.from(packed ?? [], (byte) => String.fromCharCode(byte)).join(""));
  const fields = new URLSearchParams({ name, program: program.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") });
  if (hardware !== undefined) fields.set("hardware", hardware);
  if (selection?.some((place) => place > 1)) fields.set("at", selection.join("-"));
  const fragment = `#${fields}`;
  if (fragment.length > LONGEST_ADDRESS) throw new Error(`the program takes ${(fragment.length / 1e6).toFixed(1)} MB in an address, and browsers open ${LONGEST_ADDRESS / 1e6} MB: share the file`);
  return fragment;
}

/** Longer programs are not opened from an address: a short one may hold any number of equal characters. */
export const MOST_BYTES = 20_000_000;

/** Undefined where the fragment names no program. Throws, with words for the user, for one that is damaged or too long. */
export async function fromFragment(fragment: string): Promise<Shared | undefined> {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const program = fields.get("program");
  if (program === null) return undefined;
  let text: string | undefined;
  try {
    const packed = Uint8Array.from(atob(program.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const bytes = await transformed(packed, new DecompressionStream("deflate-raw"), MOST_BYTES);
    text = bytes && new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error("the program in the address is cut off or damaged: this is another one");
  }
  if (text === undefined) throw new Error(`the program in the address has more than ${MOST_BYTES / 1e6} MB: this is another one`);
  const at = /^(\d+)-(\d+)-(\d+)-(\d+)$/.exec(fields.get("at") ?? "");
  const selection = at === null ? undefined : (at.slice(1).map(Number) as unknown as Selected);
  return { name: fields.get("name") ?? "shared.dir", text, hardware: fields.get("hardware") ?? undefined, selection };
}

/** Undefined where there would be more bytes than `most`. */
async function transformed(data: Uint8Array<ArrayBuffer>, through: CompressionStream | DecompressionStream, most = Infinity): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let count = 0;
  for (const reader = new Blob([data]).stream().pipeThrough(through).getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    count += value.length;
    if (count > most) return void reader.cancel();
    parts.push(value as Uint8Array<ArrayBuffer>);
  }
}
