"""Repeated blocks as functions: a program of n equal layers becomes one function and n calls.

A block is a run of statements that occurs in a program several times: the same ops with the same attributes and
literals, connected in the same way inside. What connects it with the outside becomes parameters and results, so a call
means what the block meant. Blocks are found among runs that repeat at once, one after the other; the period that saves
the most statements is taken first, and cut where the fewest values cross. Blocks each of which is made of the one
before are layers, and their calls state which. Knows no format of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from distir.importers.names import value_name
from distir.importers.outlining.blocks import (
    OutlinedBlock,
    Scopes,
    fresh_name,
    labels_of,
    replaced,
    wiring,
    with_layers,
)
from distir.ir import Apply, Call, Function, Statement, Type, names, operands, results
from distir.ir.rewrite import facts_of

SHORTEST = 4
"""Ops of the shortest block that is worth a function, and statements that it must save at least."""


def repeats_outlined(
    function: Function,
    scopes: Scopes | None = None,
    stated: Mapping[str, Type] | None = None,
    taken: Iterable[str] = (),
) -> tuple[tuple[Function, ...], Function]:
    """The functions made of a function's repeated blocks, and the function with calls in their places.

    `stated`: types of the function's values, to be written at the new functions' parameters where all occurrences
    agree. `taken`: names that the new functions must not have.
    """
    made: list[Function] = []
    used = {function.name, *taken}
    while (block := _find(function)) is not None:
        name = fresh_name(_named(function, block, scopes or {}), used)
        inner, function = replaced(function, block, name, stated or {})
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


def _find(function: Function) -> OutlinedBlock | None:
    """The repeated block that saves the most statements, if there is one."""
    body = function.body[:-1]
    labels = labels_of(body)
    best, saved = None, SHORTEST
    for period, start, end in _runs(labels, saved):
        count = (end - start) // period
        if (count - 1) * period <= saved:
            break
        block = _cut(function, period, start, end)
        if block is None:
            continue
        ops = sum(isinstance(s, Apply) for s in body[block.starts[0] : block.starts[0] + period])
        gain = (len(block.starts) - 1) * ops
        if ops >= SHORTEST and gain > saved:
            best, saved = block, gain
    return best and _everywhere(function, best, labels)


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


def _cut(function: Function, period: int, start: int, end: int) -> OutlinedBlock | None:
    """The block cut where the fewest values cross its border, of those occurrences that are connected alike."""
    count = (end - start) // period
    uses = _last_uses(function)
    offsets = range(start, end - count * period + 1)
    best: OutlinedBlock | None = None
    score: tuple[int, int] | None = None
    for first in offsets:
        starts = tuple(range(first, first + count * period, period))
        kinds = [wiring(function.body, s, period) for s in starts]
        (common, number), *_ = Counter(kinds).most_common(1)
        if number < 2:
            continue
        alike = tuple(s for s, kind in zip(starts, kinds, strict=True) if kind == common)
        crossing = _crossing(function.body, alike[0], period, uses)
        if score is None or (-number, crossing) < score:
            best, score = OutlinedBlock(alike, period), (-number, crossing)
    return best


def _everywhere(function: Function, block: OutlinedBlock, labels: list[int]) -> OutlinedBlock:
    """The block with its occurrences that stand elsewhere in the function."""
    length = block.length
    wanted = labels[block.starts[0] : block.starts[0] + length]
    connected = wiring(function.body, block.starts[0], length)
    taken = {i for s in block.starts for i in range(s, s + length)}
    starts = list(block.starts)
    for s in range(len(labels) - length + 1):
        if labels[s] != wanted[0] or s in taken or s + length - 1 in taken or labels[s : s + length] != wanted:
            continue
        if taken.isdisjoint(range(s, s + length)) and wiring(function.body, s, length) == connected:
            taken.update(range(s, s + length))
            starts.append(s)
    return OutlinedBlock(tuple(sorted(starts)), length)


def _last_uses(function: Function) -> dict[str, int]:
    return {name: i for i, statement in enumerate(function.body) for name in names(operands(statement))}


def _crossing(body: Sequence[Statement], start: int, length: int, uses: Mapping[str, int]) -> int:
    """How many values an occurrence takes, and gives to what follows it."""
    inside = {name for s in body[start : start + length] for name in results(s) if name}
    taken = {name for s in body[start : start + length] for name in names(operands(s))} - inside
    return len(taken) + sum(uses.get(name, 0) >= start + length for name in inside)


def _named(function: Function, block: OutlinedBlock, scopes: Scopes) -> str:
    """What the function of a block is called: the class or the name of the innermost module that holds most of it."""
    length = block.length
    first = function.body[block.starts[0] : block.starts[0] + length]
    of_first = [scopes[n] for s in first for n in results(s) if n in scopes]
    depth, best = 1, "block"  # the outermost module holds everything, and says nothing
    votes = Counter(scope[: i + 1] for scope in of_first for i in range(len(scope)))
    for scope, number in votes.items():
        name, cls = scope[-1]
        if 4 * number >= 3 * len(of_first) > 0 and len(scope) > depth:
            parts = [part for part in name.split(".") if part and not part.isdigit()]
            depth, best = len(scope), cls or (parts[-1] if parts else best)
    return value_name(best)
