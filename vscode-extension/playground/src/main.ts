// The page: programs in an editor, what the server knows of them, and the timeline below.

import { MonacoLspClient } from "lsp-client";
import * as monaco from "monaco";
import { bytes, seconds } from "../../src/figures";
import { type TimelinePiece, allPieces } from "../../src/pieces";
import { fromFragment, toFragment } from "../../src/share";
import { grammar } from "./grammar";
import { server } from "./server";
import { useThemes } from "./theme";
import { type Run, showValues } from "./values";

interface Status { version: number; state: string; why: string | null; errors: number; warnings: number; latency_s: number | null; peak_memory_bytes: number | null; hardware: string }
interface Hardware { profiles: { name: string; title: string }[]; chosen?: { name: string } }
interface Steps { steps: { name: string; documentation: string }[] }
interface Agreement { equal?: boolean; results?: number; max_abs_error?: number | null; differences?: string[]; why?: string }
interface Result { text: string; comparison: { speedup: number | null } | null; why?: string; agreement?: Agreement }
type FromView = { type: string; range?: { start: { line: number; character: number } } | null; focus?: boolean; message?: string };

const LANGUAGE = "distir";
const DIAGNOSTICS = "textDocument/publishDiagnostics";
const element = <Kind extends HTMLElement>(id: string): Kind => document.getElementById(id) as Kind;
const status = element<HTMLOutputElement>("status");
const examples = element<HTMLSelectElement>("examples");
const hardware = element<HTMLSelectElement>("hardware");
const steps = element<HTMLInputElement>("steps");
const view = element<HTMLIFrameElement>("timeline");

Object.assign(self, { MonacoEnvironment: { getWorker: () => new Worker(new URL("editor.js", document.baseURI), { type: "module" }) } });

useThemes();
monaco.languages.register({ id: LANGUAGE, extensions: [".dir"] });
monaco.languages.setLanguageConfiguration(LANGUAGE, {
  comments: { lineComment: "//", blockComment: ["/*", "*/"] },
  brackets: [["{", "}"], ["[", "]"], ["(", ")"]],
  autoClosingPairs: ["{}", "[]", "()", '""'].map((pair) => ({ open: pair[0]!, close: pair[1]! })),
  wordPattern: /[%@][A-Za-z0-9_.-]+|[A-Za-z0-9_]+(?:\.[0-9]+)?/,
});
monaco.languages.registerTokensProviderFactory(LANGUAGE, { create: () => grammar("grammar.json", "onig.wasm") });

const editor = monaco.editor.create(element("editor"), {
  model: null,
  automaticLayout: true,
  "semanticHighlighting.enabled": true,
  inlayHints: { enabled: "on", maximumLength: 0 },
  minimap: { enabled: false },
  wordBasedSuggestions: "off",
  fixedOverflowWidgets: true,
  stickyScroll: { enabled: false },
  tabSize: 2,
  fontSize: 13,
});

function say(text: string, isWrong = false): void {
  status.value = text;
  status.classList.toggle("wrong", isWrong);
}

/** A program, and the version of its text. */
interface Version { model: monaco.editor.ITextModel | null; number?: number }
const latest = (): Version => ({ model: editor.getModel(), number: editor.getModel()?.getVersionId() });
const isLatest = ({ model, number }: Version): boolean => model === editor.getModel() && number === model?.getVersionId();

/** Of which the last answer is. */
let answered: Version | undefined;

/** Say what came of what a user asked for. News of simulations leave it until the program changes, or another is shown. */
function answer(text: string, isWrong = false, of = latest()): void {
  answered = of;
  say(text, isWrong);
}

const failed = (error: unknown, of = latest()): void => answer(error instanceof Error ? error.message : String(error), true, of);

// Programs.

const states = new Map<monaco.editor.ITextModel, monaco.editor.ICodeEditorViewState | null>();

function open(name: string, text: string): monaco.editor.ITextModel {
  const plain = name.toLowerCase().replace(/[^a-z0-9_.-]/g, "_");
  let uri = monaco.Uri.parse(`file:///playground/${plain}`);
  for (let count = 2; monaco.editor.getModel(uri) !== null; count++) uri = monaco.Uri.parse(`file:///playground/${plain.replace(/(\.dir)?$/, `-${count}.dir`)}`);
  const model = monaco.editor.createModel(text, LANGUAGE, uri);
  show(model);
  return model;
}

function show(model: monaco.editor.ITextModel): void {
  answered = undefined;
  const before = editor.getModel();
  if (before !== null) states.set(before, editor.saveViewState());
  editor.setModel(model);
  const state = states.get(model);
  if (state) editor.restoreViewState(state);
  const tabs = monaco.editor.getModels().map((each) => {
    const tab = document.createElement("button");
    tab.textContent = nameOf(each);
    tab.setAttribute("aria-current", String(each === model));
    tab.onclick = () => show(each);
    return tab;
  });
  element("programs").replaceChildren(...(tabs.length > 1 ? tabs : []));
  editor.focus();
  void refresh();
}

const nameOf = (model: monaco.editor.ITextModel): string => model.uri.path.split("/").at(-1)!;
const about = (model: monaco.editor.ITextModel): object => ({ textDocument: { uri: model.uri.toString(true) } });

// What the server knows, shown whenever it has simulated.

/** Whether requests may be sent: the server knows the first program. */
let isStarted = false;

/** Of programs that a transform made: whether they give the results of the original. */
const verdicts = new WeakMap<monaco.editor.ITextModel, Agreement>();

function verdict(model: monaco.editor.ITextModel): string {
  const found = verdicts.get(model);
  if (found === undefined) return "";
  if (found.why !== undefined) return `, not verified: ${found.why}`;
  return found.equal ? `, verified: the same ${found.results} results` : `, the results differ: ${found.differences?.[0] ?? ""}`;
}

function sayStatus(found: Status, model: monaco.editor.ITextModel): void {
  if (found.errors > 0) say(found.errors === 1 ? "1 error" : `${found.errors} errors`, true);
  else if (found.state === "failed") say(found.why ?? "the simulation failed", true);
  else if (found.latency_s !== null) say(`${seconds(found.latency_s)} on ${found.hardware}${found.peak_memory_bytes === null ? "" : `, ${bytes(found.peak_memory_bytes)} at the peak`}${verdict(model)}`, verdicts.get(model)?.equal === false);
}

async function refresh(): Promise<void> {
  const model = editor.getModel();
  if (model === null || !isStarted) return;
  try {
    const found = await server.request<Status>("distir/status", about(model));
    if (!isLatest({ model, number: found.version })) return; // of the text as it is now, there are news to come
    if (answered === undefined || !isLatest(answered)) sayStatus(found, model);
    if (found.state !== "simulated") {
      toView({ type: "state", state: found.state === "on_demand" ? "failed" : found.state, why: found.why });
      return;
    }
    await sendTimeline(model);
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), true);
  }
}

async function sendTimeline(model: monaco.editor.ITextModel): Promise<void> {
  const timeline = await allPieces((firstEvent) => server.request<TimelinePiece>("distir/timeline", { ...about(model), firstEvent, columns: true }));
  const version = timeline[0]?.version;
  const found = await server.request<{ version: number }>("distir/memory", about(model)).catch(() => null);
  const memory = found?.version === version ? found : null;
  if (editor.getModel() === model) toView({ type: "show", document: { uri: model.uri.toString(true), name: nameOf(model), version }, timeline, memory });
}

function toView(message: object): void {
  view.contentWindow?.postMessage(message, location.origin);
}

addEventListener("message", ({ data, source }: MessageEvent<FromView>) => {
  if (source !== view.contentWindow) return;
  if (data.type === "ready") void refresh();
  if (data.type === "error") say(data.message ?? "the timeline failed", true);
  if (data.type === "reveal" && data.range) {
    const { line, character } = data.range.start;
    editor.setPosition({ lineNumber: line + 1, column: character + 1 });
    editor.revealLineInCenterIfOutsideViewport(line + 1);
    if (data.focus) editor.focus();
  }
});

editor.onDidChangeCursorPosition(({ position }) => {
  const model = editor.getModel();
  if (model !== null) toView({ type: "cursor", uri: model.uri.toString(true), position: { line: position.lineNumber - 1, character: position.column - 1 } });
});

/** After so long without news: the worker does one thing at a time, and hints come before the timeline. */
const REST_MS = 200;
let resting: ReturnType<typeof setTimeout> | undefined;

for (const method of [DIAGNOSTICS, "workspace/inlayHint/refresh"])
  server.on(method, () => {
    clearTimeout(resting);
    resting = setTimeout(() => void refresh(), REST_MS);
  });

// The editor's client does not ask again for lenses, which say times; and an editor that loses the focus, to the timeline
// as it is first shown, forgets that it was about to ask. A provider of none makes it ask all.
const lensesChanged = new monaco.Emitter<monaco.languages.CodeLensProvider>();
const lensless: monaco.languages.CodeLensProvider = { onDidChange: lensesChanged.event, provideCodeLenses: () => ({ lenses: [] }) };
monaco.languages.registerCodeLensProvider(LANGUAGE, lensless);
server.on("workspace/inlayHint/refresh", () => lensesChanged.fire(lensless));
editor.onDidBlurEditorText(() => setTimeout(() => lensesChanged.fire(lensless)));

// Commands of lenses, and of the server's code actions.

const SHOWN_HERE: Record<string, () => void> = {
  "distir.timeline": () => view.focus(),
  "distir.hardware": () => hardware.focus(),
};
for (const command of ["distir.nextCall", "distir.showCalls", "distir.timeline", "distir.compare", "distir.hardware", "distir.useHardware", "distir.simulate"])
  monaco.editor.registerCommand(command, (_, ...given: unknown[]) => {
    const here = SHOWN_HERE[command];
    if (here !== undefined) here();
    else void server.request("workspace/executeCommand", { command, arguments: given }).catch(failed);
  });
server.on<{ message: string; type: number }>("window/showMessage", ({ message, type }) => answer(message, type <= 2));

// The controls.

examples.onchange = () => {
  const chosen = programs.find(({ name }) => name === examples.value);
  if (chosen !== undefined) open(chosen.name, chosen.text);
};

hardware.onchange = () => {
  const model = editor.getModel();
  answered = undefined;
  if (model !== null) void server.request("distir/hardware", { ...about(model), action: "choose", name: hardware.value }).catch(failed);
};

element<HTMLFormElement>("transform").onsubmit = async (event) => {
  event.preventDefault();
  const model = editor.getModel();
  const words = steps.value.split(/\s+/).filter((word) => word !== "");
  if (model === null || words.length === 0) return;
  const asked = latest();
  answered = undefined;
  try {
    const verify = element<HTMLInputElement>("verify").checked;
    if (verify) say("running both programs…");
    const result = await server.request<Result>("distir/transform", { ...about(model), steps: words, verify });
    const made = open(nameOf(model).replace(/\.dir$/, `_${words.join("_").replaceAll("=", "")}.dir`), result.text);
    await server.request("distir/follow", { ...about(made), source: model.uri.toString(true) });
    if (result.agreement !== undefined) verdicts.set(made, result.agreement);
    void refresh();
  } catch (error) {
    failed(error, asked);
  }
};

element("run").onclick = async () => {
  const model = editor.getModel();
  if (model === null) return;
  const asked = latest();
  answered = undefined;
  say("running…");
  try {
    const ran = await server.request<Run>("distir/run", about(model));
    await refresh();
    if (isLatest(asked)) showValues(ran);
    else answer("the program was edited while it ran: run it again", true);
  } catch (error) {
    failed(error, asked);
  }
};

element("share").onclick = async () => {
  const model = editor.getModel();
  if (model === null) return;
  const chosen = editor.getSelection();
  const selection = chosen === null ? undefined : ([chosen.startLineNumber, chosen.startColumn, chosen.endLineNumber, chosen.endColumn] as const);
  const fragment = await toFragment({ name: nameOf(model), text: model.getValue(), hardware: hardware.value || undefined, selection }).catch(failed);
  if (fragment === undefined) return;
  history.replaceState(null, "", fragment);
  await navigator.clipboard.writeText(location.href).then(
    () => answer("the address of this program is in the clipboard"),
    () => answer("the address of this program is in the address bar"),
  );
};

{
  const divider = element("divider");
  const resize = (height: number) => (view.style.height = `${Math.max(60, Math.min(height, innerHeight - 200))}px`);
  divider.onpointerdown = ({ pointerId }) => {
    divider.setPointerCapture(pointerId);
    view.style.pointerEvents = "none";
    divider.onpointermove = ({ clientY }) => resize(innerHeight - clientY);
    divider.onpointerup = () => {
      divider.onpointermove = null;
      view.style.pointerEvents = "";
    };
  };
  divider.onkeydown = ({ key }) => {
    if (key === "ArrowUp" || key === "ArrowDown") resize(view.clientHeight + (key === "ArrowUp" ? 20 : -20));
  };
}

// The start.

const programs = (await (await fetch("examples.json")).json()) as { name: string; text: string }[];
examples.replaceChildren(...programs.map(({ name }) => new Option(name)));
let unread: unknown;
const shared = await fromFragment(location.hash).catch((error: unknown) => {
  unread = error;
  return undefined;
});
const first = shared ?? programs[0]!;
if (shared !== undefined) examples.selectedIndex = -1;
const model = open(first.name, first.text);
if (shared?.selection !== undefined) {
  editor.setSelection(new monaco.Range(...shared.selection));
  editor.revealRangeInCenter(editor.getSelection()!);
}
if (unread !== undefined) failed(unread);
const analysed = server.heardOf(DIAGNOSTICS);
new MonacoLspClient(server.transport as never);
try {
  await server.ready;
  await analysed;
  isStarted = true;
  void refresh();
  const known = await server.request<Hardware>("distir/hardware", { action: "list" });
  hardware.replaceChildren(...known.profiles.map(({ name, title }) => Object.assign(new Option(name), { title })));
  const { chosen } = await server.request<Hardware>("distir/hardware", { ...about(model), action: "list" });
  hardware.value = chosen?.name ?? "";
  hardware.disabled = false;
  for (const each of document.querySelectorAll<HTMLButtonElement>("#transform button, #run")) each.disabled = false;
  if (shared?.hardware !== undefined && known.profiles.some(({ name }) => name === shared.hardware)) {
    hardware.value = shared.hardware;
    hardware.dispatchEvent(new Event("change"));
  }
  const offered = await server.request<Steps>("distir/transform", about(model));
  element("known-steps").replaceChildren(...offered.steps.map(({ name, documentation }) => new Option(documentation.split("\n")[0], name)));
} catch (error) {
  say(`Python could not be started: ${error instanceof Error ? error.message : String(error)}`, true);
}
if ("serviceWorker" in navigator) await navigator.serviceWorker.register("sw.js").catch(() => undefined); // without it, it only needs the network
