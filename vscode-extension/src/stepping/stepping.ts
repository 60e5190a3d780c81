// Stepping through simulated time: the command that begins, and launch configurations. Where debug adapters come from is
// the business of who registers: adapter-process.ts, or adapter-inline.ts in a browser.

import * as vscode from "vscode";

import { type Context, aboutProgram } from "../context";
import { WRITTEN } from "../programs";

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

/** Where debug adapters come from. */
export interface Adapters {
  /** Whether they step through what is in the editor; else through a file, which is saved first. */
  readonly readEditor: boolean;
  describe(context: Context, session: vscode.DebugSession): Promise<vscode.DebugAdapterDescriptor>;
}

export function register(context: Context, adapters: Adapters): vscode.Disposable[] {
  const start = aboutProgram(context, (document) => debug(document, adapters));
  return [
    vscode.commands.registerCommand("distir.debug", start),
    vscode.debug.registerDebugConfigurationProvider(TYPE, { resolveDebugConfiguration: (_, given) => resolved(given, adapters) }),
    vscode.debug.registerDebugConfigurationProvider(
      TYPE,
      { provideDebugConfigurations: () => offered(adapters) },
      vscode.DebugConfigurationProviderTriggerKind.Dynamic,
    ),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, { createDebugAdapterDescriptor: (session) => adapters.describe(context, session) }),
  ];
}

async function debug(document: vscode.TextDocument, adapters: Adapters): Promise<void> {
  const program = nameOf(document, adapters);
  if (program === undefined) {
    void vscode.window.showInformationMessage("Save the program first: what is stepped through is a file.");
    return;
  }
  if (document.isDirty && !adapters.readEditor) await document.save();
  const folder = vscode.workspace.getWorkspaceFolder(document.uri);
  await vscode.debug.startDebugging(folder, { type: TYPE, request: "launch", name: "Simulated time", program });
}

/** What a launch calls a program: a file's path, or any document's address. Undefined for one that cannot be read. */
function nameOf({ languageId, uri }: vscode.TextDocument, { readEditor }: Adapters): string | undefined {
  if (languageId !== "distir") return undefined;
  if (readEditor) return WRITTEN.includes(uri.scheme) ? uri.toString() : undefined;
  return uri.scheme === "file" ? uri.fsPath : undefined;
}

/** What is offered without a launch configuration: the programs that are open. */
function offered(adapters: Adapters): Launch[] {
  return vscode.workspace.textDocuments.flatMap((document) => {
    const program = nameOf(document, adapters);
    return program === undefined ? [] : [{ type: TYPE, request: "launch", name: `Simulated time of ${vscode.workspace.asRelativePath(document.uri)}`, program }];
  });
}

/** A configuration without a program is about the one in the editor; what it leaves open is as in the editor's settings. */
function resolved(given: Launch, adapters: Adapters): Launch {
  const document = vscode.window.activeTextEditor?.document;
  const found: Launch = { ...given, type: TYPE, request: "launch", name: given.name || "Simulated time" };
  const program = given.program ?? (document && nameOf(document, adapters));
  if (program !== undefined) found.program = program;
  const settings = vscode.workspace.getConfiguration("distir", program === undefined ? undefined : adapters.readEditor ? vscode.Uri.parse(program) : vscode.Uri.file(program));
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
