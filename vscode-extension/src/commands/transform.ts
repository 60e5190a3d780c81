// Transforming a program: steps from a form, the result and its gain in a diff, written only when the user says so.

import * as vscode from "vscode";

import { type Context, aboutProgram, tell } from "../context";
import { bytes, gain, plain, seconds } from "../figures";
import { columnOf, nameOf, nameWith } from "../programs";
import { type Asked, type Comparison, Refused, type Step, type Transformed, ask } from "../requests";
import { form } from "./form";
import { fieldsOf, listed, wordsOf } from "./steps";

const REPLACE = "Replace";
const SAVE = "Save as New";
const TIMELINES = "Timelines"; // three buttons beside each other have room for no more

interface Origin {
  readonly source: vscode.Uri;
  readonly name: string;
}

/** The commands, and which program each preview was made of. */
export class Transforms implements vscode.Disposable {
  private readonly origins = new Map<string, Origin>();
  private readonly watching: vscode.Disposable[];

  constructor(private readonly context: Context) {
    this.watching = [
      vscode.commands.registerCommand("distir.transformProgram", aboutProgram(context, (document, server, words) => this.transform(document, server, words))),
      vscode.commands.registerCommand("distir.writePreview", (uri: unknown) => this.write(uri)),
      vscode.workspace.onDidCloseTextDocument((document) => this.origins.delete(document.uri.toString())),
    ];
  }

  dispose(): void {
    for (const each of this.watching) each.dispose();
  }

  private async transform(document: vscode.TextDocument, server: Asked, given: unknown): Promise<vscode.Uri | undefined> {
    if (Array.isArray(given)) return given.length === 0 ? undefined : this.preview(document, server, given.map(String));
    const key = `transform ${document.uri.toString()}`;
    const before = this.context.extension.workspaceState.get<Record<string, string>>(key, {});
    const { steps } = await ask<{ steps: Step[] }>(server, "transform", document.uri.toString());
    const fields = fieldsOf(steps).map((field) => ({ ...field, value: before[field.name] ?? field.value }));
    return form(`Transform ${nameOf(document.uri)}`, () => label(wordsOf(fields)), fields, async (values) => {
      const words = wordsOf(fields);
      if (words.length === 0) throw new Refused("choose a step below first");
      await this.context.extension.workspaceState.update(key, values); // as last time for this program
      return this.preview(document, server, words);
    }, listed);
  }

  /** Show what steps make of a program as a diff, and offer to write it. */
  private async preview(document: vscode.TextDocument, server: Asked, words: string[]): Promise<vscode.Uri> {
    const title = `Applying ${words.join(" ")}`;
    const found = await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title }, () => ask<Transformed>(server, "transform", document.uri.toString(), { steps: words }));
    const name = nameWith(document.uri, words.map((word) => word.replace("=", "")).join("."));
    const preview = await this.context.previews.open(document.uri, name, found.text);
    this.origins.set(preview.uri.toString(), { source: document.uri, name });
    const said = found.comparison ? inShort(found.comparison) : `cannot be simulated: ${found.why ?? "no reason"}`;
    const without = found.left_out.length === 0 ? "" : `; ${found.left_out.length} ${found.left_out.length === 1 ? "comment" : "comments"} on removed statements omitted`;
    await vscode.commands.executeCommand("vscode.diff", document.uri, preview.uri, `${nameOf(document.uri)} ↔ ${words.join(" ")}: ${said}`, { viewColumn: columnOf(document.uri) });
    void this.offer(preview.uri, document.uri, `${words.join(" ")}: ${said}${without}`);
    return preview.uri;
  }

  private async offer(preview: vscode.Uri, source: vscode.Uri, message: string): Promise<void> {
    const answer = await vscode.window.showInformationMessage(plain(message), REPLACE, SAVE, TIMELINES);
    if (answer === TIMELINES) await vscode.commands.executeCommand("distir.compareTimelines", source, preview);
    else if (answer !== undefined) await this.writeAs(preview, answer);
  }

  /** The button above a preview: ask how to write it. */
  private async write(uri: unknown): Promise<void> {
    const tab = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
    const shown = tab instanceof vscode.TabInputTextDiff ? tab.modified : vscode.window.activeTextEditor?.document.uri;
    const preview = [uri, shown].find((each): each is vscode.Uri => each instanceof vscode.Uri && this.origins.has(each.toString()));
    if (preview === undefined) return;
    const { source, name } = this.origins.get(preview.toString()) as Origin;
    const ways = [
      { label: REPLACE, description: `the text of ${nameOf(source)}` },
      { label: SAVE, description: source.scheme === "file" ? `${name}, beside it` : "an untitled program" },
    ];
    const answer = await vscode.window.showQuickPick(ways, { title: "Write the transformed program" });
    if (answer !== undefined) await this.writeAs(preview, answer.label);
  }

  private async writeAs(preview: vscode.Uri, how: string): Promise<void> {
    const origin = this.origins.get(preview.toString());
    const text = this.context.previews.textOf(preview);
    if (origin === undefined || text === "") return;
    try {
      await (how === REPLACE ? replace(origin.source, text) : saveBeside(origin, text));
    } catch (error) {
      tell(this.context, error);
    }
  }
}

/** What a change gains, in short: `1.94x faster, 6.20ms → 3.20ms, peak 31.2GB → 15.6GB`. */
export function inShort({ other, this: now, speedup }: Comparison): string {
  const most = (cost: typeof now): string => bytes(Math.max(0, ...Object.values(cost.peak_memory_bytes)));
  const change = (before: string, after: string): string => (before === after ? before : `${before} → ${after}`);
  return `${gain(speedup)}, ${change(seconds(other.latency_s), seconds(now.latency_s))}, peak ${change(most(other), most(now))}`;
}

function label(words: readonly string[]): string {
  return words.length > 0 ? `Preview ${words.join(" ")}` : "Preview (choose steps below)";
}

async function replace(source: vscode.Uri, text: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(source);
  const edit = new vscode.WorkspaceEdit();
  edit.replace(source, new vscode.Range(0, 0, document.lineCount, 0), text);
  if (!(await vscode.workspace.applyEdit(edit))) throw new Error(`cannot write ${nameOf(source)}`);
  await vscode.window.showTextDocument(document);
}

/** A new file beside the program, under a name that is free; for a program that is no file yet, another such. */
async function saveBeside({ source, name }: Origin, text: string): Promise<void> {
  if (source.scheme !== "file") {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "distir", content: text }));
    return;
  }
  for (let number = 1; ; number++) {
    const free = number === 1 ? name : name.replace(/\.dir$/, `.${number}.dir`);
    const target = source.with({ path: vscode.Uri.joinPath(source, "..", free).path });
    const isTaken = await vscode.workspace.fs.stat(target).then(() => true, () => false);
    if (isTaken) continue;
    await vscode.workspace.fs.writeFile(target, new TextEncoder().encode(text));
    await vscode.window.showTextDocument(target);
    return;
  }
}
