// What would make a program faster or smaller: a list, best first, of which one is applied as an edit that undo undoes.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { bytes, plain, seconds } from "../figures";
import { nameOf } from "../programs";
import { type Advice, type AdviceList, type Asked, ask } from "../requests";

export function register(context: Context): vscode.Disposable[] {
  return [vscode.commands.registerCommand("distir.showAdvice", aboutProgram(context, show))];
}

async function show(document: vscode.TextDocument, server: Asked): Promise<void> {
  const name = nameOf(document.uri);
  const found = await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: `Advice for ${name}` }, () => ask<AdviceList>(server, "advice", document.uri.toString()));
  if (found.advice.length === 0) {
    void vscode.window.showInformationMessage(plain(`Nothing that was tried makes ${name} faster or smaller.`));
    return;
  }
  const before = found.program;
  const [same, more] = [found.advice.filter(({ devices }) => devices <= before.devices), found.advice.filter(({ devices }) => devices > before.devices)];
  const untried = found.untried.length === 0 ? "" : `, no time for ${found.untried.length} more`;
  const items = [...group("on the same devices", same), ...group("on more devices", more)];
  const chosen = await vscode.window.showQuickPick(items, {
    title: `${name}: ${seconds(before.latency_s)}, peak ${bytes(before.peak_memory_bytes)}, on ${before.devices} devices${untried}`,
    placeHolder: "Apply which advice? Undo takes it back.",
    matchOnDescription: true,
  });
  const number = chosen?.advice?.number;
  if (number !== undefined) await vscode.commands.executeCommand("distir.applyAdvice", document.uri.toString(), number);
}

interface AdviceItem extends vscode.QuickPickItem {
  readonly advice?: Advice;
}

function group(label: string, advice: readonly Advice[]): AdviceItem[] {
  if (advice.length === 0) return [];
  return [{ label, kind: vscode.QuickPickItemKind.Separator }, ...advice.map(item)];
}

function item(advice: Advice): AdviceItem {
  const gain = advice.speedup === null ? "" : `${advice.speedup.toPrecision(3)}×  `;
  const memory = advice.saved_bytes === 0 ? "" : `, peak ${advice.saved_bytes > 0 ? "-" : "+"}${bytes(Math.abs(advice.saved_bytes))}`;
  const where = advice.kind === "step" ? "" : `, line ${advice.range.start.line + 1}`;
  const description = `${seconds(advice.latency_s)}${memory}, ${advice.devices} ${advice.devices === 1 ? "device" : "devices"}${advice.fit === "fits" ? "" : `, ${advice.fit}`}`;
  return { label: `${gain}${plain(advice.title)}`, description, detail: `${advice.results}${where}`, advice };
}
