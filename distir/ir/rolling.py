"""Writes what a program does several times as counted statements, and writes those out (`ir/counted.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.ir.builder import FunctionBuilder
from distir.ir.core import DISCARD, Apply, Arg, Call, Function, Module, Statement, names, operands, results
from distir.ir.counted import (
    NUMBERS,
    Counted,
    Repeatable,
    as_call,
    counted,
    does,
    integers,
    is_counted,
    of_another,
    pattern,
)

LEAST = 4
"""How often something is done at least that `rolled` writes as a counted statement."""

SAVED = 6
"""How many lines are saved at least, where statements are no calls of one function."""

LONGEST = 200
"""The most statements that are done each time."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A module whose counted statements are written out, and where each statement comes from."""

    module: Module
    origins: Mapping[str, Sequence[int]]
    """By function that had counted statements: for each statement, the number of the one that it was."""


def unrolled(module: Module) -> Module:
    """The module with its counted statements written out; itself where it has none."""
    return unrolled_from(module).module


def unrolled_from(module: Module) -> Unrolled:
    """The same, with where each statement comes from."""
    found = {function.name: function for function in module if is_counted(function)}
    if not found:
        return Unrolled(module, {})
    functions: list[Function] = []
    origins: dict[str, Sequence[int]] = {}
    kept = module.entry()
    for function in module:
        if function.name in found and function is not kept:
            continue
        written = list(_written_out(function, found))
        if len(written) != len(function.body):
            origins[function.name] = [number for number, _ in written]
            function = replace(function, body=tuple(statement for _, statement in written))
        functions.append(function)
    return Unrolled(Module(functions), origins)


def _written_out(function: Function, found: Mapping[str, Function]) -> Iterator[tuple[int, Statement]]:
    builder = FunctionBuilder(function.name)
    builder.take(param.name for param in function.params)
    for statement in function.body:
        builder.take(results(statement))
    for number, statement in enumerate(function.body):
        if isinstance(statement, Call) and statement.function in found:
            for one in statements_of(statement, found[statement.function], builder):
                yield number, one
        else:
            yield number, statement


def statements_of(call: Call, function: Function, builder: FunctionBuilder) -> list[Repeatable]:
    """What a call of a counted function means; `builder` has the names that are taken."""
    inside: dict[str, Arg] = dict(zip((param.name for param in function.params), call.args, strict=True))
    known = dict(zip(names(function.returned), call.results, strict=True))
    body = [one for one in function.body if isinstance(one, (Apply, Call))]
    written = counted(function)
    assert written is not None
    period, times = len(written.statements), written.times
    hints = [[known.get(name) for name in one.results] for one in body[-period:]]
    made: list[Repeatable] = []
    for number, one in enumerate(body):
        args = tuple(inside[arg] if isinstance(arg, str) and arg else arg for arg in one.args)
        last = hints[number % period]
        given = [
            known.get(name) or builder.fresh(_numbered(last[place] or name, number // period + 1, times))
            if name
            else DISCARD
            for place, name in enumerate(one.results)
        ]
        inside.update({name: outer for name, outer in zip(one.results, given, strict=True) if name})
        of = inside.get(one.facts.of, "")
        own = of_another(one.facts, {one.facts.of: of}) if isinstance(of, str) and of else one.facts
        stream, facts = one.stream or call.stream, own.within(call.facts)
        made.append(replace(one, results=tuple(given), args=args, facts=facts, stream=stream))
    return made


def _numbered(last: str, number: int, times: int) -> str:
    """What to call what is given at one of several times, by what the last gives: `%x3` for `%x32`."""
    return f"{last.removesuffix(str(times))}{number}" if last.endswith(str(times)) else f"{last}_{number}"


def with_counted(functions: Iterable[Function], called: Mapping[str, Function]) -> Module:
    """A module of functions and of those that their counted statements call: each stands before its first caller."""
    if not called:
        return Module(functions)
    left = dict(called)
    found: list[Function] = []
    for function in functions:
        for statement in function.body:
            if isinstance(statement, Call) and statement.function in left:
                found.append(left.pop(statement.function))
        found.append(function)
    return Module({function.name: function for function in found}.values())


def rolled(module: Module) -> Module:
    """The module with what is done at least `LEAST` times as counted statements; itself where there is nothing."""
    made: dict[str, Function] = {}
    functions: list[Function] = []
    apart = frozenset(function.name for function in module if is_counted(function))
    for function in module:
        if function.kernel or function.name in apart:
            functions.append(function)
            continue
        body, new = _Rolling(function, apart).done()
        for each in new:
            if each.name not in module.functions and made.setdefault(each.name, each) is each:
                functions.append(each)
        functions.append(function if not new else replace(function, body=body))
    return Module(functions) if made else module


class _Rolling:
    """The body of a function in which runs of statements become counted ones. `apart`: functions that are counted."""

    def __init__(self, function: Function, apart: frozenset[str]) -> None:
        self.body, self.apart = function.body, apart
        self.used = {name: index for index, statement in enumerate(self.body) for name in names(operands(statement))}
        """By value: the last statement that uses it."""
        self.kinds = _kinds(self.body, apart)
        self.following = _following(self.kinds)
        self.integers: dict[int, list[int]] = {}
        """By statement: the numbers in it that may count on."""

    def done(self) -> tuple[tuple[Statement, ...], list[Function]]:
        """The body, and the counted functions that it calls."""
        body: list[Statement] = []
        made: list[Function] = []
        index = tried = 0
        while index < len(self.body):
            found = self._calls(index)
            if found is None and index >= tried and (times := self._times(index)):
                found = self._counted(index, index + times * self.following[index], self.following[index])
                tried = index + self.following[index]
            if found is None:
                body.append(self.body[index])
                index += 1
            else:
                call, callee, index = found
                body.append(call)
                made.append(callee)
        return tuple(body), made

    def _calls(self, start: int) -> tuple[Call, Function, int] | None:
        """Calls of one function from a statement on, whatever their values are called."""
        end = _run(self.body, start, self.apart)
        return self._counted(start, end, 1) if end - start >= LEAST else None

    def _times(self, start: int) -> int:
        """How often statements are repeated from one on, with names that count on; 0 where it saves too little."""
        period, kinds = self.following[start], self.kinds
        first = kinds[start : start + period]
        if not period or 0 in first or first != kinds[start + period : start + 2 * period]:
            return 0
        steps = [self._step(index, period) for index in range(start + period, start + 2 * period)]
        index = start + 2 * period
        while (
            index < len(kinds)
            and kinds[index] == kinds[index - period]
            and self._step(index, period) == steps[(index - start) % period]
        ):
            index += 1
        times = (index - start) // period
        saved = period * (times - 1) - 2 * (period > 1)
        return times if times >= LEAST and saved >= SAVED else 0

    def _step(self, index: int, period: int) -> list[int]:
        """By how much the numbers of a statement are more than those of the one a period before."""
        return [n - m for m, n in zip(self._integers(index - period), self._integers(index), strict=True)]

    def _integers(self, index: int) -> list[int]:
        if index not in self.integers:
            statement = self.body[index]
            self.integers[index] = integers(statement) if isinstance(statement, (Apply, Call)) else []
        return self.integers[index]

    def _counted(self, start: int, end: int, period: int) -> tuple[Call, Function, int] | None:
        body = [s for s in self.body[start:end] if isinstance(s, (Apply, Call))]
        last = {name for one in body[-period:] for name in one.results}
        outside = {name for one in body for name in one.results if self.used.get(name, -1) >= end}
        known = outside | last | self._names_of_their_own(body, period)
        found = _named(body, period, known - {DISCARD})
        return None if found is None else (*as_call(found), end)

    def _names_of_their_own(self, body: Sequence[Repeatable], period: int) -> set[str]:
        """Results that others use, by names that do not follow from those of the last time."""
        last = [one.results for one in body[-period:]]
        times = len(body) // period
        return {
            name
            for number, one in enumerate(body)
            for place, name in enumerate(one.results)
            if name in self.used and name != _numbered(last[number % period][place], number // period + 1, times)
        }


_DIGITS = re.compile(r"\d+")


def _kinds(body: Sequence[Statement], apart: frozenset[str]) -> list[int]:
    """A number for each statement: the same for those that differ in operands and in numbers alone; 0 for others."""
    found: dict[object, int] = {}
    kinds: list[int] = []
    for statement in body:
        is_counted = isinstance(statement, Call) and statement.function in apart
        if (
            not isinstance(statement, (Apply, Call))
            or is_counted
            or any(isinstance(arg, tuple) for arg in statement.args)
        ):
            kinds.append(0)
            continue
        stated = statement.facts
        facts = (stated.phase, *(bool(getattr(stated, name)) for name in (*NUMBERS, "of")))
        shape = (len(statement.args), *(_DIGITS.sub("#", name) for name in statement.results))
        key = does(statement), statement.claims, statement.stream, facts, shape
        kinds.append(found.setdefault(key, len(found) + 1))
    return kinds


def _following(kinds: Sequence[int]) -> list[int]:
    """For each statement, how far the next one of its kind is; 0 where there is none near."""
    last: dict[int, int] = {}
    found = [0] * len(kinds)
    for index in range(len(kinds) - 1, -1, -1):
        kind = kinds[index]
        if kind and kind in last and last[kind] - index <= LONGEST:
            found[index] = last[kind] - index
        last[kind] = index
    return found


def _named(body: Sequence[Repeatable], period: int, returned: set[str]) -> Counted | None:
    """The counted statement, with names for all that lists of operands hold of what earlier ones gave."""
    made = {name for one in body for name in one.results}
    while (found := pattern(body, period, returned)) is not None:
        listed = {
            item
            for each in found.statements
            for operand in each.operands
            if isinstance(operand, tuple)
            for item in operand
        }
        missing = made.intersection(item for item in listed if isinstance(item, str)) - returned - {DISCARD}
        if not missing:
            break
        returned = returned | missing
    return found


def _run(body: Sequence[Statement], start: int, apart: frozenset[str]) -> int:
    """Where the calls of one function end that begin at a statement, and whose facts count on evenly."""
    first = body[start]
    if not isinstance(first, Call) or first.function in apart:
        return start
    end = start + 1
    step: tuple[int, ...] | None = None
    while end < len(body) and isinstance(other := body[end], Call):
        before = body[end - 1]
        assert isinstance(before, Call)
        counted_on = tuple(getattr(other.facts, name) - getattr(before.facts, name) for name in NUMBERS)
        step = counted_on if step is None else step
        same = (first.function, first.claims, first.stream, first.facts.phase, first.facts.of)
        if (
            other.function,
            other.claims,
            other.stream,
            other.facts.phase,
            other.facts.of,
        ) != same or counted_on != step:
            break
        end += 1
    return end
