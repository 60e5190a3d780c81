"""Where a training step turns from the forward to the backward pass, and which blocks the forward pass is made of.

Goes by weights alone: the forward pass uses each of them a first time, the backward pass uses them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from distir.ir import Apply, Call, Function, TensorType, Type, names, operands


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A training step, by statement numbers of the entry function."""

    blocks: tuple[range, ...]
    """What a layer's forward pass is, more or less: together all of the forward pass, up to the last layer."""
    turn: int
    """The first statement of the backward pass. The loss is between the last block and this."""


def training_step(entry: Function) -> TrainingStep | None:
    """The blocks of a training step; None where weights are used once only, or there are none."""
    weights = {p.name: p.type for p in entry.params if "param" in p.roles}
    uses: dict[str, list[int]] = {}
    for index, statement in enumerate(entry.body):
        if isinstance(statement, (Apply, Call)):
            for name in dict.fromkeys(names(operands(statement))):
                if name in weights:
                    uses.setdefault(name, []).append(index)
    if not uses:
        return None
    last = _last_forward(entry, [places[0] for places in uses.values()])
    again = [place for places in uses.values() for place in places if place > last]
    starts = _starts(entry, weights, last)
    if not again or not starts:
        return None
    bounds = [0, *starts[1:], last + 1]
    return TrainingStep(tuple(range(a, b) for a, b in pairwise(bounds)), min(again))


def _last_forward(entry: Function, first: list[int]) -> int:
    """The last statement of the last layer: layers may share weights, but they are calls of the same functions."""
    layers = {s.function for i in first if isinstance(s := entry.body[i], Call)}
    calls = [i for i, s in enumerate(entry.body) if isinstance(s, Call) and s.function in layers]
    return max([*first, *calls])


def _starts(entry: Function, weights: Mapping[str, Type], last: int) -> list[int]:
    """The statements that blocks begin with: calls that use weights; or else ops that use matrices; or else others."""
    users = [i for i in range(last + 1) if weights.keys() & set(names(operands(entry.body[i])))]
    calls = [i for i in users if isinstance(entry.body[i], Call)]
    matrices = [i for i in users if any(_is_matrix(weights.get(n)) for n in names(operands(entry.body[i])))]
    return calls or matrices or users


def _is_matrix(type: Type | None) -> bool:
    return isinstance(type, TensorType) and len(type.shape or ()) > 1
