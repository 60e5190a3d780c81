"""A pipeline for more microbatches than one that has been simulated: the same, with more rounds.

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

LEAST = 4
"""With fewer rounds in a row, there are no two between the first and the last that show that all do the same."""


class Figures(NamedTuple):
    """How long a program takes, in seconds, and what its devices do, by their numbers."""

    latency_s: float
    devices: Mapping[int, DeviceUse]


@dataclass(frozen=True, slots=True)
class Longer:
    """What a longer program has that a shorter one has not, for microbatches of the same size.

    `rounds`: by function, how many more calls of it in a row. `parts`: how many microbatches there are.
    """

    rounds: Mapping[str, int]
    parts: int

    def figures(self, shorter: Simulation, sizes: Mapping[str, int], arguments: Sequence[Value]) -> Figures | None:
        """The figures of the longer program, whose parameters stand for `arguments`.

        `sizes` are those of named dimensions for which the shorter one has been simulated. Raises Reject.

        None where the rounds of the shorter one do not follow each other and all do the same, or it does something else
        with the `{batch}` than to cut it, or something with a result that was joined.
        """
        draft = _Draft(shorter, self.parts)
        parameters = _parameters(shorter, arguments)
        if [memory for memory, _ in parameters] != [memory for memory, _ in shorter.planned.parameters]:
            return None
        rows = [draft.row(function) for function in self.rounds]
        if not all(rows) or not draft.cut(arguments) or not draft.join(rows, sizes):
            return None
        for row, count in zip(rows, self.rounds.values(), strict=True):
            draft.copies[row[1]] += count
        found = shorter.like(draft.body(parameters))
        return Figures(found.latency_s, found.devices)


class _Draft:
    """The entry function's body, as it becomes that of the longer program."""

    def __init__(self, shorter: Simulation, parts: int) -> None:
        planned = shorter.planned
        self.shorter, self.parts = shorter, parts
        self.statements = shorter.function.body
        self.steps, self.taken, self.given = list(planned.steps), list(planned.taken), list(planned.given)
        self.sizes = planned.sizes
        self.copies = [1] * len(self.steps)
        """By step: how often the longer program has it."""

    def row(self, function: str) -> Sequence[int]:
        """The calls of a function, if they follow each other and all do the same; else none.

        The first and the last may do something else: what is used for the last time is not needed after it.
        """
        calls = [i for i, s in enumerate(self.statements) if isinstance(s, Call) and s.function == function]
        following = all(b == a + 1 for a, b in pairwise(calls))
        alike = all(self.steps[a] is self.steps[b] for a, b in pairwise(calls[1:-1]))
        return calls if following and alike and len(calls) >= LEAST else ()

    def cut(self, arguments: Sequence[Value]) -> bool:
        """Cut the batch into more parts; says whether nothing else is done with it."""
        params = self.shorter.function.params
        whole = {p.name: value for p, value in zip(params, arguments, strict=True) if "batch" in p.roles}
        for index, statement in enumerate(self.statements):
            taking = list(names(operands(statement)))
            if whole.keys().isdisjoint(taking):
                continue
            parts = self.taken[index]
            if not isinstance(statement, Apply) or statement.op != "Split" or len(parts) != len(statement.results):
                return False
            attrs = Attributes({**statement.attrs, "num_outputs": self.parts})
            longer = Apply(statement.results[-1:] * self.parts, statement.op, statement.args, attrs)
            self.steps[index] = self.shorter.effect_of(longer, [whole[name] for name in taking])
            self.taken[index] = parts + parts[-1:] * (self.parts - len(parts))
        return True

    def join(self, rounds: Sequence[Sequence[int]], sizes: Mapping[str, int]) -> bool:
        """Join more parts of the results that are; says whether these are returned, and no more is done with them."""
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
            longer = replace(statement, args=statement.args[-1:] * self.parts, claims=())
            part = types.substitute(type_of(self.shorter.instance.state[args[-1]]), sizes)
            effect = self.shorter.effect_of(longer, [part] * self.parts)
            size = effect.sizes[0]
            if size is None or len(whole) != 1:
                return False
            self.steps[index] = effect
            self.given[index] = parts + parts[-1:] * (self.parts - len(parts))
            self.sizes = [size if storage == whole[0] else old for storage, old in enumerate(self.sizes)]
            joined.update(statement.results)
        return True

    def body(self, parameters: list[tuple[int, int]]) -> Body:
        """The body with what is repeated."""
        places = [index for index, count in enumerate(self.copies) for _ in range(count)]
        return replace(
            self.shorter.planned,
            parameters=parameters,
            sizes=self.sizes,
            steps=[self.steps[index] for index in places],
            taken=[self.taken[index] for index in places],
            given=[self.given[index] for index in places],
        )


def _parameters(simulation: Simulation, arguments: Sequence[Value]) -> list[tuple[int, int]]:
    """Memory and bytes of what the parameters stand for."""
    found: list[tuple[int, int]] = []
    for leaf in (leaf for value in arguments for leaf in types.leaves(type_of(value))):
        size = leaf.nbytes if isinstance(leaf, TensorType) else None
        if leaf.device is not None and leaf.device != HOST and isinstance(size, int):
            found.append((simulation.memory_of(leaf.device), size))
    return found
