"""What is wrong with operands that an op does not compute parts of results of, and which collectives mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from distir.ir import Attributes, Type
from distir.ops import Op, Value
from distir.placement.along import State
from distir.placement.rule import Typing

Means = Literal["AllReduce", "AllReduce max", "ReduceScatter", "AllGather", "AllToAll", "Slice", "Share"]
"""What brings a value from one placement along an axis into another.

`Slice` (whole to split) and `Share` (whole to a pending sum) communicate nothing.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """An operand that must be placed otherwise, and by what means; None: by no single collective."""

    operand: int
    now: State
    needed: State
    means: Means | None
    axis: int | None = None
    """The dimension that is gathered, scattered or sliced; of an all-to-all the one that will be split."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The typing with the fewest operands changed; None if the op has none. `reason`: what is wrong, as a clause."""

    typing: Typing | None
    changes: tuple[Change, ...]
    reason: str


def nearest(
    op: Op,
    attrs: Attributes,
    operands: Sequence[Value],
    placements: Sequence[State],
    results: Sequence[Type],
    size: int | None,
) -> Nearest:
    """For placements that have no typing: what is wrong, and how it is mended. Arguments as of `typings`."""
    raise NotImplementedError
