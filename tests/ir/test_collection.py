"""The cyclic garbage collector while large programs are built."""

import gc
import weakref

import pytest

from distir.ir import collection
from distir.ir.collection import paused_collection, put_back, set_apart


class Cycle:
    def __init__(self):
        self.self = self


@pytest.fixture
def collecting():
    was_enabled = gc.isenabled()
    gc.enable()
    gc.collect()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_what_is_made_in_a_pause_is_not_walked_after_it(collecting):
    walks = []

    def walk(phase, info):
        walks.append((phase, info["generation"]))

    gc.callbacks.append(walk)
    try:
        with paused_collection():
            live = [[number] for number in range(100_000)]
        few = [[number] for number in range(10)]
    finally:
        gc.callbacks.remove(walk)
    assert gc.isenabled()
    assert (walks, len(live), len(few)) == ([], 100_000, 10)


def test_cycles_made_in_pauses_are_collected_in_the_end(collecting, monkeypatch):
    monkeypatch.setattr(collection, "MOST_UNSEEN", 10_000)
    with paused_collection():
        gone = weakref.ref(Cycle())
    for _ in range(2):
        with paused_collection():
            _ = [[number] for number in range(10_000)]
    assert gone() is None


def test_what_is_set_apart_stays_so_and_is_not_walked_to_be_counted(collecting, monkeypatch):
    set_apart()
    try:
        frozen = gc.get_freeze_count()
        with monkeypatch.context() as counting:
            counting.setattr(gc, "get_freeze_count", lambda: pytest.fail("counting takes a walk"))
            with paused_collection():
                _ = [[number] for number in range(1_000)]
        assert gc.get_freeze_count() > 0.99 * frozen > 0, "but for the few that other threads let go of meanwhile"
    finally:
        put_back()


def test_a_collector_that_is_off_stays_off(collecting):
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()
