"""A training step of more microbatches: what a pipeline that is made for few takes if there are more of them.

In such a program the steady state is calls of one function, a round, one behind the other: a counted call, of which
each call uses what those before it give, and the next parts of the batch. So runs of one layout that differ in the
number of microbatches share one program, whose counted call is made longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from distir.ir import DISCARD, Apply, Attributes, Call, Facts, Function, Module, Statement, names, operands
from distir.ir.builder import namer
from distir.ir.errors import DistirError
from distir.ir.rewrite import facts_of, stated_with, substituted, with_operands
from distir.transform.entry import entry_of

LEAST = 4
"""So many calls of a round one behind the other show what each of them takes of the one before it."""


class UnlikeMicrobatchesError(DistirError, ValueError):
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
    if times < 1 or (count - now) % times:
        raise UnlikeMicrobatchesError("rounds are of no whole number of microbatches")
    entry = entry_of(module)
    row = [i for i, s in enumerate(entry.body) if isinstance(s, Call) and s.function == function]
    if len(row) < LEAST or row[-1] - row[0] >= len(row):
        raise UnlikeMicrobatchesError("rounds do not follow each other")
    body = _longer(entry, row[0], row[-1] + 1, now, count - now, times)
    return Module(replace(entry, body=tuple(body)) if each is entry else each for each in module)


def _longer(entry: Function, start: int, end: int, now: int, more: int, times: int) -> Sequence[Statement]:
    """The body with `times` more calls behind those from `start` to `end`, for `more` microbatches."""
    fresh, following, step = namer(entry).fresh, _Following(), more // times
    ahead, behind = list(entry.body[:start]), entry.body[end:]
    calls = [s for s in entry.body[start:end] if isinstance(s, Call)]
    late = {name for call in calls[LEAST // 2 :] for name in call.results}
    batch = {p.name for p in entry.params if "batch" in p.roles}
    for i, statement in enumerate(ahead):
        if isinstance(statement, Apply) and _cuts(statement, batch, now):
            parts = (*statement.results, *[fresh(statement.results[-1]) for _ in range(more)])
            attrs = Attributes({**statement.attrs, "num_outputs": len(parts)})
            ahead[i] = replace(statement, results=parts, attrs=attrs)
            following.state(parts, step)
            late.update(parts)
    late.difference_update(name for s in (*entry.body[:start], calls[0]) for name in names(operands(s)))
    columns = [*zip(*(names(call.args) for call in calls), strict=True)]
    constant = {column[0] for column in columns if len(set(column)) == 1}
    columns += zip(*(call.results for call in calls), strict=True)
    for column in columns:
        following.state(column if column[0] not in constant else ())

    def after(call: Call, made: tuple[str, ...]) -> Call:
        instead = {name: following[name] for name in names(call.args) if name not in constant}
        return replace(call, args=substituted(call.args, instead), results=made, facts=_later(call.facts, step))

    if any(after(one, other.results) != other for one, other in pairwise(calls)):
        raise UnlikeMicrobatchesError("rounds are not alike")
    for _ in range(times):
        made = tuple([name and fresh(name) for name in calls[-1].results])
        following.update(zip(calls[-1].results, made, strict=True))
        calls.append(after(calls[-1], made))
    behind = [following.behind(statement, late, times) for statement in behind]
    return [*ahead, *calls, *(stated_with(statement, _later(facts_of(statement), more)) for statement in behind)]


def _later(facts: Facts, more: int) -> Facts:
    """The facts of a microbatch so many further, where they state one."""
    return replace(facts, microbatch=facts.microbatch + more) if facts.microbatch else facts


def _cuts(statement: Apply, batch: set[str], now: int) -> bool:
    """Whether a statement cuts the batch into microbatches; raises UnlikeMicrobatchesError where it does otherwise."""
    if statement.op not in ("Split", "SplitView") or batch.isdisjoint(names(statement.args)):
        return False
    cuts = len(statement.results) == now
    if cuts and (statement.claims or DISCARD in statement.results or statement.attrs.get("num_outputs") != now):
        raise UnlikeMicrobatchesError("parts of the batch are stated, or some are not used")
    return cuts


class _Following(dict[str, str]):
    """By value that a round takes or gives, or that is a part of the batch: that of the next round."""

    def state(self, values: Sequence[str], step: int = 1) -> None:
        """State values of which each is followed by the one that is `step` further."""
        for one, other in zip(values, values[step:], strict=False):
            if (one == DISCARD) != (other == DISCARD) or self.setdefault(one, other) != other:
                raise UnlikeMicrobatchesError(f"`{one}` is followed by several values, or is in some rounds alone")

    def behind(self, statement: Statement, late: set[str], times: int) -> Statement:
        """A statement behind the rounds, which takes what the last ones give, and the last parts of the batch.

        `late`: what the later ones of the rounds before gave, and parts that they took first.
        """
        instead = {name: name for name in names(operands(statement)) if name in self}
        if not late.issuperset(instead):
            raise UnlikeMicrobatchesError(f"`{min(instead.keys() - late)}` is used behind the rounds")
        for _ in range(times):
            instead = {name: self[last] for name, last in instead.items()}
        return with_operands(statement, instead)

    def __missing__(self, name: str) -> str:
        raise UnlikeMicrobatchesError(f"what follows `{name}` is not known")
