// Runs inside the extension host of a real VS Code: what commands and providers answer, as data. e2e/host.test.mjs starts it.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import * as vscode from "vscode";
import { Trace } from "vscode-languageclient/node";

import type { Api } from "../../src/extension";
import { type AdviceList, type Comparison, type Hardware, type Status, type WhatIf, ask } from "../../src/requests";
import { messageOf } from "../../src/server/messages";
import { fromFragment } from "../../src/share";
import type { Found } from "../../src/views/search";

const folder = (): string => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
const file = (name: string): vscode.Uri => vscode.Uri.file(join(folder(), name));
const settings = (): vscode.WorkspaceConfiguration => vscode.workspace.getConfiguration("distir");
const set = (name: string, value: unknown): Thenable<void> => settings().update(name, value, vscode.ConfigurationTarget.Workspace);
let api: Api;

/** Wait for something to become true, and give it. */
async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>, timeoutMs = 240_000): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function open(name: string): Promise<vscode.TextDocument> {
  const document = await vscode.workspace.openTextDocument(file(name));
  await vscode.window.showTextDocument(document);
  return document;
}

function status(document: vscode.TextDocument): Promise<Status> {
  const client = api.server.running;
  assert.ok(client);
  return ask<Status>(client, "status", document.uri.toString());
}

/** How often the server is asked how a program stands, or for something else, in a while. */
async function statusesAsked(ms: number, request = "status"): Promise<number> {
  const client = api.server.running;
  assert.ok(client);
  const real = client.sendRequest;
  let count = 0;
  client.sendRequest = function (this: unknown, ...args: unknown[]) {
    count += Number(args[0] === `distir/${request}`);
    return (real as (...all: unknown[]) => Promise<never>).apply(client, args);
  } as typeof client.sendRequest;
  await new Promise((resolve) => setTimeout(resolve, ms));
  client.sendRequest = real;
  return count;
}

/** How things stand once the latest version is simulated, or cannot be. */
function simulated(document: vscode.TextDocument): Promise<Status> {
  return until("the simulation", async () => {
    const found = await status(document).catch(() => undefined);
    return found?.version === document.version && ["simulated", "failed"].includes(found.state) && found;
  });
}

async function hints(document: vscode.TextDocument): Promise<string[]> {
  const range = new vscode.Range(0, 0, document.lineCount, 0);
  const found = await vscode.commands.executeCommand<vscode.InlayHint[]>("vscode.executeInlayHintProvider", document.uri, range);
  return found.map(labelled);
}

/** What a hint says, without the blanks that align it. */
function labelled({ label }: vscode.InlayHint): string {
  return (typeof label === "string" ? label : label.map((part) => part.value).join("")).trim();
}

/** When the statements of a function start, as its hints say it. */
async function hintsOf(document: vscode.TextDocument, name: string): Promise<string[]> {
  const first = place(document, `func @${name}`);
  const found = await vscode.commands.executeCommand<vscode.InlayHint[]>("vscode.executeInlayHintProvider", document.uri, new vscode.Range(first, new vscode.Position(document.lineCount, 0)));
  return found.flatMap((hint) => /@\S+s\b/.exec(labelled(hint))?.[0] ?? []);
}

function place(document: vscode.TextDocument, text: string): vscode.Position {
  const offset = document.getText().indexOf(text);
  assert.ok(offset >= 0, text);
  return document.positionAt(offset + 1);
}

const tests: Record<string, () => Promise<void>> = {
  async "types, values and times are inlay hints, and settings choose among them"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const all = await until("hints with times", async () => {
      const found = await hints(document);
      return found.some((hint) => hint.startsWith("+")) && found;
    });
    assert.ok(all.some((hint) => hint.includes("f32[8192,1024]@1")), all.join());
    await settings().update("hints.times", false, vscode.ConfigurationTarget.Workspace);
    await until("no times", async () => !(await hints(document)).some((hint) => hint.startsWith("+")));
    await settings().update("hints.times", undefined, vscode.ConfigurationTarget.Workspace);
    await until("times again", async () => (await hints(document)).some((hint) => hint.startsWith("+")));
  },

  async "lenses, hover, links between definition and uses"() {
    const document = await open("mlp.dir");
    const lenses = await until("lenses", async () => {
      const found = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", document.uri, 50);
      return found.some((lens) => lens.command?.title.includes("peak")) && found;
    });
    assert.ok(lenses.some((lens) => lens.command?.command === "distir.timeline"));
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", document.uri, place(document, "Send[device = 2](%as_1)"));
    const text = hovers.flatMap((hover) => hover.contents.map((each) => (typeof each === "string" ? each : each.value))).join();
    assert.match(text, /Send/);
    const found = await vscode.commands.executeCommand<unknown[]>("vscode.executeReferenceProvider", document.uri, place(document, "%ar_1: D2"));
    assert.equal(found.length, 3);
  },

  async "hover on a device says how long it works, and lines in hovers are links"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const hover = async (text: string): Promise<string> => {
      const found = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", document.uri, place(document, text));
      return found.flatMap((each) => each.contents.map((part) => (typeof part === "string" ? part : part.value))).join("\n");
    };
    assert.match(await hover(" 2](%as_1)"), /busy \*\*[\d.]+ms\*\* of 12\.9ms[^]*idle [^]*peak memory/);
    const link = /\[line (\d+)\]\(([^)]*)#L(\d+)[^)]*\)/.exec(await hover("Send[device = 2](%as_1)"));
    assert.ok(link, "what a device waits for is a link");
    assert.equal(link[1], link[3]);
  },

  async "semantic tokens carry devices that the manifest knows"() {
    const document = await open("mlp.dir");
    const legend = await vscode.commands.executeCommand<vscode.SemanticTokensLegend>("vscode.provideDocumentSemanticTokensLegend", document.uri);
    const known = vscode.extensions.getExtension("distir.distir")?.packageJSON.contributes.semanticTokenModifiers.map(({ id }: { id: string }) => id) as string[];
    for (const modifier of legend.tokenModifiers) assert.ok(known.includes(modifier) || modifier === "declaration", modifier);
    const tokens = await vscode.commands.executeCommand<vscode.SemanticTokens>("vscode.provideDocumentSemanticTokens", document.uri);
    assert.ok(tokens.data.length > 500);
  },

  async "findings are diagnostics with their code, and a fix is offered"() {
    const document = await open("broken.dir");
    const [found] = await until("a diagnostic", () => {
      const all = vscode.languages.getDiagnostics(document.uri);
      return all.length > 0 && all;
    });
    assert.ok(found);
    assert.match(found.message, /%nothing/);
    assert.equal(found.source, "distir");
    assert.equal((await simulated(document)).why, "the program has errors");
  },

  async "what is not proved is marked, hover and hints place values, and a fix adds the all-reduce"() {
    const document = await open("proof/shards.dir");
    const code = ({ code: given }: vscode.Diagnostic): string => String(typeof given === "object" ? given.value : given);
    const unproved = (): vscode.Diagnostic[] => vscode.languages.getDiagnostics(document.uri).filter((each) => code(each) === "DIR801");
    const [found] = await until("what is not proved", () => unproved().length > 0 && unproved());
    assert.ok(found);
    assert.match(found.message, /an all-reduce is missing/);
    assert.equal(document.getText(found.range), "%p_1 = Relu(%y_1)");
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", document.uri, place(document, "%y_1 = "));
    const text = hovers.flatMap((hover) => hover.contents.map((each) => (typeof each === "string" ? each : each.value))).join();
    assert.match(text, /a partial sum of `%y` over devices 1, 2/);
    assert.ok(!(await hints(document)).some((hint) => hint.startsWith("≡")));
    await set("hints.sequential", true);
    await until("placements", async () => (await hints(document)).some((hint) => hint.startsWith("≡ a partial sum of %y")));
    await set("hints.sequential", undefined);
    const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>("vscode.executeCodeActionProvider", document.uri, found.range, "quickfix");
    const fix = actions.find(({ title }) => title === "all-reduce `%y_1`, `%y_2`");
    assert.ok(fix?.edit, actions.map(({ title }) => title).join());
    await vscode.workspace.applyEdit(fix.edit);
    await until("the proof", () => unproved().length === 0);
    assert.match(document.getText(), /MPIAllreduce\(%y_1, %y_2\)/);
  },

  async "formatting and renaming"() {
    const document = await open("unformatted.dir");
    const edits = await until("edits", async () => vscode.commands.executeCommand<vscode.TextEdit[]>("vscode.executeFormatDocumentProvider", document.uri, { tabSize: 2, insertSpaces: true }));
    const edit = new vscode.WorkspaceEdit();
    edit.set(document.uri, edits);
    assert.ok(await vscode.workspace.applyEdit(edit));
    assert.match(document.getText(), /^ {2}%b = Relu\(%a\)$/m);
    const renamed = await vscode.commands.executeCommand<vscode.WorkspaceEdit>("vscode.executeDocumentRenameProvider", document.uri, place(document, "%b = "), "%activation");
    assert.equal(renamed.get(document.uri).length, 2);
    const taken = Promise.resolve(vscode.commands.executeCommand("vscode.executeDocumentRenameProvider", document.uri, place(document, "%b = "), "%a"));
    await assert.rejects(taken);
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },

  async "moving an op as the server advises makes the program faster"() {
    const document = await open("swapped.dir");
    const before = (await simulated(document)).latency_s ?? 0;
    const line = place(document, "Send[device = 2](%as_2)").line;
    const range = document.lineAt(line).range;
    const actions = await until("the action", async () => {
      const found = await vscode.commands.executeCommand<vscode.CodeAction[]>("vscode.executeCodeActionProvider", document.uri, range);
      return found.some((action) => action.title.includes("faster")) && found;
    });
    assert.match(actions[0]?.title ?? "", /faster/, "what helps stands first");
    assert.ok(vscode.CodeActionKind.QuickFix.contains(actions[0]?.kind ?? vscode.CodeActionKind.Empty), "the editor lists refactorings behind these");
    const edit = actions[0]?.edit;
    assert.ok(edit);
    assert.ok(await vscode.workspace.applyEdit(edit));
    const after = (await simulated(document)).latency_s ?? 0;
    assert.ok(after < before, `${after} < ${before}`);
    const compared = await vscode.commands.executeCommand<Comparison>("distir.compareWithSaved", document.uri);
    assert.equal(compared.speedup, before / after);
    const head = await vscode.commands.executeCommand<Comparison>("distir.compareWithHead", document.uri);
    assert.equal(head.other.latency_s, before);
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },

  async "advice is listed best first, applied as an edit, undone by undo, and marked where the setting says"() {
    const document = await open("swapped.dir");
    const text = document.getText();
    const before = (await simulated(document)).latency_s ?? 0;
    const client = api.server.running;
    assert.ok(client);
    const { advice } = await ask<AdviceList>(client, "advice", document.uri.toString());
    const move = advice.find(({ kind }) => kind === "move");
    assert.equal(move?.title, "move `%p_1` above `%ar_2`");
    await vscode.commands.executeCommand("distir.applyAdvice", document.uri.toString(), move?.number);
    await until("the edit", () => document.getText() !== text);
    assert.equal((await simulated(document)).latency_s, move?.latency_s);
    assert.ok((move?.latency_s ?? before) < before);
    await vscode.commands.executeCommand("undo");
    assert.equal(document.getText(), text);
    const marked = (): boolean => vscode.languages.getDiagnostics(document.uri).some(({ message }) => message.includes("possible here"));
    assert.ok(!marked());
    await set("advice", "problems");
    await until("information findings", marked);
    await set("advice", undefined);
    await until("none", () => !marked());
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },

  async "the cursor goes along the critical path and from wait to wait"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const editor = vscode.window.activeTextEditor;
    assert.ok(editor);
    const first = place(document, "func @mlpPP");
    editor.selection = new vscode.Selection(first, first);
    const seen: string[] = [];
    for (let count = 0; count < 3; count++) {
      await vscode.commands.executeCommand("distir.nextCritical");
      seen.push(document.lineAt(vscode.window.activeTextEditor?.selection.active.line ?? 0).text);
    }
    assert.equal(new Set(seen).size, 3, seen.join());
    await vscode.commands.executeCommand("distir.previousCritical");
    assert.equal(document.lineAt(vscode.window.activeTextEditor?.selection.active.line ?? 0).text, seen[1]);
    await vscode.commands.executeCommand("distir.nextWait");
    assert.notEqual(document.lineAt(vscode.window.activeTextEditor?.selection.active.line ?? 0).text, seen[1]);
  },

  async "a link holds the program, its machine and the selection, for the playground of the setting"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const offered = vscode.commands.executeCommand("distir.share", document.uri); // waits for an answer that nobody gives
    await new Promise((resolve) => setTimeout(resolve, 500));
    await set("playground", "https://example.org/playground/#old");
    const editor = await vscode.window.showTextDocument(document);
    editor.selection = new vscode.Selection(4, 2, 4, 8);
    const link = await vscode.commands.executeCommand<string>("distir.share", document.uri);
    await set("playground", undefined);
    assert.match(link, /^https:\/\/example\.org\/playground\/#name=/);
    assert.equal(await vscode.env.clipboard.readText(), link);
    const { name, text, hardware, selection } = (await fromFragment(link.slice(link.indexOf("#"))))!;
    assert.deepEqual([name, text, hardware, selection], ["mlp.dir", document.getText(), "dgx-a100", [5, 3, 5, 9]]);
    await vscode.commands.executeCommand("notifications.clearAll");
    assert.equal(await offered, undefined, "without a playground there is no link");
  },

  async "bars beside lines are asked for unless the setting says no"() {
    await set("lineTimes", false);
    const document = await open("mlp.dir");
    await simulated(document);
    assert.equal(await statusesAsked(1000, "lineTimes"), 0);
    const asked = statusesAsked(1000, "lineTimes");
    await set("lineTimes", undefined);
    assert.ok((await asked) > 0);
  },

  async "placements are hints where they change, all or none; the cursor goes from collective to collective"() {
    const document = await open("mesh.dir");
    await simulated(document);
    const shows = (wanted: string, count: number) => async (): Promise<boolean> => (await hints(document)).filter((hint) => hint === wanted).length === count;
    await until("the pending sum", shows(": f32[512@dp,256] Σtp", 1));
    assert.ok(await shows(": f32[512,1024]", 2)(), (await hints(document)).join());
    await set("placements", "all");
    await until("all placements", shows(": f32[512@dp,1024@tp]", 4));
    await set("placements", "off");
    await until("no placements", async () => !(await hints(document)).some((hint) => /@[dt]p|Σ/.test(hint)));
    await set("placements", undefined);
    const editor = vscode.window.activeTextEditor;
    assert.ok(editor);
    editor.selection = new vscode.Selection(0, 0, 0, 0);
    const line = (): string => document.lineAt(vscode.window.activeTextEditor?.selection.active.line ?? 0).text.trim();
    await vscode.commands.executeCommand("distir.nextResharding");
    assert.match(line(), /^%y = AllReduce/);
    await vscode.commands.executeCommand("distir.nextResharding");
    assert.match(line(), /^%loss = AllReduce/);
    await vscode.commands.executeCommand("distir.previousResharding");
    assert.match(line(), /^%y = AllReduce/);
  },

  async "a trace for Perfetto is written where it is asked for, and what is in the way is told"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const target = file("mlp.trace.json");
    const written = await vscode.commands.executeCommand<vscode.Uri>("distir.openInPerfetto", document.uri, target);
    assert.equal(written.toString(), target.toString());
    const { traceEvents } = JSON.parse(readFileSync(target.fsPath, "utf8")) as { traceEvents: { name: string }[] };
    assert.ok(traceEvents.some(({ name }) => name === "Gemm"));
    assert.equal(await vscode.commands.executeCommand("distir.openInPerfetto", document.uri, file("none/mlp.trace.json")), undefined);
  },

  async "a rank's program follows the whole one, and its lines lead back"() {
    const document = await open("mlp.dir");
    await simulated(document);
    const uri = await vscode.commands.executeCommand<vscode.Uri>("distir.showRank", document.uri, 2);
    const rank = await vscode.workspace.openTextDocument(uri);
    assert.ok(rank.getText().includes("%p_1"), rank.getText());
    assert.ok(!rank.getText().includes("%x_1"));
    const links = await vscode.commands.executeCommand<vscode.DocumentLink[]>("vscode.executeLinkProvider", uri);
    const link = links.find(({ range }) => rank.getText(range) === "%p_1");
    assert.ok(link?.target);
    const [source, range] = JSON.parse(decodeURIComponent(link.target.query || link.target.toString().split("?")[1] || "")) as [string, { start: { line: number } }];
    assert.equal(source, document.uri.toString());
    assert.match(document.lineAt(range.start.line).text, /^ *%p_1/);
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
    const uri = await vscode.commands.executeCommand<vscode.Uri>("distir.transformProgram", document.uri, ["dp=2"]);
    const preview = await vscode.workspace.openTextDocument(uri);
    assert.equal(uri.scheme, "distir-preview");
    assert.match(preview.getText(), /MPIAllreduce/);
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    assert.match(tab?.label ?? "", /sequential\.dir ↔ dp=2: 1\.\d\dx faster, .* → /);
    assert.ok(((await simulated(preview)).latency_s ?? 1) < ((await simulated(document)).latency_s ?? 0));
    assert.equal(await vscode.commands.executeCommand("distir.transformProgram", document.uri, ["dp=7"]), undefined);
    assert.match(preview.getText(), /\/\/ Weight update \(WU\)\n {2}%w1_new_1 = /, "comments stay");
  },

  async "previews, ranks and what-if go by the machine that is picked, and a rank has the whole program's times"() {
    const document = await open("mlp.dir");
    const before = await simulated(document);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, "dgx-h100");
    const picked = await until("the other machine", async () => {
      const found = await simulated(document);
      return found.hardware === "dgx-h100" && found;
    });
    const uri = await vscode.commands.executeCommand<vscode.Uri>("distir.transformProgram", document.uri, ["cse"]);
    const preview = await simulated(await vscode.workspace.openTextDocument(uri));
    assert.deepEqual([preview.hardware, preview.latency_s], ["dgx-h100", picked.latency_s]);
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab;
    assert.match(tab?.label ?? "", /as fast as before/);
    const rank = await vscode.workspace.openTextDocument(await vscode.commands.executeCommand<vscode.Uri>("distir.showRank", document.uri, 2));
    const whole = await until("times", async () => {
      const found = await hintsOf(document, "mlpPP");
      return found.length > 0 && found;
    });
    const own = await until("times of the rank", async () => {
      const found = await hintsOf(rank, "mlpPP");
      return found.length > 0 && found;
    });
    for (const start of own) assert.ok(whole.includes(start), `${start} of ${whole.join()}`);
    assert.equal((await simulated(rank)).latency_s, picked.latency_s);
    const whatIf = await vscode.commands.executeCommand<WhatIf>("distir.whatIf", document.uri, { "nvlink send bandwidth": "1GB/s" });
    assert.deepEqual([whatIf.comparison.other.hardware, whatIf.comparison.other.latency_s], ["dgx-h100", picked.latency_s]);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, before.hardware);
    await until("the preview follows", async () => (await simulated(await vscode.workspace.openTextDocument(uri))).hardware === before.hardware);
  },

  async "hardware is picked for a document, and single figures tried"() {
    const document = await open("mlp.dir");
    const before = await simulated(document);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, "dgx-h100");
    const after = await until("the other machine", async () => {
      const found = await simulated(document);
      return found.hardware === "dgx-h100" && found;
    });
    assert.ok((after.latency_s ?? 1) < (before.latency_s ?? 0));
    const client = api.server.running;
    assert.ok(client);
    const { chosen } = await ask<Hardware>(client, "hardware", document.uri.toString());
    const figure = chosen?.figures.find((each) => each.figure === "nvlink send bandwidth" || /send bandwidth/.test(each.figure))?.figure;
    assert.ok(figure, JSON.stringify(chosen?.figures.map((each) => each.figure)));
    const slower = await vscode.commands.executeCommand<WhatIf>("distir.whatIf", document.uri, { [figure]: "1GB/s" });
    assert.ok((slower.comparison.speedup ?? 1) < 1);
    await vscode.commands.executeCommand("distir.pickHardware", document.uri, before.hardware);
  },

  async "a search finds configurations, and the steps that make them"() {
    const document = await open("sequential.dir");
    const found = await vscode.commands.executeCommand<Found>("distir.search", document.uri, { devices: "2", microbatches: "2", fuse: "on" });
    assert.equal(found.devices, 2);
    assert.ok(found.best?.steps.includes("fuse"), String(found.best?.steps));
    assert.deepEqual(found.rows.map((row) => `${row.D}/${row.T}/${row.P}`).sort(), ["1/1/2", "1/2/1", "2/1/1"]);
    const uri = await vscode.commands.executeCommand<vscode.Uri>("distir.transformProgram", document.uri, found.best?.steps);
    assert.equal(uri.scheme, "distir-preview");
  },

  async "other sizes are bound by a setting"() {
    const document = await open("named.dir");
    assert.equal((await simulated(document)).state, "failed");
    await settings().update("bind", { B: 64 }, vscode.ConfigurationTarget.Workspace);
    await until("a simulation", async () => (await simulated(document)).state === "simulated");
    await settings().update("bind", undefined, vscode.ConfigurationTarget.Workspace);
  },

  async "hardware and entry are those of the settings, and change with them"() {
    const document = await open("two.dir");
    const before = await simulated(document);
    assert.deepEqual([before.function, before.hardware], ["main", "dgx-a100"]);
    await set("hardware", "dgx-h100");
    await until("other hardware", async () => (await simulated(document)).hardware === "dgx-h100");
    await set("nodes", 4);
    await until("several nodes", async () => (await simulated(document)).hardware === "dgx-h100x4");
    await set("nodes", undefined);
    await set("entry", "first");
    await until("another entry", async () => (await simulated(document)).function === "first");
    await set("hardware", undefined);
    await set("entry", undefined);
    await until("as before", async () => (await simulated(document)).function === "main");
  },

  async "budgets warn"() {
    const document = await open("two.dir");
    const found = (): string[] => vscode.languages.getDiagnostics(document.uri).map(({ message }) => message);
    for (const [name, value, expected] of [["budget.max_latency", "1us", /latency|longer|time/], ["budget.max_memory", "1kB", /memory/]] as const) {
      await set(name, value);
      await until(`a warning for ${name}`, () => found().some((message) => expected.test(message)));
      await set(name, undefined);
      await until("no warning", () => !found().some((message) => expected.test(message)));
    }
  },

  async "each kind of hint can be switched off"() {
    const document = await open("two.dir");
    const kinds = { types: "f32[512,512]@1", values: "=[512,512]", times: "+", waits: "wait" };
    const shows = async (text: string): Promise<boolean> => (await hints(document)).some((hint) => hint.replace(/ /g, "").includes(text));
    for (const [kind, text] of Object.entries(kinds)) {
      await until(`${kind}: ${text}`, () => shows(text));
      await set(`hints.${kind}`, false);
      await until(`no ${kind}`, async () => !(await shows(text)));
      await set(`hints.${kind}`, undefined);
    }
  },

  async "hints are as long, and times stand where the settings say"() {
    const document = await open("two.dir");
    const texts = (): Promise<string[]> => hints(document);
    await until("types in full", async () => (await texts()).some((hint) => hint.includes("[512,512]")));
    await set("hints.length", 12);
    await until("types cut", async () => (await texts()).every((hint) => !hint.includes("[512,512]@")) && (await texts()).some((hint) => hint.includes("…")));
    await set("hints.length", undefined);
    const range = new vscode.Range(0, 0, document.lineCount, 0);
    const atEnd = async (): Promise<boolean> => {
      const found = await vscode.commands.executeCommand<vscode.InlayHint[]>("vscode.executeInlayHintProvider", document.uri, range);
      const times = found.filter((hint) => labelled(hint).startsWith("+"));
      return times.length > 0 && times.every(({ position }) => position.character === document.lineAt(position.line).text.trimEnd().length);
    };
    await until("times at the ends", atEnd);
    await set("hints.columns", 1);
    await until("times at the first results", async () => !(await atEnd()));
    await set("hints.columns", undefined);
  },

  async "longer programs are simulated on demand, and longer texts not looked at, as the settings say"() {
    await set("simulation.limit", 1);
    const document = await open("large.dir");
    const waiting = await until("its status", () => status(document).catch(() => undefined));
    assert.deepEqual([waiting.state, waiting.latency_s], ["on_demand", null]);
    await until("quiet: nothing is to be expected, so nothing is asked", async () => (await statusesAsked(1000)) === 0, 20_000);
    await vscode.commands.executeCommand("distir.simulateNow");
    await until("a simulation", async () => (await simulated(document)).state === "simulated");
    await set("simulation.limit", undefined);
    await set("readLimit", 10);
    await until("no hints", async () => (await hints(document)).length === 0);
    await set("readLimit", undefined);
    await until("hints", async () => (await hints(document)).length > 0);
  },

  async "the talk with the server is logged as the setting says"() {
    const client = api.server.running as unknown as { _trace: Trace; _traceLogLevel: vscode.LogLevel };
    const level = client._traceLogLevel;
    client._traceLogLevel = vscode.LogLevel.Trace; // as if the user had chosen it for the channel
    await set("trace.server", "verbose");
    await until("all of it", () => client._trace === Trace.Verbose);
    await set("trace.server", undefined);
    await until("messages", () => client._trace === Trace.Messages);
    client._traceLogLevel = level;
  },

  async "a path with spaces and letters of all kinds"() {
    const document = await open("größer als/prög 名.dir");
    const found = await simulated(document);
    assert.equal(found.state, "simulated");
    const uri = await vscode.commands.executeCommand<vscode.Uri>("distir.showRank", document.uri, 1);
    assert.match((await vscode.workspace.openTextDocument(uri)).getText(), /%x_1/);
    await vscode.window.showTextDocument(document);
    assert.ok(await vscode.commands.executeCommand("distir.compareWithHead", document.uri));
  },

  async "texts that are too long are not looked at, and nothing breaks"() {
    writeFileSync(join(folder(), "long.dir"), `// ${"x".repeat(100)}\n`.repeat(210_000));
    const long = await vscode.workspace.openTextDocument(file("long.dir"));
    assert.equal((await hints(long)).length, 0);
    writeFileSync(join(folder(), "huge.dir"), `// ${"x".repeat(100)}\n`.repeat(510_000));
    await assert.rejects(Promise.resolve(vscode.workspace.openTextDocument(file("huge.dir"))));
    assert.equal((await simulated(await open("mlp.dir"))).state, "simulated");
  },

  async "debug information names the server and the settings"() {
    await vscode.commands.executeCommand("distir.debugInformation");
    const text = vscode.window.activeTextEditor?.document.getText() ?? "";
    assert.match(text, /server: running, DistIR \d/);
    assert.match(text, /the setting `distir.interpreter`/);
    assert.match(text, /"readLimit": 20000000/);
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  },

  async "a restart takes the place of the server, and many at once are few"() {
    let starts = 0;
    const listening = api.server.onDidChange(({ kind }) => (starts += Number(kind === "starting")));
    await Promise.all([1, 2, 3, 4].map(() => vscode.commands.executeCommand("distir.restart")));
    listening.dispose();
    assert.equal(starts, 2);
    assert.equal((await simulated(await open("mlp.dir"))).state, "simulated");
  },

  async "without a setting, the environment of the Python extension is taken, and followed when the user chooses another"() {
    const [python = ""] = settings().get<string[]>("interpreter", []);
    const environment = (name: string): string => {
      const bin = join(folder(), name, "bin");
      mkdirSync(bin, { recursive: true });
      writeFileSync(join(bin, "python"), `#!/bin/sh\nexec "${python}" "$@"\n`);
      chmodSync(join(bin, "python"), 0o755);
      return join(folder(), name);
    };
    const runs = (name: string): Promise<boolean> =>
      until(`the server of ${name}`, () => api.server.state.kind === "running" && api.server.state.argv[0] === join(folder(), name, "bin", "python"));
    const chooser = await chooserOfPython();
    chooser.choose(environment("env one"));
    await set("interpreter", []);
    await runs("env one");
    chooser.choose(environment("env two"));
    await runs("env two");
    assert.equal((await simulated(await open("mlp.dir"))).state, "simulated");
    chooser.choose(undefined);
  },

  async "where there is no Python at all, that is said, and colours stay"() {
    const path = process.env.PATH;
    process.env.PATH = join(folder(), "absent");
    try {
      await vscode.commands.executeCommand("distir.restart");
      const state = await until("a state", () => api.server.state.kind === "missing" && api.server.state);
      assert.deepEqual(messageOf(state).slice(0, 1), ["DistIR needs Python 3.11 or later, and none was found."]);
      assert.equal((await open("two.dir")).languageId, "distir");
    } finally {
      process.env.PATH = path;
      await set("interpreter", undefined);
    }
    await until("the server", () => api.server.state.kind === "running");
  },
};

/** The stand-in for the Python extension, beside this file's sources. */
async function chooserOfPython(): Promise<{ choose(folder: string | undefined): void }> {
  const extension = vscode.extensions.getExtension<{ choose(folder: string | undefined): void }>("ms-python.python");
  assert.ok(extension);
  return extension.activate();
}

/** The entry that VS Code calls. */
export async function run(): Promise<void> {
  const extension = vscode.extensions.getExtension<Api>("distir.distir");
  assert.ok(extension);
  api = await extension.activate();
  await until("the server", () => api.server.state.kind === "running");
  console.log(`activate() took ${api.activationMs.toFixed(1)} ms`);
  const failed: string[] = [];
  for (const [name, test] of Object.entries(tests)) {
    const begun = Date.now();
    try {
      await test();
      console.log(`ok ${name} (${Date.now() - begun} ms)`);
    } catch (error) {
      failed.push(name);
      for (const each of ["hardware", "nodes", "advice", "lineTimes", "playground", "entry", "bind", "simulation.limit", "readLimit", "trace.server", "interpreter"]) await set(each, undefined);
      console.log(`FAILED ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
  }
  if (failed.length > 0) throw new Error(`${failed.length} failed: ${failed.join("; ")}`);
}
