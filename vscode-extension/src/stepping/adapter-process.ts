// The debug adapter as a process of the server's Python.

import * as vscode from "vscode";

import { environment } from "../server/interpreters";
import type { Adapters } from "./stepping";

export const processes: Adapters = {
  readEditor: false,
  async describe({ server }) {
    await server.ensure();
    const { state } = server;
    const [command, ...args] = state.kind === "running" ? state.argv : [];
    if (command === undefined) throw new Error("DistIR's Python was not found: see the command DistIR: Debug Information.");
    const variables = Object.fromEntries(Object.entries(environment()).filter((each): each is [string, string] => each[1] !== undefined));
    return new vscode.DebugAdapterExecutable(command, [...args, "-m", "distir_dap"], { env: variables });
  },
};
