"""A pipeline for another number of microbatches than one that has been simulated: the same, with more or less rounds.

What a call does to clocks and memory depends on its arguments' types, on who shares memory, and on what is needed
later. Where rounds that follow each other do the same, one more of them does that too; so the longer program is the
shorter one with a step repeated, and a batch that is cut into more parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from distir.ir import HOST, Apply, Attributes, Call, Return, TensorType, names, operands, results, types
from distir.ops import Value, type_of
from distir.simulate.body import Body
from distir.simulate.simulation import DeviceUse, Simulation
from distir.simulate.storage import Leaves

LEAST = 4
"""With fewer rounds in a row, there are no two between the first and the last that show that all do the same."""


class Figures(NamedTuple):
    """How long a program takes, in seconds, and what its devices do, by their numbers."""

    latency_s: float
    devices: Mapping[int, DeviceUse]


@dataclass(frozen=True, slots=True)
class MoreRounds:
    """What a program has that another one has not, for microbatches of the same size. It may also be less.

    `rounds`: by function, how many more calls of it in a row. `parts`: how many microbatches there are.
    """

    rounds: Mapping[str, int]
    parts: int

    def figures(self, known: Simulation, sizes: Mapping[str, int], arguments: Sequence[Value]) -> Figures | None:
        """The figures of the program, whose parameters stand for `arguments`.

        `sizes` are those of named dimensions for which the other one is known. Raises Reject.

        None where the rounds of the other one do not follow each other and all do the same, or it does something else
        with the `{batch}` than to cut it, or something with a result that was joined.
        """
        draft = _Draft(known, self.parts)
        parameters = _parameters(known, arguments)
        if [memory for memory, _ in parameters] != [memory for memory, _ in known.planned.parameters]:
            return None
        rows = [draft.row(function) for function in self.rounds]
        if not all(rows) or not draft.cut(arguments) or not draft.join(rows, sizes):
            return None
        for row, count in zip(rows, self.rounds.values(), strict=True):
            if not draft.repeat(row, count):
                return None
        found = known.like(draft.body(parameters))
        return Figures(found.latency_s, found.devices)


class _Draft:
    """The entry function's body, as it becomes that of the other program."""

    def __init__(self, known: Simulation, parts: int) -> None:
        planned = known.planned
        self.known, self.parts = known, parts
        self.statements = known.function.body
        self.steps, self.taken, self.given = list(planned.steps), list(planned.taken), list(planned.given)
        self.sizes = planned.sizes
        self.copies = [1] * len(self.steps)
        """By step: how often the program has it."""

    def row(self, function: str) -> Sequence[int]:
        """The calls of a function, if they follow each other and all do the same; else none.

        The first and the last may do something else: what is used for the last time is not needed after it.
        """
        calls = [i for i, s in enumerate(self.statements) if isinstance(s, Call) and s.function == function]
        following = all(b == a + 1 for a, b in pairwise(calls))
        alike = all(self.steps[a] is self.steps[b] for a, b in pairwise(calls[1:-1]))
        return calls if following and alike and len(calls) >= LEAST else ()

    def repeat(self, row: Sequence[int], count: int) -> bool:
        """Have so many more of some calls, or less; says whether there are enough that do the same."""
        alike = [index for index in row if self.steps[index] is self.steps[row[1]]]
        self.copies[row[1]] += max(count, 0)
        for index in alike[: max(-count, 0)]:
            self.copies[index] = 0
        return len(alike) >= -count

    def cut(self, arguments: Sequence[Value]) -> bool:
        """Cut the batch into other parts; says whether nothing else is done with it."""
        params = self.known.function.params
        whole = {p.name: value for p, value in zip(params, arguments, strict=True) if "batch" in p.roles}
        for index, statement in enumerate(self.statements):
            taking = list(names(operands(statement)))
            if whole.keys().isdisjoint(taking):
                continue
            parts = self.taken[index]
            if not isinstance(statement, Apply) or statement.op != "Split" or len(parts) != len(statement.results):
                return False
            attrs = Attributes({**statement.attrs, "num_outputs": self.parts})
            split = Apply(statement.results[-1:] * self.parts, statement.op, statement.args, attrs)
            self.steps[index] = self.known.effect_of(split, [whole[name] for name in taking])
            self.taken[index] = _as_many(parts, self.parts)
        return True

    def join(self, rounds: Sequence[Sequence[int]], sizes: Mapping[str, int]) -> bool:
        """Join as many parts of results that are joined; says whether these are returned, and nothing else is done."""
        given = [[set(results(self.statements[index])) for index in row] for row in rounds]
        joined: set[str] = set()
        for index, statement in enumerate(self.statements):
            args = list(names(operands(statement)))
            if not joined.isdisjoint(args) and not isinstance(statement, Return):
                return False
            if not any(all(not made.isdisjoint(args) for made in row) for row in given):
                continue  # it takes something of some of the rounds at most: sums, which the last one gives
            parts, whole = self.given[index], self.taken[index]
            if not isinstance(statement, Apply) or statement.op != "Concat" or len(parts) != len(args):
                return False
            concat = replace(statement, args=statement.args[-1:] * self.parts, claims=())
            part = types.substitute(type_of(self.known.instance.state[args[-1]]), sizes)
            effect = self.known.effect_of(concat, [part] * self.parts)
            size = effect.sizes[0]
            if size is None or len(whole) != 1:
                return False
            self.steps[index] = effect
            self.given[index] = _as_many(parts, self.parts)
            self.sizes = [size if storage == whole[0] else old for storage, old in enumerate(self.sizes)]
            joined.update(statement.results)
        return True

    def body(self, parameters: list[tuple[int, int]]) -> Body:
        """The body with what is repeated."""
        places = [index for index, count in enumerate(self.copies) for _ in range(count)]
        return replace(
            self.known.planned,
            parameters=parameters,
            sizes=self.sizes,
            steps=[self.steps[index] for index in places],
            taken=[self.taken[index] for index in places],
            given=[self.given[index] for index in places],
        )


def _as_many(parts: Leaves, count: int) -> Leaves:
    """So many storages of parts, which are all of the same size."""
    return (parts + parts[-1:] * (count - len(parts)))[:count]


def _parameters(simulation: Simulation, arguments: Sequence[Value]) -> list[tuple[int, int]]:
    """Memory and bytes of what the parameters stand for."""
    found: list[tuple[int, int]] = []
    for leaf in (leaf for value in arguments for leaf in types.leaves(type_of(value))):
        size = leaf.nbytes if isinstance(leaf, TensorType) else None
        if leaf.device is not None and leaf.device != HOST and isinstance(size, int):
            found.append((simulation.memory_of(leaf.device), size))
    return found
