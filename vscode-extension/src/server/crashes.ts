// How often a server has stopped by itself, and when to give up on it. Knows nothing of the editor.

/** Give up at the third stop within so many milliseconds. */
export const WITHIN_MS = 3 * 60_000;
export const GIVE_UP_AT = 3;

/** Counts stops; what is longer ago than three minutes is forgotten. */
export class Crashes {
  private times: number[] = [];

  constructor(private readonly now: () => number = Date.now) {}

  /** Note a stop; whether to start the server again. */
  again(): boolean {
    const now = this.now();
    this.times = [...this.times.filter((time) => now - time < WITHIN_MS), now];
    return this.times.length < GIVE_UP_AT;
  }

  forget(): void {
    this.times = [];
  }
}
