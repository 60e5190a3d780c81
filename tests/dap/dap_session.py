"""A client of the debug adapter, on its standard input and output. Every message is checked against the protocol."""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import jsonschema
from distir_dap.adapter import Adapter
from distir_dap.connection import Connection
from distir_lsp.incoming import Frames

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@cache
def protocol():
    """The protocol's own JSON schema, which debugpy ships."""
    found = find_spec("debugpy")
    path = Path(found.origin).parent / "_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json"
    return json.loads(path.read_text())


@cache
def validator(kind):
    """Of messages of one kind: `StoppedEvent`, `ScopesResponse`."""
    return jsonschema.Draft4Validator(
        {"$ref": f"#/definitions/{kind}", "definitions": protocol()["definitions"]},
        format_checker=None,
    )


def kind_of(message):
    name = message.get("event") or message["command"]
    kind = name[0].upper() + name[1:]
    if message["type"] == "response" and not message["success"]:
        return "ErrorResponse"
    return kind + message["type"].capitalize()


def serve(asked, said):
    with os.fdopen(said, "wb") as output:
        Adapter(Connection(partial(os.read, asked), output)).serve()


def connected(port):
    """A connection to who listens on a port, soon."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.05)


class Refused(Exception):  # noqa: N818
    """The adapter could not do what was asked."""


class DebugClient:
    """Sends requests one by one; events that come meanwhile are in `events`."""

    def __init__(self, process=False, port=None):
        """`process`: of an adapter in a process of its own, not in a thread; `port`: on which it listens."""
        command, self.connection = [sys.executable, "-m", "distir_dap"], None
        if port is not None:
            self.adapter = subprocess.Popen([*command, "--port", str(port)])
            self.connection = connected(port)
            self.output, self.input = self.connection.makefile("wb"), self.connection.makefile("rb", buffering=0)
        elif process:
            self.adapter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.output, self.input = self.adapter.stdin, self.adapter.stdout
        else:
            (asked, output), (input_, said) = os.pipe(), os.pipe()
            self.output, self.input = os.fdopen(output, "wb"), os.fdopen(input_, "rb")
            self.adapter = threading.Thread(target=serve, args=(asked, said), daemon=True)
            self.adapter.start()
        self.incoming, self.events, self.sent = queue.Queue(), [], 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        frames = Frames()
        while data := os.read(self.input.fileno(), 1 << 16):
            for body in frames.feed(data):
                self.incoming.put(json.loads(body))
        self.incoming.put(None)

    def take(self):
        """The next message, checked."""
        message = self.incoming.get(timeout=PATIENCE_S)
        assert message is not None, "the adapter ended"
        validator(kind_of(message)).validate(message)
        return message

    def send(self, command, **arguments):
        self.sent += 1
        message = {"seq": self.sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self.output.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.output.flush()
        return self.sent

    def answer(self, number):
        """The body of the answer to a request. Raises Refused with what the user is shown."""
        message = self._response(number)
        if not message["success"]:
            raise Refused(message["message"])
        return message.get("body", {})

    def failure(self, number):
        """The answer to a request that fails."""
        message = self._response(number)
        assert not message["success"]
        return message

    def _response(self, number):
        while True:
            message = self.take()
            if message["type"] == "event":
                self.events.append(message)
            elif message["request_seq"] == number:
                return message

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def wait_for(self, name):
        """The body of the next event of a name; those before it are forgotten, but for output."""
        while True:
            for number, event in enumerate(self.events):
                if event["event"] == name:
                    del self.events[number]
                    return event.get("body", {})
            message = self.take()
            assert message["type"] == "event", message
            self.events.append(message)

    def start(self, program, breakpoints=(), functions=(), filters=(), **launch):
        """Launch a program with breakpoints as editors do it; gives the first stop. `placed`: the breakpoints."""
        self.ask("initialize", adapterID="distir", clientID="test", linesStartAt1=True, columnsStartAt1=True)
        number = self.send("launch", program=str(program), **launch)
        while not any(event["event"] == "initialized" for event in self.events):
            message = self.take()
            if message["type"] == "response":
                assert not message["success"]
                raise Refused(message["message"])
            self.events.append(message)
        self.wait_for("initialized")
        source = {"path": str(program)}
        given = [b if isinstance(b, dict) else {"line": b} for b in breakpoints]
        self.placed = self.ask("setBreakpoints", source=source, breakpoints=given)["breakpoints"]
        named = [f if isinstance(f, dict) else {"name": f} for f in functions]
        self.placed += self.ask("setFunctionBreakpoints", breakpoints=named)["breakpoints"]
        options = [{"filterId": name, "condition": condition} for name, condition in filters]
        self.placed += self.ask("setExceptionBreakpoints", filters=[], filterOptions=options)["breakpoints"]
        self.ask("configurationDone")
        self.answer(number)
        return self.wait_for("stopped")

    def move(self, command, thread=1, **arguments):
        """A step; gives where it stopped."""
        self.ask(command, threadId=thread, **arguments)
        return self.wait_for("stopped")

    def frames(self, thread):
        return self.ask("stackTrace", threadId=thread)["stackFrames"]

    def scopes(self, frame):
        """The variables of a frame by scope: names and values."""
        found = {}
        for scope in self.ask("scopes", frameId=frame["id"])["scopes"]:
            found[scope["name"]] = self.variables(scope["variablesReference"])
        return found

    def variables(self, reference):
        return {v["name"]: v for v in self.ask("variables", variablesReference=reference)["variables"]}

    def said(self):
        """What was printed in the console so far."""
        return "".join(e["body"]["output"] for e in self.events if e["event"] == "output")

    def close(self):
        """The session ends, and the adapter does."""
        self.ask("disconnect")
        self.left()

    def left(self):
        """The client goes away; the adapter ends."""
        self.output.close()
        if self.connection is not None:
            self.connection.shutdown(socket.SHUT_RDWR)
        if isinstance(self.adapter, threading.Thread):
            self.adapter.join(PATIENCE_S)
            assert not self.adapter.is_alive()
        else:
            assert self.adapter.wait(PATIENCE_S) == 0
        self.input.close()
