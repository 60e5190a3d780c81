"use strict";
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
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
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// tests/host/index.ts
var index_exports = {};
__export(index_exports, {
  run: () => run
});
module.exports = __toCommonJS(index_exports);
var import_strict = __toESM(require("node:assert/strict"));
var import_node_fs = require("node:fs");
var import_node_path = require("node:path");
var vscode = __toESM(require("vscode"));

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

// tests/host/index.ts
var folder = () => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
var file = (name) => vscode.Uri.file((0, import_node_path.join)(folder(), name));
var settings = () => vscode.workspace.getConfiguration("distir");
var api;
async function until(what, look, timeoutMs = 6e4) {
  const end = Date.now() + timeoutMs;
  for (; ; ) {
    const found = await look();
    if (found !== void 0 && found !== false) return found;
    if (Date.now() > end) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
async function open(name) {
  const document = await vscode.workspace.openTextDocument(file(name));
  await vscode.window.showTextDocument(document);
  return document;
}
function status(document) {
  const client = api.server.running;
  import_strict.default.ok(client);
  return ask(client, "status", document.uri.toString());
}
function simulated(document) {
  return until("the simulation", async () => {
    const found = await status(document).catch(() => void 0);
    return found?.version === document.version && ["simulated", "failed"].includes(found.state) && found;
  });
}
async function hints(document) {
  const range = new vscode.Range(0, 0, document.lineCount, 0);
  const found = await vscode.commands.executeCommand("vscode.executeInlayHintProvider", document.uri, range);
  return found.map(({ label }) => typeof label === "string" ? label : label.map((part) => part.value).join(""));
}
function place(document, text) {
  const offset = document.getText().indexOf(text);
  import_strict.default.ok(offset >= 0, text);
  return document.positionAt(offset + 1);
}
var tests = {
  async "types, values and times are inlay hints, and settings choose among them"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const all = await until("hints with times", async () => {
      const found = await hints(document);
      return found.some((hint) => hint.startsWith("+")) && found;
    });
    import_strict.default.ok(all.some((hint) => hint.includes("f32[8192,1024]@1")), all.join());
    await settings().update("hints.times", false, vscode.ConfigurationTarget.Workspace);
    await until("no times", async () => !(await hints(document)).some((hint) => hint.startsWith("+")));
    await settings().update("hints.times", void 0, vscode.ConfigurationTarget.Workspace);
    await until("times again", async () => (await hints(document)).some((hint) => hint.startsWith("+")));
  },
  async "lenses, hover, links between definition and uses"() {
    const document = await open("mlp.dir");
    const lenses = await until("lenses", async () => {
      const found2 = await vscode.commands.executeCommand("vscode.executeCodeLensProvider", document.uri, 50);
      return found2.some((lens) => lens.command?.title.includes("peak")) && found2;
    });
    import_strict.default.ok(lenses.some((lens) => lens.command?.command === "distir.timeline"));
    const hovers = await vscode.commands.executeCommand("vscode.executeHoverProvider", document.uri, place(document, "Send[device = 2](%as_1)"));
    const text = hovers.flatMap((hover) => hover.contents.map((each) => typeof each === "string" ? each : each.value)).join();
    import_strict.default.match(text, /Send/);
    const found = await vscode.commands.executeCommand("vscode.executeReferenceProvider", document.uri, place(document, "%ar_1: D2"));
    import_strict.default.equal(found.length, 3);
  },
  async "semantic tokens carry devices that the manifest knows"() {
    const document = await open("mlp.dir");
    const legend = await vscode.commands.executeCommand("vscode.provideDocumentSemanticTokensLegend", document.uri);
    const known = vscode.extensions.getExtension("distir.distir")?.packageJSON.contributes.semanticTokenModifiers.map(({ id }) => id);
    for (const modifier of legend.tokenModifiers) import_strict.default.ok(known.includes(modifier) || modifier === "declaration", modifier);
    const tokens = await vscode.commands.executeCommand("vscode.provideDocumentSemanticTokens", document.uri);
    import_strict.default.ok(tokens.data.length > 500);
  },
  async "findings are diagnostics with their code, and a fix is offered"() {
    const document = await open("broken.dir");
    const [found] = await until("a diagnostic", () => {
      const all = vscode.languages.getDiagnostics(document.uri);
      return all.length > 0 && all;
    });
    import_strict.default.ok(found);
    import_strict.default.match(found.message, /%nothing/);
    import_strict.default.equal(found.source, "distir");
    import_strict.default.equal((await simulated(document)).why, "the program has errors");
  },
  async "formatting and renaming"() {
    const document = await open("unformatted.dir");
    const edits = await until("edits", async () => vscode.commands.executeCommand("vscode.executeFormatDocumentProvider", document.uri, { tabSize: 2, insertSpaces: true }));
    const edit = new vscode.WorkspaceEdit();
    edit.set(document.uri, edits);
    import_strict.default.ok(await vscode.workspace.applyEdit(edit));
    import_strict.default.match(document.getText(), /^ {2}%b = Relu\(%a\)$/m);
    const renamed = await vscode.commands.executeCommand("vscode.executeDocumentRenameProvider", document.uri, place(document, "%b = "), "%activation");
    import_strict.default.equal(renamed.get(document.uri).length, 2);
    const taken = Promise.resolve(vscode.commands.executeCommand("vscode.executeDocumentRenameProvider", document.uri, place(document, "%b = "), "%a"));
    await import_strict.default.rejects(taken);
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  async "moving an op as the server advises makes the program faster"() {
    const document = await open("swapped.dir");
    const before = (await simulated(document)).latency_s ?? 0;
    const line = place(document, "Send[device = 2](%as_2)").line;
    const range = document.lineAt(line).range;
    const actions = await until("the action", async () => {
      const found = await vscode.commands.executeCommand("vscode.executeCodeActionProvider", document.uri, range, vscode.CodeActionKind.Refactor.value);
      const moves = found.filter((action) => action.title.includes("faster"));
      return moves.length > 0 && moves;
    });
    const edit = actions[0]?.edit;
    import_strict.default.ok(edit);
    import_strict.default.ok(await vscode.workspace.applyEdit(edit));
    const after = (await simulated(document)).latency_s ?? 0;
    import_strict.default.ok(after < before, `${after} < ${before}`);
    const compared = await vscode.commands.executeCommand("distir.compareWithSaved", document.uri);
    import_strict.default.equal(compared.speedup, before / after);
    const head = await vscode.commands.executeCommand("distir.compareWithHead", document.uri);
    import_strict.default.equal(head.other.latency_s, before);
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  async "a rank's program follows the whole one, and its lines lead back"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const uri = await vscode.commands.executeCommand("distir.showRank", document.uri, 2);
    const rank = await vscode.workspace.openTextDocument(uri);
    import_strict.default.ok(rank.getText().includes("%p_1"), rank.getText());
    import_strict.default.ok(!rank.getText().includes("%x_1"));
    const links = await vscode.commands.executeCommand("vscode.executeLinkProvider", uri);
    const link = links.find(({ range: range2 }) => rank.getText(range2) === "%p_1");
    import_strict.default.ok(link?.target);
    const [source, range] = JSON.parse(decodeURIComponent(link.target.query || link.target.toString().split("?")[1] || ""));
    import_strict.default.equal(source, document.uri.toString());
    import_strict.default.match(document.lineAt(range.start.line).text, /^ *%p_1/);
    await vscode.window.showTextDocument(document);
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, place(document, "%dp_1: D2 =").translate(0, -1), "%extra = Relu(%p_1)\n  ");
    await vscode.workspace.applyEdit(edit);
    await until("the rank's program to follow", () => rank.getText().includes("%extra"));
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand("workbench.action.files.revert");
    await until("no findings for a part of a program", () => vscode.languages.getDiagnostics(uri).length === 0);
  },
  async "a transform is previewed beside its source, and simulated with the same settings"() {
    const document = await open("sequential.dir");
    await simulated(document);
    const uri = await vscode.commands.executeCommand("distir.transformProgram", document.uri, ["dp=2"]);
    const preview = await vscode.workspace.openTextDocument(uri);
    import_strict.default.equal(uri.scheme, "distir-preview");
    import_strict.default.match(preview.getText(), /MPIAllreduce/);
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    import_strict.default.match(tab?.label ?? "", /sequential\.dir ↔ dp=2: 1\.\d\dx faster, .* → /);
    import_strict.default.ok(((await simulated(preview)).latency_s ?? 1) < ((await simulated(document)).latency_s ?? 0));
    import_strict.default.equal(await vscode.commands.executeCommand("distir.transformProgram", document.uri, ["dp=7"]), void 0);
  },
  async "hardware is picked for a document, and single figures tried"() {
    const document = await open("mlp.dir");
    const before = await simulated(document);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, "dgx-h100");
    const after = await until("the other machine", async () => {
      const found = await simulated(document);
      return found.hardware === "dgx-h100" && found;
    });
    import_strict.default.ok((after.latency_s ?? 1) < (before.latency_s ?? 0));
    const client = api.server.running;
    import_strict.default.ok(client);
    const { chosen } = await ask(client, "hardware", document.uri.toString());
    const figure = chosen?.figures.find((each) => each.figure === "nvlink send bandwidth" || /send bandwidth/.test(each.figure))?.figure;
    import_strict.default.ok(figure, JSON.stringify(chosen?.figures.map((each) => each.figure)));
    const slower = await vscode.commands.executeCommand("distir.whatIf", document.uri, { [figure]: "1GB/s" });
    import_strict.default.ok((slower.comparison.speedup ?? 1) < 1);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, before.hardware);
  },
  async "a search finds configurations, and the steps that make them"() {
    const document = await open("sequential.dir");
    const found = await vscode.commands.executeCommand("distir.search", document.uri, { devices: "2", microbatches: "2" });
    import_strict.default.equal(found.devices, 2);
    import_strict.default.deepEqual(found.rows.map((row) => `${row.D}/${row.T}/${row.P}`).sort(), ["1/1/2", "1/2/1", "2/1/1"]);
    const uri = await vscode.commands.executeCommand("distir.transformProgram", document.uri, found.best?.steps);
    import_strict.default.equal(uri.scheme, "distir-preview");
  },
  async "other sizes are bound by a setting"() {
    const document = await open("named.dir");
    import_strict.default.equal((await simulated(document)).state, "failed");
    await settings().update("bind", { B: 64 }, vscode.ConfigurationTarget.Workspace);
    await until("a simulation", async () => (await simulated(document)).state === "simulated");
    await settings().update("bind", void 0, vscode.ConfigurationTarget.Workspace);
  },
  async "a path with spaces and letters of all kinds"() {
    const document = await open("gr\xF6\xDFer als/pr\xF6g \u540D.dir");
    const found = await simulated(document);
    import_strict.default.equal(found.state, "simulated");
    const uri = await vscode.commands.executeCommand("distir.showRank", document.uri, 1);
    import_strict.default.match((await vscode.workspace.openTextDocument(uri)).getText(), /%x_1/);
    await vscode.window.showTextDocument(document);
    import_strict.default.ok(await vscode.commands.executeCommand("distir.compareWithHead", document.uri));
  },
  async "texts that are too long are not looked at, and nothing breaks"() {
    (0, import_node_fs.writeFileSync)((0, import_node_path.join)(folder(), "long.dir"), `// ${"x".repeat(100)}
`.repeat(21e4));
    const long = await vscode.workspace.openTextDocument(file("long.dir"));
    import_strict.default.equal((await hints(long)).length, 0);
    (0, import_node_fs.writeFileSync)((0, import_node_path.join)(folder(), "huge.dir"), `// ${"x".repeat(100)}
`.repeat(51e4));
    await import_strict.default.rejects(Promise.resolve(vscode.workspace.openTextDocument(file("huge.dir"))));
    import_strict.default.equal((await simulated(await open("mlp.dir"))).state, "simulated");
  },
  async "debug information names the server and the settings"() {
    await vscode.commands.executeCommand("distir.debugInformation");
    const text = vscode.window.activeTextEditor?.document.getText() ?? "";
    import_strict.default.match(text, /server: running, DistIR \d/);
    import_strict.default.match(text, /the setting `distir.interpreter`/);
    import_strict.default.match(text, /"readLimit": 20000000/);
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  },
  async "a restart takes the place of the server, and many at once are few"() {
    let starts = 0;
    const listening = api.server.onDidChange(({ kind }) => starts += Number(kind === "starting"));
    await Promise.all([1, 2, 3, 4].map(() => vscode.commands.executeCommand("distir.restart")));
    listening.dispose();
    import_strict.default.equal(starts, 2);
    import_strict.default.equal((await simulated(await open("mlp.dir"))).state, "simulated");
  }
};
async function run() {
  const extension = vscode.extensions.getExtension("distir.distir");
  import_strict.default.ok(extension);
  api = await extension.activate();
  await until("the server", () => api.server.state.kind === "running");
  console.log(`activate() took ${api.activationMs.toFixed(1)} ms`);
  const failed = [];
  for (const [name, test] of Object.entries(tests)) {
    const begun = Date.now();
    try {
      await test();
      console.log(`ok ${name} (${Date.now() - begun} ms)`);
    } catch (error) {
      failed.push(name);
      console.log(`FAILED ${name}: ${error instanceof Error ? error.stack ?? error.message : String(error)}`);
    }
  }
  if (failed.length > 0) throw new Error(`${failed.length} failed: ${failed.join("; ")}`);
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  run
});
