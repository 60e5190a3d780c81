"""Messages of the Debug Adapter Protocol: read from a client, answered in order. Knows no requests.

Messages are framed as those of the language server, but are no JSON-RPC: requests have a `command`, responses name the
request that they answer, and every message has a number of its own.
"""

from __future__ import annotations

import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast

from distir_lsp.incoming import AT_ONCE, Frames

Json = Mapping[str, Any]

URGENT = frozenset({"pause", "disconnect", "terminate"})
"""Requests that interrupt what is being searched for, whatever it is."""


class RequestError(Exception):
    """A request that cannot be answered: `str` of it is shown to the user."""


class OutdatedError(RequestError):
    """A request whose answer has no use any more, since the program has been stepped: no message to the user."""


class DebugClient:
    """One client by function calls: requests are put in, and `said` has what was sent to it meanwhile."""

    def __init__(self) -> None:
        self.said: list[Json] = []
        self._waiting: deque[Json] = deque()
        self._sent = 0

    def put(self, request: Json) -> None:
        """A request of the client's."""
        self._waiting.append(request)

    def next(self) -> Json | None:
        """The next request; None when there is none: it does not wait for one."""
        return self._waiting.popleft() if self._waiting else None

    @property
    def interrupted(self) -> bool:
        """Whether a request waits that is to interrupt what is being done."""
        return False

    def is_cancelled(self, request: Json) -> bool:
        """Whether the client has cancelled a request."""
        return False

    def event(self, name: str, body: Json | None = None) -> None:
        """Tell the client of something."""
        self._send({"type": "event", "event": name} | ({} if body is None else {"body": body}))

    def response(self, request: Json, body: Json | None = None) -> None:
        """Answer a request."""
        self._send(self._answer(request, True) | ({} if body is None else {"body": body}))

    def failure(self, request: Json, message: str, *, is_shown: bool = True) -> None:
        """Answer a request that cannot be done, with words for the user; `is_shown`: in a message."""
        error = {"id": 1, "format": message.replace("{", "(").replace("}", ")"), "showUser": is_shown}
        self._send(self._answer(request, False) | {"message": message, "body": {"error": error}})

    def _answer(self, request: Json, success: bool) -> dict[str, Any]:
        return {
            "type": "response",
            "request_seq": request["seq"],
            "command": request["command"],
            "success": success,
        }

    def _send(self, message: Json) -> None:
        self._sent += 1
        self._write({"seq": self._sent, **message})

    def _write(self, message: Json) -> None:
        self.said.append(message)


class Connection(DebugClient):
    """One client at the other end of a stream: what it asks, in a queue, and what is sent to it."""

    def __init__(self, read: Callable[[int], bytes], output: BinaryIO) -> None:
        super().__init__()
        self._read, self._output = read, output
        self._requests: queue.Queue[Json | None] = queue.Queue()
        self._urgent = 0
        self._cancelled: set[object] = set()
        self._current: int | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="distir-dap-input", daemon=True).start()

    def next(self) -> Json | None:
        """The next request; None when the client has gone away."""
        request = self._requests.get()
        with self._lock:
            self._current = None if request is None else request["seq"]
            if request is not None and request.get("command") in URGENT:
                self._urgent -= 1
        return request

    @property
    def interrupted(self) -> bool:
        """Whether a request waits that is to interrupt what is being done."""
        return self._urgent > 0 or self._current in self._cancelled

    def is_cancelled(self, request: Json) -> bool:
        """Whether the client has cancelled a request."""
        return request["seq"] in self._cancelled

    def _write(self, message: Json) -> None:
        body = json.dumps(message, ensure_ascii=False).encode()
        try:
            self._output.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self._output.flush()
        except (OSError, ValueError):  # the client has gone away: the end of its input says so, too
            self._requests.put(None)

    def _listen(self) -> None:
        frames = Frames()
        try:
            while data := self._read(AT_ONCE):
                for body in frames.feed(data):
                    self._take(body)
        except OSError:
            pass
        with self._lock:
            self._urgent += 1  # what is being done has no reader any more
        self._requests.put(None)

    def _take(self, body: bytes) -> None:
        """Queue what is a request, and pass over what is none: there is no way to answer it."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        found = cast("dict[str, Any]", message)
        if not isinstance(found.get("seq"), int) or not isinstance(found.get("command"), str):
            return
        with self._lock:
            if found["command"] in URGENT:
                self._urgent += 1
            elif found["command"] == "cancel" and isinstance(found.get("arguments"), dict):
                self._cancelled.add(found["arguments"].get("requestId"))
        self._requests.put(found)
