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

// tests/unit/figures.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_test = require("node:test");

// src/figures.ts
function seconds(value) {
  return scaled(value, [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]]);
}
function bytes(value) {
  return scaled(value, [["PB", 1e15], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]);
}
function gain(speedup) {
  if (speedup === null) return "takes no time";
  if (Math.abs(speedup - 1) < 5e-4) return "as fast as before";
  return speedup > 1 ? `${factor(speedup)}x faster` : `${factor(1 / speedup)}x slower`;
}
function plain(text) {
  return text.replace(/\]\(/g, "] (");
}
function factor(value) {
  return value < 1e3 ? value.toPrecision(3) : Math.round(value).toString();
}
function scaled(value, units) {
  const base = units.find(([, size2]) => size2 === 1)?.[0] ?? "";
  if (value === 0 || !Number.isFinite(value)) return `${value}${base}`;
  const [sign, size] = value < 0 ? ["-", -value] : ["", value];
  const [unit, one] = units.find(([, each]) => size / each >= 0.9995) ?? units.at(-1);
  const count = size / one;
  if (unit === "B") return `${sign}${Number(count.toPrecision(3))}B`;
  return `${sign}${count.toFixed(count < 9.995 ? 2 : count < 99.95 ? 1 : 0)}${unit}`;
}

// tests/unit/figures.test.ts
var SECONDS = { 0: "0s", 124e-7: "12.4us", 9997e-7: "1.00ms", 3184e-7: "318us", 1.2: "1.20s", 4210: "4210s", 0.09996: "100ms", 5e-11: "0.05ns" };
var BYTES = { 512: "512B", 312e8: "31.2GB", 999999: "1.00MB", 1e15: "1.00PB" };
(0, import_node_test.test)("seconds and bytes read as everywhere in DistIR", () => {
  for (const [value, text] of Object.entries(SECONDS)) import_strict.default.equal(seconds(Number(value)), text);
  for (const [value, text] of Object.entries(BYTES)) import_strict.default.equal(bytes(Number(value)), text);
});
(0, import_node_test.test)("a gain says faster or slower", () => {
  import_strict.default.equal(gain(1.943), "1.94x faster");
  import_strict.default.equal(gain(0.5), "2.00x slower");
  import_strict.default.equal(gain(1.0001), "as fast as before");
  import_strict.default.equal(gain(null), "takes no time");
});
(0, import_node_test.test)("text of a program does not become a link in a message", () => {
  import_strict.default.equal(plain("found `[ok](command:workbench.action.quit)`"), "found `[ok] (command:workbench.action.quit)`");
});
