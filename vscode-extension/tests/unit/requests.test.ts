import assert from "node:assert/strict";
import { test } from "node:test";

import { Refused, ask, timeline } from "../../src/requests";

test("an answer with `error` is refused with the server's reason; a newer protocol with advice", async () => {
  const server = (answer: object) => ({ sendRequest: () => Promise.resolve(answer) });
  await assert.rejects(ask(server({ protocol: 1, error: "the program has errors" }), "status", "file:///a"), new Refused("the program has errors"));
  await assert.rejects(ask(server({ protocol: 2 }), "status", "file:///a"), /update the extension/);
});

test("a timeline is asked for piece by piece, and anew when the program changes meanwhile", async () => {
  const answers = [
    { version: 1, next_event: 10 },
    { version: 2, next_event: null },
    { version: 2, next_event: 10 },
    { version: 2, next_event: null },
  ];
  const asked: unknown[] = [];
  const server = { sendRequest: (_: string, params: unknown) => (asked.push((params as { firstEvent: number }).firstEvent), Promise.resolve(answers[asked.length - 1])) };
  const pieces = await timeline(server, "file:///a");
  assert.deepEqual(asked, [0, 10, 0, 10]);
  assert.deepEqual(pieces.map((piece) => piece.version), [2, 2]);
});
