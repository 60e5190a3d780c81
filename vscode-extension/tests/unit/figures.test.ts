import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, gain, plain, seconds } from "../../src/figures";

// What `distir.cost.show_seconds` and `show_bytes` write for the same numbers.
const SECONDS = { 0: "0s", 12.4e-6: "12.4us", 999.7e-6: "1.00ms", 3.184e-4: "318us", 1.2: "1.20s", 4210: "4210s", 99.96e-3: "100ms", 5e-11: "0.05ns" };
const BYTES = { 512: "512B", 31.2e9: "31.2GB", 999999: "1.00MB", 1e15: "1.00PB" };

test("seconds and bytes read as everywhere in DistIR", () => {
  for (const [value, text] of Object.entries(SECONDS)) assert.equal(seconds(Number(value)), text);
  for (const [value, text] of Object.entries(BYTES)) assert.equal(bytes(Number(value)), text);
});

test("a gain says faster or slower, and what is little in parts of the time", () => {
  assert.equal(gain(1.943), "1.94x faster");
  assert.equal(gain(0.5), "2.00x slower");
  assert.equal(gain(1 / 1.004), "+0.4 %");
  assert.equal(gain(1.005), "-0.5 %");
  assert.equal(gain(1.0001), "as fast as before");
  assert.equal(gain(null), "takes no time");
});

test("text of a program does not become a link in a message", () => {
  assert.equal(plain("found `[ok](command:workbench.action.quit)`"), "found '[ok] (command:workbench.action.quit)'");
});
