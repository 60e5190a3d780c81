// The extension: what is offered, and who listens to whom. The work is done in the modules that this one puts together.
// What differs between a desktop and a browser is added by their entry points, desktop.ts and browser.ts.

import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient";

import * as advice from "./commands/advice";
import * as calls from "./commands/calls";
import * as compare from "./commands/compare";
import * as goTo from "./commands/go-to";
import * as hardware from "./commands/hardware";
import * as share from "./commands/share";
import { Transforms } from "./commands/transform";
import type { Context } from "./context";
import { PREVIEW, Previews, Programs } from "./programs";
import { tellOfTrouble } from "./server/messages";
import { Server, type Source } from "./server/server";
import { LanguageStatus } from "./status";
import { CopiesView } from "./views/copies";
import { DiffTimesView } from "./views/diff-times";
import { LineTimesView } from "./views/line-times";
import { PlacementsView } from "./views/placements";
import { RANK, RankView } from "./views/rank";
import { Timelines } from "./views/timeline";
import { WhyView } from "./views/why";

/** What tests, and other extensions, may ask: the server's state, and when it changes. */
export interface Api {
  readonly server: Pick<Server, "state" | "onDidChange" | "running">;
  readonly status: Pick<LanguageStatus, "onDidHear">;
  readonly activationMs: number;
}

/** Where the extension runs: where its servers come from, and what only it has. */
export interface Host {
  readonly source: Source;
  register(context: Context): vscode.Disposable[];
}

/** Commands of the server behind lenses, and which of ours take their place. */
const INSTEAD: Record<string, string> = {
  "distir.timeline": "distir.openTimeline",
  "distir.compare": "distir.compareWithSaved",
  "distir.hardware": "distir.pickHardware",
  "distir.showCalls": "distir.pickCall",
  "distir.advice": "distir.showAdvice",
};

let server: Server | undefined;

/** Put everything together, and start the server. */
export function compose(extension: vscode.ExtensionContext, host: Host): Api {
  const begun = performance.now();
  const log = vscode.window.createOutputChannel("DistIR", { log: true });
  let status: LanguageStatus | undefined;
  const made = (server = new Server(host.source, extension.globalState, log, middleware(() => status?.refresh())));
  const programs = new Programs();
  status = new LanguageStatus(made, () => programs.shown);
  const context: Context = { extension, server: made, programs, previews: new Previews(() => made.running), log };
  const timelines = new Timelines(context);
  const ranks = new RankView(context);
  const lines = new LineTimesView(made);
  const diffs = new DiffTimesView(made);
  const why = new WhyView(context);
  const placements = new PlacementsView(made, vscode.Uri.joinPath(extension.extensionUri, "dist", "media"));
  extension.subscriptions.push(
    log,
    made,
    status,
    programs,
    context.previews,
    timelines,
    ranks,
    lines,
    diffs,
    why,
    placements,
    new CopiesView(context),
    new Transforms(context),
    tellOfTrouble(made),
    vscode.workspace.registerTextDocumentContentProvider(PREVIEW, context.previews),
    ...[advice, calls, compare, goTo, hardware, share, host].flatMap((each) => each.register(context)),
    vscode.commands.registerCommand("distir.restart", () => made.restart()),
    vscode.commands.registerCommand("distir.showLogs", () => log.show()),
    vscode.commands.registerCommand("distir.showServerLogs", () => made.showOutput()),
    vscode.commands.registerCommand("distir.openExample", () => openExample(extension.extensionUri)),
    vscode.commands.registerCommand("distir.simulateNow", async () => {
      const document = await context.programs.about();
      if (document) await vscode.commands.executeCommand("distir.simulate", document.uri.toString());
    }),
    status.onDidHear(({ uri, status: heard }) => {
      timelines.refresh(uri, heard);
      placements.refresh(uri);
      why.refresh();
      if (heard.state !== "simulated") return;
      ranks.refresh(uri);
      lines.refresh(uri);
      diffs.refresh();
    }),
    ...tickWalkthrough(made),
  );
  void made.restart();
  return { server: made, status, activationMs: performance.now() - begun };
}

/** Stop the server. */
export function end(): Promise<void> | undefined {
  return server?.stop();
}

/** What comes between the server and the editor: commands that we do better, and a hint when to ask how things stand. */
function middleware(refreshed: () => void): Middleware {
  return {
    executeCommand: (command, args, next) => {
      const ours = INSTEAD[command];
      return ours === undefined ? next(command, args) : vscode.commands.executeCommand(ours, ...(args as unknown[]));
    },
    // The server asks for these anew when a simulation is done.
    provideInlayHints: (document, range, token, next) => {
      refreshed();
      return next(document, range, token);
    },
    provideCodeLenses: (document, token, next) => {
      refreshed();
      return document.uri.scheme === RANK || document.uri.scheme === PREVIEW ? [] : next(document, token);
    },
    // A rank's program is a part of one: what it lacks is no mistake of the user's.
    provideDiagnostics: (document, previous, token, next) => {
      const uri = document instanceof vscode.Uri ? document : document.uri;
      return uri.scheme === RANK ? undefined : next(document, previous, token);
    },
  };
}

/**
 * Tick the walkthrough's first step where the server runs. The editor passes over a context that is set already when it
 * first opens the walkthrough, so it is set for a moment only: when the server has started, and when a tab is opened.
 */
function tickWalkthrough(made: Server): vscode.Disposable[] {
  const set = (value: boolean): Thenable<unknown> => vscode.commands.executeCommand("setContext", "distir.running", value);
  const tick = (): void => {
    if (made.state.kind === "running") void set(true).then(() => set(false));
  };
  return [made.onDidChange(tick), vscode.window.tabGroups.onDidChangeTabs(({ opened }) => opened.length > 0 && tick())];
}

async function openExample(extension: vscode.Uri): Promise<void> {
  const text = await vscode.workspace.fs.readFile(vscode.Uri.joinPath(extension, "dist", "example.dir"));
  const document = await vscode.workspace.openTextDocument({ language: "distir", content: new TextDecoder().decode(text) });
  await vscode.window.showTextDocument(document);
}
