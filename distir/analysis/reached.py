"""The instances of functions that running one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from distir.analysis.checker import Checker
from distir.analysis.domains import Instance
from distir.ir import Call


def callee(domain: Checker, instance: Instance, call: Call) -> Instance:
    """The instance that a call enters."""
    return domain.instance(call.function, instance.state(call.args))


def reached(domain: Checker, start: Instance, enters: Callable[[str], bool] | None = None) -> Iterator[Instance]:
    """An instance, and all that running it runs, each once, callers first. `enters`: which functions are entered."""
    waiting, seen = [start], {id(start)}
    for instance in waiting:  # grows while it is walked
        yield instance
        for statement in instance.function.body:
            if isinstance(statement, Call) and (enters is None or enters(statement.function)):
                inner = callee(domain, instance, statement)
                if id(inner) not in seen:
                    seen.add(id(inner))
                    waiting.append(inner)
