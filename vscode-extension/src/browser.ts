// VS Code for the Web: the server is a worker in the browser. What needs a process or files of this machine says so.

import * as vscode from "vscode";

import { type Api, compose, end } from "./extension";
import { workers } from "./server/worker";
import { inline } from "./stepping/adapter-inline";
import * as stepping from "./stepping/stepping";

/** What is missing here, by command. */
const MISSING: Record<string, string> = {
  "distir.openInPerfetto": "Writing a trace",
  "distir.search": "Searching configurations",
  "distir.debugInformation": "Looking for interpreters",
  "distir.install": "Installing the server",
  "distir.selectInterpreter": "Selecting an interpreter",
};

export function activate(extension: vscode.ExtensionContext): Api {
  return compose(extension, {
    source: workers(extension),
    register: (context) => [
      ...stepping.register(context, inline),
      ...Object.entries(MISSING).map(([command, what]) =>
        vscode.commands.registerCommand(command, () => void vscode.window.showInformationMessage(`${what} needs Python on this machine: it is not offered in a browser.`)),
      ),
    ],
  });
}

export const deactivate = end;
