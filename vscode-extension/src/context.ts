// What commands and views need of each other: the server, the programs, and how to tell the user what was refused.

import * as vscode from "vscode";

import { plain } from "./figures";
import type { Previews, Programs } from "./programs";
import { type Asked, Refused } from "./requests";
import type { Server } from "./server/server";

export interface Context {
  readonly extension: vscode.ExtensionContext;
  readonly server: Server;
  readonly programs: Programs;
  readonly previews: Previews;
  readonly log: vscode.LogOutputChannel;
}

/**
 * A command about a program that needs the server. What the server refuses is shown as a message, what fails otherwise
 * is logged as well; nothing is thrown at the editor.
 */
export function aboutProgram(
  context: Context,
  run: (document: vscode.TextDocument, server: Asked, ...rest: unknown[]) => Promise<unknown>,
): (given?: unknown, ...rest: unknown[]) => Promise<unknown> {
  return async (given, ...rest) => {
    try {
      const document = await context.programs.about(given);
      if (document === undefined) return undefined;
      const server = await running(context);
      return server && (await run(document, server, ...rest));
    } catch (error) {
      tell(context, error);
      return undefined;
    }
  };
}

/** Show why something was not done. */
export function tell(context: Context, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof Refused)) context.log.error(error instanceof Error ? error : message);
  void vscode.window.showWarningMessage(plain(sentence(message)));
}

/** The server, which may be starting. Where there is none, its own message has said why. */
async function running(context: Context): Promise<Asked | undefined> {
  await context.server.ensure();
  if (context.server.state.kind === "starting") {
    await new Promise<void>((resolve) => {
      const listening = context.server.onDidChange(({ kind }) => {
        if (kind !== "starting") {
          listening.dispose();
          resolve();
        }
      });
    });
  }
  return context.server.running;
}

function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
