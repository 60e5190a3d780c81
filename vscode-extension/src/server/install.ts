// Installing the server, and choosing the interpreter that runs it.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

import * as vscode from "vscode";

import { type Candidate, OLDEST_PYTHON, describe, isOlder } from "./found";
import { candidates, environment, inEnvironment, probe } from "./interpreters";
import { surroundings } from "./processes";
import type { Server } from "./server";

/** What is installed: the package with what the server needs. */
export const PACKAGE = "distir[lsp]";

interface Place extends vscode.QuickPickItem {
  readonly commands: readonly (readonly string[])[];
}

/** Ask where to install the server, install it there with progress, and start it. */
export async function install(server: Server): Promise<void> {
  const offered = await places();
  if (offered.length === 0) {
    void vscode.window.showErrorMessage(`No Python ${OLDEST_PYTHON} or later was found. Install one, then try again.`);
    return;
  }
  const picked = await vscode.window.showQuickPick(offered, { title: `Install ${PACKAGE}`, placeHolder: "Where?" });
  if (picked === undefined) return;
  try {
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title: `Installing ${PACKAGE}`, cancellable: true }, async (_, token) => {
      for (const command of picked.commands) await run(command, server.log, token);
    });
  } catch (error) {
    const answer = await vscode.window.showErrorMessage(`Installing failed: ${error instanceof Error ? error.message : String(error)}`, "Show Logs");
    if (answer !== undefined) server.log.show();
    return;
  }
  await server.restart();
}

/** Ask for the Python that runs the server, and keep it in the settings. */
export async function selectInterpreter(server: Server): Promise<void> {
  const around = await surroundings();
  const found = candidates({ ...around, setting: [] });
  const browse: vscode.QuickPickItem = { label: "$(folder-opened) Browse…" };
  const probed = await Promise.all(found.map((candidate) => probe(candidate)));
  const items = probed.map((p) => ({ label: p.candidate.argv.join(" "), description: p.distir ? `DistIR ${p.distir}` : "without DistIR", detail: p.candidate.from }));
  const picked = await vscode.window.showQuickPick([...items, browse], { title: "The Python that runs the DistIR server" });
  if (picked === undefined) return;
  const path = picked === browse ? (await vscode.window.showOpenDialog({ title: "A Python" }))?.[0]?.fsPath : picked.label;
  if (path === undefined) return;
  const target = around.folders.length > 0 && around.isTrusted ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  await vscode.workspace.getConfiguration("distir").update("interpreter", [path], target);
  await server.restart();
}

/** Where it can be installed: environments there are, and a new one in the workspace. */
async function places(): Promise<Place[]> {
  const around = await surroundings();
  const found: Place[] = [];
  const usable: Candidate[] = [];
  for (const candidate of candidates(around)) {
    const probed = await probe(candidate);
    if (probed.python !== undefined && !isOlder(probed.python, OLDEST_PYTHON)) {
      usable.push(candidate);
      found.push({ label: candidate.argv.join(" "), detail: describe(probed), commands: [pip(candidate.argv)] });
    }
  }
  const folder = around.folders[0];
  const base = usable.find((candidate) => candidate.from === "PATH") ?? usable[0];
  if (folder !== undefined && around.isTrusted && base !== undefined && !existsSync(join(folder, ".venv"))) {
    const venv = join(folder, ".venv");
    const made = [...base.argv, "-m", "venv", venv];
    found.unshift({ label: "$(new-folder) A new .venv in the workspace", detail: `made with ${base.argv.join(" ")}`, commands: [made, pip([inEnvironment(venv, around.platform)])] });
  }
  return found;
}

function pip(python: readonly string[]): readonly string[] {
  return [...python, "-m", "pip", "install", "--upgrade", "--disable-pip-version-check", PACKAGE];
}

function run(command: readonly string[], log: vscode.LogOutputChannel, token: vscode.CancellationToken): Promise<void> {
  const [program, ...args] = command;
  log.info(`running: ${command.join(" ")}`);
  return new Promise((resolve, reject) => {
    const child = execFile(program ?? "", args, { env: environment(), maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      log.info(stdout.trim());
      if (stderr.trim()) log.warn(stderr.trim());
      if (token.isCancellationRequested) reject(new Error("cancelled"));
      else if (error) reject(new Error(stderr.trim().split("\n").at(-1) ?? error.message));
      else resolve();
    });
    token.onCancellationRequested(() => child.kill());
  });
}
