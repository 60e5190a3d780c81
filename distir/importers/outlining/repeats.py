"""Repeated blocks as functions: a program of n equal layers becomes one function and n calls.

A block is a run of statements that occurs in a program several times: the same ops with the same attributes and
literals, connected in the same way inside. What connects it with the outside becomes parameters and results, so a call
means what the block meant. Blocks are found among runs that repeat at once, one after the other; the period that saves
the most statements is taken first, and cut where the fewest values cross. Blocks each of which is made of the one
before are layers, and their calls state which. Knows no format of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from distir.importers.names import value_name
from distir.importers.outlining.blocks import Scopes, replaced, with_layers
from distir.ir import Apply, Call, Function, Type, names, operands, results
from distir.ir.builder import FunctionBuilder
from distir.ir.outlining import NO_TYPES, Windows, best_cut, labels_of, wiring
from distir.ir.rewrite import facts_of

SHORTEST = 4
"""Ops of the shortest block that is worth a function, and statements that it must save at least."""


def repeats_outlined(
    function: Function,
    scopes: Scopes | None = None,
    stated: Mapping[str, Type] = NO_TYPES,
    taken: Iterable[str] = (),
) -> tuple[tuple[Function, ...], Function]:
    """The functions made of a function's repeated blocks, and the function with calls in their places.

    `stated`: types of the function's values, to be written at the new functions' parameters where all occurrences
    agree. `taken`: names that the new functions must not have.
    """
    made: list[Function] = []
    functions = FunctionBuilder("")
    functions.take((function.name, *taken))
    while (block := _find(function)) is not None:
        function, inner = replaced(block, functions.fresh(_named(block, scopes or {})), stated)
        made.append(inner)
    return tuple(made), with_layers(function, made) if _are_layers(function, made) else function


def _are_layers(function: Function, blocks: Iterable[Function]) -> bool:
    """Whether calls of blocks are layers: no layers are stated, and each call takes only what the one before gives."""
    called, calls = {block.name for block in blocks}, 0
    origins: dict[str, set[int]] = {}
    for statement in function.body:
        found = set[int]().union(*(origins.get(name, ()) for name in names(operands(statement))))
        if isinstance(statement, Call) and statement.function in called:
            if found != ({calls} if calls else set()):
                return False
            calls += 1
            found = {calls}
        origins |= dict.fromkeys(results(statement), found)
    return calls > 1 and not any(facts_of(statement).layer for statement in function.body)


def _find(function: Function) -> Windows | None:
    """The repeated block that saves the most statements, if there is one."""
    labels = labels_of(function.body[:-1])
    best, saved = None, SHORTEST
    for period, start, end in _runs(labels, saved):
        count = (end - start) // period
        if (count - 1) * period <= saved:
            break
        firsts = range(start, end - count * period + 1)
        block = best_cut(function, (range(s, s + count * period, period) for s in firsts), period)
        ops = sum(isinstance(s, Apply) for s in block.at(block.starts[0]))
        gain = (len(block.starts) - 1) * ops
        if ops >= SHORTEST and gain > saved:
            best, saved = block, gain
    return best and _everywhere(best, labels)


def _runs(labels: list[int], least: int) -> list[tuple[int, int, int]]:
    """`(period, start, end)` of all runs of equal blocks, at least two, that may save more than `least` statements.

    In the order of what they save at most, the best first.
    """
    import numpy as np

    numbers = np.array(labels)
    found: list[tuple[int, int, int]] = []
    for period in range(SHORTEST, len(labels) // 2 + 1):
        equal = np.concatenate(([0], numbers[:-period] == numbers[period:], [0])).astype(np.int8)
        edges = np.diff(equal)
        for start, stop in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
            if stop - start >= period:
                found.append((period, int(start), int(stop) + period))
    found = [run for run in found if ((run[2] - run[1]) // run[0] - 1) * run[0] > least]
    return sorted(found, key=lambda run: (-((run[2] - run[1]) // run[0] - 1) * run[0], run[0], run[1]))


def _everywhere(block: Windows, labels: list[int]) -> Windows:
    """The block with its occurrences that stand elsewhere in the function."""
    body, length, first = block.function.body, block.length, block.starts[0]
    wanted, connected = labels[first : first + length], wiring(body, first, length)
    taken = {i for s in block.starts for i in range(s, s + length)}
    starts = list(block.starts)
    for s in range(len(labels) - length + 1):
        if labels[s] != wanted[0] or s in taken or s + length - 1 in taken or labels[s : s + length] != wanted:
            continue
        if taken.isdisjoint(range(s, s + length)) and wiring(body, s, length) == connected:
            taken.update(range(s, s + length))
            starts.append(s)
    return Windows(block.function, tuple(sorted(starts)), length)


def _named(block: Windows, scopes: Scopes) -> str:
    """What the function of a block is called: the class or the name of the innermost module that holds most of it."""
    of_first = [scopes[n] for s in block.at(block.starts[0]) for n in results(s) if n in scopes]
    depth, best = 1, "block"  # the outermost module holds everything, and says nothing
    votes = Counter(scope[: i + 1] for scope in of_first for i in range(len(scope)))
    for scope, number in votes.items():
        name, cls = scope[-1]
        if 4 * number >= 3 * len(of_first) > 0 and len(scope) > depth:
            parts = [part for part in name.split(".") if part and not part.isdigit()]
            depth, best = len(scope), cls or (parts[-1] if parts else best)
    return value_name(best)
