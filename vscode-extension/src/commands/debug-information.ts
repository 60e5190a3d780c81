// What a maintainer has to know: versions, paths, settings, and how the server is.

import * as vscode from "vscode";

import type { Context } from "../context";
import { describe } from "../server/found";
import { candidates, probe } from "../server/interpreters";
import { surroundings } from "../server/processes";

export async function show(context: Context): Promise<void> {
  const around = await surroundings();
  const probed = await Promise.all(candidates(around).map((candidate) => probe(candidate)));
  const { state } = context.server;
  const lines = [
    "# DistIR debug information",
    "",
    `- extension: ${String((context.extension.extension.packageJSON as { version: string }).version)}`,
    `- editor: ${vscode.env.appName} ${vscode.version}, ${vscode.env.remoteName ?? "local"}, ${process.platform} ${process.arch}, Node ${process.version}`,
    `- workspace: ${around.folders.join(", ") || "none"} (${around.isTrusted ? "trusted" : "not trusted"})`,
    `- server: ${state.kind}${state.kind === "running" ? `, DistIR ${state.version}, \`${state.argv.join(" ")} -m distir_lsp\`` : ""}`,
    "",
    "## Interpreters, in the order in which they are tried",
    "",
    ...(probed.length > 0 ? probed.map((each) => `- ${describe(each)}`) : ["none"]),
    "",
    "## Settings",
    "",
    "```json",
    JSON.stringify(vscode.workspace.getConfiguration("distir"), undefined, 2),
    "```",
    "",
  ];
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "markdown", content: lines.join("\n") }));
}
