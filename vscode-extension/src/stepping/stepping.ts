// Stepping through simulated time: the debug adapter of the server's Python, and the command that begins.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { environment } from "../server/interpreters";

/** The `type` of launch configurations. */
const TYPE = "distir";

/** What a launch asks for; the adapter reads more, from `distir.toml`. */
interface Launch extends vscode.DebugConfiguration {
  program?: string;
  hardware?: string;
  nodes?: number;
  function?: string;
  bind?: Record<string, number | string>;
}

export function register(context: Context): vscode.Disposable[] {
  const start = aboutProgram(context, (document) => debug(document));
  return [
    vscode.commands.registerCommand("distir.debug", start),
    vscode.debug.registerDebugConfigurationProvider(TYPE, { resolveDebugConfiguration: (_, given) => resolved(given) }),
    vscode.debug.registerDebugConfigurationProvider(
      TYPE,
      { provideDebugConfigurations: offered },
      vscode.DebugConfigurationProviderTriggerKind.Dynamic,
    ),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, { createDebugAdapterDescriptor: () => adapter(context) }),
  ];
}

/** Step through a program. It is saved first: the adapter reads the file. */
async function debug(document: vscode.TextDocument): Promise<void> {
  if (document.isUntitled || document.uri.scheme !== "file") {
    void vscode.window.showInformationMessage("Save the program first: what is stepped through is a file.");
    return;
  }
  if (document.isDirty) await document.save();
  const folder = vscode.workspace.getWorkspaceFolder(document.uri);
  await vscode.debug.startDebugging(folder, { type: TYPE, request: "launch", name: "Simulated time", program: document.uri.fsPath });
}

/** What is offered without a launch configuration: the programs that are open. */
function offered(): Launch[] {
  const paths = vscode.workspace.textDocuments
    .filter(({ languageId, uri }) => languageId === "distir" && uri.scheme === "file")
    .map(({ uri }) => uri.fsPath);
  return paths.map((program) => ({ type: TYPE, request: "launch", name: `Simulated time of ${vscode.workspace.asRelativePath(program)}`, program }));
}

/** A configuration without a program is about the one in the editor; what it leaves open is as in the editor's settings. */
function resolved(given: Launch): Launch {
  const document = vscode.window.activeTextEditor?.document;
  const open = document?.languageId === "distir" ? document.uri.fsPath : undefined;
  const found: Launch = { ...given, type: TYPE, request: "launch", name: given.name || "Simulated time" };
  const program = given.program ?? open;
  if (program !== undefined) found.program = program;
  const settings = vscode.workspace.getConfiguration("distir", program === undefined ? undefined : vscode.Uri.file(program));
  const hardware = given.hardware ?? settings.get<string | null>("hardware");
  if (hardware) found.hardware = hardware;
  const nodes = given.nodes ?? (given.hardware === undefined ? settings.get<number | null>("nodes") : undefined);
  if (nodes) found.nodes = nodes;
  const entry = given.function ?? settings.get<string | null>("entry");
  if (entry) found.function = entry;
  const bind = { ...settings.get<Launch["bind"]>("bind"), ...given.bind };
  if (Object.keys(bind).length > 0) found.bind = bind;
  return found;
}

async function adapter({ server }: Context): Promise<vscode.DebugAdapterDescriptor> {
  await server.ensure();
  const { state } = server;
  const [command, ...args] = state.kind === "running" ? state.argv : [];
  if (command === undefined) throw new Error("DistIR's Python was not found: see the command DistIR: Debug Information.");
  const variables = Object.fromEntries(Object.entries(environment()).filter((each): each is [string, string] => each[1] !== undefined));
  return new vscode.DebugAdapterExecutable(command, [...args, "-m", "distir_dap"], { env: variables });
}
