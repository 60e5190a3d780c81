import assert from "node:assert/strict";
import { test } from "node:test";

import { Crashes, WITHIN_MS } from "../../src/server/crashes";
import { Single } from "../../src/server/queue";

test("a server that stops is started again twice, and given up the third time", () => {
  let now = 0;
  const crashes = new Crashes(() => now);
  assert.deepEqual([crashes.again(), crashes.again(), crashes.again()], [true, true, false]);
  now += WITHIN_MS;
  assert.equal(crashes.again(), true);
  crashes.forget();
  assert.deepEqual([crashes.again(), crashes.again()], [true, true]);
});

test("while a restart is under way, many more are one", async () => {
  const single = new Single();
  let runs = 0;
  let most = 0;
  let now = 0;
  const task = async (): Promise<void> => {
    runs++;
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 5));
    now--;
  };
  await Promise.all([single.run(task), single.run(task), single.run(task), single.run(task)]);
  assert.deepEqual([runs, most], [2, 1]);
  await single.run(task);
  assert.equal(runs, 3);
});

test("a task that fails does not stop the ones after it", async () => {
  const single = new Single();
  const bad = single.run(() => Promise.reject(new Error("no")));
  let isDone = false;
  const good = single.run(() => Promise.resolve(void (isDone = true)));
  await assert.rejects(bad, /no/);
  await good;
  assert.ok(isDone);
});
