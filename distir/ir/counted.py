"""Counted statements: what is done several times, one time after the other, written once.

    %h, [%r_{1..4}] = @layer(%x then %h, %mask, [%w_{1..4}]) 4 times {layer = 1..4}

    repeat 4 times {
      %g = AllReduce([%dw_{1..4}]) {optimizer, of = [%w_{1..4}]}
      [%w_{1..4}_new] = SGD([%w_{1..4}], %g) {optimizer, of = [%w_{1..4}]}
    }

In a program such a statement is a call of a *counted function*, whose body is what is done each time and nothing else:
so it means its statements, to each reader of programs, and costs what they cost. The text writes them in the call's
place, and not the function (`as_call`, `as_counted`). `ir/rolling.py` finds them in a program, and writes them out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from distir.ir.core import (
    DISCARD,
    Apply,
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
)
from distir.ir.facts import NO_FACTS, Facts
from distir.ir.literals import Attributes
from distir.ir.types import UNKNOWN

Item = str | Literal
"""What a statement is given at one time: a value's name or a constant. The empty name: an operand that is left out."""

Repeatable = Apply | Call


@dataclass(frozen=True, slots=True)
class Then:
    """`%x then %h`: `first` the first time, later what `result` was the time before."""

    first: Item
    result: str


Operand = Item | Then | tuple[Item, ...]
"""The same each time (a result of an earlier statement: this time's), carried on, or an item for each time."""

Result = str | tuple[str, ...]
"""The name of the last time's value, or a list with one for each time."""


@dataclass(frozen=True, slots=True)
class CountedStatement:
    """A statement of a counted one, with the caller's names.

    `attrs`: those of an op, `last_attrs` those of the last time where they differ; None where a function is called.
    `claims` are those of each time. `facts` are those of the first time, `last` those of the last: numbers between them
    count on evenly. `of`: that fact for each time, where it is not the same.
    """

    results: tuple[Result, ...]
    name: str
    operands: tuple[Operand, ...]
    attrs: Attributes | None = None
    claims: Claims = ()
    stream: str = ""
    facts: Facts = NO_FACTS
    last: Facts = NO_FACTS
    of: tuple[str, ...] = ()
    last_attrs: Attributes | None = None

    def each(self, times: int) -> Sequence[Facts]:
        """The facts of each of several times."""
        found = counting_on(self.facts, self.last, times) if self.last else (self.facts,) * times
        if not self.of:
            return found
        return [Facts(f.phase, f.stage, f.microbatch, f.layer, of) for f, of in zip(found, self.of, strict=True)]

    def attrs_at(self, number: int, times: int) -> Attributes | None:
        """The attributes at one of several times."""
        if self.attrs is None or self.last_attrs is None:
            return self.attrs
        pairs = zip(self.attrs.items(), self.last_attrs.values(), strict=True)
        return Attributes({name: _on(first, last, number, times - 1) for (name, first), last in pairs})

    def made(
        self, results: Sequence[str], args: Sequence[Item], attrs: Attributes | None, facts: Facts = NO_FACTS
    ) -> Repeatable:
        """The statement at one time."""
        if attrs is None:
            return Call(tuple(results), self.name, tuple(args), self.claims, self.stream, facts)
        return Apply(tuple(results), self.name, tuple(args), attrs, self.claims, self.stream, facts)


@dataclass(frozen=True, slots=True)
class Counted:
    """A counted statement as it is written, with the caller's names: what is done each time, in order."""

    times: int
    statements: tuple[CountedStatement, ...]


def as_call(written: Counted) -> tuple[Call, Function]:
    """The call of a counted function that a statement means, and this function."""
    return _Writing(written).done()


def only_one(written: CountedStatement) -> Repeatable:
    """The statement that a counted one means that is done once."""
    firsts = [o.first if isinstance(o, Then) else o[0] if isinstance(o, tuple) else o for o in written.operands]
    results = [result[0] if isinstance(result, tuple) else result for result in written.results]
    return written.made(results, firsts, written.attrs, written.each(1)[0])


@lru_cache(maxsize=1 << 8)
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
    named = {name: found for name, found in outer.items() if isinstance(found, str)}
    statements: list[CountedStatement] = []
    for each in pattern.statements:
        own = _renamed(each, outer, named)
        facts, last = (one.within(call.facts) for one in (own.facts, own.last or own.facts))
        statements.append(replace(own, facts=facts, last=last if last != facts else NO_FACTS))
    found = Counted(pattern.times, tuple(statements))
    return found if _is_plain(found, call, function) or as_call(found) == (call, function) else None


def _is_plain(written: Counted, call: Call, function: Function) -> bool:
    """Whether a statement surely means a call: its values have names of their own, and its facts are the call's."""
    known = [*call.args, *call.results]
    if not all(isinstance(name, str) and name for name in known) or len(set(known)) != len(known):
        return False
    if call.claims or call.stream:
        return False
    facts, relative = _facts(written)
    params = {str(arg): param.name for arg, param in zip(call.args, function.params, strict=True)}
    each = (of_another(one, params) for row in zip(*relative, strict=True) for one in row)
    body = (statement.facts for statement in function.body[:-1] if isinstance(statement, (Apply, Call)))
    return facts == call.facts and list(each) == list(body)


def of_another(facts: Facts, names: Mapping[str, str]) -> Facts:
    """Facts where the parameter that they name may be called otherwise."""
    return replace(facts, of=names[facts.of]) if facts.of in names else facts


def is_counted(function: Function) -> bool:
    """Whether a function is a counted one."""
    return _written.get(function.name, (None, None))[0] is function or counted(function) is not None


def times_in(function: Function) -> int:
    """How often a counted function does what it does; 0 for another function."""
    pattern = counted(function)
    return 0 if pattern is None else pattern.times


def counted(function: Function) -> Counted | None:
    """The counted statement that a function consists of, with its own names; None for another function."""
    params = function.params
    if len(function.body) < _SHORTEST or (params and (params[0].type != UNKNOWN or params[0].roles)):
        return None
    return _counted(function)


_SHORTEST = 3
"""Two statements and a return."""


@lru_cache(maxsize=1 << 10)
def _counted(function: Function) -> Counted | None:
    *body, ending = function.body
    statements = [s for s in body if isinstance(s, (Apply, Call))]
    stated = any(param.type != UNKNOWN or param.roles for param in function.params)
    if stated or not isinstance(ending, Return) or len(statements) != len(body):
        return None
    named = _TIMES.fullmatch(function.name, len(does(statements[0])[0]))
    period, left = divmod(len(body), int(named[1])) if named else (0, 0)
    if not period or left:
        return None
    found = pattern(statements, period, set(names(ending.args)))
    if found is None:
        return None
    known, own = _written.get(function.name, (None, None))
    return found if (known is function and own == found) or as_call(found)[1] == function else None


_written: dict[str, tuple[Function, Counted]] = {}
"""By name: the last counted functions that were written, and of which statements, with the names inside."""

_MOST_WRITTEN = 1 << 10


_TIMES = re.compile(r"_x([1-9]\d*)_[0-9a-f]{16}")
"""What follows what is done first, in the name of a counted function: how often, and a digest of it."""


@lru_cache(maxsize=1 << 8)
def passed_on(function: Function) -> frozenset[int]:
    """Which results of a counted function are used in it, too; none of another function."""
    if not is_counted(function):
        return frozenset()
    used = {name for statement in function.body[:-1] for name in names(operands(statement))}
    return frozenset(number for number, name in enumerate(names(function.returned)) if name in used)


def written_in(module: Module) -> dict[str, str]:
    """By function whose statements stand where it is called: the name of the function in whose text they do."""
    calls = {s.function: function.name for function in module for s in function.body if isinstance(s, Call)}
    within = {function.name for function in module if is_within(function)}
    found = {callee: caller for callee, caller in calls.items() if callee in within}
    for callee, caller in found.items():
        while caller in found:
            caller = found[caller]
        found[callee] = caller
    return found


def titled(function: Function) -> str:
    """What people call a function: @layer; a counted one by what it does, and how often: @layer 4 times."""
    found = counted(function)
    if found is None:
        return f"@{function.name}"
    (first, *others), times = found.statements, found.times
    if others:
        return f"{len(found.statements)} statements {times} times"
    return f"{'@' if first.attrs is None else ''}{first.name} {times} times"


def called(function: Function) -> str:
    """The same, as messages quote it."""
    name, *times = titled(function).split(" ", 1)
    return titled(function) if name.isdigit() else " ".join((f"`{name}`", *times))


def _renamed(each: CountedStatement, outer: Mapping[str, Item], named: Mapping[str, str]) -> CountedStatement:
    """The statement with the caller's values; `named`: those of them that have names."""

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
        tuple(str(item(name)) if name else name for name in result) if isinstance(result, tuple) else str(item(result))
        for result in each.results
    )
    return replace(
        each,
        results=given,
        operands=tuple(map(operand, each.operands)),
        facts=of_another(each.facts, named),
        last=of_another(each.last, named),
        of=tuple(named.get(name, name) for name in each.of),
    )


def _are_alike(column: Sequence[Repeatable]) -> bool:
    """Whether statements do the same, but for the values that they name, and for facts."""
    first = column[0]
    what, shape = does(first), (first.claims, first.stream, len(first.args), len(first.results))
    return all(
        type(one) is type(first)
        and (one.claims, one.stream, len(one.args), len(one.results)) == shape
        and ((isinstance(one, Apply) and one.op == what[0] and one.attrs is _attrs(first)) or does(one) == what)
        for one in column
    )


def does(statement: Repeatable) -> tuple[str, Attributes | None]:
    """What a statement does: the op with its attributes, whose integers are left out, or the function with None."""
    if isinstance(statement, Call):
        return statement.function, None
    return statement.op, _without_integers(statement.attrs) if statement.attrs else statement.attrs


@lru_cache(maxsize=1 << 10)
def _without_integers(attrs: Attributes) -> Attributes:
    return Attributes({name: 0 if type(value) is int else value for name, value in attrs.items()})


def integers(statement: Repeatable) -> list[int]:
    """The integers among the attributes, which may count on, and the facts that are numbers."""
    attrs = statement.attrs.values() if isinstance(statement, Apply) else ()
    return [value for value in attrs if type(value) is int] + [getattr(statement.facts, name) for name in NUMBERS]


def pattern(body: Sequence[Repeatable], period: int, returned: set[str]) -> Counted | None:
    """Statements of which each `period` do the same, as a counted one; None where they do not.

    `returned`: the results that have names outside.
    """
    times = len(body) // period
    columns = [body[number::period] for number in range(period)]
    if not all(map(_are_alike, columns)):
        return None
    shown = [[_shown(rows, returned) for rows in zip(*(s.results for s in c), strict=True)] for c in columns]
    plain = {
        result: [statement.results[place] for statement in column]
        for column, given in zip(columns, shown, strict=True)
        for place, result in enumerate(given)
        if isinstance(result, str) and result
    }
    found: list[CountedStatement] = []
    before: set[str] = set()
    for column, given in zip(columns, shown, strict=True):
        spread = _spread([statement.facts for statement in column])
        operands = _operands(column, plain, before)
        if spread is None or operands is None:
            return None
        (name, _), (attrs, last) = does(column[0]), (_attrs(column[0]), _attrs(column[-1]))
        each = CountedStatement(tuple(given), name, operands, attrs, column[0].claims, column[0].stream, *spread)
        each = each if last == attrs else replace(each, last_attrs=last)
        if any(each.attrs_at(number, times) != _attrs(one) for number, one in enumerate(column)) or _falls(each):
            return None
        found.append(each)
        before.update(result for result in given if isinstance(result, str))
    return Counted(times, tuple(found))


def _falls(each: CountedStatement) -> bool:
    """Whether attributes count on through numbers that are less than 0, which no range has."""
    if each.attrs is None or each.last_attrs is None:
        return False
    pairs = zip(each.attrs.values(), each.last_attrs.values(), strict=True)
    return any(isinstance(n, int) and n < 0 for first, last in pairs if first != last for n in (first, last))


def _attrs(statement: Repeatable) -> Attributes | None:
    return statement.attrs if isinstance(statement, Apply) else None


def _shown(results: Sequence[str], returned: set[str]) -> Result:
    known = tuple(name if name in returned else DISCARD for name in results)
    return known if any(known[:-1]) else known[-1]


def _operands(
    column: Sequence[Repeatable], plain: Mapping[str, Sequence[str]], before: set[str]
) -> tuple[Operand, ...] | None:
    found: list[Operand] = []
    for items in zip(*(statement.args for statement in column), strict=True):
        single = [item for item in items if not isinstance(item, tuple)]
        operand = _operand(single, plain, before, isinstance(column[0], Apply)) if len(single) == len(items) else None
        if operand is None:
            return None
        found.append(operand)
    return tuple(found)


def _operand(
    items: Sequence[Item], plain: Mapping[str, Sequence[str]], before: set[str], of_op: bool
) -> Operand | None:
    """What a statement is given in one operand's place; None where it cannot be written."""
    first = items[0]
    is_list = isinstance(first, Literal) and isinstance(first.value, tuple)
    if all(item == first for item in items):
        return None if is_list and not of_op else first
    if is_list or any(item == DISCARD for item in items):
        return None
    may_begin = isinstance(first, str) or isinstance(first.value, (int, float))
    for result, each in plain.items():
        if result in before and list(items) == each:
            return result
        if may_begin and list(items[1:]) == each[:-1] and all(each[:-1]):
            return Then(first, result)
    if of_op and all(isinstance(item, Literal) for item in items):  # in brackets they would be one operand
        return None
    return tuple(items)


def _spread(facts: Sequence[Facts]) -> tuple[Facts, Facts, tuple[str, ...]] | None:
    """The facts of the first and the last time, whose numbers count on evenly, and `of`; None where they do not."""
    first, last = facts[0], facts[-1]
    of = tuple(each.of for each in facts) if any(each.of != first.of for each in facts) else ()
    if of:
        first, last = replace(first, of=""), replace(last, of="")
    if any(bool(getattr(first, name)) != bool(getattr(last, name)) for name in NUMBERS) or not all(of):
        return None
    last = last if last != first else NO_FACTS
    expected = CountedStatement((), "", (), facts=first, last=last, of=of).each(len(facts))
    return (first, last, of) if list(facts) == list(expected) else None


NUMBERS = ("stage", "microbatch", "layer")
"""The facts that are numbers, and may count on."""


@lru_cache(maxsize=1 << 8)
def counting_on(first: Facts, last: Facts, times: int) -> tuple[Facts, ...]:
    """The facts of several times, which count on evenly from those of the first to the last."""
    if all(getattr(first, name) == getattr(last, name) for name in NUMBERS):
        return (first,) * times
    counts = [
        [_on(getattr(first, name), getattr(last, name), number, times - 1) for number in range(times)]
        for name in NUMBERS
    ]
    stages, microbatches, layers = counts
    numbers = zip(stages, microbatches, layers, strict=True)
    return tuple(Facts(first.phase, stage, microbatch, layer, first.of) for stage, microbatch, layer in numbers)


def _on(first: Any, last: Any, number: int, steps: int) -> Any:
    """A number that counts on evenly from the first to the last; what is no number stays."""
    return first + (last - first) * number // max(1, steps) if type(first) is int else first


class _Writing:
    """A counted statement that becomes a call and a function.

    Parameters are named by operand, results by their place, both counted over all statements.
    """

    def __init__(self, written: Counted) -> None:
        self.written, self.times = written, written.times
        self.params: dict[str, str] = {}
        """By value of the caller: the parameter."""
        self.inside: dict[str, str] = {}
        """By result that the caller knows: what it is called inside."""
        self.named: dict[tuple[int, int], str] = {}
        """By result and time: what it is called inside."""
        self.plain: dict[str, int] = {}
        """By result that is no list: its place."""
        self.before: set[str] = set()
        """Those of earlier statements: what a later one calls so is this time's."""
        for place, result in enumerate(self._results()):
            items = result if isinstance(result, tuple) else (*[DISCARD] * (self.times - 1), result)
            if isinstance(result, str) and result:
                self.plain[result] = place
            for time, name in enumerate(items):
                if name:
                    self.named[place, time] = self.inside[name] = f"y{place + 1}_{time + 1}"

    def _results(self) -> Iterator[Result]:
        return (result for each in self.written.statements for result in each.results)

    def done(self) -> tuple[Call, Function]:
        statements, times = self.written.statements, self.times
        columns: list[list[Sequence[Item]]] = []
        place = 0
        for each in statements:
            columns.append([self._column(place + number, operand) for number, operand in enumerate(each.operands)])
            place += len(each.operands)
            self.before.update(result for result in each.results if isinstance(result, str))
        facts, relative = _facts(self.written)
        stated = [[of_another(one, self.params) for one in row] for row in relative]
        body: list[Statement] = []
        for time in range(times):
            place = 0
            for number, each in enumerate(statements):
                results = [self.named.get((place + k, time), DISCARD) for k in range(len(each.results))]
                args = [column[time] for column in columns[number]]
                body.append(each.made(results, args, each.attrs_at(time, times), stated[number][time]))
                place += len(each.results)
        outer = {inner: name for name, inner in self.inside.items()}
        given = [self.named[key] for key in sorted(self.named) if self.named[key] in outer]
        body.append(Return(tuple(given)))
        params = tuple(Param(name, UNKNOWN) for name in self.params.values())
        name = f"{statements[0].name}_x{times}_{_digest(params, body)}"  # `_TIMES`
        function = Function(name, params, tuple(body))
        self._remember(function, stated)
        results = tuple(outer[name] for name in given)
        return Call(results, function.name, tuple(self.params), facts=facts), function

    def _remember(self, function: Function, stated: Sequence[Sequence[Facts]]) -> None:
        """Keep of which statements a function was written, so that it need not be written again to know that."""
        inside = {**self.params, **self.inside}
        own: list[CountedStatement] = []
        for each, facts in zip(self.written.statements, stated, strict=True):
            if (spread := _spread(facts)) is None:
                return
            first, last, of = spread
            own.append(replace(_renamed(each, inside, inside), facts=first, last=last, of=of))
        if len(_written) >= _MOST_WRITTEN:
            _written.clear()
        _written[function.name] = function, Counted(self.times, tuple(own))

    def _column(self, place: int, operand: Operand) -> Sequence[Item]:
        """What a statement is given each time."""
        match operand:
            case Then(first, result):
                return [self._item(first, f"x{place + 1}"), *self._each(result, self.times - 1)]
            case tuple():
                return [self._item(item, f"x{place + 1}_{time + 1}") for time, item in enumerate(operand)]
            case str() if operand in self.before and operand:
                return self._each(operand, self.times)
            case _:
                return [self._item(operand, f"x{place + 1}")] * self.times

    def _each(self, result: str, times: int) -> list[Item]:
        """What a result is called inside, each time."""
        place = self.plain[result]
        return [self.named.setdefault((place, time), f"y{place + 1}_{time + 1}") for time in range(times)]

    def _item(self, item: Item, hint: str) -> Item:
        if isinstance(item, Literal) or item == DISCARD:
            return item
        return self.inside.get(item) or self.params.setdefault(item, hint)


def _facts(written: Counted) -> tuple[Facts, list[list[Facts]]]:
    """The facts of the call, and those of each statement each time, whose numbers count on from there."""
    times = written.times
    each = [one.each(times) for one in written.statements]
    known = {facts for row in each for facts in row}
    outer = Facts(
        _common(facts.phase for facts in known) or "",
        _common(facts.stage for facts in known) or 0,
        min(facts.microbatch for facts in known),
        min(facts.layer for facts in known),
        _common(facts.of for facts in known) or "",
    )
    counts = tuple(name for name in ("microbatch", "layer") if len({getattr(facts, name) for facts in known}) > 1)
    inside = {facts: _relative(facts, outer, counts) for facts in known}
    return outer, [[inside[facts] for facts in row] for row in each]


def name_of_parts(params: Sequence[Param], body: Sequence[Statement]) -> str:
    """The name of a function that is what one statement of a text becomes."""
    return f"{_PARTS}{_digest(params, body)}"


_PARTS = "parts_x1_"


@lru_cache(maxsize=1 << 10)
def is_parts(function: Function) -> bool:
    """Whether a function is what one statement of a text becomes: it stands where it is called."""
    return function.name.startswith(_PARTS) and function.name == name_of_parts(function.params, function.body)


def is_within(function: Function) -> bool:
    """Whether a function's statements stand where it is called: it is counted, or what a statement becomes."""
    return is_counted(function) or is_parts(function)


def _digest(params: Sequence[Param], body: Sequence[Statement]) -> str:
    """What a function does, in 64 bits, the same in each process: functions that differ have different names."""
    content: list[object] = [[param.name for param in params]]
    for one in body:
        if isinstance(one, (Apply, Call)):
            facts = one.facts
            stated = (facts.phase, facts.stage, facts.microbatch, facts.layer, facts.of) if facts else ()
            content.append((one.results, _attrs(one), one.args, does(one)[0], one.claims, one.stream, stated))
        elif isinstance(one, Return):
            content.append(one.args)
    return hashlib.blake2s(repr(content).encode(), digest_size=8).hexdigest()


T = TypeVar("T")


def _common(items: Iterable[T]) -> T | None:
    """What all items are; None where they differ."""
    found = set(items)
    return found.pop() if len(found) == 1 else None


def _relative(facts: Facts, outer: Facts, counts: Sequence[str]) -> Facts:
    """What a statement states in a function that is called with the facts `outer`; `counts`: numbers that differ."""
    numbers = {
        name: n - around + 1 if n and around else n
        for name in counts
        for n, around in ((getattr(facts, name), getattr(outer, name)),)
    }
    return Facts(
        "" if outer.phase else facts.phase,
        0 if outer.stage else facts.stage,
        numbers.get("microbatch", 0),
        numbers.get("layer", 0),
        "" if outer.of else facts.of,
    )
