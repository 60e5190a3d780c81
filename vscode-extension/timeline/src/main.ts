// Where the script begins: in a webview it waits for messages, in a page the data are there.

import { type Host, type Kept, makeApp } from "./app";
import { listen } from "./input";
import type { ShowMessage, ToView } from "./protocol";
import "./style.css";

interface Editor {
  postMessage(message: unknown): void;
  getState(): unknown;
  setState(state: unknown): void;
}

declare const acquireVsCodeApi: (() => Editor) | undefined;

const editor = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : null;
const host: Host = {
  post: (message) => editor?.postMessage(message),
  kept: () => editor?.getState() as Kept | undefined,
  keep: (state) => editor?.setState(state),
};

addEventListener("error", (event) => host.post({ type: "error", message: String(event.error ?? event.message) }));
addEventListener("unhandledrejection", (event) => host.post({ type: "error", message: String(event.reason) }));

const root = document.getElementById("timeline") ?? document.body.appendChild(document.createElement("div"));
root.id = "timeline";
const app = makeApp(root, host);
listen(app);
addEventListener("message", (event: MessageEvent<unknown>) => {
  const message = event.data;
  if (typeof message === "object" && message !== null && "type" in message) app.receive(message as ToView);
});

const data = document.getElementById("data");
if (data !== null) {
  // Taken out once read: it may be as large as all the rest.
  const message = JSON.parse(data.textContent ?? "") as ShowMessage;
  data.textContent = "";
  app.receive(message);
}
host.post({ type: "ready" });
