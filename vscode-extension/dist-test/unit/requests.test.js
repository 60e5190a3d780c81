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

// tests/unit/requests.test.ts
var import_strict = __toESM(require("node:assert/strict"));
var import_node_test = require("node:test");

// src/requests.ts
var PROTOCOL = 1;
var Refused = class extends Error {
};
async function ask(server, name, uri, params = {}) {
  const about = uri === void 0 ? {} : { textDocument: { uri } };
  const answer = await server.sendRequest(`distir/${name}`, { ...about, ...params });
  if (typeof answer.protocol === "number" && answer.protocol > PROTOCOL) {
    throw new Refused(`The server answers in version ${answer.protocol} of its requests, this extension knows ${PROTOCOL}: update the extension.`);
  }
  if (typeof answer.error === "string") throw new Refused(answer.error);
  return answer;
}
async function timeline(server, uri) {
  const pieces = [];
  for (let first = 0; first !== null; ) {
    const piece = await ask(server, "timeline", uri, { firstEvent: first, limit: 2e5, columns: true });
    if (pieces.length > 0 && piece.version !== pieces[0]?.version) return timeline(server, uri);
    pieces.push(piece);
    first = piece.next_event;
  }
  return pieces;
}

// tests/unit/requests.test.ts
(0, import_node_test.test)("an answer with `error` is refused with the server's reason; a newer protocol with advice", async () => {
  const server = (answer) => ({ sendRequest: () => Promise.resolve(answer) });
  await import_strict.default.rejects(ask(server({ protocol: 1, error: "the program has errors" }), "status", "file:///a"), new Refused("the program has errors"));
  await import_strict.default.rejects(ask(server({ protocol: 2 }), "status", "file:///a"), /update the extension/);
});
(0, import_node_test.test)("a timeline is asked for piece by piece, and anew when the program changes meanwhile", async () => {
  const answers = [
    { version: 1, next_event: 10 },
    { version: 2, next_event: null },
    { version: 2, next_event: 10 },
    { version: 2, next_event: null }
  ];
  const asked = [];
  const server = { sendRequest: (_, params) => (asked.push(params.firstEvent), Promise.resolve(answers[asked.length - 1])) };
  const pieces = await timeline(server, "file:///a");
  import_strict.default.deepEqual(asked, [0, 10, 0, 10]);
  import_strict.default.deepEqual(pieces.map((piece) => piece.version), [2, 2]);
});
