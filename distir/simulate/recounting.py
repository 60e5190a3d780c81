"""A pipeline for another number of microbatches than one that has been simulated, without looking at its program.

What a statement does to clocks and memory depends on its operands' types, on who shares memory, and on what is needed
later: on the microbatch that it is for only if that is the first or the last. So more microbatches are more rounds of
the steady state, which all do the same; fewer are the same program without the statements for some of them, where each
device does the rest in the same order. All figures are those of the other program, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from distir.ir import HOST, Apply, Attributes, Call, Function, Return, Statement, TensorType, names, operands, results
from distir.ir import types as typing
from distir.ops import Value, type_of
from distir.simulate.body import Body
from distir.simulate.effects import Effect
from distir.simulate.recounting_places import AFTER, LEAST, Place, Reader, Role, are_apart, put_after
from distir.simulate.recounting_sizes import are_numbers
from distir.simulate.simulation import DeviceUse, Simulation
from distir.simulate.storage import Leaves


class Figures(NamedTuple):
    """How long a program takes, in seconds, and what its devices do, by their numbers."""

    latency_s: float
    devices: Mapping[int, DeviceUse]


class Move(NamedTuple):
    """What a statement does: its step, and memory and bytes of what it takes as it starts and gives back as it ends."""

    step: Effect | Body | None
    taken: Sequence[tuple[int, int]] = ()
    given: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that can be simulated, read so that those of other numbers of microbatches are told by it."""

    entry: Function
    count: int
    """How many microbatches it has."""
    places: Sequence[Place]
    rows: Mapping[str, Sequence[int]]
    """By function that is a round: its calls in the entry function, which follow each other."""
    cuts: Sequence[int]
    """The statements that cut the batch into parts."""
    joins: Sequence[int]
    """The statements that join results of all microbatches."""
    apart: bool
    """Whether all that is done from the first pass to the last is done for one microbatch, or adds a term to a sum."""

    def tells(self, count: int) -> bool:
        """Whether a pipeline of so many microbatches can be told at all."""
        return count > self.count or self.apart

    def figures(
        self,
        known: Simulation,
        sizes: Mapping[str, int],
        arguments: Sequence[Value],
        count: int,
        more: Mapping[str, int],
    ) -> Figures | None:
        """The figures of the pipeline for `count` microbatches, of the same size, whose parameters are `arguments`.

        `known`: the simulation of this pipeline, with named dimensions of these `sizes`. `more`: by function that is a
        round, how many more calls of it the other one has. With fewer microbatches, each device must do what is left in
        the same order. None where rounds do not all do the same, or memories are shared. Raises Reject.
        """
        body = known.planned
        parameters = _parameters(known, arguments)
        if [memory for memory, _ in parameters] != [memory for memory, _ in body.parameters]:
            return None
        moves = list(_moves(body))
        by_name = dict(zip((p.name for p in self.entry.params), arguments, strict=True))
        for index in self.cuts:
            moves[index] = self._cut(known, index, moves[index], count, by_name)
        for index in self.joins:
            joined = self._joined(known, index, moves[index], count, sizes)
            if joined is None:
                return None
            moves[index] = joined
        found = self._with_more(moves, more) if count > self.count else self._with_fewer(known, moves, count)
        if found is None:
            return None
        other = known.like(_body(body, found, parameters))
        return Figures(other.latency_s, other.devices)

    def _cut(self, known: Simulation, index: int, move: Move, count: int, whole: Mapping[str, Value]) -> Move:
        statement = self.entry.body[index]
        assert isinstance(statement, Apply)
        attrs = Attributes({**statement.attrs, "num_outputs": count})
        split = Apply(statement.results[-1:] * count, statement.op, statement.args, attrs)
        effect = known.effect_of(split, [whole[name] for name in names(statement.args)])
        return Move(effect, [move.taken[-1]] * count, ())

    def _joined(self, known: Simulation, index: int, move: Move, count: int, sizes: Mapping[str, int]) -> Move | None:
        statement = self.entry.body[index]
        assert isinstance(statement, Apply)
        part = typing.substitute(type_of(known.instance.state[next(iter(names(statement.args)))]), sizes)
        concat = replace(statement, args=statement.args[-1:] * count, claims=())
        effect = known.effect_of(concat, [part] * count)
        size = effect.sizes[0]
        if size is None or len(move.taken) != 1 or len(move.given) != self.count:
            return None
        return Move(effect, [size], [move.given[-1]] * count)

    def _with_more(self, moves: Sequence[Move], more: Mapping[str, int]) -> list[Move] | None:
        """With one of the rounds, neither the first nor the last in its row, so many times more."""
        copies = [1] * len(moves)
        for function, times in more.items():
            row = self.rows[function]
            if any(moves[a].step is not moves[b].step for a, b in pairwise(row[1:-1])):
                return None
            copies[row[1]] += times
        return [move for move, times in zip(moves, copies, strict=True) for _ in range(times)]

    def _with_fewer(self, known: Simulation, moves: Sequence[Move], count: int) -> list[Move] | None:
        """Without the last microbatches, but for what the very last does as such: the last one left does it."""
        memories = [known.memory_of(device) for device in known.devices]
        if len(set(memories)) < len(memories):
            return None  # it counts in which order devices do things
        last: dict[object, list[Place]] = {}
        for place in self.places:
            if place.microbatch == self.count:
                last.setdefault(place.kind, []).append(place)
        number: Counter[object] = Counter()
        rounds = {id(step): step for row in self.rows.values() for step in (moves[index].step for index in row)}
        inner = {key: list(_moves(step)) for key, step in rounds.items() if isinstance(step, Body)}
        found: list[Move] = []
        for place in _in_order([place for place in self.places if place.microbatch <= count]):
            source = place
            if place.microbatch == count:
                source = last[place.kind][number[place.kind]]
                number[place.kind] += 1
            move = moves[source.index]
            found.append(move if source.inner is None else inner[id(move.step)][source.inner])
        return found


def read(known: Simulation, rounds: Iterable[str]) -> Pipeline | None:
    """A pipeline, read; `rounds` are the functions that it calls for what it repeats.

    None where something else is done with the `{batch}` than to cut it and to compute with its size, or with a result
    that was joined, or where the statements for some microbatch are not those for all.
    """
    entry, body = known.function, known.planned
    batch = {p.name for p in entry.params if "batch" in p.roles}
    users = [i for i, s in enumerate(entry.body) if not batch.isdisjoint(names(operands(s)))]
    cuts = [i for i in users if _cuts(entry.body[i], body, i)]
    if not all(are_numbers(body, i) for i in users if i not in cuts):
        return None
    counts = {len(results(entry.body[index])) for index in cuts}
    rows = {name: [i for i, s in enumerate(entry.body) if _calls(s, name)] for name in rounds}
    if len(counts) != 1 or not all(_is_row(row) for row in rows.values()):
        return None
    (count,) = counts
    reader = Reader(known, rows, cuts)
    places = reader.places()
    joins = [place.index for place in places if place.inner is None and reader.joins(place.statement, count)]
    joined = {name for index in joins for name in results(entry.body[index])}
    users = [s for s in entry.body if not joined.isdisjoint(names(operands(s)))]
    if not all(isinstance(user, Return) for user in users) or not put_after(places, count):
        return None
    return Pipeline(entry, count, places, rows, cuts, joins, are_apart(places))


def _in_order(places: Sequence[Place]) -> Iterator[Place]:
    """Terms added to sums where their devices turn to the next pass, now that some passes are left out."""
    waiting: list[Place] = []
    for place in places:
        if place.role is Role.TERM:
            waiting.append(place)
            continue
        if waiting and (place.microbatch == AFTER or place.role is Role.PASS):
            here = [w for w in waiting if place.microbatch == AFTER or not set(w.devices).isdisjoint(place.devices)]
            waiting = [w for w in waiting if w not in here]
            yield from here
        yield place
    yield from waiting


def _cuts(statement: Statement, body: Body, index: int) -> bool:
    return isinstance(statement, Apply) and statement.op == "Split" and len(body.taken[index]) == len(statement.results)


def _calls(statement: Statement, function: str) -> bool:
    return isinstance(statement, Call) and statement.function == function


def _is_row(indices: Sequence[int]) -> bool:
    return len(indices) >= LEAST and all(b == a + 1 for a, b in pairwise(indices))


def _moves(body: Body) -> Iterator[Move]:
    sizes = body.sizes
    for step, taken, given in zip(body.steps, body.taken, body.given, strict=True):
        yield Move(step, [sizes[s] for s in taken] if taken else (), [sizes[s] for s in given] if given else ())


def _body(like: Body, moves: Sequence[Move], parameters: list[tuple[int, int]]) -> Body:
    """A body that does all this, for its times and its use of memory."""
    numbers: dict[tuple[int, int], int] = {}

    def numbered(sizes: Sequence[tuple[int, int]]) -> Leaves:
        return tuple([numbers.setdefault(size, len(numbers)) for size in sizes])

    taken = [numbered(move.taken) if move.taken else () for move in moves]
    given = [numbered(move.given) if move.given else () for move in moves]
    steps = [move.step for move in moves]
    return replace(like, parameters=parameters, sizes=list(numbers), steps=steps, taken=taken, given=given)


def _parameters(known: Simulation, arguments: Sequence[Value]) -> list[tuple[int, int]]:
    """Memory and bytes of what the parameters stand for."""
    found: list[tuple[int, int]] = []
    for leaf in (leaf for value in arguments for leaf in typing.leaves(type_of(value))):
        size = leaf.nbytes if isinstance(leaf, TensorType) else None
        if leaf.device is not None and leaf.device != HOST and isinstance(size, int):
            found.append((known.memory_of(leaf.device), size))
    return found
