// Replaces the two native modules that code-server loads when it starts, so that nothing has to be compiled: argon2, which
// only passwords need, and spdlog, which writes log files.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const modules = join(fileURLToPath(new URL(".", import.meta.url)), "node_modules");

const ARGON2 = `"use strict";
const refuse = async () => { throw new Error("passwords are not supported in this test installation"); };
module.exports = { hash: refuse, verify: refuse, needsRehash: () => false };
`;

const SPDLOG = `"use strict";
const { appendFileSync, mkdirSync } = require("node:fs");
const { dirname } = require("node:path");
const LEVELS = ["trace", "debug", "info", "warn", "error", "critical"];
class Logger {
  constructor(file) { this.file = file; this.level = 2; this.isPlain = false; }
  getLevel() { return this.level; }
  setLevel(level) { this.level = level; }
  setPattern() {}
  clearFormatters() { this.isPlain = true; }
  flush() {}
  drop() {}
  write(level, message) {
    if (level < this.level) return;
    appendFileSync(this.file, this.isPlain ? message : new Date().toISOString() + " [" + LEVELS[level] + "] " + message + "\\n");
  }
}
LEVELS.forEach((name, level) => { Logger.prototype[name] = function (message) { this.write(level, message); }; });
const create = async (_, file) => { mkdirSync(dirname(file), { recursive: true }); return new Logger(file); };
// One by one: names in an object literal are not seen by those who import this.
exports.Logger = Logger;
exports.setLevel = exports.setFlushOn = () => {};
exports.createRotatingLogger = create;
exports.createAsyncRotatingLogger = create;
exports.version = "0";
`;

writeFileSync(join(modules, "argon2", "argon2.js"), ARGON2);
writeFileSync(join(modules, "code-server/lib/vscode/node_modules/@vscode/spdlog/index.js"), SPDLOG);
