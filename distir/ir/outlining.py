"""Equal runs of statements that become one function: how their values are wired, the function, and its calls.

What connects a run with the outside becomes parameters and results, so a call means what the run meant. Which runs are
worth a function is for others to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from distir.ir import types
from distir.ir.builder import FunctionBuilder
from distir.ir.core import DISCARD, Apply, Arg, Call, Function, Literal, Statement, names, operands, results
from distir.ir.dataflow import uses
from distir.ir.facts import Facts
from distir.ir.rewrite import facts_of, shared, stated_with
from distir.ir.types import HOST, TensorType, Type

NO_TYPES: Mapping[str, Type] = MappingProxyType({})


def labels_of(body: Sequence[Statement]) -> list[int]:
    """A number for each statement, equal for those that do the same, whatever the names of values."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(_label(statement), len(numbers)) for statement in body]


def _label(statement: Statement) -> object:
    if not isinstance(statement, (Apply, Call)):
        return id(statement)
    what = (statement.op, statement.attrs) if isinstance(statement, Apply) else (f"@{statement.function}",)
    facts = statement.facts.phase, statement.facts.stage
    return (*what, tuple(map(_pattern, statement.args)), len(statement.results), statement.stream, *facts)


def _pattern(arg: Arg) -> object:
    """An argument without names of values; a left-out operand is not like one that is there."""
    if isinstance(arg, tuple):
        return tuple(map(_pattern, arg))
    return arg if isinstance(arg, Literal) or arg == DISCARD else "%"


def wiring(body: Sequence[Statement], start: int, length: int) -> tuple[object, ...]:
    """By operand of a run: which of its results it is; all operands from outside count as equal."""
    run = body[start : start + length]
    inside = {name: (i, k) for i, s in enumerate(run) for k, name in enumerate(results(s)) if name != DISCARD}
    return tuple([inside.get(name) for statement in run for name in names(operands(statement))])


@dataclass(frozen=True, slots=True)
class Windows:
    """Runs of `length` statements that do the same and are wired alike: where each one starts, one at least."""

    function: Function
    starts: tuple[int, ...]
    length: int

    def at(self, start: int) -> Sequence[Statement]:
        """The statements of one run."""
        return self.function.body[start : start + self.length]

    @property
    def crossing(self) -> int:
        """How many values the first run takes, and gives to what follows it."""
        return len({*self._inputs(self.starts[0])}) + len(self._outputs(self.starts[0]))

    def outlined(
        self, name: str, stated: Mapping[str, Type] = NO_TYPES, short: Callable[[Sequence[str]], str] | None = None
    ) -> tuple[Function, Function]:
        """The function with calls of another one in place of the runs, and that one, with the names of the first run.

        `stated`: types of values, which parameters have where all runs agree. `short`: a value's name in the new
        function, of its names in all runs, or in the first.
        """
        mentions = [*zip(*map(self._inputs, self.starts), strict=True)]
        columns = [*dict.fromkeys(mentions)]  # what is one value in every run is one parameter
        given = sorted(set[tuple[int, int]]().union(*map(self._outputs, self.starts)))
        firsts = ({column[row]: column[0] for column in columns} for row in range(len(self.starts)))
        inside, around = shared([self._facts(start, first) for start, first in zip(self.starts, firsts, strict=True)])
        used, calls = uses(self.function), dict[int, Statement]()
        for row, start in enumerate(self.starts):
            made = (results(self.function.body[start + i])[k] for i, k in given)
            made = tuple(result if result in used else DISCARD for result in made)
            calls[start] = Call(made, name, tuple(column[row] for column in columns), facts=around[row])
        gone = {start + i for start in self.starts for i in range(1, self.length)}
        body = tuple(calls.get(i, s) for i, s in enumerate(self.function.body) if i not in gone)
        first = [*map(stated_with, self.at(self.starts[0]), inside)]
        block = _block(FunctionBuilder(name), first, mentions, given, stated, short)
        return replace(self.function, body=body), block

    def _facts(self, start: int, first: Mapping[str, str]) -> list[Facts]:
        """The facts of a run; `first`: by value from outside, that of the first run in its place."""
        stated = map(facts_of, self.at(start))
        return [replace(facts, of=first.get(facts.of, facts.of)) if facts.of else facts for facts in stated]

    def _inputs(self, start: int) -> list[str]:
        """The operands of a run that come from outside, with repetitions."""
        inside = {name for statement in self.at(start) for name in results(statement)}
        return [n for s in self.at(start) for n in names(operands(s)) if n not in inside]

    def _outputs(self, start: int) -> list[tuple[int, int]]:
        """The results of a run that are used behind it: the statement and the number of the result."""
        used, end = uses(self.function), start + self.length
        made = ((i, k, name) for i, s in enumerate(self.at(start)) for k, name in enumerate(results(s)))
        return [(i, k) for i, k, name in made if (users := used.get(name)) and users[-1] >= end]


def best_cut(function: Function, cuts: Iterable[Sequence[int]], length: int) -> Windows:
    """Of several ways to cut a repetition into runs, the one with the most that are wired alike, which are given.

    Of those, the one across which the fewest values go.
    """
    found: list[Windows] = []
    for starts in cuts:
        wirings = {start: wiring(function.body, start, length) for start in starts}
        common, _ = Counter(wirings.values()).most_common(1)[0]
        found.append(Windows(function, tuple(start for start in starts if wirings[start] == common), length))
    return min(found, key=lambda windows: (-len(windows.starts), windows.crossing))


def _block(
    f: FunctionBuilder,
    run: Sequence[Statement],
    mentions: Sequence[tuple[str, ...]],
    given: Collection[tuple[int, int]],
    stated: Mapping[str, Type],
    short: Callable[[Sequence[str]], str] | None,
) -> Function:
    inside = dict.fromkeys(name for statement in run for name in results(statement) if name != DISCARD)
    if short is None:
        f.take(inside)
    params = {
        column: f.param(
            short(column) if short else column[0], _shared_type([stated.get(n, types.UNKNOWN) for n in column])
        )
        for column in dict.fromkeys(mentions)
    }
    parameters = {column[0]: name for column, name in params.items()}
    own = {name: f.fresh(short((name,))) if short else name for name in inside}
    # Operands that are one value in the first run may be different values in another.
    passed = iter([params[column] for column in mentions])

    def renamed(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(renamed, arg))
        return own.get(arg) or next(passed) if isinstance(arg, str) and arg != DISCARD else arg

    for i, statement in enumerate(run):
        made = (own.get(n) or (f.fresh("unused") if (i, k) in given else n) for k, n in enumerate(results(statement)))
        if isinstance(statement, (Apply, Call)):  # claims hold for one run; what is inferred holds for all
            args = tuple(map(renamed, statement.args))
            facts = statement.facts
            facts = replace(facts, of=parameters.get(facts.of, facts.of)) if facts.of else facts
            f.body.append(replace(statement, results=tuple(made), args=args, claims=(), facts=facts))
    return f.returns(*(results(f.body[i])[k] for i, k in given))


def _shared_type(stated: Sequence[Type]) -> Type:
    """The type of all values that are passed in one place, the device left open unless it is the host."""
    (found, *others) = set(stated)
    if others or not isinstance(found, TensorType):
        return types.UNKNOWN
    plain = all(isinstance(dim, int) or (dim is not None and str(dim) in dim.names) for dim in found.shape or ())
    device = HOST if found.device == HOST else None
    return TensorType(found.dtype, found.shape, device, found.offloaded) if plain else types.UNKNOWN
