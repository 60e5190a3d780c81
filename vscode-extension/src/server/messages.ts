// What the user reads when there is no server, and what can be done about it.

import * as vscode from "vscode";

import { OLDEST_SERVER, describe } from "./found";
import type { Server, State } from "./server";

const INSTALL = "Install Server";
const SELECT = "Select Interpreter";
const LOGS = "Show Logs";
const RESTART = "Restart Server";
const OF_BUTTON: Record<string, string> = { [INSTALL]: "distir.install", [SELECT]: "distir.selectInterpreter", [LOGS]: "distir.showLogs", [RESTART]: "distir.restart" };

/** Tell of each state that the user must know about, with buttons that do something about it. */
export function tellOfTrouble(server: Server): vscode.Disposable {
  return server.onDidChange((state) => {
    const [message, ...buttons] = messageOf(state);
    if (message === undefined) return;
    void vscode.window.showErrorMessage(message, ...buttons).then((button) => {
      if (button !== undefined) void vscode.commands.executeCommand(OF_BUTTON[button] ?? "distir.showLogs");
    });
  });
}

/** The message of a state and its buttons; none where all is well. */
export function messageOf(state: State): string[] {
  if (state.kind === "crashed") return [`${state.why} See its log.`, RESTART, LOGS];
  if (state.kind !== "missing") return [];
  const { choice } = state;
  if (choice.kind === "old") {
    const old = choice.server;
    return [`DistIR ${old.distir} (${old.candidate.argv.join(" ")}) is too old for this extension, which needs ${OLDEST_SERVER} or later.`, INSTALL, SELECT, LOGS];
  }
  const tried = choice.kind === "none" ? choice.tried : [];
  const only = tried.length === 1 ? tried[0] : undefined;
  if (only?.candidate.from.includes("distir.interpreter")) return [`DistIR cannot start: ${describe(only)}.`, INSTALL, SELECT, LOGS];
  if (tried.length === 0) {
    const trust = vscode.workspace.isTrusted ? "" : " Environments in an untrusted workspace are not used.";
    return [`DistIR needs Python 3.11 or later, and none was found.${trust}`, SELECT, LOGS];
  }
  const where = only ? `in the only Python found, \`${only.candidate.argv.join(" ")}\`` : `in any of the ${tried.length} Pythons found`;
  return [`The DistIR server is not installed ${where}.`, INSTALL, SELECT, LOGS];
}
