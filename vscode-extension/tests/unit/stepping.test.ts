import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";

import { DebugClient } from "@vscode/debugadapter-testsupport";

const python = process.env.DISTIR_PYTHON ?? resolve("..", ".venv", "bin", "python");
const program = resolve("..", "examples", "mlp_pipeline.dir");

/** How many milliseconds a busy machine may take to start Python, and to answer. */
const PATIENCE = 300_000;

test("VS Code's own client of debug adapters steps through simulated time", { skip: !existsSync(python) }, async () => {
  const client = new DebugClient(python, "-m distir_dap", "distir", { shell: true, cwd: resolve("..") });
  await client.start();
  try {
    const [stopped] = await Promise.all([
      client.waitForEvent("stopped", PATIENCE),
      client.waitForEvent("initialized", PATIENCE).then(async () => {
        const { body } = await client.setBreakpointsRequest({ source: { path: program }, breakpoints: [{ line: 5 }] });
        assert.deepEqual(body.breakpoints.map(({ verified }) => verified), [true]);
        await client.configurationDoneRequest();
      }),
      client.initializeRequest().then(({ body }) => {
        assert.ok(body?.supportsStepBack);
        return client.launchRequest({ program } as never);
      }),
    ]);
    assert.equal(stopped.body.reason, "entry");
    const [hit] = await Promise.all([client.waitForEvent("stopped", PATIENCE), client.continueRequest({ threadId: 1 })]);
    assert.equal(hit.body.description, "Device 1 starts `Gemm` at 86.0us");
    const { body } = await client.stackTraceRequest({ threadId: hit.body.threadId });
    assert.deepEqual(body.stackFrames.map(({ line }) => line), [5, 37]);
    const [back] = await Promise.all([client.waitForEvent("stopped", PATIENCE), client.stepBackRequest({ threadId: 1 })]);
    assert.match(back.body.description, /in a call of `@dense`$/);
  } finally {
    await client.stop(); // disconnects first
  }
});
