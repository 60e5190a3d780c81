"""One axis of a mesh: each device of a program becomes several. Where they are numbered, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from distir.ir import HOST, Apply, Attributes, Call, Function, Module, Statement, Type, types
from distir.ops.group import REPRESENTATIVE_OPS

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

    def group(self, device: int) -> tuple[int, ...]:
        """All devices that one device becomes."""
        return tuple(self.device(device, rank) for rank in range(self.size))


def mesh_of(module: Module, entry: Function, size: int, place: Place, representative: bool = False) -> Mesh:
    """The mesh over the devices that the module's programs name; of device 1 where they name none."""
    named = {device for function in module for device in devices_of(function)} if entry else set[int]()
    first = min(named, default=1)
    return Mesh(size, first, max(named, default=1) - first + 1, place, representative)


def names_device(statement: Statement) -> bool:
    """Whether a statement says something of devices that other devices would have to say otherwise."""
    if isinstance(statement, Apply) and (
        statement.op in REPRESENTATIVE_OPS or not DEVICE_ATTRIBUTES.isdisjoint(statement.attrs)
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
