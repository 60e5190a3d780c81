// What was found of the server: versions, what is missing, in words. Knows neither the editor nor processes.

/** A command that runs Python, and where it was found, in words. */
export interface Candidate {
  readonly argv: readonly string[];
  readonly from: string;
}

/** What a candidate is: its version of Python and of DistIR, and what it lacks; `why` where it does not run at all. */
export interface Probed {
  readonly candidate: Candidate;
  readonly python?: string;
  readonly distir?: string;
  readonly lacks: readonly string[];
  readonly why?: string;
}

export type Choice =
  | { readonly kind: "found"; readonly server: Probed }
  | { readonly kind: "old"; readonly server: Probed }
  | { readonly kind: "none"; readonly tried: readonly Probed[] };

/** The oldest server that this extension talks to. */
export const OLDEST_SERVER = "0.1.0";
export const OLDEST_PYTHON = "3.11";

/** Whether a version comes before another; what follows the numbers (`rc1`, `.dev0`) is passed over. */
export function isOlder(version: string, than: string): boolean {
  const [left, right] = [numbers(version), numbers(than)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

/** A candidate and what it lacks, in a line. */
export function describe({ candidate, python, distir, lacks, why }: Probed): string {
  const command = `\`${candidate.argv.join(" ")}\` (${candidate.from})`;
  if (why !== undefined) return `${command}: ${why}`;
  const has = distir === undefined ? `Python ${python ?? "?"} without DistIR` : `DistIR ${distir}`;
  return lacks.length > 0 && distir !== undefined ? `${command}: ${has}, but no ${lacks.join(", no ")}` : `${command}: ${has}`;
}

function numbers(version: string): number[] {
  return (/^\d+(\.\d+)*/.exec(version.trim())?.[0] ?? "0").split(".").map(Number);
}
