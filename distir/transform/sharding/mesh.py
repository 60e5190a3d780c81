"""The numbering of devices along one mesh axis, on which each device of a program becomes several."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

from distir.ir import HOST, Apply, Attributes, Call, Function, Module, Statement, TensorType, TupleType, Type, types
from distir.ops.group import represented
from distir.placement.along import OwnedBy, State, parts_of


@dataclass(frozen=True, slots=True)
class Order:
    """Which parts of a split value a device has, each a contiguous run.

    In order, device i of n has part i of n. In zig-zag it has the parts i and 2n - 1 - i of 2n, which balances causal
    attention (Llama 3, arXiv:2407.21783, section 3.3.2; zig-zag ring attention).
    """

    zigzag: bool = False

    def parts(self, size: int) -> int:
        """The number of parts of a value that is split over a number of devices."""
        return 2 * size if self.zigzag else size

    def of(self, rank: int, size: int) -> tuple[int, ...]:
        """The parts of a device, in order."""
        return (rank, 2 * size - 1 - rank) if self.zigzag else (rank,)

    def all(self, size: int) -> tuple[int, ...]:
        """The parts of the first device, then those of the second, and so on."""
        return tuple(part for rank in range(size) for part in self.of(rank, size))


IN_ORDER = Order()

Place = Literal["outermost", "innermost"] | int
"""The position of the new axis among the existing ones; a number: that many adjacent devices stay adjacent."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh axis: the devices `first`, …, `first + count - 1` of a program, each replaced by `size` devices.

    Innermost, the devices that one device became are neighbours: 1 becomes 1 and 2, 2 becomes 3 and 4. Outermost, the
    whole program is repeated: of 1 and 2 come 1 and 2, then 3 and 4. In between, runs of `place` devices are repeated:
    with 2 of 1, 2, 3, 4 come 1 to 4 of 1 and 2, then 5 to 8 of 3 and 4.
    """

    size: int
    first: int
    count: int
    place: Place
    representative: bool = False
    """Whether the program has only the first of the devices that one becomes, which represents all of them."""
    cut_sends: bool = False
    """Whether values that all devices of a group hold whole are sent in parts, one by each, and gathered on arrival."""
    order: Order = IN_ORDER
    """Which parts of a split value a device has."""
    whole: frozenset[str] = frozenset()
    """Ops that each device computes from whole operands."""
    factors: tuple[int, ...] = ()
    """The numbers of devices, outermost first, into which the axis is divided for `Nested` states."""

    def of(self, type: Type) -> Mesh:
        """The mesh of the devices that hold a value of a type."""
        return self

    @property
    def ranks(self) -> int:
        """The number of devices in the program that one becomes."""
        return 1 if self.representative else self.size

    @property
    def run(self) -> int:
        """The distance of the devices that one device becomes."""
        return 1 if self.place == "innermost" else self.count if self.place == "outermost" else self.place

    def stride(self, stride: int) -> int:
        """The new distance of devices that were `stride` apart."""
        return self.device(self.first + stride, 0) - self.device(self.first, 0)

    def device(self, device: int, rank: int) -> int:
        """The device that replaces `device` for a rank, counted from 0."""
        number, offset = divmod(device - self.first, self.run)
        return self.first + (number * self.size + rank) * self.run + offset

    def inner(self, factor: int) -> int:
        """How many of these devices apart neighbours along a factor of the axis are."""
        return math.prod(self.factors[factor + 1 :])

    def number(self, factors: Sequence[int]) -> int:
        """The number of devices along factors."""
        return math.prod(self.factors[factor] for factor in factors)

    def coordinate(self, rank: int, factors: Sequence[int]) -> int:
        """The place of a rank along factors, of which the first is outermost."""
        place = 0
        for factor in factors:
            place = place * self.factors[factor] + rank // self.inner(factor) % self.factors[factor]
        return place

    def having(self, state: State) -> Sequence[int]:
        """The ranks of the devices that have some of a value in this state."""
        if isinstance(state, tuple):
            found = {rank for item in state for rank in self.having(item)}
            return sorted(found) if state else range(self.ranks)
        owned = [(k, own.number - 1) for k, (own, _) in enumerate(parts_of(state)) if isinstance(own, OwnedBy)]
        if not owned:
            return range(self.ranks)
        return [rank for rank in range(self.size) if all(self.coordinate(rank, (k,)) == n for k, n in owned)]

    def held(self, type: Type, state: State, rank: int) -> Type:
        """The type of what a device has of a value whose parts have a type: of a tuple, those items that it has."""
        if not isinstance(type, TupleType) or not isinstance(state, tuple):
            return type
        rows = [(item, own) for item, own in zip(type.items, state, strict=True) if rank in self.having(own)]
        return TupleType(tuple(self.held(item, own, rank) for item, own in rows))

    def groups(self, factors: Sequence[int]) -> list[tuple[int, ...]]:
        """The ranks that differ in their place along factors alone, in order of these places."""
        others = [factor for factor in range(len(self.factors)) if factor not in factors]
        found: dict[int, list[int]] = {}
        for rank in range(self.size):
            found.setdefault(self.coordinate(rank, others), []).append(rank)
        return [tuple(sorted(ranks, key=lambda rank: self.coordinate(rank, factors))) for ranks in found.values()]

    def group(self, device: int) -> tuple[int, ...]:
        """All devices that one device becomes."""
        first, run = self.device(device, 0), self.run
        return tuple(range(first, first + self.size * run, run))


def mesh_of(
    module: Module, entry: Function, size: int, place: Place, representative: bool = False, order: Order = IN_ORDER
) -> Mesh:
    """The mesh over the devices that the module names; device 1 if it names none."""
    named = {device for function in module for device in devices_of(function)} if entry else set[int]()
    first = min(named, default=1)
    return Mesh(size, first, max(named, default=1) - first + 1, place, representative, order=order)


def names_device(statement: Statement) -> bool:
    """Whether a statement names devices, so that it would differ on other devices."""
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


def on_devices(type: Type, move: Callable[[int], int]) -> Type:
    """The type with every device replaced."""
    match type:
        case TupleType(items):
            return TupleType(tuple(on_devices(item, move) for item in items))
        case TensorType(dtype, shape, device, offloaded) if device is not None and device != HOST:
            return TensorType(dtype, shape, move(device), offloaded)
        case types.AnyType(device) if device is not None and device != HOST:
            return types.AnyType(move(device))
        case _:
            return type


@lru_cache(maxsize=1 << 12)  # a cache: a pipeline has many sends between few devices
def _stated(attrs: Attributes) -> frozenset[int]:
    values = [attrs[name] for name in DEVICE_ATTRIBUTES if name in attrs]
    listed = chain(*(value if isinstance(value, tuple) else (value,) for value in values))
    return frozenset(value for value in listed if isinstance(value, int))


DEVICE_ATTRIBUTES = frozenset({"device", "devices", "root"})
"""Attributes of communication ops that hold devices."""
