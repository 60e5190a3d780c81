// A program against an earlier version of itself: the file on disk, or git's HEAD. The texts in a diff, the gain above it.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { plain } from "../figures";
import { columnOf, nameOf, nameWith } from "../programs";
import { type Asked, type Comparison, Refused, ask } from "../requests";
import { inShort } from "./transform";

const TIMELINES = "Timelines";

// The part of the built-in git extension's public interface that is used here.
interface GitApi {
  getRepository(uri: vscode.Uri): { show(ref: string, path: string): Promise<string> } | null;
  openRepository?(root: vscode.Uri): Promise<unknown>;
}

export function register(context: Context): vscode.Disposable[] {
  const against = (name: string, read: (uri: vscode.Uri) => Promise<string>) =>
    aboutProgram(context, async (document, server) => compare(context, document, server, name, await read(document.uri)));
  return [
    vscode.commands.registerCommand("distir.compareWithSaved", against("saved", saved)),
    vscode.commands.registerCommand("distir.compareWithHead", against("HEAD", head)),
  ];
}

async function compare(context: Context, document: vscode.TextDocument, server: Asked, name: string, text: string): Promise<Comparison | undefined> {
  const earlier = await context.previews.open(document.uri, nameWith(document.uri, name), text);
  let found: Comparison | undefined;
  let said: string;
  try {
    found = await ask<Comparison>(server, "compare", document.uri.toString(), { other: { text } });
    said = inShort(found);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said = error.message;
  }
  await vscode.commands.executeCommand("vscode.diff", earlier.uri, document.uri, `${nameOf(document.uri)}: ${name} ↔ now, ${said}`, { viewColumn: columnOf(document.uri) });
  const buttons = found ? [TIMELINES] : [];
  void vscode.window.showInformationMessage(plain(`${nameOf(document.uri)} now, against ${name}: ${said}`), ...buttons).then((answer) => {
    if (answer === TIMELINES) void vscode.commands.executeCommand("distir.compareTimelines", document.uri, earlier.uri);
  });
  return found;
}

async function saved(uri: vscode.Uri): Promise<string> {
  if (uri.scheme === "untitled") throw new Refused("the program has not been saved");
  return new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
}

async function head(uri: vscode.Uri): Promise<string> {
  const extension = vscode.extensions.getExtension<{ readonly enabled: boolean; getAPI(version: 1): GitApi }>("vscode.git");
  const git = extension && (extension.isActive ? extension.exports : await extension.activate());
  if (!git?.enabled) throw new Refused("git is disabled in this editor, or not installed");
  const api = git.getAPI(1);
  let repository = api.getRepository(uri);
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  if (repository === null && folder !== undefined) {
    await api.openRepository?.(folder.uri); // git looks for repositories on its own, but perhaps has not come to this one
    repository = api.getRepository(uri);
  }
  if (repository === null) throw new Refused(`\`${nameOf(uri)}\` is not in a git repository`);
  try {
    return await repository.show("HEAD", uri.fsPath);
  } catch {
    throw new Refused(`git's HEAD has no \`${nameOf(uri)}\``);
  }
}
