"""The resources that an op uses: arithmetic, memory traffic, communication. `cost` derives times from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from distir.ir import DType

Pattern = Literal[
    "send", "broadcast", "scatter", "gather", "allgather", "reduce", "allreduce", "reducescatter", "alltoall", "shift"
]


ROUTED = ("top_k", "n_group", "topk_group")
"""The attributes of an all-to-all that say what is `Routed`."""


@dataclass(frozen=True, slots=True)
class Routed:
    """Of each token there are `top_k` rows, for experts in at most `limit` of `groups` equal runs of the devices."""

    top_k: int
    groups: int = 1
    limit: int = 1

    def reached(self, units: int) -> float:
        """The mean number of equal runs of devices, of `units`, to which a token goes, if experts are chosen evenly.

        Where runs and groups do not divide one another, as without groups, which is no less.
        """
        groups, limit = self.groups, self.limit
        if units % groups and groups % units:
            groups = limit = 1
        if units >= groups:  # parts of a group: each of the choices falls into one part in (limit · parts)
            parts = units // groups
            return limit * parts * (1 - (1 - 1 / (limit * parts)) ** self.top_k)
        each = groups // units  # several groups, some of which are among the chosen ones
        ways = math.comb(groups, limit)
        return units * sum(
            math.comb(each, own) * math.comb(groups - each, limit - own) / ways * (1 - (1 - own / limit) ** self.top_k)
            for own in range(1, min(each, limit) + 1)
        )


@dataclass(frozen=True, slots=True)
class Communication:
    """The communication of an op, over its devices.

    `nbytes` is the full payload S: the tensor of `send` and `broadcast`, the operand of `scatter`, the result of
    `gather` and `allgather`, the operand of one device of `reduce`, `allreduce`, `reducescatter` and `shift`, and the
    operand of one device (its own part included) of `alltoall`. `root`: the device at the root of `broadcast`,
    `scatter`, `gather` and `reduce`, or the source of `send`.
    """

    pattern: Pattern
    nbytes: int
    root: int | None = None
    group: tuple[int, int] | None = None
    """For an op of a representative device: the size and the stride of the group that it represents."""
    routed: Routed | None = None
    """For an `alltoall` that brings tokens to their experts, or back, by a library that knows."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """`batch` products of m × k by k × n elements in one kernel; transposed operands are of the same shape.

    Of experts it is the mean: each of `batch` has `m` rows, rounded up, and `grouped` says that they may differ.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class Scores:
    """Fused attention: `heads` of all sequences, each with `queries` × `keys` scores of which it computes `share`.

    `size`: elements of a key's head; `passes`: products of the size of the forward pass's two, over two (2.5 for the
    backward pass, which `backward` says it is). `group`: heads of queries that share one of keys and values. `random`:
    what the random numbers of dropout are in such products, 0 without it.
    """

    heads: int
    queries: int
    keys: int
    size: int
    share: float = 1.0
    passes: float = 1.0
    group: int = 1
    backward: bool = False
    random: float = 0.0


Contraction = MatrixProduct | Scores
"""The shapes on which a cost depends, if a profile has figures by shape."""


class Product(NamedTuple):
    """A product or attention in a kernel of several, with its element type and its FLOPs."""

    dtype: DType | None
    flops: int
    shape: Contraction


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one execution of an op, on each device that computes and between devices.

    `flops` are operations in `dtype`; `bytes` is the traffic with the device's memory; `temporary` is the workspace in
    bytes on each device while the op runs, in addition to its inputs and outputs. `others`: the operations that a
    kernel of several ops does in other element types, by type. `contractions`: the products and attentions among all
    operations. `counts`: whether the host may wait for it, as for numbers of
    rows of what follows. `copied`: bytes that it copies between the memories of a device and of its host.
    """

    flops: int = 0
    bytes: int = 0
    dtype: DType | None = None
    communication: Communication | None = None
    temporary: int = 0
    others: tuple[tuple[DType | None, int], ...] = ()
    contractions: tuple[Product, ...] = ()
    counts: bool = False
    copied: int = 0

    @property
    def products_of_experts(self) -> int:
        """Of how many experts it has products."""
        return sum(c.batch for _, _, c in self.contractions if isinstance(c, MatrixProduct) and c.grouped)

    @property
    def arithmetic(self) -> tuple[tuple[DType | None, int], ...]:
        """The operations, by element type."""
        return ((self.dtype, self.flops), *self.others)

    @property
    def moves(self) -> bool:
        """Whether it computes nothing, and moves data: between devices, or between a device and its host."""
        return self.communication is not None or self.copied > 0

    def on(self, devices: Mapping[int, int]) -> Work:
        """The work with its devices renamed."""
        communication = self.communication
        if communication is None or communication.root is None:
            return self
        return replace(self, communication=replace(communication, root=devices[communication.root]))


NO_WORK = Work()
"""The work of views: no time, no memory."""

AWAITED = Work(counts=True)
"""That of a view for which the host may wait."""
