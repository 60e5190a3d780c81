// The language status: the program's latency and hardware, and how the server is.

import * as vscode from "vscode";

import { Refused, type Status, ask } from "./requests";
import type { Server } from "./server/server";
import { inBar, standing } from "./standing";

const SELECTOR: vscode.DocumentSelector = [{ language: "distir" }];
const AGAIN_MS = 300;
const RETRY_MS = 1000;

/** Two items in the language status: what the program takes, and the server. */
export class LanguageStatus implements vscode.Disposable {
  private readonly program = vscode.languages.createLanguageStatusItem("distir.program", SELECTOR);
  private readonly process = vscode.languages.createLanguageStatusItem("distir.server", SELECTOR);
  private readonly bar = vscode.window.createStatusBarItem("distir.figures", vscode.StatusBarAlignment.Right, 100);
  private readonly watching: vscode.Disposable[];
  private readonly said = new vscode.EventEmitter<{ uri: vscode.Uri; status: Status }>();
  private readonly last = new Map<string, string>();
  private timer: NodeJS.Timeout | undefined;

  /** Told what the server says of the document in the active editor, whenever that is something new. */
  readonly onDidHear = this.said.event;

  /** `shown`: the program in the active editor, or of the view that has the keyboard. */
  constructor(
    private readonly server: Server,
    private readonly shown: () => vscode.TextDocument | undefined,
  ) {
    this.program.name = "DistIR program";
    this.process.name = "DistIR server";
    this.bar.name = "DistIR latency and memory";
    this.bar.command = "distir.pickHardware";
    this.watching = [
      server.onDidChange(() => {
        this.last.clear();
        this.refresh();
      }),
      vscode.workspace.onDidCloseTextDocument((document) => this.last.delete(document.uri.toString())),
      vscode.window.onDidChangeActiveTextEditor(() => this.refresh()),
      vscode.workspace.onDidChangeTextDocument(({ document }) => document.languageId === "distir" && this.refresh()),
    ];
    this.refresh();
  }

  /** Ask again soon; many calls are one. */
  refresh(afterMs = 50): void {
    this.showServer();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), afterMs);
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const each of [this.program, this.process, this.bar, this.said, ...this.watching]) each.dispose();
  }

  private async ask(): Promise<void> {
    const document = this.shown();
    const client = this.server.running;
    if (document?.languageId !== "distir" || client === undefined) {
      this.bar.hide();
      this.program.text = "DistIR";
      this.program.detail = "";
      this.program.busy = this.server.state.kind === "starting";
      return;
    }
    try {
      const status = await ask<Status>(client, "status", document.uri.toString());
      this.show(status);
      const [uri, said] = [document.uri.toString(), JSON.stringify(status)];
      if (this.last.get(uri) !== said) this.said.fire({ uri: document.uri, status });
      this.last.set(uri, said);
      if (isUnderWay(status)) this.refresh(AGAIN_MS);
    } catch (error) {
      this.program.busy = false;
      if (error instanceof Refused) this.showRefusal(error.message);
      else this.refresh(RETRY_MS); // the server was interrupted by an edit, or is about to be started again
    }
  }

  private show(status: Status): void {
    const item = this.program;
    item.busy = isUnderWay(status);
    const { text, detail } = standing(status);
    item.text = text;
    item.detail = detail;
    this.bar.text = inBar(status);
    this.bar.tooltip = detail;
    this.bar.show();
    item.severity = status.errors > 0 ? vscode.LanguageStatusSeverity.Warning : vscode.LanguageStatusSeverity.Information;
    item.command = { command: "distir.pickHardware", title: "Pick Hardware" };
    if (status.state === "on_demand") item.command = { command: "distir.simulateNow", title: "Simulate" };
  }

  /** Why nothing is known: a text that is too long to be checked, for instance. */
  private showRefusal(why: string): void {
    this.bar.hide();
    this.program.text = "not simulated";
    this.program.detail = why;
    this.program.severity = vscode.LanguageStatusSeverity.Warning;
    this.program.command = undefined;
  }

  private showServer(): void {
    const item = this.process;
    const state = this.server.state;
    const isWrong = state.kind === "missing" || state.kind === "crashed";
    item.busy = state.kind === "starting";
    item.severity = isWrong ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
    item.text = state.kind === "running" ? `DistIR ${state.version}` : { starting: "Server starts", stopped: "Server stopped", missing: "No server", crashed: "Server crashed" }[state.kind];
    item.detail = state.kind === "running" ? state.argv.join(" ") : "";
    item.command =
      state.kind === "missing" ? { command: "distir.install", title: "Install Server" } : { command: isWrong ? "distir.restart" : "distir.showLogs", title: isWrong ? "Restart" : "Show Logs" };
  }
}

/** Whether a simulation is to be expected soon. Of one on demand we hear when it is done. */
function isUnderWay({ state }: Status): boolean {
  return state === "pending" || state === "stale";
}
