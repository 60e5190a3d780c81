"""The cyclic garbage collector while large programs are built: in processes of their own, where little else lives."""

import gc
import subprocess
import sys
import weakref
from unittest.mock import patch

import pytest

from distir.ir import collection
from distir.ir.collection import paused_collection, set_apart


class Cycle:
    def __init__(self):
        self.self = self


def not_walked_after_a_pause():
    walks = []
    gc.callbacks.append(lambda phase, info: walks.append((phase, info["generation"])))
    with paused_collection():
        live = [[number] for number in range(100_000)]
    few = [[number] for number in range(10)]
    gc.callbacks.clear()
    assert gc.isenabled()
    assert (walks, len(live), len(few)) == ([], 100_000, 10)


def cycles_made_in_pauses_are_collected_in_the_end():
    with patch.object(collection, "MOST_UNSEEN", 10_000):
        with paused_collection():
            gone = weakref.ref(Cycle())
        for _ in range(2):
            with paused_collection():
                _ = [[number] for number in range(10_000)]
    assert gone() is None


def what_is_set_apart_stays_so_and_is_not_walked_to_be_counted():
    set_apart()
    frozen = gc.get_freeze_count()
    with patch.object(gc, "get_freeze_count", side_effect=AssertionError("counting takes a walk")), paused_collection():
        _ = [[number] for number in range(1_000)]
    assert gc.get_freeze_count() > 0.99 * frozen > 0, "but for the few that are let go of meanwhile"


def a_collector_that_is_off_stays_off():
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()


LAWS = {
    law.__name__: law
    for law in (
        not_walked_after_a_pause,
        cycles_made_in_pauses_are_collected_in_the_end,
        what_is_set_apart_stays_so_and_is_not_walked_to_be_counted,
        a_collector_that_is_off_stays_off,
    )
}


@pytest.mark.parametrize("law", LAWS)
def test_the_collector(law):
    done = subprocess.run([sys.executable, __file__, law], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    gc.collect()
    LAWS[sys.argv[1]]()
