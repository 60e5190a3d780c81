"""The statements of a pipeline and of its rounds: which microbatch each works on, and which ones combine several.

By data flow alone: the parts of the batch are numbered, and what depends on one of them is of that microbatch. Facts
say which one a statement is stated to be of, not that nothing else mixes values of several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from distir.ir import Apply, Arg, Call, Function, Return, Statement, names, operands, results
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.simulation import Simulation

LEAST = 4
"""With fewer rounds in a row, there are no two between the first and the last that show that all do the same."""

AFTER = -1
"""In place of a microbatch: what is done when all are."""


class Role(Enum):
    """The relation of a statement for one microbatch to those for others."""

    PASS = "a pass of a stage"
    TERM = "adds what a pass gives to the sum so far: done just before its device turns to the next pass"
    MIXED = "takes values of several microbatches in some other way"
    OTHER = "none of these"


@dataclass(slots=True)
class Place:
    """A statement of the entry function, or of a round that it calls there: `inner` is its number in the round.

    `microbatch`: the one that it is for, counted from 1; 0 for what is done before, or AFTER.
    """

    index: int
    inner: int | None
    statement: Statement
    microbatch: int
    kind: object
    """Its kind, without its microbatch."""
    devices: tuple[int, ...] = ()
    role: Role = Role.OTHER


class Reader:
    """Goes through the statements in order, and into rounds."""

    def __init__(self, known: Simulation, rows: Mapping[str, Sequence[int]], cuts: Sequence[int]) -> None:
        self.known = known
        self.rounds = {index: known.module.functions[name] for name, row in rows.items() for index in row}
        self.cuts = set(cuts)
        self.of: dict[str, Seen] = {}

    def places(self) -> list[Place]:
        """All statements."""
        found: list[Place] = []
        body = self.known.planned
        for index, (statement, step) in enumerate(zip(self.known.function.body, body.steps, strict=True)):
            if index in self.cuts:
                self.of.update((name, Seen(k, False)) for k, name in enumerate(results(statement), 1))
                found.append(Place(index, None, statement, 0, None))
            elif index in self.rounds and isinstance(step, Body) and isinstance(statement, Call):
                found += self._round(index, statement, self.rounds[index], step)
            else:
                found.append(self._place(index, None, statement, step, self.of))
        return found

    def joins(self, statement: Statement, count: int) -> bool:
        """Whether a statement joins what each of the microbatches gives, one after the other."""
        given = [_seen(arg, self.of).microbatch for arg in operands(statement)]
        return isinstance(statement, Apply) and statement.op == "Concat" and given == [*range(1, count + 1)]

    def _round(self, index: int, call: Call, function: Function, body: Body) -> Iterator[Place]:
        of = {param.name: _seen(arg, self.of) for param, arg in zip(function.params, call.args, strict=True)}
        for inner, (statement, step) in enumerate(zip(function.body, body.steps, strict=True)):
            if not isinstance(statement, Return):
                yield self._place(index, inner, statement, step, of)
        for name, arg in zip(call.results, function.returned, strict=True):
            self.of[name] = _seen(arg, of)

    def _place(
        self, index: int, inner: int | None, statement: Statement, step: Effect | Body | None, of: dict[str, Seen]
    ) -> Place:
        taken = [_seen(arg, of) for arg in operands(statement)]
        latest = max((seen.microbatch for seen in taken), default=0)
        role = Role.PASS if isinstance(statement, Call) and latest else _role(statement, taken)
        given = Seen(latest, role in (Role.PASS, Role.TERM))
        of.update(dict.fromkeys(results(statement), given))
        devices = step.devices if step is not None else ()
        what = (statement.op, statement.attrs) if isinstance(statement, Apply) else getattr(statement, "function", None)
        return Place(index, inner, statement, latest, (what, devices), devices, role)


class Seen(NamedTuple):
    """The latest microbatch that a value depends on, 0 for none; whether a pass gives it, or it is a sum of such."""

    microbatch: int
    passed: bool


def _seen(arg: Arg, of: Mapping[str, Seen]) -> Seen:
    found = [of[name] for name in names((arg,)) if name in of]
    return Seen(max((seen.microbatch for seen in found), default=0), len(found) == 1 and found[0].passed)


def _role(statement: Statement, taken: Sequence[Seen]) -> Role:
    microbatches = {seen.microbatch for seen in taken} - {0}
    if len(microbatches) < 2:
        return Role.OTHER
    adds = isinstance(statement, Apply) and statement.op == "Sum" and len(taken) == 2
    adds &= max(microbatches) - min(microbatches) == 1 and all(seen.passed for seen in taken)
    return Role.TERM if adds else Role.MIXED


def put_after(places: Sequence[Place], count: int) -> bool:
    """Find what is done after all microbatches; says whether the rest is the same for each, but for the first one.

    What is done at the end depends on the last microbatch, and is more than depends on any other. The first one does no
    more than the others: its passes begin the sums that those of the others add to.
    """
    kinds: dict[int, Counter[object]] = {}
    for place in places:
        kinds.setdefault(place.microbatch, Counter())[place.kind] += 1
    if count < LEAST or not all(k in kinds for k in range(1, count + 1)):
        return False
    if any(kinds[k] != kinds[2] for k in range(2, count)) or _does_more(places, 1, 2):
        return False
    left = kinds[count].copy()
    left.subtract(kinds[2])
    if min(left.values()) < 0:
        return False
    events = False
    for place in reversed(places):
        if place.microbatch == count and left[place.kind] > 0 and not events:
            left[place.kind] -= 1
            place.microbatch = AFTER
        elif place.microbatch > 0:
            events = True
    return not any(left.values())


def _does_more(places: Sequence[Place], one: int, other: int) -> bool:
    """Whether anything is done for one microbatch that is not done for the other.

    Passes are counted by their devices: those that begin sums are other functions than those that add to them.
    """
    done: tuple[Counter[object], Counter[object]] = Counter(), Counter()
    for place in places:
        if place.microbatch in (one, other):
            done[place.microbatch == other][place.devices if place.role is Role.PASS else place.kind] += 1
    return bool(done[0] - done[1])


def are_apart(places: Sequence[Place]) -> bool:
    """Whether statements for different microbatches have nothing in common."""
    passes = [number for number, place in enumerate(places) if place.microbatch > 0]
    between = places[passes[0] : passes[-1]]
    return all(place.microbatch > 0 or not place.devices for place in between) and not any(
        place.role is Role.MIXED for place in between
    )
