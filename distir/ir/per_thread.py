"""Results cached per thread, for objects that threads must not share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class KeptPerThread(Generic[P, R]):
    """A function as `functools.lru_cache` makes it, once for each thread."""

    def __init__(self, function: Callable[P, R], maxsize: int) -> None:
        self._function, self._maxsize = function, maxsize
        self._mine = threading.local()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result, found now or in an earlier call of this thread."""
        found: R = self._known(*args, **kwargs)
        return found

    def cache_clear(self) -> None:
        """Forget what this thread has found."""
        self._known.cache_clear()

    @property
    def _known(self) -> Any:
        if not hasattr(self._mine, "known"):
            self._mine.known = lru_cache(self._maxsize)(self._function)
        return self._mine.known


def kept_per_thread(maxsize: int) -> Callable[[Callable[P, R]], KeptPerThread[P, R]]:
    """For results that change as they are used: a checker learns, a sweep finds patterns."""
    return lambda function: KeptPerThread(function, maxsize)
