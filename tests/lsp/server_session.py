"""A client that writes and reads messages itself: it can say what no library lets an editor say."""

import json
import queue
import subprocess
import sys
import threading
import time

from warm_servers import ENVIRONMENT, WarmServer

PATIENCE_S = 300
"""How long the server may take to say what it will say, on however slow a machine."""

PUSHED = {
    "textDocument": {
        "publishDiagnostics": {
            "relatedInformation": True,
            "versionSupport": True,
            "tagSupport": {"valueSet": [1, 2]},
            "codeDescriptionSupport": True,
        }
    }
}
PULLED = {
    "textDocument": {"diagnostic": {"relatedInformation": True}},
    "workspace": {"diagnostics": {"refreshSupport": True}},
}


class Session:
    """A server of its own, initialized. What the server asks for is answered with nothing, or by `answers`.

    `command`: what is started in the place of a fork of a process that has loaded a server's modules.
    """

    def __init__(self, capabilities=PUSHED, options=None, settings=None, command=None, cache=None):
        own = {} if cache is None else {"XDG_CACHE_HOME": str(cache)}
        if command is None:
            self.process = WarmServer(own)
        else:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen([sys.executable, *command], env={**ENVIRONMENT, **own}, **streams)
        self.settings = settings
        self.choice = None
        """What the user chooses when asked to."""
        self.messages = queue.Queue()
        self.number = 0
        self.versions = {}
        self.kept = []
        threading.Thread(target=self._listen, daemon=True).start()
        parameters = {
            "processId": None,
            "rootUri": None,
            "capabilities": capabilities,
            "initializationOptions": options,
        }
        self.capabilities = self.ask("initialize", parameters)["capabilities"]
        self.tell("initialized", {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def write(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def request(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def answer(self, number):
        """The whole answer to a request, an error too."""
        return self.wait(lambda m: m.get("id") == number and "method" not in m)

    def ask(self, method, params):
        return self.answer(self.request(method, params))["result"]

    def wait(self, is_wanted):
        """The first message, of those not waited for yet, that is wanted."""
        for index, message in enumerate(self.kept):
            if is_wanted(message):
                return self.kept.pop(index)
        while True:
            message = self.messages.get(timeout=PATIENCE_S)
            assert message is not None, "the server is gone"
            if is_wanted(message):
                return message
            self.kept.append(message)

    def until(self, uri, is_wanted, meanwhile=lambda: None):
        """The status of a document, once it is as wanted. `meanwhile`: what is done before each look."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            meanwhile()
            status = self.ask("distir/status", {"textDocument": {"uri": uri}})
            if is_wanted(status):
                return status
            assert time.monotonic() < deadline, f"it stays as it is: {status}"
            time.sleep(0.02)

    def open(self, uri, text):
        self.versions[uri] = 1
        item = {"uri": uri, "languageId": "distir", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})

    def change(self, uri, *changes):
        """Edits of one notification: texts for the whole, or (line, column, line, column, text)."""
        self.versions[uri] += 1
        identifier = {"uri": uri, "version": self.versions[uri]}
        content = [{"text": c} if isinstance(c, str) else {"range": span(*c[:4]), "text": c[4]} for c in changes]
        self.tell("textDocument/didChange", {"textDocument": identifier, "contentChanges": content})

    def diagnostics(self, uri, is_wanted=lambda _: True):
        """The diagnostics sent for the latest version, once they are as wanted."""
        sent = self.wait(
            lambda m: (
                m.get("method") == "textDocument/publishDiagnostics"
                and m["params"]["uri"] == uri
                and m["params"].get("version", self.versions.get(uri)) == self.versions.get(uri)
                and is_wanted(m["params"]["diagnostics"])
            )
        )
        return sent["params"]["diagnostics"]

    def resident(self):
        """The bytes of memory that the server holds."""
        import psutil

        return psutil.Process(self.process.pid).memory_info().rss

    def _listen(self):
        out = self.process.stdout
        while True:
            length = None
            while header := out.readline().strip():
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            if length is None:
                self.messages.put(None)
                return
            message = json.loads(out.read(length))
            if "method" in message and "id" in message:
                answers = {
                    "workspace/configuration": [self.settings],
                    "window/showMessageRequest": self.choice,
                    "window/showDocument": {"success": True},
                    "workspace/applyEdit": {"applied": True},
                }
                result = answers.get(message["method"])
                self.send({"id": message["id"], "result": result})
            self.messages.put(message)


def span(line, column, end_line, end_column):
    start = {"line": line, "character": column}
    return {"start": start, "end": {"line": end_line, "character": end_column}}


def codes(diagnostics):
    return [d["code"] for d in diagnostics]
