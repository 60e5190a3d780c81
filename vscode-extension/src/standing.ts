// How things stand with a program, in the words of the language status. Knows nothing of the editor.

import { bytes, seconds } from "./figures";
import type { Status } from "./requests";

/** What the status bar says: `12.9ms · dgx-a100 · fits`. */
export function inBar(status: Status): string {
  if (status.latency_s === null) return `not simulated · ${status.hardware}`;
  const fit = !status.fit ? "" : ` · ${status.fit === "does not fit" ? "$(warning) " : ""}${status.fit}`;
  return `${status.stale ? "~" : ""}${seconds(status.latency_s)} · ${status.hardware}${fit}`;
}

/** What the language status says, and the details beside it; figures of an earlier version have a `~` and say why. */
export function standing(status: Status): { text: string; detail: string } {
  const latency = status.latency_s === null ? "not simulated" : seconds(status.latency_s);
  const overhead = status.overhead_bytes ? ` and overhead ${bytes(status.overhead_bytes)}` : "";
  const memory = status.peak_memory_bytes === null ? "" : `, peak ${bytes(status.peak_memory_bytes)}${overhead}`;
  const figures = `@${status.function ?? "?"}${memory}, ${status.ops ?? status.statements} ops`;
  return {
    text: `${status.stale ? "~" : ""}${latency} on ${status.hardware}`,
    detail: status.stale_why ?? status.why ?? figures,
  };
}
