// Searching configurations: `distir search` in the background, with progress; what it finds goes to the search view.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { nameOf } from "../programs";
import { type Asked, type Hardware, Refused, ask } from "../requests";
import { environment } from "../server/interpreters";
import { type Found, showSearch } from "../views/search";
import { form } from "./form";
import { options, wordsOf } from "./options";

const LOOK_MS = 500;
const MAIN = "import sys; from distir.cli import main; sys.exit(main())";

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.search", aboutProgram(context, (document, server, given) => search(context, document, server, given)))];
}

async function search(context: Context, document: vscode.TextDocument, server: Asked, given: unknown): Promise<Found | undefined> {
  const key = `search ${document.uri.toString()}`;
  const { chosen, profiles } = await ask<Hardware>(server, "hardware", document.uri.toString());
  const devices = profiles.find((profile) => profile.name === chosen?.name)?.devices ?? 8;
  const fields = options(devices, context.extension.workspaceState.get(key, {}));
  const asked = isValues(given) ? given : await form(`Search configurations of ${nameOf(document.uri)}`, () => `Search on ${chosen?.name ?? "the default hardware"}`, fields);
  if (asked === undefined) return undefined;
  await context.extension.workspaceState.update(key, asked);
  const folder = await mkdtemp(join(tmpdir(), "distir-search-"));
  try {
    const program = await fileOf(document, folder);
    const hardware = chosen ? ["--hardware", chosen.name] : [];
    const found = await run(context, [program, "--json", ...hardware, ...wordsOf(asked)], folder, nameOf(document.uri));
    if (found !== undefined) showSearch(context, document.uri, found);
    return found;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
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

/** Run it, with the number of rows found so far as progress. Undefined where the user cancels. */
async function run(context: Context, words: readonly string[], folder: string, name: string): Promise<Found | undefined> {
  const { state } = context.server;
  if (state.kind !== "running") throw new Refused("the server does not run");
  const [python, ...first] = state.argv;
  const csv = join(folder, "rows.csv");
  const args = [...first, "-c", MAIN, "search", ...words, "--csv", csv];
  context.log.info(`running: ${[python, ...args].join(" ")}`);
  const progress = { location: vscode.ProgressLocation.Notification, title: `Searching configurations of ${name}`, cancellable: true };
  return vscode.window.withProgress(progress, async (report, token) => {
    const child = spawn(python ?? "", args, { env: environment(), cwd: dirname(words[0] ?? folder), stdio: ["ignore", "pipe", "pipe"], windowsHide: true });
    const said = { out: "", err: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said.out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said.err += text));
    token.onCancellationRequested(() => child.kill());
    const looking = setInterval(() => void rowsIn(csv).then((count) => report.report({ message: `${count} found` })), LOOK_MS);
    const code = await new Promise<number | null>((resolve, reject) => child.on("close", resolve).on("error", reject)).finally(() => clearInterval(looking));
    if (token.isCancellationRequested) return undefined;
    if (code !== 0) throw new Refused(said.err.trim().replace(/^error:\s*/, "") || `the search ended with code ${code}`);
    return JSON.parse(said.out) as Found;
  });
}

async function rowsIn(csv: string): Promise<number> {
  const text = await readFile(csv, "utf8").catch(() => "");
  return Math.max(0, text.split("\n").length - 2);
}

function isValues(given: unknown): given is Record<string, string> {
  return typeof given === "object" && given !== null && Object.values(given).every((value) => typeof value === "string");
}
