// Starts, stops and restarts one after another. Knows nothing of the editor.

/** Runs one task at a time; while one runs, requests for another are joined into a single one that follows. */
export class Single {
  private running: Promise<void> | undefined;
  private next: Promise<void> | undefined;

  run(task: () => Promise<void>): Promise<void> {
    if (this.running === undefined) {
      this.running = task().finally(() => (this.running = undefined));
      return this.running;
    }
    this.next ??= this.running
      .catch(() => undefined)
      .then(() => {
        this.next = undefined;
        return this.run(task);
      });
    return this.next;
  }
}
