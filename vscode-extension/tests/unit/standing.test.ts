import assert from "node:assert/strict";
import { test } from "node:test";

import type { Status } from "../../src/requests";
import { standing } from "../../src/standing";

const live: Status = {
  state: "simulated",
  why: null,
  version: 3,
  function: "main",
  hardware: "dgx-a100",
  errors: 0,
  warnings: 0,
  statements: 40,
  latency_s: 0.491,
  ops: 52,
  peak_memory_bytes: 31_200_000_000,
  stale: false,
  stale_why: null,
};

test("the status says what the program takes", () => {
  assert.deepEqual(standing(live), { text: "491ms on dgx-a100", detail: "@main, peak 31.2GB, 52 ops" });
});

test("and what the process holds beside tensors", () => {
  const { detail } = standing({ ...live, overhead_bytes: 1_510_000_000 });
  assert.equal(detail, "@main, peak 31.2GB and overhead 1.51GB, 52 ops");
});

test("figures of an earlier version are marked, and the details say why", () => {
  const why = "stale, simulated 2 edits ago: the program has errors (line 4, expected `)`)";
  const old: Status = { ...live, state: "failed", why: "the program has errors", errors: 1, stale: true, stale_why: why };
  assert.deepEqual(standing(old), { text: "~491ms on dgx-a100", detail: why });
});

test("what was never simulated has no figures, and so none that are old", () => {
  const none: Status = { ...live, state: "failed", why: "the program has errors", errors: 1, latency_s: null, ops: null, peak_memory_bytes: null };
  assert.deepEqual(standing(none), { text: "not simulated on dgx-a100", detail: "the program has errors" });
});
