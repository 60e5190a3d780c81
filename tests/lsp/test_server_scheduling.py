"""Work that nobody waits for: the latest only, and given up when it is no longer wanted."""

import asyncio
import selectors
import threading

import pytest
from distir_lsp.scheduling import (
    LONGEST_PAUSE_S,
    LONGEST_WAIT_S,
    SHORTEST_PAUSE_S,
    Background,
    Debounced,
    Stopped,
    pause_after,
)


class Skipping(selectors.SelectSelector):
    """Passes over the time until the next timer."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only while all wait: so that nothing depends on how busy the machine is."""

    def __init__(self):
        self.clock = Skipping()
        super().__init__(self.clock)

    def time(self):
        return self.clock.now


def run_in(loop, scenario):
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


def test_only_the_last_of_quick_calls_is_done():
    done = []

    async def work(key):
        done.append(key)

    async def scenario():
        tasks = Debounced(work)
        for _ in range(20):
            tasks.start("a", 0.15)
            tasks.start("b", 0.15)
            await asyncio.sleep(0)
        tasks.cancel("b")
        while not done:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)  # in which `b` would be done too

    run_in(SkippingLoop, scenario)
    assert done == ["a"]


def test_who_never_pauses_is_not_left_waiting():
    done = []

    async def work(key):
        done.append(key)

    async def scenario():
        tasks = Debounced(work)
        loop = asyncio.get_running_loop()
        start = loop.time()
        while not done and loop.time() - start < 120:
            tasks.start("a", 0.05)
            await asyncio.sleep(0.001)
        tasks.cancel("a")

    run_in(SkippingLoop, scenario)
    assert done == ["a"]


def test_the_pause_follows_the_cost_within_bounds():
    pauses = [pause_after(cost) for cost in (0.0, 0.02, 0.05, 60.0)]
    assert pauses == sorted(pauses)
    assert pauses[0] == SHORTEST_PAUSE_S
    assert pauses[-1] == LONGEST_PAUSE_S


def test_cancelled_work_stops_where_it_pauses():
    started, stopped = threading.Event(), threading.Event()

    def work(pause):
        started.set()
        try:
            while True:
                pause()
        except Stopped:
            stopped.set()
            raise

    async def scenario():
        background = Background()
        task = asyncio.ensure_future(background.run(work))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(stopped.wait, 120)
        done = []
        await background.run(lambda pause: done.append(pause()))
        assert done == [None]
        background.close()

    asyncio.run(scenario())


def test_what_fails_in_the_background_is_reported():
    async def scenario():
        await Background().run(lambda pause: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scenario())


class BrowsersLoop(SkippingLoop):
    """As the one of Pyodide, which refuses what should have been called already."""

    def call_at(self, when, callback, *args, **named):
        if when < self.time() - 1e-3:
            raise ValueError("Can't schedule in the past")
        return super().call_at(when, callback, *args, **named)


def test_work_starts_where_the_loop_was_busy_for_longer_than_it_may_wait():
    done = []

    async def work(key):
        done.append(key)

    async def main():
        debounced = Debounced(work)
        debounced.start("a")
        asyncio.get_running_loop().clock.now += LONGEST_WAIT_S + 0.05
        debounced.start("a")
        await asyncio.sleep(0.05)

    run_in(BrowsersLoop, main)
    assert done == ["a"]
