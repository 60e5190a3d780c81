// The machine that a program is simulated for: picked, or with single figures changed.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { plain } from "../figures";
import { nameOf } from "../programs";
import { type Asked, type Hardware, Refused, type WhatIf, ask } from "../requests";
import { inShort } from "./transform";

const KEEP = "Keep";
const MORE = "Change More";
const NOW = "now";
const SET: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("gear"), tooltip: "Set in the workspace's settings" };

type Item = vscode.QuickPickItem & { readonly profile?: string; readonly act?: "file" | "figures" };

export function register(context: Context): vscode.Disposable[] {
  return [
    vscode.commands.registerCommand("distir.pickHardware", aboutProgram(context, (document, server, name) => pick(document, server, name))),
    vscode.commands.registerCommand("distir.whatIf", aboutProgram(context, (document, server, changes) => whatIf(document, server, changes))),
  ];
}

async function pick(document: vscode.TextDocument, server: Asked, given: unknown): Promise<unknown> {
  const uri = document.uri.toString();
  if (typeof given === "string") return ask(server, "hardware", uri, { action: "choose", name: given });
  const { profiles, chosen } = await ask<Hardware>(server, "hardware", uri);
  const items: Item[] = profiles.map(({ name, title, devices }) => ({
    label: name,
    description: name === chosen?.name ? NOW : "",
    detail: `${title}, ${devices} devices`,
    buttons: [SET],
    profile: name,
  }));
  items.push(
    { label: "", kind: vscode.QuickPickItemKind.Separator },
    { label: "$(edit) What if single figures were different…", act: "figures" },
    { label: "$(file) The file of a profile…", act: "file" },
  );
  const item = await chosenItem(items, `Simulate ${nameOf(document.uri)} on`);
  if (item === undefined) return undefined;
  if (item.act === "figures") return whatIf(document, server, undefined);
  const name = item.act === "file" ? (await vscode.window.showOpenDialog({ title: "A hardware profile", filters: { "Hardware profiles": ["toml"] } }))?.[0]?.fsPath : item.profile;
  return name === undefined ? undefined : ask(server, "hardware", uri, { action: "choose", name });
}

/** Change figures one after another and see what that would do; the document is simulated so only when that is kept. */
async function whatIf(document: vscode.TextDocument, server: Asked, given: unknown): Promise<WhatIf | undefined> {
  const uri = document.uri.toString();
  if (typeof given === "object" && given !== null) return ask<WhatIf>(server, "hardware", uri, { action: "whatIf", changes: given });
  const { chosen } = await ask<Hardware>(server, "hardware", uri);
  const changes: Record<string, string> = {};
  for (;;) {
    const quantities = (chosen?.figures ?? []).filter(({ unit }) => unit !== "" && unit !== "devices"); // counts stay as they are
    const figures = quantities.map(({ figure, value, unit, source }) => ({
      label: figure,
      description: changes[figure] ?? `${value}${unit}`,
      detail: source,
    }));
    const figure = await vscode.window.showQuickPick(figures, { title: `What if ${chosen?.name ?? "the machine"} had another`, matchOnDetail: true });
    if (figure === undefined) return undefined;
    const quantity = await vscode.window.showInputBox({ title: figure.label, prompt: "A quantity with its unit", value: figure.description });
    if (quantity === undefined || quantity === figure.description) continue;
    let found: WhatIf;
    try {
      found = await ask<WhatIf>(server, "hardware", uri, { action: "whatIf", changes: { ...changes, [figure.label]: quantity } });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      void vscode.window.showWarningMessage(plain(error.message));
      continue;
    }
    changes[figure.label] = quantity;
    const answer = await vscode.window.showInformationMessage(plain(`${figure.label} ${quantity}: ${inShort(found.comparison)}`), KEEP, MORE);
    if (answer === MORE) continue;
    if (answer === KEEP) await ask(server, "hardware", uri, { action: "whatIf", changes, keep: true });
    return found;
  }
}

/** The item picked; the button beside an item sets it in the workspace's settings as well. */
function chosenItem(items: readonly Item[], title: string): Promise<Item | undefined> {
  const quick = vscode.window.createQuickPick<Item>();
  quick.title = title;
  quick.items = items;
  quick.matchOnDescription = quick.matchOnDetail = true;
  const now = items.find((item) => item.description === NOW);
  if (now) quick.activeItems = [now];
  return new Promise((resolve) => {
    const end = (item: Item | undefined): void => {
      resolve(item);
      quick.dispose();
    };
    quick.onDidAccept(() => end(quick.selectedItems[0]));
    quick.onDidHide(() => end(undefined));
    quick.onDidTriggerItemButton(({ item }) => {
      const target = vscode.workspace.workspaceFolders ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
      void vscode.workspace.getConfiguration("distir").update("hardware", item.profile, target);
      end(item);
    });
    quick.show();
  });
}
