"""A program with few of its equal layers, and how often each of these few counts for the whole.

Layers are calls of one function in the entry, of which each continues what the one before it gave. Without some of
them, what they carry on passes them by, and whatever depends on their other results (their backward passes, the updates
of their weights) is left out, too. Where layers are alike, what the whole program does is that of the shortest one, and
as often as layers are missing what one layer more adds to it. So `parts` gives programs with factors; that the
statements of the entry add up to those of the whole is checked. That a layer can be left out is a matter of how calls
are wired; which layer a call is of (`layer`) does not say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from distir.ir import DISCARD, Apply, Arg, Call, Function, Module, Return, Statement, names, operands
from distir.ir.rewrite import with_operands

FEW = 2
"""How many layers of a kind the shortest program has: the first and the last one may differ from those between."""


class PartOf(NamedTuple):
    """A program, and how often it counts for the whole."""

    factor: int
    module: Module


@dataclass(frozen=True, slots=True)
class _Run:
    """The calls of a function; by place of a result, that of the argument of the next call which it is."""

    calls: int
    carried: Mapping[int, int]


@lru_cache(maxsize=8)
def parts(module: Module) -> tuple[PartOf, ...]:
    """Short programs of which the sum is the program; the program itself where its layers are not found."""
    entry = module.entry()
    alone = (PartOf(1, module),)
    if entry is None:
        return alone
    found, least = dict[str, int](), entry
    for function, run in _runs(entry).items():  # those of backward passes are short when their turn comes
        if _runs(least).get(function) == run and run.calls > FEW + 1:
            found[function] = run.calls
            least = _shortened(least, {function: FEW})
    if not found:
        return alone
    longer = [_shortened(entry, {**dict.fromkeys(found, FEW), function: FEW + 1}) for function in found]
    missing = [calls - FEW for calls in found.values()]
    sums = [(1 - sum(missing), least), *zip(missing, longer, strict=True)]
    does = Counter[str]()
    for factor, function in sums:
        for what, times in _does(function).items():
            does[what] += factor * times
    if {what: times for what, times in does.items() if times} != _does(entry):
        return alone
    return tuple(PartOf(factor, _with_entry(module, function)) for factor, function in sums)


def _runs(entry: Function) -> dict[str, _Run]:
    """By function: its calls, where each continues the one before it."""
    calls: dict[str, list[Call]] = {}
    for statement in entry.body:
        if isinstance(statement, Call):
            calls.setdefault(statement.function, []).append(statement)
    found: dict[str, _Run] = {}
    for function, own in calls.items():
        carried = _carried(own)
        if carried:
            found[function] = _Run(len(own), carried)
    return found


def _carried(calls: Sequence[Call]) -> dict[int, int]:
    found: dict[int, int] | None = None
    for one, following in pairwise(calls):
        pairs = {
            result: place
            for result, name in enumerate(one.results)
            for place, arg in enumerate(following.args)
            if arg == name and name != DISCARD
        }
        found = pairs if found is None else dict(found.items() & pairs.items())
    return found or {}


def _shortened(entry: Function, kept: Mapping[str, int]) -> Function:
    """The entry function with only as many calls of each function, the first ones, as `kept` says."""
    runs = _runs(entry)
    instead: dict[str, str] = {}
    gone: set[str] = set()
    met, body = Counter[str](), list[Statement]()
    for statement in entry.body:
        if isinstance(statement, Return):
            body.append(Return(tuple(arg for arg in _renamed(statement.args, instead) if not gone & {*names([arg])})))
            continue
        assert isinstance(statement, Apply | Call)
        statement = with_operands(statement, instead)
        function = statement.function if isinstance(statement, Call) else ""
        met[function] += 1
        if met[function] <= kept.get(function, met[function]) and not gone & {*names(statement.args)}:
            body.append(statement)
            continue
        for result, name in enumerate(statement.results):
            place = runs[function].carried.get(result) if function in runs else None
            arg = None if place is None else statement.args[place]
            if isinstance(arg, str) and arg not in gone:
                instead[name] = arg
            else:
                gone.add(name)
    gone.discard(DISCARD)
    types = entry.result_types
    if types is not None:
        left = [not gone & {*names([arg])} for arg in _renamed(entry.returned, instead)]
        types = tuple(stated for stated, there in zip(types, left, strict=True) if there)
    before = {name for statement in entry.body for name in names(operands(statement))}
    after = {name for statement in body for name in names(operands(statement))}
    params = tuple(param for param in entry.params if param.name in after or param.name not in before)
    return replace(entry, params=params, body=tuple(body), result_types=types)


def _renamed(args: Sequence[Arg], instead: Mapping[str, str]) -> tuple[Arg, ...]:
    made = with_operands(Return(tuple(args)), instead)
    assert isinstance(made, Return)
    return made.args


def _does(function: Function) -> Counter[str]:
    """How often each op is applied, and each function called."""
    return Counter(
        statement.op if isinstance(statement, Apply) else f"@{statement.function}"
        for statement in function.body
        if isinstance(statement, Apply | Call)
    )


def _with_entry(module: Module, entry: Function) -> Module:
    return Module(entry if function.name == entry.name else function for function in module)
