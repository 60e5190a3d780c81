// The site's files that are packed (`.gz`), as they are needed; the service worker keeps them so.

/** The contents that an answer holds. Throws where it holds none. */
export function unpacked(address: URL, answer: Response): ReadableStream<Uint8Array<ArrayBuffer>> {
  if (!answer.ok || answer.body === null) throw new Error(`${address.pathname}: ${answer.status} ${answer.statusText}`);
  const packed = address.pathname.endsWith(".gz") && answer.headers.get("Content-Encoding") !== "gzip"; // some servers unpack it
  return packed ? answer.body.pipeThrough(new DecompressionStream("gzip")) : answer.body;
}
