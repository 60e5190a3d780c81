// Programs in addresses: `#program=…&name=…&hardware=…`, the text deflated and in base64url.

export interface Shared {
  readonly name: string;
  readonly text: string;
  readonly hardware: string | undefined;
}

export async function toFragment({ name, text, hardware }: Shared): Promise<string> {
  const packed = await transformed(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const program = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  const fields = new URLSearchParams({ name, program: program.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "") });
  if (hardware !== undefined) fields.set("hardware", hardware);
  return `#${fields}`;
}

/** Undefined where the fragment names no program. Throws for one that is cut off or damaged. */
export async function fromFragment(fragment: string): Promise<Shared | undefined> {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const program = fields.get("program");
  if (program === null) return undefined;
  const packed = Uint8Array.from(atob(program.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  const text = new TextDecoder("utf-8", { fatal: true }).decode(await transformed(packed, new DecompressionStream("deflate-raw")));
  return { name: fields.get("name") ?? "shared.dir", text, hardware: fields.get("hardware") ?? undefined };
}

async function transformed(data: Uint8Array<ArrayBuffer>, through: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(through)).arrayBuffer());
}
