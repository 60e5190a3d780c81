// The language server in its worker: the editor's messages and our own requests over one line. A script of its own, so
// that Python starts while the browser still reads the editor's.

type Message = { jsonrpc: "2.0"; id?: string | number | null; method?: string; params?: unknown; result?: unknown; error?: { code: number; message: string } };

/** The error of a request whose document was edited before it was answered. */
const CONTENT_MODIFIED = -32801;

/** What the editor's client asks of a transport. */
interface Transport {
  state: { value: { state: "open" }; onChange: () => { dispose(): void } };
  send(message: Message): Promise<void>;
  setListener(listener: ((message: Message) => void) | undefined): void;
  toString(): string;
}

class Server {
  readonly transport: Transport;
  /** Milliseconds from the worker's start to the first message that it takes. Rejects with the reason if there is none. */
  readonly ready: Promise<number>;
  private readonly worker = new Worker(new URL("server/worker.js", document.baseURI));
  private readonly asked = new Map<string, { resolve(result: unknown): void; reject(error: Error): void }>();
  /** The editor's requests that are not answered yet. */
  private readonly requests = new Map<Message["id"], Message>();
  private readonly heard = new Map<string, ((params: never) => void)[]>();
  private readonly early: Message[] = [];
  private listener: ((message: Message) => void) | undefined;
  private count = 0;

  constructor() {
    this.transport = {
      state: { value: { state: "open" }, onChange: () => ({ dispose: () => undefined }) },
      send: (message) => {
        if (message.id !== undefined && message.method !== undefined) this.requests.set(message.id, message);
        return Promise.resolve(this.worker.postMessage(message));
      },
      setListener: (listener) => {
        this.listener = listener;
        if (listener !== undefined) this.early.splice(0).forEach(listener);
      },
      toString: () => "the server in a worker",
    };
    this.ready = new Promise((resolve, reject) => {
      this.worker.onerror = (event) => reject(new Error(event.message || "the worker could not be started"));
      this.worker.onmessage = ({ data }: MessageEvent<Message & { ready?: number; failed?: string }>) => {
        if (data.ready !== undefined) resolve(data.ready);
        else if (data.failed !== undefined) reject(new Error(data.failed));
        else this.receive(data);
      };
      this.worker.postMessage({ base: new URL("server/", document.baseURI).href });
    });
  }

  /** A request of our own. Rejects with what the server says against it. */
  request<Result>(method: string, params: object): Promise<Result> {
    const id = `page-${this.count++}`;
    return new Promise<Result>((resolve, reject) => {
      this.asked.set(id, { resolve: resolve as (result: unknown) => void, reject });
      this.worker.postMessage({ jsonrpc: "2.0", id, method, params });
    });
  }

  /** Be told of a request or notification of the server, which the editor gets as well. */
  on<Params>(method: string, heard: (params: Params) => void): void {
    this.heard.set(method, [...(this.heard.get(method) ?? []), heard as (params: never) => void]);
  }

  /** Resolves when the server first sends this. */
  heardOf(method: string): Promise<void> {
    return new Promise((resolve) => this.on(method, () => resolve()));
  }

  private receive(message: Message): void {
    const mine = typeof message.id === "string" && message.method === undefined ? this.asked.get(message.id) : undefined;
    if (mine !== undefined) {
      this.asked.delete(message.id as string);
      const result = message.result as { error?: string } | undefined;
      const why = message.error?.message ?? result?.error;
      if (why !== undefined) mine.reject(new Error(why));
      else mine.resolve(result);
      return;
    }
    if (message.method === undefined) this.asTheEditorKnowsIt(message);
    if (message.method !== undefined) for (const heard of this.heard.get(message.method) ?? []) heard(message.params as never);
    if (this.listener === undefined) this.early.push(message);
    else this.listener(message);
  }

  /**
   * The editor asks again after each edit. It has no error for an answer that an edit came before, and reports any: for
   * tokens it says `busy`, which leaves those that are shown; what was to be resolved stays as it is; elsewhere nothing
   * is the answer.
   */
  private asTheEditorKnowsIt(message: Message): void {
    const { method = "", params } = this.requests.get(message.id) ?? {};
    this.requests.delete(message.id);
    if (message.error?.code !== CONTENT_MODIFIED) return;
    if (method.startsWith("textDocument/semanticTokens/")) message.error.message = "busy";
    else {
      delete message.error;
      message.result = method.endsWith("/resolve") ? params : null;
    }
  }
}

export const server = new Server();
