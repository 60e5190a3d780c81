"""Background work: started after a pause in typing, for the latest version only, cancelled by the next.

Knows no protocol and no programs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.008, 0.25

LONGEST_WAIT_S, LONGEST_WAIT_IN_PAUSES = 0.3, 6
"""Pending work runs after this long even without a pause: in seconds, or as many pauses if that is longer."""

PAUSE_PER_COST = 0.7
"""How long to wait for more typing, by how long the last work took: waiting costs less than working in vain."""

Found = TypeVar("Found")

cpu_s: Callable[[], float] = getattr(time, "thread_time", time.process_time)
"""Seconds of CPU time of this thread; of the process where, as in a browser, there is but one."""


def pause_after(cost_s: float) -> float:
    """How long to wait for more typing, in seconds, when the last work took `cost_s`."""
    return min(max(PAUSE_PER_COST * cost_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


class Debounced:
    """One task per key: it starts once nothing new has come for a while, and a new one takes the place of the old.

    Where something new comes all the time, it starts all the same after a while.
    """

    def __init__(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._since: dict[str, float] = {}
        """When what waits began to wait."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, key: str, pause_s: float = SHORTEST_PAUSE_S) -> None:
        """Do the work for `key` after a pause; what was under way for it is cancelled."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        since = self._since.get(key, now)
        self.cancel(key)
        self._since[key] = since
        latest = since + max(LONGEST_WAIT_S, LONGEST_WAIT_IN_PAUSES * pause_s)
        # never in the past, where the loop was kept busy: a browser's refuses that
        self._timers[key] = loop.call_later(max(0.0, min(pause_s, latest - now)), self._begin, key)

    def cancel(self, key: str) -> None:
        """Let go of what waits or is under way for `key`."""
        self._since.pop(key, None)
        timer, task = self._timers.pop(key, None), self._tasks.pop(key, None)
        if timer is not None:
            timer.cancel()
        if task is not None:
            task.cancel()

    def _begin(self, key: str) -> None:
        del self._since[key], self._timers[key]
        self._tasks[key] = asyncio.ensure_future(self._work(key))


class Stopped(Exception):  # noqa: N818 - cancels a task, no failure
    """The work is no longer wanted."""


class Background:
    """One thread for work that takes long. The work calls the function that it is given now and then."""

    def __init__(self, name: str = "distir-simulation") -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[Callable[[], None]], Found]) -> Found:
        """Run the work and return its result. Cancelling this stops the work at its next pause."""
        stopped = threading.Event()

        def pause() -> None:
            if stopped.is_set():
                raise Stopped

        future = asyncio.get_running_loop().run_in_executor(self._threads, work, pause)
        future.add_done_callback(_forget)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stopped.set()
            raise

    def close(self) -> None:
        """End without waiting for what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _forget(future: asyncio.Future[Any]) -> None:
    """The outcome of work that was stopped is ignored."""
    if not future.cancelled():
        future.exception()
