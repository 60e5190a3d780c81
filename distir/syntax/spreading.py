"""Statements that mean more than their words: ranges of names, and counted statements.

`%w_{1..4}` means `%w_1, %w_2, %w_3, %w_4`, wherever values are listed: as operands, results and parameters.
A counted statement becomes a call of a counted function (`ir/counted.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import DISCARD, Apply, Arg, Attributes, Call, Facts, Function, Literal, Type
from distir.ir.counted import NUMBERS, Counted, CountedStatement, Item, Operand, Result, Then, as_call, only_one
from distir.syntax.fault import Fault, placed
from distir.syntax.ranges import is_range, names_of, width
from distir.syntax.reading import NumberRange, WrittenBlock, WrittenStatement

Spelling = Callable[[str, tuple[Arg, ...], Attributes], tuple[tuple[Arg, ...], Attributes]]
"""From an op's name, arguments and attributes as written to the canonical ones.

`Send(%x, 2)` becomes `Send[device = 2](%x)`.

It is called once for all statements that differ only in the names of values, with names that are not the real ones;
it may move, group and drop them, not read them. It never raises: what fits no op stays as it is.
"""

TOO_MANY = "the ranges and counted statements up to here mean more names and statements than this text may"

Abbreviated = WrittenBlock | WrittenStatement | tuple[Arg, ...]
"""A block, a statement or what is returned, as written."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a statement means; `function`: what a counted one calls; `size`: how many names or statements it has."""

    made: WrittenStatement | tuple[Arg, ...] | Apply | Call
    function: Function | None = None
    size: int = 0


def one_name(written: str) -> str:
    """The name as it is written; raises Fault where it means several."""
    if is_range(written):
        message = f"`%{written}` means several values; here is one"
        raise Fault(codes.BAD_COUNTED_CALL, message, "write the name of one value")
    return written


def spread(
    written: Abbreviated, names: Sequence[str], places: Sequence[Places], spelling: Spelling | None, most: int
) -> Meant:
    """What a statement with numbers for names means; `names` are those, as they are written.

    `places`: of each statement of a block, in order, else of the statement. Raises Fault for what does not fit, and
    where it means more than `most` names and statements.
    """
    done = written.statements if isinstance(written, WrittenBlock) else (written,)
    times = None if isinstance(written, tuple) else written.times
    size = sum(map(width, names))
    for one in done if times is not None else ():
        assert isinstance(one, WrittenStatement)
        size += (times or 0) * (1 + len(one.operation.args) + len(one.results))
    if size > most:
        hint = f"a text of this length may mean {limits.meant(0):,}, and 16 for each character"
        whole = places[0].whole[0], places[-1].whole[1]
        raise placed(Fault(codes.BAD_COUNTED_CALL, TOO_MANY, hint), whole)
    if times is not None:
        statements = [one for one in done if isinstance(one, WrittenStatement)]
        counted = _Counting(names, places, times).counted(statements, spelling)
        if times == 1:
            return Meant(only_one(counted.statements[0]), size=size)
        call, function = as_call(counted)
        return Meant(call, function, size)
    spreading = _Spreading(names, places[0])
    if isinstance(written, tuple):
        return Meant(spreading.returned(written), size=size)
    assert isinstance(written, WrittenStatement)
    args = spreading.flat(arg for arg in written.operation.args if not isinstance(arg, Then))
    claims: list[Type | None] = []
    results: list[str] = []
    for number, result in enumerate(written.results):
        assert isinstance(result, str)
        found = spreading.named(result, spreading.places.result(number))
        results += found
        claims += [written.claims[number] if written.claims else None] * len(found)
    operation = replace(written.operation, args=args)
    stated = tuple(claims) if written.claims else ()
    facts = spreading.facts(written.facts)
    return Meant(replace(written, results=tuple(results), claims=stated, operation=operation, facts=facts), size=size)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of a statement stand: the first and the last token of each operand and result, and of all."""

    operands: Sequence[tuple[int, int] | None]
    results: Sequence[tuple[int, int] | None]
    facts: tuple[int, int] | None
    whole: tuple[int, int]

    def operand(self, number: int) -> tuple[int, int]:
        """The tokens of an operand."""
        return (self.operands[number] if number < len(self.operands) else None) or self.whole

    def result(self, number: int) -> tuple[int, int]:
        """The tokens of a result."""
        return (self.results[number] if number < len(self.results) else None) or self.whole


def _uneven(first: Facts, last: Facts, times: int) -> tuple[str, str] | None:
    """What is wrong with the facts of the first and of the last time, and what to do; None if nothing is."""
    for name in NUMBERS:
        more = getattr(last, name) - getattr(first, name)
        if more % max(1, times - 1) or (more and times == 1):
            hint = "from the first time to the last, each number is as much more, or less, than the one before"
            return f"the numbers of `{name}` do not count on evenly over {times} times", hint
    return None


class _Spreading:
    """The names of one statement."""

    def __init__(self, names: Sequence[str], places: Places) -> None:
        self.names, self.places = names, places

    def named(self, number: str, tokens: tuple[int, int]) -> list[str]:
        """The names that are written as one; a number is in its place."""
        if not number:
            return [number]
        return names_of(self.names[int(number)], tokens)

    def flat(self, args: Iterable[Arg]) -> tuple[Arg, ...]:
        """Operands with the names that they mean."""
        return tuple(one for number, arg in enumerate(args) for one in self.items(arg, self.places.operand(number)))

    def returned(self, args: Iterable[Arg]) -> tuple[Arg, ...]:
        """What is returned; ranges in brackets count on together."""
        found: list[Arg] = []
        for number, arg in enumerate(args):
            tokens = self.places.operand(number)
            if isinstance(arg, tuple) and any(isinstance(one, str) and is_range(self.names[int(one)]) for one in arg):
                columns = [self.items(one, tokens) for one in arg]
                if len(set(map(len, columns))) > 1:
                    message, hint = "ranges in brackets count on together", "write ranges that are equally long"
                    raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
                found += [one for row in zip(*columns, strict=True) for one in row]
            else:
                found += self.items(arg, tokens)
        return tuple(found)

    def items(self, arg: Arg, tokens: tuple[int, int]) -> list[Arg]:
        """The operands that one is written for."""
        if isinstance(arg, str):
            return [*self.named(arg, tokens)]
        if isinstance(arg, tuple):
            return [tuple(item for inner in arg for item in self.items(inner, tokens))]
        return [arg]

    def facts(self, facts: Facts) -> Facts:
        """Facts with the name of the parameter."""
        return replace(facts, of=one_name(self.names[int(facts.of)])) if facts.of else facts


def _at_end(attrs: Attributes, end: int) -> Attributes:
    """The attributes of the first or the last time."""
    return Attributes({name: value[end] if isinstance(value, NumberRange) else value for name, value in attrs.items()})


def _spelled(
    spelling: Spelling | None, op: str, args: tuple[Arg, ...], attrs: Attributes
) -> tuple[tuple[Arg, ...], Attributes]:
    return (args, attrs) if spelling is None else spelling(op, args, attrs)


class _Counting:
    """The statements of a counted one, with their names. Raises Fault for what does not fit."""

    def __init__(self, names: Sequence[str], places: Sequence[Places], times: int) -> None:
        self.times = times
        self.each = [_Spreading(names, own) for own in places]
        self.made: dict[str, tuple[int, int]] = {}
        """By result: the time and the number of the statement that give it."""
        self.plain: dict[str, int] = {}
        """By result that is no list: the number of the statement that gives it."""

    def counted(self, written: Sequence[WrittenStatement], spelling: Spelling | None) -> Counted:
        """What is done, as it is written."""
        results = [self._results(number, one) for number, one in enumerate(written)]
        found: list[CountedStatement] = []
        for number, (one, (given, claims)) in enumerate(zip(written, results, strict=True)):
            own = self.each[number]
            operands: list[Operand] = []
            for place, arg in enumerate(one.operation.args):
                operands += self._operand(arg, number, one.operation.attrs is not None, own.places.operand(place))
            facts, last, of = self._facts(one, own)
            each = CountedStatement(
                given, one.operation.callee, tuple(operands), None, claims, one.stream, facts, last, of
            )
            found.append(self._spelled(each, one.operation.attrs, spelling, own.places))
        return Counted(self.times, tuple(found))

    def _results(self, number: int, written: WrittenStatement) -> tuple[tuple[Result, ...], tuple[Type | None, ...]]:
        own = self.each[number]
        results: list[Result] = []
        claims: list[Type | None] = []
        for place, result in enumerate(written.results):
            tokens = own.places.result(place)
            given: list[Result] = []
            if isinstance(result, tuple):
                listed = tuple(name for item in result for name in own.named(item, tokens))
                self._fits(len(listed), "this result lists", "names", tokens)
                given.append(listed)
            else:
                given += own.named(result, tokens)
            for one in given:
                self._give(one, number, tokens)
            results += given
            claims += [written.claims[place] if written.claims else None] * len(given)
        return tuple(results), tuple(claims) if written.claims else ()

    def _give(self, result: Result, number: int, tokens: tuple[int, int]) -> None:
        """Note what gives a result."""
        for time, name in enumerate(result) if isinstance(result, tuple) else [(self.times - 1, result)]:
            if name in self.made:
                message = f"`%{name}` is given twice"
                hint = "each value has a name of its own; `_` means one that nothing uses"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            if name:
                self.made[name] = time, number
        if isinstance(result, str) and result:
            self.plain[result] = number

    def _facts(self, written: WrittenStatement, own: _Spreading) -> tuple[Facts, Facts, tuple[str, ...]]:
        facts, last = own.facts(written.facts), own.facts(written.last)
        tokens = own.places.facts or own.places.whole
        if wrong := _uneven(facts, last or facts, self.times):
            raise placed(Fault(codes.BAD_COUNTED_CALL, *wrong), tokens)
        of = tuple(name for number in written.of for name in own.named(number, tokens))
        if of:
            self._fits(len(of), "`of` lists", "parameters", tokens)
        return facts, last, of

    def _operand(self, arg: Arg | Then, number: int, of_op: bool, tokens: tuple[int, int]) -> list[Operand]:
        own = self.each[number]
        if isinstance(arg, Then):
            first = one_name(own.names[int(arg.first)]) if isinstance(arg.first, str) else arg.first
            later = one_name(own.names[int(arg.result)])
            if later not in self.plain:
                message = f"`%{later}` is not a result of this statement that the last time gives"
                hint = "behind `then` stands what each time gives to the next, as in `%y = @f(%x then %y) 4 times`"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            return [Then(first, later)]
        if isinstance(arg, Literal) and isinstance(arg.value, tuple) and not of_op:
            arg = tuple(map(Literal, arg.value))
        if not isinstance(arg, tuple):
            found = [item for item in own.items(arg, tokens) if not isinstance(item, tuple)]
            for name in found:
                if isinstance(name, str) and name in self.made and self.plain.get(name, number) >= number:
                    hint = f"write what the first time is given before it: `%x then %{name}`"
                    if name not in self.plain:
                        hint = f"write the list that `%{name}` is of"
                    message = f"`%{name}` is a result of this statement, which the first time does not have"
                    raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            return [*found]
        (items,) = own.items(arg, tokens)
        assert isinstance(items, tuple)
        return [self._list(items, number, tokens)]

    def _list(self, items: Sequence[Arg], number: int, tokens: tuple[int, int]) -> tuple[Item, ...]:
        self._fits(len(items), "this list has", "items", tokens)
        found: list[Item] = []
        for time, item in enumerate(items):
            if isinstance(item, tuple):
                raise placed(Fault(codes.BAD_COUNTED_CALL, "an item of a list is a value or a constant"), tokens)
            made = self.made.get(item) if isinstance(item, str) else None
            if made is not None and made >= (time, number):
                message = f"item {time + 1}, `%{item}`, is what time {made[0] + 1} gives"
                hint = "what is done is given what was done before it"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            found.append(item)
        return tuple(found)

    def _spelled(
        self, each: CountedStatement, attrs: Attributes | None, spelling: Spelling | None, places: Places
    ) -> CountedStatement:
        """The statement of an op in canonical spelling, which is asked with numbers for operands."""
        if attrs is None:
            return each
        given: tuple[Arg, ...] = tuple(
            o if isinstance(o, Literal) else DISCARD if o == DISCARD else str(n) for n, o in enumerate(each.operands)
        )
        last_attrs = attrs
        args, attrs = _spelled(spelling, each.name, given, _at_end(attrs, 0))
        _, last_attrs = _spelled(spelling, each.name, given, _at_end(last_attrs, 1))
        for first, last in zip(attrs.values(), last_attrs.values(), strict=True):
            if type(first) is int and type(last) is int and (last - first) % max(1, self.times - 1):
                message = f"`{first}..{last}` does not count on evenly over {self.times} times"
                hint = "from the first time to the last, each number is as much more, or less, than the one before"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), places.whole)
        operands: list[Operand] = []
        for arg in args:
            if isinstance(arg, tuple):
                message = f"`{each.name}` takes a list of values, and cannot be counted"
                hint = "put the op into a function, and call that several times"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), places.whole)
            operands.append(each.operands[int(arg)] if isinstance(arg, str) and arg else arg)
        return replace(
            each, operands=tuple(operands), attrs=attrs, last_attrs=last_attrs if last_attrs != attrs else None
        )

    def _fits(self, found: int, has: str, items: str, tokens: tuple[int, int]) -> None:
        if found != self.times:
            message = f"{has} {found} {items if found != 1 else items[:-1]}; this is done {self.times} times"
            hint = "a list has one item for each time; what is the same each time stands without brackets"
            raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
