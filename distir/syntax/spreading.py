"""Statements that mean more than their words: ranges of names, and counted calls.

`%w_{1..4}` means `%w_1, %w_2, %w_3, %w_4`, wherever values are listed: as operands, results and parameters.
A counted call becomes a call of a counted function (`ir/counted.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import Arg, Call, Facts, Function, Literal, Type
from distir.ir.counted import Counted, Then, as_call, only_call
from distir.syntax.fault import Fault, placed
from distir.syntax.ranges import is_range, names_of, width
from distir.syntax.reading import WrittenStatement

TOO_MANY = "the ranges and counted calls up to here mean more names and calls than this text may"


@dataclass(frozen=True, slots=True)
class Meant:
    """What a statement means; `function`: what a counted call calls; `size`: how many names or calls it has."""

    made: WrittenStatement | tuple[Arg, ...] | Call
    function: Function | None = None
    size: int = 0


def one_name(written: str) -> str:
    """The name as it is written; raises Fault where it means several."""
    if is_range(written):
        message = f"`%{written}` means several values; here is one"
        raise Fault(codes.BAD_COUNTED_CALL, message, "write the name of one value")
    return written


def spread(written: WrittenStatement | tuple[Arg, ...], names: Sequence[str], places: Places, most: int) -> Meant:
    """What a statement with numbers for names means; `names` are those, as they are written.

    Raises Fault for what does not fit, and where it means more than `most` names and calls.
    """
    size = sum(map(width, names))
    if isinstance(written, WrittenStatement):
        size += (written.times or 0) * (1 + len(written.operation.args) + len(written.results))
    if size > most:
        hint = f"a text of this length may mean {limits.written_out(0):,} and one for each character"
        raise placed(Fault(codes.BAD_COUNTED_CALL, TOO_MANY, hint), places.whole)
    spreading = _Spreading(names, places)
    if isinstance(written, tuple):
        made = spreading.flat(written)
        return Meant(made, size=size)
    if written.times is not None:
        counted = spreading.counted(written, written.times)
        if written.times == 1:
            return Meant(only_call(counted), size=size)
        call, function = as_call(counted)
        return Meant(call, function, size)
    args = spreading.flat(arg for arg in written.operation.args if not isinstance(arg, Then))
    claims: list[Type | None] = []
    results: list[str] = []
    for number, result in enumerate(written.results):
        found = spreading.result(result, number)
        results += found
        claims += [written.claims[number] if written.claims else None] * len(found)
    operation = replace(written.operation, args=args)
    stated = tuple(claims) if written.claims else ()
    facts = written.facts
    if facts.of:
        facts = replace(facts, of=one_name(names[int(facts.of)]))
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
    """What is wrong with the facts of the first and of the last call, and what to do; None if nothing is."""
    if first.stage != last.stage:
        return "the calls of a counted call are of one stage", f"write one: `stage = {first.stage}`"
    for name in ("microbatch", "layer"):
        more = getattr(last, name) - getattr(first, name)
        if more % max(1, times - 1) or (more and times == 1):
            hint = "from the first call to the last, each number is as much more, or less, than the one before"
            return f"the numbers of `{name}` do not count on evenly over {times} calls", hint
    return None


class _Spreading:
    """The names of one statement."""

    def __init__(self, names: Sequence[str], places: Places) -> None:
        self.names, self.places = names, places

    def named(self, number: str, tokens: tuple[int, int]) -> list[str]:
        if not number:
            return [number]
        return names_of(self.names[int(number)], tokens)

    def flat(self, args: Iterable[Arg]) -> tuple[Arg, ...]:
        """Operands with the names that they mean."""
        return tuple(one for number, arg in enumerate(args) for one in self._items(arg, self.places.operand(number)))

    def _items(self, arg: Arg, tokens: tuple[int, int]) -> list[Arg]:
        if isinstance(arg, str):
            return [*self.named(arg, tokens)]
        if isinstance(arg, tuple):
            return [tuple(item for inner in arg for item in self._items(inner, tokens))]
        return [arg]

    def result(self, result: str | tuple[str, ...], number: int) -> list[str]:
        """The names of a result."""
        assert isinstance(result, str)
        return self.named(result, self.places.result(number))

    def counted(self, written: WrittenStatement, times: int) -> Counted:
        """The counted call, with its names. Raises Fault for what does not fit."""
        results: list[str | tuple[str, ...]] = []
        claims: list[Type | None] = []
        for number, result in enumerate(written.results):
            tokens = self.places.result(number)
            if isinstance(result, tuple):
                listed = tuple(name for item in result for name in self.named(item, tokens))
                self._fits(len(listed), times, "this result lists", "names", tokens)
                results.append(listed)
            else:
                results += self.named(result, tokens)
            claims += [written.claims[number] if written.claims else None] * (len(results) - len(claims))
        made = self._made_by(results, times)
        operands: list[str | Literal | Then | tuple[str | Literal, ...]] = []
        for number, arg in enumerate(written.operation.args):
            operands += self._operand(arg, times, made, results, self.places.operand(number))
        facts, last = (
            replace(each, of=one_name(self.names[int(each.of)])) if each.of else each
            for each in (written.facts, written.last or written.facts)
        )
        if wrong := _uneven(facts, last, times):
            raise placed(Fault(codes.BAD_COUNTED_CALL, *wrong), self.places.facts or self.places.whole)
        callee, stated = written.operation.callee, tuple(claims) if written.claims else ()
        return Counted(tuple(results), callee, tuple(operands), times, stated, written.stream, facts, last)

    def _made_by(self, results: Sequence[str | tuple[str, ...]], times: int) -> dict[str, int]:
        """By result: the number of the call that gives it."""
        made: dict[str, int] = {}
        for number, result in enumerate(results):
            for call, name in enumerate(result) if isinstance(result, tuple) else [(times - 1, result)]:
                if name in made:
                    message = f"`%{name}` is given twice"
                    hint = "each value has a name of its own; `_` means one that nothing uses"
                    raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), self.places.result(number))
                if name:
                    made[name] = call
        return made

    def _operand(
        self,
        arg: Arg | Then,
        times: int,
        made: dict[str, int],
        results: Sequence[str | tuple[str, ...]],
        tokens: tuple[int, int],
    ) -> list[str | Literal | Then | tuple[str | Literal, ...]]:
        if isinstance(arg, Then):
            first = one_name(self.names[int(arg.first)]) if isinstance(arg.first, str) else arg.first
            later = one_name(self.names[int(arg.result)])
            if later not in results:
                message = f"`%{later}` is not a result of this statement that the last call gives"
                hint = "behind `then` stands what each call gives to the next, as in `%y = @f(%x then %y) 4 times`"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            return [Then(first, later)]
        if isinstance(arg, Literal) and isinstance(arg.value, tuple):
            arg = tuple(map(Literal, arg.value))
        if not isinstance(arg, tuple):
            found = self._items(arg, tokens)
            for name in found:
                if isinstance(name, str) and name in made:
                    hint = f"write what the first call is given before it: `%x then %{name}`"
                    message = f"`%{name}` is a result of this statement, which the first call does not have"
                    raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
            return [item for item in found if not isinstance(item, tuple)]
        items = self._items(arg, tokens)[0]
        assert isinstance(items, tuple)
        self._fits(len(items), times, "this list has", "items", tokens)
        for call, item in enumerate(items):
            if isinstance(item, tuple):
                raise placed(Fault(codes.BAD_COUNTED_CALL, "an item of a list is a value or a constant"), tokens)
            if isinstance(item, str) and made.get(item, -1) >= call:
                message = f"item {call + 1}, `%{item}`, is what call {made[item] + 1} gives"
                hint = "a call is given what calls before it gave"
                raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
        return [tuple(item for item in items if not isinstance(item, tuple))]

    def _fits(self, found: int, times: int, has: str, items: str, tokens: tuple[int, int]) -> None:
        if found != times:
            message = f"{has} {found} {items if found != 1 else items[:-1]}; the function is called {times} times"
            hint = "a list has one item for each call; what is the same for all stands without brackets"
            raise placed(Fault(codes.BAD_COUNTED_CALL, message, hint), tokens)
