"""When work is done that nobody waits for: after a pause in typing, the latest version only, and given up for the next.

Knows no protocol and no programs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.004, 0.25

PAUSE_PER_COST = 0.7
"""How long to wait for more typing, by how long the last work took: waiting costs less than working in vain."""


def pause_after(cost_s: float) -> float:
    """How long to wait for more typing, in seconds, when the last work took `cost_s`."""
    return min(max(PAUSE_PER_COST * cost_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


class Debounced:
    """One task per key: it starts once nothing new has come for a while, and a new one takes the place of the old."""

    def __init__(self, work: Callable[[str], Awaitable[None]]) -> None:
        self._work = work
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, key: str, pause_s: float = SHORTEST_PAUSE_S) -> None:
        """Do the work for `key` after a pause; what was under way for it is cancelled."""
        self.cancel(key)
        self._tasks[key] = asyncio.ensure_future(self._after(key, pause_s))

    def cancel(self, key: str) -> None:
        """Let go of what is under way for `key`."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def _after(self, key: str, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        await self._work(key)


class Stopped(Exception):  # noqa: N818 - what a cancelled task is told, no failure
    """The work is no longer wanted."""


class Background:
    """One thread for work that takes long. The work calls the function that it is given now and then."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="distir-simulation")

    async def run(self, work: Callable[[Callable[[], None]], None]) -> None:
        """Do the work; to cancel this is to stop the work where it next pauses."""
        stopped = threading.Event()

        def pause() -> None:
            if stopped.is_set():
                raise Stopped

        future = asyncio.get_running_loop().run_in_executor(self._threads, work, pause)
        future.add_done_callback(_forget)
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            stopped.set()
            raise

    def close(self) -> None:
        """End without waiting for what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _forget(future: asyncio.Future[None]) -> None:
    """Nobody asks for the outcome of work that was stopped."""
    if not future.cancelled():
        future.exception()
