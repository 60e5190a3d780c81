// The debug adapter in the server's worker: messages of a session go there by requests, whose answers hold those that it sends.

import * as vscode from "vscode";

import type { Asked } from "../requests";
import type { Adapters } from "./stepping";

type Message = vscode.DebugProtocolMessage & { command?: string; seq?: number };

export const inline: Adapters = {
  readEditor: true,
  async describe({ server }, { id }) {
    await server.ensure();
    const { running } = server;
    if (running === undefined) throw new Error("The DistIR server is not running.");
    return new vscode.DebugAdapterInlineImplementation(new Inline(running, id));
  },
};

class Inline implements vscode.DebugAdapter {
  private readonly sent = new vscode.EventEmitter<vscode.DebugProtocolMessage>();
  readonly onDidSendMessage = this.sent.event;

  constructor(
    private readonly server: Asked,
    private readonly session: string,
  ) {}

  handleMessage(message: Message): void {
    this.server.sendRequest("distir/stepping", { session: this.session, message }).then(
      (answer) => (answer as { messages: Message[] }).messages.forEach((each) => this.sent.fire(each)),
      (error: Error) => this.sent.fire({ type: "response", request_seq: message.seq, command: message.command, success: false, message: error.message } as Message),
    );
  }

  dispose(): void {
    this.sent.dispose();
  }
}
