"""A training step of more microbatches: what a pipeline that is made for few takes if there are more of them.

In such a program the steady state is calls of one function, a round, one behind the other. Each uses what the one
before it gives, and the next parts of the batch. So runs of one layout that differ in the number of microbatches share
one program, which gets more of these calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from distir.ir import DISCARD, Apply, Attributes, Call, Function, Module, Statement, names, operands
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.rewrite import facts_of, stated_with, with_operands
from distir.transform.entry import entry_of

LEAST = 4
"""So many calls of a round one behind the other show what each of them takes of the one before it."""


class UnlikeMicrobatchesError(ValueError):
    """A program of which that for more microbatches does not follow."""


def with_microbatches(module: Module, rounds: Mapping[str, int], now: int, count: int) -> Module:
    """The program for `count` microbatches, of one for `now`, fewer, of the same size.

    `rounds`: by function that is a round, how many more calls of it there are (`transform.pipeline.Steady`). Numbers
    that count microbatches or examples remain as they are: this is a program to simulate, not to run.

    Raises UnlikeMicrobatchesError where it is not plain which values the further calls take.
    """
    if len(rounds) != 1 or count <= now:
        raise UnlikeMicrobatchesError("there is no round, or there are several")
    ((function, times),) = rounds.items()
    entry = entry_of(module)
    longer = _Longer(entry, function, now, count, times).entry()
    return Module(longer if each is entry else each for each in module)


class _Longer:
    def __init__(self, entry: Function, function: str, now: int, count: int, times: int) -> None:
        self.now, self.more, self.times = now, count - now, times
        if times < 1 or self.more % times:
            raise UnlikeMicrobatchesError("rounds are of no whole number of microbatches")
        self.entry_function = entry
        self.batch = {p.name for p in entry.params if "batch" in p.roles}
        self.body: Sequence[Statement] = entry.body
        self.row = [i for i, s in enumerate(self.body) if isinstance(s, Call) and s.function == function]
        if len(self.row) < LEAST or self.row[-1] - self.row[0] >= len(self.row):
            raise UnlikeMicrobatchesError("rounds do not follow each other")
        self.calls: list[Call] = [s for i in self.row if isinstance(s := self.body[i], Call)]
        self.names: FunctionBuilder = namer(entry)
        self.next: dict[str, str] = {}
        """By value that a round takes or makes, or that is a part of the batch: that of the next round."""

    def entry(self) -> Function:
        """The entry function with the further calls."""
        cuts = {i: self._cut(s) for i, s in enumerate(self.body) if self._cuts(s)}
        for one, following in pairwise(self.calls):
            self._follow(one.results, following.results)
        constant = self._take_in_turn()
        start, end = self.row[0], self.row[-1] + 1
        late = {name for cut in cuts.values() for name in cut.results}
        late.difference_update(name for s in (*self.body[:start], self.calls[0]) for name in names(operands(s)))
        late.update(name for call in self.calls[LEAST // 2 :] for name in call.results)
        further = self._further(constant)
        behind = [self._behind(statement, late) for statement in self.body[end:]]
        ahead = [cuts.get(i, statement) for i, statement in enumerate(self.body[:end])]
        return replace(self.entry_function, body=(*ahead, *further, *behind))

    def _cuts(self, statement: Statement) -> bool:
        """Whether a statement cuts the batch into microbatches."""
        return (
            isinstance(statement, Apply)
            and statement.op in ("Split", "SplitView")
            and len(statement.results) == self.now
            and not self.batch.isdisjoint(names(statement.args))
        )

    def _cut(self, statement: Statement) -> Apply:
        """The statement that cuts the batch into all microbatches, whose parts are added behind the others."""
        assert isinstance(statement, Apply)
        if statement.claims or DISCARD in statement.results or statement.attrs.get("num_outputs") != self.now:
            raise UnlikeMicrobatchesError("parts of the batch are stated, or some are not used")
        added = [self.names.fresh(statement.results[-1]) for _ in range(self.more)]
        found = (*statement.results, *added)
        step = self.more // self.times
        self._follow(found[:-step], found[step:])
        attrs = Attributes({**statement.attrs, "num_outputs": len(found)})
        return replace(statement, attrs=attrs, results=found)

    def _follow(self, ones: Sequence[str], following: Sequence[str]) -> None:
        for one, other in zip(ones, following, strict=True):
            if DISCARD in (one, other) and one != other:
                raise UnlikeMicrobatchesError("rounds are not alike")
            if one != DISCARD and self.next.setdefault(one, other) != other:
                raise UnlikeMicrobatchesError("a value is followed by several")

    def _take_in_turn(self) -> set[str]:
        """Find what follows the values that rounds take; gives those that all of them take."""
        constant = set[str]()
        for one, following in pairwise(self.calls):
            for name, other in zip(names(one.args), names(following.args), strict=False):
                if name == other:
                    constant.add(name)
                else:
                    self._follow([name], [other])
        if not constant.isdisjoint(self.next):
            raise UnlikeMicrobatchesError("a value is the same in some rounds alone")
        if any(self._after(one, constant, following.results) != following for one, following in pairwise(self.calls)):
            raise UnlikeMicrobatchesError("rounds are not alike")
        return constant

    def _after(self, call: Call, constant: set[str], made: tuple[str, ...]) -> Call:
        """The call of the round after that of `call`, which gives what is `made`."""
        instead = {name: self._next(name) for name in names(call.args) if name not in constant}
        facts = call.facts
        if facts.microbatch:
            facts = replace(facts, microbatch=facts.microbatch + self.more // self.times)
        return replace(call, args=with_operands(call, instead).args, results=made, facts=facts)

    def _next(self, name: str) -> str:
        if name not in self.next:
            raise UnlikeMicrobatchesError(f"what follows `{name}` is not known")
        return self.next[name]

    def _further(self, constant: set[str]) -> list[Call]:
        """The further calls, behind those that there are."""
        last = self.calls[-1]
        found: list[Call] = []
        for _ in range(self.times):
            made = tuple([name if name == DISCARD else self.names.fresh(name) for name in last.results])
            following = self._after(last, constant, made)
            self._follow(last.results, made)
            found.append(following)
            last = following
        return found

    def _behind(self, statement: Statement, late: set[str]) -> Statement:
        """A statement behind the rounds, which takes what the last ones give, and the last parts of the batch.

        `late`: what the later ones of the rounds before gave, and parts that they took first.
        """
        instead: dict[str, str] = {}
        for name in {*names(operands(statement))} & self.next.keys():
            if name not in late:
                raise UnlikeMicrobatchesError(f"`{name}` is used behind the rounds")
            instead[name] = name
            for _ in range(self.times):
                instead[name] = self._next(instead[name])
        later = with_operands(statement, instead)
        facts = facts_of(later)
        return (
            stated_with(later, replace(facts, microbatch=facts.microbatch + self.more)) if facts.microbatch else later
        )
