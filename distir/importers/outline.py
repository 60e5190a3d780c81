"""Repeated blocks as functions: a program of n equal layers becomes one function and n calls.

A block is a run of statements that stands in a program several times: the same ops with the same attributes and
literals, connected in the same way inside. What connects it with the outside becomes parameters and results, so a call
means what the block meant. Blocks are found among runs that repeat at once, one after the other; the period that saves
the most statements is taken first, and cut where the fewest values cross. Knows no format of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distir.importers.names import value_name
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Call,
    Function,
    Statement,
    TensorType,
    Type,
    names,
    operands,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder

Scopes = Mapping[str, tuple[tuple[str, str], ...]]
"""For results: the modules that they were computed in, from the outermost, as names and classes."""

SHORTEST = 4
"""Ops of the shortest block that is worth a function, and statements that it must save at least."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where a block stands: the first statement of each occurrence, and how many there are in one."""

    starts: tuple[int, ...]
    length: int


def outlined(
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
        name = _fresh(_named(function, block, scopes or {}), used)
        inner, function = _replaced(function, block, name, stated or {})
        made.append(inner)
    return tuple(made), function


def _find(function: Function) -> Block | None:
    """The repeated block that saves the most statements, if there is one."""
    body = function.body[:-1]
    labels = _labels(body)
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


def _labels(body: Sequence[Statement]) -> list[int]:
    """A number for each statement, equal for those that do the same, whatever the names of values."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(_label(statement), len(numbers)) for statement in body]


def _label(statement: Statement) -> Any:
    match statement:
        case Apply(rs, op, args, attrs, claims):
            return (op, attrs, _pattern(args), tuple(map(bool, rs)), claims)
        case Call(rs, callee, args, claims):
            return ("@", callee, _pattern(args), tuple(map(bool, rs)), claims)
        case _:
            return id(statement)


def _pattern(args: Iterable[Arg]) -> Any:
    """Arguments without the names of values; a left-out operand is not like one that is there."""
    return tuple(bool(a) if isinstance(a, str) else _pattern(a) if isinstance(a, tuple) else a for a in args)


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


def _cut(function: Function, period: int, start: int, end: int) -> Block | None:
    """The block cut where the fewest values cross its border, of those occurrences that are connected alike."""
    count = (end - start) // period
    uses = _last_uses(function)
    offsets = range(start, end - count * period + 1)
    best: Block | None = None
    score: tuple[int, int] | None = None
    for first in offsets:
        starts = tuple(range(first, first + count * period, period))
        kinds = [_wiring(function.body, s, period) for s in starts]
        (common, number), *_ = Counter(kinds).most_common(1)
        if number < 2:
            continue
        alike = tuple(s for s, kind in zip(starts, kinds, strict=True) if kind == common)
        crossing = _crossing(function.body, alike[0], period, uses)
        if score is None or (-number, crossing) < score:
            best, score = Block(alike, period), (-number, crossing)
    return best


def _everywhere(function: Function, block: Block, labels: list[int]) -> Block:
    """The block with its occurrences that stand elsewhere in the function."""
    length = block.length
    wanted = labels[block.starts[0] : block.starts[0] + length]
    wiring = _wiring(function.body, block.starts[0], length)
    taken = {i for s in block.starts for i in range(s, s + length)}
    starts = list(block.starts)
    for s in range(len(labels) - length + 1):
        if labels[s] != wanted[0] or s in taken or s + length - 1 in taken or labels[s : s + length] != wanted:
            continue
        if taken.isdisjoint(range(s, s + length)) and _wiring(function.body, s, length) == wiring:
            taken.update(range(s, s + length))
            starts.append(s)
    return Block(tuple(sorted(starts)), length)


def _wiring(body: Sequence[Statement], start: int, length: int) -> tuple[Any, ...]:
    """How the statements of an occurrence are connected: for each operand the place that makes it, if it is inside."""
    places: dict[str, tuple[int, int]] = {}
    wiring: list[Any] = []
    for i, statement in enumerate(body[start : start + length]):
        wiring.append(tuple(places.get(name) for name in names(operands(statement))))
        places.update((name, (i, k)) for k, name in enumerate(results(statement)) if name)
    return tuple(wiring)


def _last_uses(function: Function) -> dict[str, int]:
    return {name: i for i, statement in enumerate(function.body) for name in names(operands(statement))}


def _crossing(body: Sequence[Statement], start: int, length: int, uses: Mapping[str, int]) -> int:
    """How many values an occurrence takes, and gives to what follows it."""
    inside = {name for s in body[start : start + length] for name in results(s) if name}
    taken = {name for s in body[start : start + length] for name in names(operands(s))} - inside
    return len(taken) + sum(uses.get(name, 0) >= start + length for name in inside)


def _replaced(function: Function, block: Block, name: str, stated: Mapping[str, Type]) -> tuple[Function, Function]:
    """The function of a block, and the function with its calls."""
    body, length = function.body, block.length
    occurrences = [body[s : s + length] for s in block.starts]
    taken = _taken(occurrences)
    given = _given(function, block)
    inner = _inner(name, stated, occurrences, taken, given)
    calls = dict(zip(block.starts, _calls(name, occurrences, taken, given), strict=True))
    covered = {i for s in block.starts for i in range(s, s + length)}
    statements = [calls.get(i, s) for i, s in enumerate(body) if i in calls or i not in covered]
    return inner, Function(function.name, function.params, tuple(statements), function.result_types)


def _taken(occurrences: Sequence[Sequence[Statement]]) -> list[tuple[str, ...]]:
    """What the block takes from outside: a name for each occurrence. Those that agree everywhere are one."""
    found: dict[tuple[str, ...], None] = {}
    inside = [{n for s in o for n in results(s)} - {DISCARD} for o in occurrences]
    for statements in zip(*occurrences, strict=True):
        for used in zip(*(names(operands(s)) for s in statements), strict=True):
            if used[0] not in inside[0]:
                found[used] = None
    return list(found)


def _given(function: Function, block: Block) -> list[tuple[int, int]]:
    """What the block gives to the outside, in any of its occurrences: the statement and the number of the result."""
    uses: dict[str, list[int]] = {}
    for i, statement in enumerate(function.body):
        for name in names(operands(statement)):
            uses.setdefault(name, []).append(i)
    found: set[tuple[int, int]] = set()
    for start in block.starts:
        for i in range(block.length):
            for k, name in enumerate(results(function.body[start + i])):
                if name and any(not start <= use < start + block.length for use in uses.get(name, ())):
                    found.add((i, k))
    return sorted(found)


def _inner(
    name: str,
    stated: Mapping[str, Type],
    occurrences: Sequence[Sequence[Statement]],
    taken: list[tuple[str, ...]],
    given: list[tuple[int, int]],
) -> Function:
    f = FunctionBuilder(name)
    mapping = {DISCARD: DISCARD}
    short = _shortening(occurrences)
    for used in taken:
        mapping[used[0]] = f.param(short(used), _shared_type([stated.get(n, types.UNKNOWN) for n in used]))
    for statement in occurrences[0]:
        args = _mapped(operands(statement), mapping)
        rs = tuple(f.fresh(short((r,))) if r else DISCARD for r in results(statement))
        mapping.update(zip(results(statement), rs, strict=True))
        mapping[DISCARD] = DISCARD
        if isinstance(statement, Apply):
            f.body.append(Apply(rs, statement.op, args, statement.attrs, statement.claims))
        elif isinstance(statement, Call):
            f.body.append(Call(rs, statement.function, args, statement.claims))
    return f.returns(*(mapping[results(occurrences[0][i])[k]] for i, k in given))


def _calls(
    name: str,
    occurrences: Sequence[Sequence[Statement]],
    taken: list[tuple[str, ...]],
    given: list[tuple[int, int]],
) -> Iterable[Call]:
    for number, occurrence in enumerate(occurrences):
        rs = tuple(results(occurrence[i])[k] for i, k in given)
        yield Call(rs, name, tuple(used[number] for used in taken))


def _mapped(args: Iterable[Arg], mapping: Mapping[str, str]) -> tuple[Arg, ...]:
    return tuple(mapping[a] if isinstance(a, str) else _mapped(a, mapping) if isinstance(a, tuple) else a for a in args)


def _shared_type(stated: Sequence[Type]) -> Type:
    """The type of all values that are passed in one place, the device left open unless it is the host."""
    (found, *others) = set(stated)
    if others or not isinstance(found, TensorType):
        return types.UNKNOWN
    plain = all(isinstance(dim, int) or (dim is not None and str(dim) in dim.names) for dim in found.shape or ())
    device = HOST if found.device == HOST else None
    return TensorType(found.dtype, found.shape, device) if plain else types.UNKNOWN


def _shortening(occurrences: Sequence[Sequence[Statement]]) -> Any:
    """From names to names without what tells one occurrence from another: `h.0.attn.Add` is `attn.Add`."""
    firsts, seconds = ([n for s in o for n in results(s) if n] for o in occurrences[:2])
    numbers = Counter(
        tuple(a.split(".")[: i + 1])
        for a, b in zip(firsts, seconds, strict=True)
        if (i := _difference(a.split("."), b.split("."))) is not None
    )
    prefix = ".".join(numbers.most_common(1)[0][0]) + "." if numbers else ""

    def short(used: tuple[str, ...]) -> str:
        name = used[0]
        if prefix and name.startswith(prefix):
            return name[len(prefix) :] or name
        if len(set(used)) > 1:
            parts = [name.split(".") for name in used[:2]]
            i = _difference(*parts)
            if i is not None and i + 1 < len(parts[0]):
                return value_name(".".join(parts[0][i + 1 :]))
        return name.rpartition(".")[2] if prefix else name

    return short


def _difference(a: list[str], b: list[str]) -> int | None:
    """The first number among the parts in which two dotted names differ."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y and x.isdigit() and y.isdigit()), None)


def _named(function: Function, block: Block, scopes: Scopes) -> str:
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


def _fresh(hint: str, used: set[str]) -> str:
    name = next(n for n in (hint, *(f"{hint}_{i}" for i in range(1, len(used) + 2))) if n not in used)
    used.add(name)
    return name
