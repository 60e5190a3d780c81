"""Counted calls: one statement that calls a function several times.

    %h, [%r_{1..4}] = @layer(%x then %h, %mask, [%w_{1..4}]) 4 times {layer = 1..4}

In a program it is a call of a *counted function*, whose body is these calls and nothing else: so it means its calls, to
each reader of programs, and costs what they cost. The text writes the calls in the statement's place, and not the
function (`as_call`, `as_counted`). `rolled` finds such calls in a program, `unrolled` writes them out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from distir.ir.builder import FunctionBuilder
from distir.ir.core import (
    DISCARD,
    Arg,
    Call,
    Claims,
    Function,
    Literal,
    Module,
    Param,
    Return,
    Statement,
    names,
    operands,
    results,
)
from distir.ir.facts import NO_FACTS, Facts
from distir.ir.types import UNKNOWN

LEAST = 4
"""The least number of calls that `rolled` writes as one statement."""

Item = str | Literal
"""What one call is given: a value's name or a constant."""


@dataclass(frozen=True, slots=True)
class Then:
    """`%x then %h`: `first` for the first call, for each later one what the one before gave as `result`."""

    first: Item
    result: str


Operand = Item | Then | tuple[Item, ...]
"""The same for each call, carried from call to call, or an item for each."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A counted call as it is written, with the caller's names.

    A result is the last call's value, or a list of each call's. `claims` are those of each call. `facts` are those of
    the first call, `last` those of the last: numbers of microbatches and layers between them count on evenly.
    """

    results: tuple[str | tuple[str, ...], ...]
    function: str
    operands: tuple[Operand, ...]
    times: int
    claims: Claims = ()
    stream: str = ""
    facts: Facts = NO_FACTS
    last: Facts = NO_FACTS


def as_call(written: Counted) -> tuple[Call, Function]:
    """The call of a counted function that a statement means, and this function."""
    return _Writing(written).done()


def only_call(written: Counted) -> Call:
    """The call that a statement means that is one call."""
    firsts = (o.first if isinstance(o, Then) else o[0] if isinstance(o, tuple) else o for o in written.operands)
    results = tuple(result[0] if isinstance(result, tuple) else result for result in written.results)
    return Call(results, written.function, tuple(firsts), written.claims, written.stream, written.facts)


def as_counted(call: Call, function: Function) -> Counted | None:
    """The statement that means a call of a counted function; None where there is none."""
    pattern = counted(function)
    if pattern is None or len(call.results) != len(function.returned) or len(call.args) != len(function.params):
        return None
    outer: dict[str, Item] = {}
    for param, arg in zip(function.params, call.args, strict=True):
        if isinstance(arg, tuple):
            return None
        outer[param.name] = arg
    outer.update(zip(names(function.returned), call.results, strict=True))
    found = _renamed(pattern, outer)
    facts, last = (each.within(call.facts) for each in (pattern.facts, pattern.last))
    found = replace(found, facts=facts, last=last if last != facts else NO_FACTS)
    return found if as_call(found) == (call, function) else None


def calls_in(function: Function) -> int:
    """How many calls a counted function makes; 0 for another function."""
    pattern = counted(function)
    return 0 if pattern is None else pattern.times


def counted(function: Function) -> Counted | None:
    """The counted call that a function consists of, with the function's own names; None for another function."""
    if len(function.body) < _SHORTEST or not all(isinstance(statement, Call) for statement in function.body[:-1]):
        return None
    return _counted(function)


_SHORTEST = 3
"""Two calls and a return."""


@lru_cache(maxsize=1 << 10)
def _counted(function: Function) -> Counted | None:
    *body, ending = function.body
    if not isinstance(ending, Return):
        return None
    pattern = _pattern([s for s in body if isinstance(s, Call)], set(names(ending.args)))
    return pattern if pattern is not None and as_call(pattern)[1] == function else None


def titled(function: Function) -> str:
    """What people call a function: @layer; a counted one by what it calls, and how often: @layer 4 times."""
    pattern = counted(function)
    return f"@{function.name}" if pattern is None else f"@{pattern.function} {pattern.times} times"


def called(function: Function) -> str:
    """The same, as messages quote it."""
    name, *times = titled(function).split(" ", 1)
    return " ".join((f"`{name}`", *times))


def _renamed(pattern: Counted, outer: Mapping[str, Item]) -> Counted:
    def item(name: Item) -> Item:
        return outer.get(name, name) if isinstance(name, str) else name

    def operand(found: Operand) -> Operand:
        match found:
            case Then(first, result):
                return Then(item(first), str(item(result)))
            case tuple():
                return tuple(map(item, found))
            case _:
                return item(found)

    given = tuple(
        tuple(str(item(name)) if name else name for name in each)
        if isinstance(each, tuple)
        else str(item(each))
        if each
        else each
        for each in pattern.results
    )
    return replace(pattern, results=given, operands=tuple(map(operand, pattern.operands)))


def _pattern(calls: Sequence[Call], returned: set[str]) -> Counted | None:
    """Calls as one statement; `returned` are the results that have names outside."""
    first, times = calls[0], len(calls)
    shape = (first.function, len(first.args), len(first.results), first.claims, first.stream)
    if any((c.function, len(c.args), len(c.results), c.claims, c.stream) != shape for c in calls):
        return None
    spread = _spread([call.facts for call in calls])
    if spread is None or any(isinstance(arg, tuple) for call in calls for arg in call.args):
        return None
    given: list[str | tuple[str, ...]] = []
    for column in zip(*(call.results for call in calls), strict=True):
        shown = tuple(name if name in returned else DISCARD for name in column)
        given.append(shown if any(shown[:-1]) else shown[-1])
    operands: list[Operand] = []
    for column in zip(*(call.args for call in calls), strict=True):
        operand = _operand(column, calls, given)
        if operand is None:
            return None
        operands.append(operand)
    return Counted(tuple(given), first.function, tuple(operands), times, first.claims, first.stream, *spread)


def _named_pattern(calls: Sequence[Call], returned: set[str]) -> Counted | None:
    """The same, with names for all that lists of operands hold of what earlier calls gave."""
    made = {name for call in calls for name in call.results}
    while (pattern := _pattern(calls, returned)) is not None:
        listed = {item for operand in pattern.operands if isinstance(operand, tuple) for item in operand}
        missing = made.intersection(item for item in listed if isinstance(item, str)) - returned
        if not missing:
            break
        returned = returned | missing
    return pattern


def _operand(column: Sequence[Item], calls: Sequence[Call], given: Sequence[str | tuple[str, ...]]) -> Operand | None:
    """What the calls are given in one operand's place; None where it cannot be written."""
    first = column[0]
    is_list = isinstance(first, Literal) and isinstance(first.value, tuple)
    may_begin = isinstance(first, str) or isinstance(first.value, (int, float))
    if all(item == first for item in column):
        return None if is_list else first
    for number, result in enumerate(given):
        before = [call.results[number] for call in calls[:-1]]
        if may_begin and isinstance(result, str) and result and list(column[1:]) == before and all(before):
            return Then(first, result)
    return tuple(column)


def _spread(facts: Sequence[Facts]) -> tuple[Facts, Facts] | None:
    """The facts of the first and the last of calls whose numbers count on evenly; None where they do not."""
    first, last, steps = facts[0], facts[-1], len(facts) - 1
    if (not first.microbatch, not first.layer) != (not last.microbatch, not last.layer):
        return None
    for number, each in enumerate(facts):
        if each != between(first, last, number, steps):
            return None
    return first, last


def between(first: Facts, last: Facts, number: int, steps: int) -> Facts:
    """The facts of call `number` of `steps` + 1, which count on evenly from those of the first to the last."""
    return replace(
        first,
        microbatch=first.microbatch + (last.microbatch - first.microbatch) * number // steps,
        layer=first.layer + (last.layer - first.layer) * number // steps,
    )


class _Writing:
    """A counted call that becomes a call and a function: parameters are named by operand, results by their place."""

    def __init__(self, written: Counted) -> None:
        self.written, self.times = written, written.times
        self.params: dict[str, str] = {}
        """By value of the caller: the parameter."""
        self.inside: dict[str, str] = {}
        """By result that the caller knows: what it is called inside."""
        self.named: dict[tuple[int, int], str] = {}
        """By result and call: what it is called inside."""
        for place, result in enumerate(written.results):
            items = result if isinstance(result, tuple) else (*[DISCARD] * (self.times - 1), result)
            for call, name in enumerate(items):
                if name:
                    self.named[place, call] = self.inside[name] = f"y{place + 1}_{call + 1}"

    def done(self) -> tuple[Call, Function]:
        written, times = self.written, self.times
        columns = [self._column(place, operand) for place, operand in enumerate(written.operands)]
        facts, relative = self._facts()
        outer = {inner: name for name, inner in self.inside.items()}
        given = [self.named[key] for key in sorted(self.named) if self.named[key] in outer]
        body: list[Statement] = [
            Call(
                tuple(self.named.get((place, call), DISCARD) for place in range(len(written.results))),
                written.function,
                tuple(column[call] for column in columns),
                written.claims,
                written.stream,
                relative[call],
            )
            for call in range(times)
        ]
        body.append(Return(tuple(given)))
        params = tuple(Param(name, UNKNOWN) for name in self.params.values())
        content = (params, tuple(body))
        digest = zlib.crc32(repr(content).encode())
        function = Function(f"{written.function}_x{times}_{digest:08x}", *content)
        results = tuple(outer[name] for name in given)
        return Call(results, function.name, tuple(self.params), facts=facts), function

    def _column(self, place: int, operand: Operand) -> Sequence[Item]:
        """What each call is given."""
        match operand:
            case Then(first, result):
                number = self.written.results.index(result)
                for call in range(self.times - 1):
                    self.named.setdefault((number, call), f"y{number + 1}_{call + 1}")
                later = [self.named[number, call] for call in range(self.times - 1)]
                return [self._item(first, f"x{place + 1}"), *later]
            case tuple():
                return [self._item(item, f"x{place + 1}_{call + 1}") for call, item in enumerate(operand)]
            case _:
                return [self._item(operand, f"x{place + 1}")] * self.times

    def _item(self, item: Item, hint: str) -> Item:
        if isinstance(item, Literal):
            return item
        return self.inside.get(item) or self.params.setdefault(item, hint)

    def _facts(self) -> tuple[Facts, list[Facts]]:
        """The facts of the call, and those of each call in the function, whose numbers count on from there."""
        first, last, steps = self.written.facts, self.written.last or self.written.facts, self.times - 1
        if first == last:
            return first, [NO_FACTS] * self.times
        least = replace(first, microbatch=min(first.microbatch, last.microbatch), layer=min(first.layer, last.layer))
        each = [between(first, last, number, steps) for number in range(self.times)]
        counts_microbatches, counts_layers = first.microbatch != last.microbatch, first.layer != last.layer
        return least, [
            Facts(
                microbatch=(one.microbatch - least.microbatch + 1) if counts_microbatches else 0,
                layer=(one.layer - least.layer + 1) if counts_layers else 0,
            )
            for one in each
        ]


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A module whose counted calls are written out, and where each statement comes from."""

    module: Module
    origins: Mapping[str, Sequence[int]]
    """By function that had counted calls: for each statement, the number of the one that it was."""


def unrolled(module: Module) -> Module:
    """The module with its counted calls written out; itself where it has none."""
    return unrolled_from(module).module


def unrolled_from(module: Module) -> Unrolled:
    """The same, with where each statement comes from."""
    found = {function.name: function for function in module if counted(function) is not None}
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
            for call in calls_of(statement, found[statement.function], builder):
                yield number, call
        else:
            yield number, statement


def calls_of(call: Call, function: Function, builder: FunctionBuilder) -> list[Call]:
    """The calls that a call of a counted function means; `builder` has the names that are taken."""
    inside: dict[str, Arg] = dict(zip((param.name for param in function.params), call.args, strict=True))
    known = dict(zip(names(function.returned), call.results, strict=True))
    calls = [one for one in function.body if isinstance(one, Call)]
    hints = {place: known[name] for place, name in enumerate(calls[-1].results) if known.get(name)}
    written: list[Call] = []
    for number, one in enumerate(calls, 1):
        args = tuple(inside[arg] if isinstance(arg, str) else arg for arg in one.args)
        given = [
            known.get(name) or builder.fresh(_numbered(hints.get(place, name), number, len(calls))) if name else DISCARD
            for place, name in enumerate(one.results)
        ]
        inside.update({name: outer for name, outer in zip(one.results, given, strict=True) if name})
        stream = one.stream or call.stream
        written.append(replace(one, results=tuple(given), args=args, facts=one.facts.within(call.facts), stream=stream))
    return written


def _numbered(last: str, number: int, times: int) -> str:
    """What to call what a call gives, by what the last of `times` calls gives: `%x3` for `%x32`."""
    return f"{last.removesuffix(str(times))}{number}" if last.endswith(str(times)) else f"{last}_{number}"


def with_counted(functions: Iterable[Function], called: Mapping[str, Function]) -> Module:
    """A module of functions and of those that their counted calls call: each stands before its first caller."""
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
    """The module with runs of at least `LEAST` calls of one function as counted calls; itself where it has none."""
    made: dict[str, Function] = {}
    functions: list[Function] = []
    for function in module:
        if function.kernel or counted(function) is not None:
            functions.append(function)
            continue
        body, new = _rolled(function)
        for each in new:
            if each.name not in module.functions and made.setdefault(each.name, each) is each:
                functions.append(each)
        functions.append(function if not new else replace(function, body=body))
    return Module(functions) if made else module


def _rolled(function: Function) -> tuple[tuple[Statement, ...], list[Function]]:
    """The body of a function, runs of calls as calls of counted functions, and these."""
    body: list[Statement] = []
    made: list[Function] = []
    used = {name: index for index, statement in enumerate(function.body) for name in names(operands(statement))}
    index = 0
    while index < len(function.body):
        end = _run(function.body, index)
        found = None
        if end - index >= LEAST:
            calls = [s for s in function.body[index:end] if isinstance(s, Call)]
            outside = {n for call in calls for n in call.results if used.get(n, -1) >= end}
            known = outside | set(calls[-1].results) | _names_of_their_own(calls, used)
            pattern = _named_pattern(calls, known - {DISCARD})
            found = None if pattern is None else as_call(pattern)
        if found is None:
            body.append(function.body[index])
            index += 1
        else:
            call, callee = found
            body.append(call)
            made.append(callee)
            index = end
    return tuple(body), made


def _names_of_their_own(calls: Sequence[Call], used: Mapping[str, int]) -> set[str]:
    """What calls give to others by names that do not follow from those of the last call's results."""
    last = calls[-1].results
    return {
        name
        for number, call in enumerate(calls, 1)
        for place, name in enumerate(call.results)
        if name in used and name != _numbered(last[place], number, len(calls))
    }


def _run(body: Sequence[Statement], start: int) -> int:
    """Where the calls of one function end that begin at a statement, and whose facts count on evenly."""
    first = body[start]
    if not isinstance(first, Call):
        return start
    end = start + 1
    while end < len(body) and isinstance(other := body[end], Call) and _alike(first, other):
        second = body[start + 1]
        assert isinstance(second, Call)
        if other.facts != between(first.facts, second.facts, end - start, 1):
            break
        end += 1
    return end


def _alike(one: Call, other: Call) -> bool:
    return (one.function, one.claims, one.stream) == (other.function, other.claims, other.stream)
