"""One axis of a mesh: each device of a program becomes several. Where they are numbered, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from distir.ir import HOST, Apply, Attributes, Call, Function, Module, Statement, Type, types
from distir.ops.group import represented


@dataclass(frozen=True, slots=True)
class Order:
    """Which parts of what is split a device has, each of which is one run.

    In order, device i of n has part i of n. In zig-zag it has the parts i and 2n - 1 - i of 2n: so each has as many
    scores of a causal triangle as the others (Llama 3, arXiv:2407.21783, section 3.3.2; zig-zag ring attention).
    """

    zigzag: bool = False

    def parts(self, size: int) -> int:
        """Into how many parts what is split over so many devices is cut."""
        return 2 * size if self.zigzag else size

    def of(self, rank: int, size: int) -> tuple[int, ...]:
        """The parts of a device, in the order in which it has them."""
        return (rank, 2 * size - 1 - rank) if self.zigzag else (rank,)

    def all(self, size: int) -> tuple[int, ...]:
        """The parts of the first device, then those of the second, and so on."""
        return tuple(part for rank in range(size) for part in self.of(rank, size))


IN_ORDER = Order()

Place = Literal["outermost", "innermost"] | int
"""Where the new axis stands among those that are there; a number: so many neighbouring devices stay neighbours."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """The devices `first`, …, `first + count - 1` of a program, each made `size` devices.

    Innermost, the devices that one device became are neighbours: 1 becomes 1 and 2, 2 becomes 3 and 4. Outermost, the
    whole program is repeated: of 1 and 2 come 1 and 2, then 3 and 4. In between, runs of `place` devices are repeated:
    with 2 of 1, 2, 3, 4 come 1 to 4 of 1 and 2, then 5 to 8 of 3 and 4.
    """

    size: int
    first: int
    count: int
    place: Place
    representative: bool = False
    """Whether only the first of the devices that one becomes is written down, which represents all of them."""
    cut_sends: bool = False
    """Whether what all devices of a group have whole is sent in parts, one by each, and gathered on arrival."""
    order: Order = IN_ORDER
    """Which parts of what is split a device has."""
    whole: frozenset[str] = frozenset()
    """Ops that each device computes of whole operands."""

    @property
    def ranks(self) -> int:
        """How many of the devices that one becomes are written down."""
        return 1 if self.representative else self.size

    @property
    def run(self) -> int:
        """How far apart the devices are that one device becomes."""
        return 1 if self.place == "innermost" else self.count if self.place == "outermost" else self.place

    def stride(self, stride: int) -> int:
        """How far apart the devices are then that were `stride` apart."""
        return self.device(self.first + stride, 0) - self.device(self.first, 0)

    def device(self, device: int, rank: int) -> int:
        """The device that takes the part of `device` for the rank, counted from 0."""
        number, offset = divmod(device - self.first, self.run)
        return self.first + (number * self.size + rank) * self.run + offset

    @property
    def parts(self) -> int:
        """Into how many parts what is split is cut."""
        return self.order.parts(self.size)

    def group(self, device: int) -> tuple[int, ...]:
        """All devices that one device becomes."""
        first, run = self.device(device, 0), self.run
        return tuple(range(first, first + self.size * run, run))


def mesh_of(
    module: Module, entry: Function, size: int, place: Place, representative: bool = False, order: Order = IN_ORDER
) -> Mesh:
    """The mesh over the devices that the module's programs name; of device 1 where they name none."""
    named = {device for function in module for device in devices_of(function)} if entry else set[int]()
    first = min(named, default=1)
    return Mesh(size, first, max(named, default=1) - first + 1, place, representative, order=order)


def names_device(statement: Statement) -> bool:
    """Whether a statement says something of devices that other devices would have to say otherwise."""
    if isinstance(statement, Apply) and (
        represented(statement.op, statement.attrs) is not None or not DEVICE_ATTRIBUTES.isdisjoint(statement.attrs)
    ):
        return True
    return any(claim is not None and types.devices(claim) for claim in getattr(statement, "claims", ()))


def devices_of(function: Function) -> set[int]:
    """The devices that a function names, in its parameters' types, its annotations and its ops' attributes."""
    found: set[int] = set()
    stated: list[Type | None] = [p.type for p in function.params]
    for statement in function.body:
        if isinstance(statement, Apply) and statement.attrs:
            found |= _stated(statement.attrs)
        if isinstance(statement, (Apply, Call)):
            stated += statement.claims
    for claim in stated:
        found.update(() if claim is None else types.devices(claim))
    return found - {HOST}


@lru_cache(maxsize=1 << 12)  # a pipeline's sends are many, and their devices few
def _stated(attrs: Attributes) -> frozenset[int]:
    values = [attrs[name] for name in DEVICE_ATTRIBUTES if name in attrs]
    listed = chain(*(value if isinstance(value, tuple) else (value,) for value in values))
    return frozenset(value for value in listed if isinstance(value, int))


DEVICE_ATTRIBUTES = frozenset({"device", "devices", "root"})
"""Attributes of communication ops that hold devices."""
