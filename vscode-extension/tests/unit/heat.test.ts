import assert from "node:assert/strict";
import { test } from "node:test";

import { LEVELS, changed, levelled, onDevices } from "../../src/heat";
import type { Status } from "../../src/requests";
import { inBar } from "../../src/standing";

test("the line that takes most is hottest, one that takes nothing has no bar, small shares are still seen", () => {
  const levels = levelled([3, 5, 8, 13], [0.5, 0.05, 0, 0.0001]);
  assert.equal(levels.length, LEVELS);
  assert.deepEqual(levels.at(-1), [3]);
  assert.deepEqual(levels[0], [13]);
  assert.ok(levels.flat().includes(5) && !levels.flat().includes(8));
  assert.deepEqual(levelled([], []).flat(), []);
});

test("a change has its sign and its part; what only one version has is new or gone", () => {
  assert.equal(changed(1e-3, 5e-3, "new"), "+1.00ms (+25 %)");
  assert.equal(changed(-1e-6, 99e-6, "new"), "-1.00us (-1.0 %)");
  assert.equal(changed(5e-3, 5e-3, "new"), "+5.00ms");
  assert.equal(changed(null, 12.4e-6, "new"), "new 12.4us");
  assert.equal(changed(null, 12.4e-6, "gone"), "gone 12.4us");
});

test("the sum over devices has its change, too", () => {
  assert.equal(onDevices(2, 132.43e-6, 7e-6), "2 devices, together 132us (+5.6 %)");
  assert.equal(onDevices(4, 2e-3, null), "4 devices, together 2.00ms");
  assert.equal(onDevices(1, 1e-3, 1e-4), "1 device");
});

test("the status bar says latency, hardware, and whether the program fits", () => {
  const status = { latency_s: 0.0129, hardware: "dgx-a100", fit: "fits", stale: false } as Status;
  assert.equal(inBar(status), "12.9ms · dgx-a100 · fits");
  assert.equal(inBar({ ...status, stale: true, fit: "does not fit" }), "~12.9ms · dgx-a100 · $(warning) does not fit");
  assert.equal(inBar({ ...status, fit: "may not fit" }), "12.9ms · dgx-a100 · may not fit");
  assert.equal(inBar({ ...status, latency_s: null, fit: null }), "not simulated · dgx-a100");
});
