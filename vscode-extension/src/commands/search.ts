// Searching configurations: `distir search` in the background, with progress; what it finds goes to the search view.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { nameOf } from "../programs";
import { type Asked, type Hardware, Refused, type Step, ask } from "../requests";
import { environment } from "../server/interpreters";
import { type Found, showSearch } from "../views/search";
import { form } from "./form";
import { inWords, options, progressIn, wordsOf } from "./options";

const MAIN = "import sys; from distir.cli import main; sys.exit(main())";

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.search", aboutProgram(context, (document, server, given) => search(context, document, server, given)))];
}

async function search(context: Context, document: vscode.TextDocument, server: Asked, given: unknown): Promise<Found | undefined> {
  const key = `search ${document.uri.toString()}`;
  const { chosen, profiles } = await ask<Hardware>(server, "hardware", document.uri.toString());
  const devices = profiles.find((profile) => profile.name === chosen?.name)?.devices ?? 8;
  const { steps } = await ask<{ steps: Step[] }>(server, "transform", document.uri.toString());
  const schedules = steps.find((step) => step.name === "pp")?.options.find((option) => option.name === "schedule")?.choices ?? [];
  const fields = options(devices, schedules, context.extension.workspaceState.get(key, {}));
  const searchFor = async (asked: Record<string, string>): Promise<Found | undefined> => {
    await context.extension.workspaceState.update(key, asked);
    const folder = await mkdtemp(join(tmpdir(), "distir-search-"));
    try {
      const program = await fileOf(document, folder);
      const hardware = chosen ? ["--hardware", chosen.name] : [];
      const found = await run(context, [program, "--json", "--progress", "json", ...hardware, ...wordsOf(asked)], nameOf(document.uri));
      if (found !== undefined) await showSearch(context, document.uri, found);
      return found;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  if (isValues(given)) return searchFor(given);
  return form(`Search configurations of ${nameOf(document.uri)}`, () => `Search on ${chosen?.name ?? "the default hardware"}`, fields, searchFor);
}

/** The program as a file that is like what is in the editor: its own, saved first; a program that is no file, a copy. */
async function fileOf(document: vscode.TextDocument, folder: string): Promise<string> {
  if (document.uri.scheme !== "file") {
    const copy = join(folder, "program.dir");
    await writeFile(copy, document.getText());
    return copy;
  }
  if (document.isDirty && !(await document.save())) throw new Refused("the program could not be saved");
  return document.uri.fsPath;
}

/** Run it, with progress: how many configurations are tried, and the best so far. Undefined where the user cancels. */
async function run(context: Context, words: readonly string[], name: string): Promise<Found | undefined> {
  const { state } = context.server;
  if (state.kind !== "running") throw new Refused("the server is not running");
  const [python, ...first] = state.argv;
  const args = [...first, "-c", MAIN, "search", ...words];
  context.log.info(`running: ${[python, ...args].join(" ")}`);
  const progress = { location: vscode.ProgressLocation.Notification, title: `Searching configurations of ${name}`, cancellable: true };
  return vscode.window.withProgress(progress, async (report, token) => {
    const child = spawn(python ?? "", args, { env: environment(), cwd: dirname(words[0] ?? ""), stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    const said = { out: "", err: "" };
    let share = 0;
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said.out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said.err += text;
      const { latest } = progressIn(said.err);
      if (latest === undefined) return;
      const now = Math.min(100, (100 * latest.done) / latest.of);
      report.report({ message: inWords(latest), increment: now - share });
      share = now;
      context.log.debug(`searching: ${inWords(latest)}`);
    });
    token.onCancellationRequested(() => child.kill());
    const code = await new Promise<number | null>((resolve, reject) => child.on("close", resolve).on("error", reject));
    if (token.isCancellationRequested) return undefined;
    // Where no configuration can be, it ends with an error, and has said of each why.
    if (said.out.startsWith("{")) return JSON.parse(said.out) as Found;
    throw new Refused(progressIn(said.err).rest.replace(/^error:\s*/, "") || `the search ended with code ${code}`);
  });
}

function isValues(given: unknown): given is Record<string, string> {
  return typeof given === "object" && given !== null && Object.values(given).every((value) => typeof value === "string");
}
