"""A watchdog: the server keeps answering, and ends with its client, whatever a request does.

A separate thread asks the event loop for a sign of life every few seconds. A turn of the loop that takes too long
is interrupted by `Overdue`, which becomes the answer of the request that it was about. A client that is gone is noticed
though the loop is busy, and what has not ended a while after that, in whichever thread, is ended with the process.

Waiting is counted in short naps, not by the clock: a process that was stopped for an hour has not been busy for one.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable
from types import FrameType

from lsprotocol import types
from pygls.exceptions import JsonRpcException

ASKED_EVERY_S = 3.0
"""How often the loop is asked for a sign of life."""

NAP_S = 0.2

LEFT_S = 10.0
"""How long the server may take to end once its client is gone."""

STUCK_CPU_S = 600.0
"""Where Python itself stands still for so long, in CPU time, this thread with it, the system ends the process."""


class Overdue(JsonRpcException):
    """A task took too long, and was aborted."""

    CODE = types.LSPErrorCodes.RequestFailed.value
    MESSAGE = "this took too long and was given up"


class Watch:
    """Watches the main thread's event loop. `patience_s`: how many seconds one turn of it may take now.

    `is_gone`: whether the client has left, detected without reading its messages.
    """

    def __init__(self, patience_s: Callable[[], float], is_gone: Callable[[], bool] = lambda: False) -> None:
        self._patience_s, self._is_gone = patience_s, is_gone
        self._loop = asyncio.get_running_loop()
        self._turns = 0
        self._stuck_at: int | None = None
        """The turn that is to be interrupted."""
        self._ended = threading.Event()
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        _end_if_stuck()
        threading.Thread(target=self._run, name="distir-watch", daemon=True).start()

    def turn(self) -> None:
        """The loop begins something new: a sign of life."""
        self._turns += 1

    def end(self) -> None:
        """The server ends, which must not take long either."""
        signal.signal(signal.SIGINT, self._before)
        self._ended.set()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """In the main thread: by this class, or by who types Ctrl-C. What has ended meanwhile is left alone."""
        stuck_at, self._stuck_at = self._stuck_at, None
        if stuck_at == self._turns:
            raise Overdue
        if stuck_at is None and callable(self._before):
            self._before(number, frame)

    def _run(self) -> None:
        while not self._ended.wait(ASKED_EVERY_S) and self._is_alive():
            pass
        if not self._ended.wait(LEFT_S):  # the loop may yet come to see that the client is gone
            os._exit(1)
        threading.Event().wait(LEFT_S)
        os._exit(1)  # where a thread is left that does not end, nothing else would

    def _is_alive(self) -> bool:
        """Wait for a sign of life; False where the client is gone meanwhile."""
        _end_if_stuck()
        seen, waited_s = self._turns, 0.0
        try:
            self._loop.call_soon_threadsafe(self.turn)
        except RuntimeError:  # it is closed
            return True
        while self._turns == seen and not self._ended.wait(NAP_S):
            waited_s += NAP_S
            if self._is_gone():
                return False
            if waited_s >= self._patience_s():
                self._stuck_at, waited_s = seen, 0.0
                _interrupt()
        return True


def _end_if_stuck() -> None:
    """Let the system end the process, unless this is called again within `STUCK_CPU_S` of CPU time."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_VIRTUAL, STUCK_CPU_S)


def _interrupt() -> None:
    """Let the main thread handle the signal of Ctrl-C, also where it waits for the system."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main(signal.SIGINT)


def hung_up(descriptor: int) -> bool:
    """Whether the other end of a pipe or socket is closed, though there may be something left to read.

    Windows cannot tell; there a separate thread reads to the end.
    """
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))
