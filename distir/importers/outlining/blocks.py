"""Functions made of blocks: runs of statements that occur in a program several times, or once.

What connects a block with the outside becomes parameters and results, so a call means what the block meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from distir.importers.names import value_name
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Call,
    Facts,
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
from distir.ir.dataflow import uses
from distir.ir.rewrite import facts_of, shared, stated_with

Scopes = Mapping[str, tuple[tuple[str, str], ...]]
"""For results: the modules that they were computed in, from the outermost, as names and classes."""


@dataclass(frozen=True, slots=True)
class OutlinedBlock:
    """Where a block stands: the first statement of each occurrence, and how many there are in one."""

    starts: tuple[int, ...]
    length: int


def labels_of(body: Sequence[Statement]) -> list[int]:
    """A number for each statement, equal for those that do the same, whatever the names of values."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(_label(statement), len(numbers)) for statement in body]


def _label(statement: Statement) -> Any:
    match statement:
        case Apply(rs, op, args, attrs, claims, stream):
            return (op, attrs, _pattern(args), tuple(map(bool, rs)), claims, stream)
        case Call(rs, callee, args, claims, stream):
            return ("@", callee, _pattern(args), tuple(map(bool, rs)), claims, stream)
        case _:
            return id(statement)


def _pattern(args: Iterable[Arg]) -> Any:
    """Arguments without the names of values; a left-out operand is not like one that is there."""
    return tuple(bool(a) if isinstance(a, str) else _pattern(a) if isinstance(a, tuple) else a for a in args)


def wiring(body: Sequence[Statement], start: int, length: int) -> tuple[Any, ...]:
    """How the statements of an occurrence are connected: for each operand the place that makes it, if it is inside."""
    places: dict[str, tuple[int, int]] = {}
    wiring: list[Any] = []
    for i, statement in enumerate(body[start : start + length]):
        wiring.append(tuple(places.get(name) for name in names(operands(statement))))
        places.update((name, (i, k)) for k, name in enumerate(results(statement)) if name)
    return tuple(wiring)


def replaced(
    function: Function, block: OutlinedBlock, name: str, stated: Mapping[str, Type], prefix: str = ""
) -> tuple[Function, Function]:
    """The function of a block, and the function with its calls.

    `prefix`: what names in the first occurrence begin with that the function's names are to lack.
    """
    body, length = function.body, block.length
    occurrences = [body[s : s + length] for s in block.starts]
    taken = _taken(occurrences)
    given = _given(function, block)
    short = _shortening(occurrences, prefix)
    inside, around = shared([[*map(facts_of, occurrence)] for occurrence in occurrences])
    inner = _inner(name, stated, [*map(stated_with, occurrences[0], inside)], taken, given, short)
    calls = dict(zip(block.starts, _calls(name, occurrences, taken, given, around), strict=True))
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


def _given(function: Function, block: OutlinedBlock) -> list[tuple[int, int]]:
    """What the block gives to the outside, in any of its occurrences: the statement and the number of the result."""
    used = uses(function)
    found: set[tuple[int, int]] = set()
    for start in block.starts:
        for i in range(block.length):
            for k, name in enumerate(results(function.body[start + i])):
                if name and any(not start <= use < start + block.length for use in used.get(name, ())):
                    found.add((i, k))
    return sorted(found)


def _inner(
    name: str,
    stated: Mapping[str, Type],
    first: Sequence[Statement],
    taken: list[tuple[str, ...]],
    given: list[tuple[int, int]],
    short: Callable[[tuple[str, ...]], str],
) -> Function:
    f = FunctionBuilder(name)
    mapping = {DISCARD: DISCARD}
    for used in taken:
        mapping[used[0]] = f.param(short(used), _shared_type([stated.get(n, types.UNKNOWN) for n in used]))
    for statement in first:
        args = _mapped(operands(statement), mapping)
        rs = tuple(f.fresh(short((r,))) if r else DISCARD for r in results(statement))
        mapping.update(zip(results(statement), rs, strict=True))
        mapping[DISCARD] = DISCARD
        if isinstance(statement, (Apply, Call)):
            f.body.append(replace(statement, results=rs, args=args))
    return f.returns(*(mapping[results(first[i])[k]] for i, k in given))


def _calls(
    name: str,
    occurrences: Sequence[Sequence[Statement]],
    taken: list[tuple[str, ...]],
    given: list[tuple[int, int]],
    facts: Sequence[Facts],
) -> Iterable[Call]:
    for number, occurrence in enumerate(occurrences):
        rs = tuple(results(occurrence[i])[k] for i, k in given)
        yield Call(rs, name, tuple(used[number] for used in taken), facts=facts[number])


def with_layers(function: Function, layers: Iterable[Function]) -> Function:
    """The function, whose calls of `layers` state which layer each of them is, in their order."""
    names, number = {layer.name for layer in layers}, count(1)
    body = (
        replace(s, facts=replace(s.facts, layer=next(number))) if isinstance(s, Call) and s.function in names else s
        for s in function.body
    )
    return replace(function, body=tuple(body))


def _mapped(args: Iterable[Arg], mapping: Mapping[str, str]) -> tuple[Arg, ...]:
    return tuple(mapping[a] if isinstance(a, str) else _mapped(a, mapping) if isinstance(a, tuple) else a for a in args)


def _shared_type(stated: Sequence[Type]) -> Type:
    """The type of all values that are passed in one place, the device left open unless it is the host."""
    (found, *others) = set(stated)
    if others or not isinstance(found, TensorType):
        return types.UNKNOWN
    plain = all(isinstance(dim, int) or (dim is not None and str(dim) in dim.names) for dim in found.shape or ())
    device = HOST if found.device == HOST else None
    return TensorType(found.dtype, found.shape, device, found.offloaded) if plain else types.UNKNOWN


def _shortening(occurrences: Sequence[Sequence[Statement]], prefix: str) -> Callable[[tuple[str, ...]], str]:
    """From names to names without what tells one occurrence from another: `h.0.attn.Add` is `attn.Add`."""
    prefix = prefix or _common_prefix(occurrences)

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


def _common_prefix(occurrences: Sequence[Sequence[Statement]]) -> str:
    """What most names in the first occurrence begin with, up to the number in which the second differs."""
    if len(occurrences) < 2:
        return ""
    firsts, seconds = ([n for s in o for n in results(s) if n] for o in occurrences[:2])
    numbers = Counter(
        tuple(a.split(".")[: i + 1])
        for a, b in zip(firsts, seconds, strict=True)
        if (i := _difference(a.split("."), b.split("."))) is not None
    )
    return ".".join(numbers.most_common(1)[0][0]) + "." if numbers else ""


def _difference(a: list[str], b: list[str]) -> int | None:
    """The first number among the parts in which two dotted names differ."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y and x.isdigit() and y.isdigit()), None)


def fresh_name(hint: str, used: set[str]) -> str:
    """A name that is not used yet, and is from now on: the hint, or the hint with a number."""
    name = next(n for n in (hint, *(f"{hint}_{i}" for i in range(1, len(used) + 2))) if n not in used)
    used.add(name)
    return name
