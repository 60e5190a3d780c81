"""Figures of a pipeline with another number of microbatches than the one simulated, without building its program.

A statement's effect on clocks and memory depends on its operands' types, on which values share memory, and on what is
used later; it depends on the microbatch only for the first and the last one. So a pipeline with more microbatches
repeats the steady state more often, and one with fewer lacks the statements of some microbatches while each device runs
the rest in the same order. The figures equal those of the other program to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from distir.ir import (
    HOST,
    Apply,
    Attributes,
    Call,
    Function,
    Return,
    Statement,
    TensorType,
    names,
    operands,
    results,
)
from distir.ir import types as typing
from distir.ops import Value, type_of
from distir.simulate.algebra import usage
from distir.simulate.algebra.clocks import Step
from distir.simulate.algebra.usage import Usage, Use
from distir.simulate.body import Body, events_of, use_of_op
from distir.simulate.effects import Effect
from distir.simulate.extrapolation.numbers import are_numbers
from distir.simulate.extrapolation.rounds import more_rounds
from distir.simulate.extrapolation.statements import AFTER, LEAST, Place, Reader, Role, are_apart, put_after
from distir.simulate.simulation import MemoryUse, Simulation

MANY = 128
"""The number of rounds from which their power is faster than running them: measured on 2 to 16 devices."""


class ExtrapolatedFigures(NamedTuple):
    """The latency of a program, in seconds, and its memory by device."""

    latency_s: float
    memory_uses: Mapping[int, MemoryUse]


class StatementBlock(NamedTuple):
    """The effect of a statement: its step, its use of memory, and its effect on clocks, ignoring data flow."""

    step: Effect | Body | None
    use: Use
    move: Step | None


class Extrapolated(NamedTuple):
    """The pipeline for another number of microbatches: effects by statement, and memory."""

    steps: list[Effect | Body | None]
    use: Use
    clocks: list[Step]
    """Its effects on clocks; several steps may be combined."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The statements of one simulation of a pipeline as blocks, to be composed anew."""

    known: Simulation
    own: Sequence[StatementBlock]
    """Of the entry function's statements."""
    rounds: Mapping[int, Sequence[StatementBlock]]
    """By identity of a round's body: of its statements."""
    between: Mapping[int, Use]
    """By special statement, the use of memory by those between it and the special one before; -1: after the last."""

    @classmethod
    def of(cls, known: Simulation, rows: Iterable[Sequence[int]], special: Sequence[int]) -> Blocks:
        """`special`: the statements that other numbers of microbatches do otherwise, or more often."""
        body = known.planned
        own = _blocks(body)
        rounds = {id(step): step for row in rows for step in (body.steps[index] for index in row)}
        inner = {key: _blocks(step) for key, step in rounds.items() if isinstance(step, Body)}
        starts = [0, *(index + 1 for index in special)]
        ends = [*special, len(own)]
        pieces = zip([*special, -1], starts, ends, strict=True)
        between = {key: usage.compose(block.use for block in own[start:end]) for key, start, end in pieces}
        return cls(known, own, inner, between)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that can be simulated, read so that those of other numbers of microbatches can be derived from it."""

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
    """Whether every statement between the first pass and the last works on one microbatch, or adds a term to a sum.

    False where statements name streams: then the order of passes does not determine the order on hosts and in memory.
    """
    _known: dict[int, Blocks] = field(default_factory=dict[int, Blocks])
    """By identity of the simulation."""
    _parameters: dict[tuple[Value, ...], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[Value, ...], list[tuple[int, int]]]
    )
    """Memory and bytes of the parameters' storages, by their values: those of one batch size are asked for often."""
    _fewer: dict[int, Sequence[tuple[int, int | None]]] = field(
        default_factory=dict[int, Sequence[tuple[int, "int | None"]]]
    )

    def determines(self, count: int) -> bool:
        """Whether the figures for `count` microbatches can be derived from this pipeline."""
        return count > self.count or self.apart

    def figures(
        self,
        known: Simulation,
        sizes: Mapping[str, int],
        arguments: tuple[Value, ...],
        count: int,
        more: Mapping[str, int],
    ) -> ExtrapolatedFigures | None:
        """The figures of the pipeline for `count` microbatches, of the same size, whose parameters are `arguments`.

        `known`: the simulation of this pipeline, with named dimensions of these `sizes`. `more`: by function that is a
        round, how many more calls of it the other one has. With fewer microbatches, each device must do what is left in
        the same order. None where rounds do not all do the same. Raises Reject.
        """
        parameters = self._parameters.get(arguments)
        if parameters is None:
            parameters = self._parameters[arguments] = _parameters(known, arguments)
        if [memory for memory, _ in parameters] != [memory for memory, _ in known.planned.parameters]:
            return None
        blocks = self._as_blocks(known)
        by_name = dict(zip((p.name for p in self.entry.params), arguments, strict=True))
        other: dict[int, StatementBlock] = {index: self._cut(blocks, index, count, by_name) for index in self.cuts}
        for index in self.joins:
            joined = self._joined(known, index, count, sizes)
            if joined is None:
                return None
            other[index] = joined
        found = self._with_more(blocks, other, more) if count > self.count else self._with_fewer(blocks, other, count)
        if found is None:
            return None
        body = replace(known.planned, parameters=parameters, steps=found.steps)
        vars(body).update(memory=found.use, summaries=found.clocks)
        simulation = known.like(body)
        return ExtrapolatedFigures(simulation.latency_s, simulation.memory_uses)

    def _as_blocks(self, known: Simulation) -> Blocks:
        found = self._known.get(id(known))
        if found is None:
            special = sorted({*self.cuts, *self.joins, *(row[1] for row in self.rows.values())})
            found = self._known[id(known)] = Blocks.of(known, self.rows.values(), special)
        return found

    def _cut(self, blocks: Blocks, index: int, count: int, whole: Mapping[str, Value]) -> StatementBlock:
        known, own, statement = blocks.known, blocks.own[index], self.entry.body[index]
        if not own.use and isinstance(own.step, Effect) and own.step.view and not own.step.devices:
            return own  # whatever it cuts, it takes neither time nor memory
        assert isinstance(statement, Apply)
        attrs = Attributes({**statement.attrs, "num_outputs": count})
        split = Apply(statement.results[-1:] * count, statement.op, statement.args, attrs)
        effect = known.effect_of(split, [whole[name] for name in names(statement.args)])
        if statement.op == "SplitView":
            return _block(effect, (), ())
        (memory, size) = known.planned.sizes[known.planned.taken[index][-1]]
        return _block(effect, [(memory, count * size)], ())

    def _joined(self, known: Simulation, index: int, count: int, sizes: Mapping[str, int]) -> StatementBlock | None:
        statement, body = self.entry.body[index], known.planned
        assert isinstance(statement, Apply)
        part = typing.substitute(type_of(known.instance.state[next(iter(names(statement.args)))]), sizes)
        concat = replace(statement, args=statement.args[-1:] * count, claims=())
        effect = known.effect_of(concat, [part] * count)
        size, given = effect.sizes[0], body.given[index]
        if size is None or len(body.taken[index]) != 1 or len(given) != self.count:
            return None
        memory, each = body.sizes[given[-1]]
        return _block(effect, [size], [(memory, count * each)])

    def _with_more(
        self, blocks: Blocks, other: Mapping[int, StatementBlock], more: Mapping[str, int]
    ) -> Extrapolated | None:
        """The statements with a round, neither the first nor the last of its sequence, repeated `more` times."""
        again: dict[int, int] = {}
        for function, times in more.items():
            row = self.rows[function]
            if any(blocks.own[a].step is not blocks.own[b].step for a, b in pairwise(row[1:-1])):
                return None
            again[row[1]] = times
        body, written = blocks.known.planned, [*blocks.own]
        total = Usage()
        for index in blocks.between:
            total.block(blocks.between[index])
            if index >= 0:
                written[index] = block = other.get(index, blocks.own[index])
                total.block(usage.power(block.use, 1 + again.get(index, 0)))
        for index in sorted(again, reverse=True):
            written[index:index] = [written[index]] * again[index]
        clocks: list[Step] | None = [block.move for block in written if block.move is not None]
        if body.streamed or max(again.values(), default=0) >= MANY:
            clocks = _with_powers(body, other, again, {row[1]: row for row in self.rows.values()})
            if clocks is None or (body.streamed and blocks.known.hardware.cached):
                return None
        return Extrapolated([block.step for block in written], total.total, clocks)

    def _with_fewer(self, blocks: Blocks, other: Mapping[int, StatementBlock], count: int) -> Extrapolated | None:
        """Without the last microbatches, but for what the very last does as such: the last one left does it."""
        if count not in self._fewer:
            self._fewer[count] = self._without(count)
        found = [
            other.get(index, blocks.own[index]) if inner is None else blocks.rounds[id(blocks.own[index].step)][inner]
            for index, inner in self._fewer[count]
        ]
        clocks = [block.move for block in found if block.move is not None]
        return Extrapolated([block.step for block in found], usage.compose([block.use for block in found]), clocks)

    def _without(self, count: int) -> Sequence[tuple[int, int | None]]:
        """The statements that remain for fewer microbatches, in order."""
        last: dict[object, list[Place]] = {}
        for place in self.places:
            if place.microbatch == self.count:
                last.setdefault(place.kind, []).append(place)
        number: Counter[object] = Counter()
        found: list[tuple[int, int | None]] = []
        for place in _in_order([place for place in self.places if place.microbatch <= count]):
            source = place
            if place.microbatch == count:
                source = last[place.kind][number[place.kind]]
                number[place.kind] += 1
            found.append((source.index, source.inner))
        return found


def read(known: Simulation, rounds: Iterable[str]) -> Pipeline | None:
    """A pipeline, read; `rounds` are the functions that it calls for what it repeats.

    None where something else is done with the `{batch}` than to cut it and to compute with its size, or with a result
    that was joined, or where the statements for some microbatch are not those for all; but where statements name
    streams, the last one may have others: its gradients are summed as they are made.
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
    alike = put_after(places, count)
    if not all(isinstance(user, Return) for user in users) or not (alike or body.streamed):
        return None
    return Pipeline(entry, count, places, rows, cuts, joins, not body.streamed and are_apart(places))


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
    if not isinstance(statement, Apply) or statement.op not in ("Split", "SplitView"):
        return False
    return len(body.taken[index]) == (len(statement.results) if statement.op == "Split" else 0)


def _calls(statement: Statement, function: str) -> bool:
    return isinstance(statement, Call) and statement.function == function


def _is_row(indices: Sequence[int]) -> bool:
    return len(indices) >= LEAST and all(b == a + 1 for a, b in pairwise(indices))


def _blocks(body: Body) -> list[StatementBlock]:
    """The effects of the statements of a body."""
    moves = [None if step is None or not events_of(step) else _alone(step) for step in body.steps]
    return list(map(StatementBlock, body.steps, body.uses, moves))


def _with_powers(
    body: Body, other: Mapping[int, StatementBlock], again: Mapping[int, int], rows: Mapping[int, Sequence[int]]
) -> list[Step] | None:
    """What a body does to clocks with some statements in the place of others, and rounds so many times more.

    `rows`: the calls of a round, by the second of them. Those that come often are powers. None where values get ready
    by clocks of their own that are not the same in each round.
    """
    found: list[Step] = []
    for index, move in enumerate(body.moves):
        if again.get(index):
            more = more_rounds(body, rows[index], again[index], MANY)
            if more is None:
                return None
            found += more
        if index in other:
            if index in body.flow:
                return None
            move = other[index].move
        if move is not None:
            found.append(move)
    return found


def _alone(step: Effect | Body) -> Step:
    return step.summary if isinstance(step, Body) else step.move()


def _block(step: Effect, taken: usage.Sized, given: usage.Sized) -> StatementBlock:
    return StatementBlock(step, use_of_op(step, taken, given), step.move() if step.devices else None)


def _parameters(known: Simulation, arguments: Sequence[Value]) -> list[tuple[int, int]]:
    """Memory and bytes of the parameters' values."""
    found: list[tuple[int, int]] = []
    before = known.planned.parameters
    for value, old in zip(arguments, known.instance.args, strict=True):
        leaves = [leaf for leaf in typing.leaves(type_of(value)) if leaf.device is not None and leaf.device != HOST]
        if value is old:
            found += before[len(found) : len(found) + len(leaves)]
            continue
        for leaf in leaves:
            size = leaf.nbytes if isinstance(leaf, TensorType) else None
            if leaf.device is not None and isinstance(size, int):
                found.append((known.memory_of(leaf.device), size))
    return found
