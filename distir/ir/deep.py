"""Recursion as deep as memory is large: computations that wait for one another without Python's stack.

Calls in a program may be nested as deep as it is long, and what follows them must not run out of stack, whichever
thread it is in. What would call itself is written as a generator: it *yields* the computation that it waits for and is
sent the result, while `finish` keeps those that wait in a list. `try`, `finally` and local names mean what they do
everywhere:

    def height(name: str) -> Deep[int]:
        most = 0
        for callee in calls[name]:
            most = max(most, (yield height(callee)))
        return 1 + most

    finish(height("main"))
"""

from __future__ import annotations

from collections.abc import Generator
from types import GeneratorType
from typing import Any, TypeVar, cast

T = TypeVar("T")

Deep = Generator[Any, Any, T]
"""A computation that yields those that it waits for, and returns a `T`."""


def finish(computation: Deep[T] | T) -> T:
    """The result of a computation; raises what it raises. Whatever else is given or yielded is a result already."""
    waiting: list[Any] = []
    value: Any = computation
    error: BaseException | None = None
    try:
        while True:
            if error is None and isinstance(value, GeneratorType):
                waiting.append(value)
                value = None
            elif not waiting:
                break
            try:
                value = waiting[-1].send(value) if error is None else waiting[-1].throw(error)
                error = None
            except StopIteration as done:
                waiting.pop()
                value, error = done.value, None
            except BaseException as raised:
                waiting.pop()
                value, error = None, raised
        if error is not None:
            raise error
        return cast("T", value)
    finally:
        del error  # its traceback holds this frame
