// The server's life: found, started, watched, restarted, given up. One language client at a time.

import * as vscode from "vscode";
import { type BaseLanguageClient, CloseAction, ErrorAction, RevealOutputChannelOn, State as ClientState, type LanguageClientOptions, type Middleware } from "vscode-languageclient";

import { WRITTEN } from "../programs";
import { Crashes } from "./crashes";
import { type Choice, OLDEST_SERVER, type Probed, describe, isOlder } from "./found";
import { Single } from "./queue";

/** Where servers come from: processes on this machine, or workers in a browser. */
export interface Source {
  /** What to run, the first that has a server, or why there is none; `known`: what is remembered to have one. */
  choose(isKnown: (argv: readonly string[]) => boolean): Promise<Choice>;
  /** How it is run, for the log. */
  inWords(argv: readonly string[]): string;
  /** A client of a server that is run by `argv`; it is started by the caller. */
  client(argv: readonly string[], options: LanguageClientOptions): Promise<BaseLanguageClient>;
}

export type State =
  | { readonly kind: "starting" }
  | { readonly kind: "running"; readonly version: string; readonly argv: readonly string[] }
  | { readonly kind: "stopped" }
  | { readonly kind: "missing"; readonly choice: Choice }
  | { readonly kind: "crashed"; readonly why: string };

/** Schemes of documents that the server is notified of; the last two are this extension's own, and read-only. */
export const SCHEMES = [...WRITTEN, "distir-preview", "distir-rank"];

export class Server implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<State>();
  private readonly crashes = new Crashes();
  private readonly single = new Single();
  private readonly output: vscode.LogOutputChannel;
  private client: BaseLanguageClient | undefined;
  private latest: State = { kind: "stopped" };

  /** Told whenever the state has changed. */
  readonly onDidChange = this.changed.event;

  constructor(
    private readonly source: Source,
    private readonly memory: vscode.Memento,
    readonly log: vscode.LogOutputChannel,
    private readonly middleware: Middleware,
  ) {
    this.output = vscode.window.createOutputChannel("DistIR Server", { log: true });
  }

  get state(): State {
    return this.latest;
  }

  /** The client, when the server runs. */
  get running(): BaseLanguageClient | undefined {
    return this.latest.kind === "running" ? this.client : undefined;
  }

  /** Start, or stop and start again. Asked for while that is under way, it happens once more. */
  restart(): Promise<void> {
    this.crashes.forget();
    return this.single.run(() => this.startAnew());
  }

  /** Start with what is found now, unless it runs already. */
  ensure(): Promise<void> {
    return this.latest.kind === "running" || this.latest.kind === "starting" ? Promise.resolve() : this.restart();
  }

  async stop(): Promise<void> {
    await this.single.run(() => this.stopped());
    this.become({ kind: "stopped" });
  }

  showOutput(): void {
    this.output.show();
  }

  dispose(): void {
    this.changed.dispose();
    this.output.dispose();
  }

  private async startAnew(): Promise<void> {
    await this.stopped();
    this.become({ kind: "starting" });
    const found = await this.found();
    if (found === undefined) return;
    await this.start(found.argv, found.isKnown);
  }

  /** The command that runs the server; one that did before is not probed again. */
  private async found(): Promise<{ argv: readonly string[]; isKnown: boolean } | undefined> {
    const choice = await this.source.choose((argv) => this.memory.get<string>(remembered(argv)) !== undefined);
    if (choice.kind === "found") {
      const argv = choice.server.candidate.argv;
      if (choice.server.distir === undefined) return { argv, isKnown: true };
      this.log.info(`the server is in ${describe(choice.server)}`);
      await this.memory.update(remembered(argv), choice.server.distir);
      return { argv, isKnown: false };
    }
    const tried: readonly Probed[] = choice.kind === "none" ? choice.tried : [choice.server];
    for (const probed of tried) this.log.warn(`no server in ${describe(probed)}`);
    this.become({ kind: "missing", choice });
    return undefined;
  }

  private async start(argv: readonly string[], isKnown: boolean): Promise<void> {
    this.log.info(`starting: ${this.source.inWords(argv)}`);
    const begun = performance.now();
    let client: BaseLanguageClient | undefined;
    try {
      client = this.client = await this.source.client(argv, this.options(() => client));
      await client.start();
    } catch (error) {
      this.client = undefined;
      return this.failed(error, argv, isKnown);
    }
    if (client.state !== ClientState.Running) {
      this.client = undefined;
      return this.failed(new Error("it stopped after its first answer"), argv, isKnown);
    }
    const version = client.initializeResult?.serverInfo?.version ?? "0";
    this.log.info(`DistIR ${version} answers after ${Math.round(performance.now() - begun)} ms`);
    if (isOlder(version, OLDEST_SERVER)) {
      await this.memory.update(remembered(argv), undefined);
      await this.stopped();
      this.become({ kind: "missing", choice: { kind: "old", server: { candidate: { argv, from: "the last start" }, distir: version, lacks: [] } } });
      return;
    }
    this.become({ kind: "running", version, argv });
  }

  /** A server that did not start. One that was not probed this time is forgotten and looked for again. */
  private async failed(error: unknown, argv: readonly string[], isKnown: boolean): Promise<void> {
    this.log.error(`the server did not start: ${error instanceof Error ? error.message : String(error)}`);
    await this.memory.update(remembered(argv), undefined);
    if (isKnown) return this.startAnew();
    return this.stoppedByItself();
  }

  private async stoppedByItself(): Promise<void> {
    if (this.crashes.again()) {
      this.log.warn("the server crashed; restarting it");
      return this.startAnew();
    }
    this.log.error("the server crashed three times within three minutes; not restarting it");
    this.become({ kind: "crashed", why: "The DistIR server crashed three times in a row." });
  }

  private options(self: () => BaseLanguageClient | undefined): LanguageClientOptions {
    return {
      documentSelector: SCHEMES.map((scheme) => ({ language: "distir", scheme })),
      outputChannel: this.output,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: this.middleware,
      initializationOptions: JSON.parse(JSON.stringify(vscode.workspace.getConfiguration("distir"))) as object, // workers take data alone
      // A start that fails is reported by us, once.
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          const isOurs = this.client === self();
          if (isOurs && this.latest.kind === "running") {
            this.client = undefined;
            this.become({ kind: "starting" });
            void this.single.run(() => this.stoppedByItself());
          }
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    };
  }

  private async stopped(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client === undefined) return;
    try {
      await client.stop(5000);
    } catch (error) {
      this.log.debug(`stopping: ${String(error)}`);
    }
    await client.dispose().catch(() => undefined);
  }

  private become(state: State): void {
    this.latest = state;
    this.changed.fire(state);
  }
}

function remembered(argv: readonly string[]): string {
  return `server ${argv.join("\0")}`;
}
