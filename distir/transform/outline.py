"""Outlining: repeated sequences of statements become calls of one function.

Recovers the layers of an unrolled program, as importers write it. Sequences are equal if they have the same ops and
attributes, wired in the same way; names do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from distir.ir import Apply, Call, Function, Module
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.outlining import Windows, best_cut, labels_of
from distir.transform.steps import step

PERIODS = 32
"""How many periods are tried: the most frequent distances between equal statements."""


@step(after=("inline", "fold", "dce", "reschedule"), on_mesh=True)
def outline(module: Module, smallest: int = 4) -> Module:
    """Outline consecutive repetitions of `smallest` or more statements as calls of a function."""
    taken = namer(module)
    functions: list[Function] = []
    for function in module:
        while not function.kernel and (found := _outlined(function, max(1, smallest), taken)) is not None:
            function, block = found
            functions.append(block)
        functions.append(function)
    return Module(functions)


def _outlined(function: Function, smallest: int, taken: FunctionBuilder) -> tuple[Function, Function] | None:
    """The function with one repetition outlined, and the new callee; None if nothing repeats."""
    body = function.body[:-1]
    if len(body) < 2 * smallest or not all(isinstance(s, (Apply, Call)) for s in body):
        return None
    best = max(_runs(function, smallest), key=lambda run: (_saved(run), -run.length), default=None)
    return None if best is None or _saved(best) < 1 else best.outlined(taken.fresh("block"))


def _saved(run: Windows) -> int:
    return (len(run.starts) - 1) * (run.length - 1)


def _runs(function: Function, smallest: int) -> Iterator[Windows]:
    """Repetitions, found by the distance between equal statements, unless outlining would not pay off."""
    labels = labels_of(function.body[:-1])
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for index, label in enumerate(labels):
        if label in last:
            distances[index - last[label]] += 1
        last[label] = index
    for period, _ in distances.most_common(PERIODS):
        if period < smallest:
            continue
        start = 0
        while start + period < len(labels):
            end = start
            while end + period < len(labels) and labels[end] == labels[end + period]:
                end += 1
            if end - start >= period:
                phases = range(start, start + min(period, end - start - period + 1))
                run = best_cut(function, (range(phase, end + 1, period) for phase in phases), period)
                if run.crossing <= period:
                    yield run
            start = max(end, start + 1)
