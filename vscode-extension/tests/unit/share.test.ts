import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";

import { fromFragment, toFragment } from "../../src/share";

test("an address holds a program whole, its machine and what is selected", async () => {
  const shared = { name: "größer.dir", text: "func @f() {\n  // 名\n}\n", hardware: "dgx-h100", selection: [2, 3, 2, 7] as const };
  assert.deepEqual(await fromFragment(await toFragment(shared)), shared);
  const plain = { name: "a.dir", text: "", hardware: undefined, selection: undefined };
  assert.deepEqual(await fromFragment(await toFragment(plain)), plain);
  assert.ok(!(await toFragment({ ...plain, selection: [1, 1, 1, 1] })).includes("at="), "nothing of a cursor that was never moved");
  assert.equal((await fromFragment(`${await toFragment(plain)}&at=x`))?.selection, undefined);
});

test("a program that no browser would open from an address is refused", async () => {
  await assert.rejects(toFragment({ name: "a.dir", text: randomBytes(2_000_000).toString("hex"), hardware: undefined }), /browsers open 2 MB: share the file/);
});
