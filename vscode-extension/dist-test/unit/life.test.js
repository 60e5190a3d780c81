"use strict";
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key) && key !== except)
        __defProp(to, key, { get: () => from[key], enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable });
  }
  return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));

// tests/unit/life.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_test = require("node:test");

// src/server/crashes.ts
var WITHIN_MS = 3 * 6e4;
var GIVE_UP_AT = 3;
var Crashes = class {
  constructor(now = Date.now) {
    this.now = now;
  }
  now;
  times = [];
  /** Note a stop; whether to start the server again. */
  again() {
    const now = this.now();
    this.times = [...this.times.filter((time) => now - time < WITHIN_MS), now];
    return this.times.length < GIVE_UP_AT;
  }
  forget() {
    this.times = [];
  }
};

// src/server/queue.ts
var Single = class {
  running;
  next;
  run(task) {
    if (this.running === void 0) {
      this.running = task().finally(() => this.running = void 0);
      return this.running;
    }
    this.next ??= this.running.catch(() => void 0).then(() => {
      this.next = void 0;
      return this.run(task);
    });
    return this.next;
  }
};

// tests/unit/life.test.ts
(0, import_node_test.test)("a server that stops is started again twice, and given up the third time", () => {
  let now = 0;
  const crashes = new Crashes(() => now);
  import_strict.default.deepEqual([crashes.again(), crashes.again(), crashes.again()], [true, true, false]);
  now += WITHIN_MS;
  import_strict.default.equal(crashes.again(), true);
  crashes.forget();
  import_strict.default.deepEqual([crashes.again(), crashes.again()], [true, true]);
});
(0, import_node_test.test)("while a restart is under way, many more are one", async () => {
  const single = new Single();
  let runs = 0;
  let most = 0;
  let now = 0;
  const task = async () => {
    runs++;
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 5));
    now--;
  };
  await Promise.all([single.run(task), single.run(task), single.run(task), single.run(task)]);
  import_strict.default.deepEqual([runs, most], [2, 1]);
  await single.run(task);
  import_strict.default.equal(runs, 3);
});
(0, import_node_test.test)("a task that fails does not stop the ones after it", async () => {
  const single = new Single();
  const bad = single.run(() => Promise.reject(new Error("no")));
  let isDone = false;
  const good = single.run(() => Promise.resolve(void (isDone = true)));
  await import_strict.default.rejects(bad, /no/);
  await good;
  import_strict.default.ok(isDone);
});
