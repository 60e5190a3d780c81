// Where there are processes: the server is one of a Python on this machine, and what needs Python beside it is offered.

import * as vscode from "vscode";

import * as debugInformation from "./commands/debug-information";
import * as perfetto from "./commands/perfetto";
import * as search from "./commands/search";
import { type Api, compose, end } from "./extension";
import { install, selectInterpreter } from "./server/install";
import { processes } from "./server/processes";
import { pythonExtension } from "./server/python-extension";
import type { Server } from "./server/server";
import { processes as adapters } from "./stepping/adapter-process";
import * as stepping from "./stepping/stepping";

export function activate(extension: vscode.ExtensionContext): Api {
  return compose(extension, {
    source: processes,
    register: (context) => [
      ...[perfetto, search].flatMap((each) => each.register(context)),
      ...stepping.register(context, adapters),
      vscode.commands.registerCommand("distir.debugInformation", () => debugInformation.show(context)),
      vscode.commands.registerCommand("distir.install", () => install(context.server)),
      vscode.commands.registerCommand("distir.selectInterpreter", () => selectInterpreter(context.server)),
      ...restartsOn(context.server),
    ],
  });
}

export const deactivate = end;

/** Start the server again when what it depends on has changed. */
function restartsOn(made: Server): vscode.Disposable[] {
  const python = pythonExtension.onDidChange(() => void made.restart());
  return [
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("distir.interpreter") && void made.restart()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void made.restart()),
    { dispose: () => void python.then((listening) => listening?.dispose()) },
  ];
}
