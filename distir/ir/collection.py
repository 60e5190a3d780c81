"""Building large programs without the cyclic garbage collector, which walks all that lives again and again."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

MOST_UNSEEN = 4_000_000
"""So many objects may be made in pauses before the collector walks them."""

_unseen = 0
_is_apart = False


def set_apart() -> None:
    """Take all that lives now out of every walk for good: of a process that serves until it ends, such as an editor's.

    It is remembered here, since the collector would have to walk all of it to say that there is any.
    """
    global _is_apart
    _is_apart = True
    gc.freeze()


@contextmanager
def paused_collection() -> Generator[None]:
    """Pause the collector while values are made that live on: it would find nothing, and double the time.

    Nor does it walk them right after the pause, as it would: they join the oldest generation, which it walks seldom.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _promote()
            gc.enable()


def _promote() -> None:
    """Move what was made in a pause to the oldest generation, unseen; now and then, walk all there is."""
    global _unseen
    _unseen += gc.get_count()[0]
    if _unseen > MOST_UNSEEN:
        _unseen = 0
        gc.collect()
    elif not _is_apart:
        gc.freeze()
        gc.unfreeze()
