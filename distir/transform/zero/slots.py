"""Tracks which values hold weights or gradients that ZeRO partitions, in tuples too.

A pipeline, or gradient accumulation, packs the weights of a stage, and the sums of its gradients, into tuples that
functions take and return. `Held` says which item of a value is which replica's copy of which weight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from distir.ir import Attributes, Function, Module, TensorType, TupleType, Type, ops_in
from distir.ir.calls import reachable
from distir.transform.zero.groups import WeightGroup
from distir.transform.zero.partition import Owner, Partition, part_type


@dataclass(frozen=True, slots=True)
class Slot:
    """One replica's copy of a weight, or of its gradient: the number of the weight's group, and of the replica.

    `cast`: the attributes of the `Cast` to a narrower type that follows wherever the weight is used.
    """

    weight: int
    rank: int
    cast: Attributes | None = None


Held = Union[Slot, "tuple[Held | None, ...]"]
"""The copy that a value holds; for tuples, by item."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The weights and the partition of each."""

    groups: Sequence[WeightGroup]
    partitions: Sequence[Partition]

    def remains(self, held: Held | None) -> bool:
        """Whether anything remains of a value: nothing does if another replica owns it, or all items of the tuple."""
        if isinstance(held, tuple) and held:
            return any(map(self.remains, held))
        if not isinstance(held, Slot):
            return True
        partition = self.partitions[held.weight]
        return not isinstance(partition, Owner) or partition.rank == held.rank

    def type(self, whole: Type, held: Held | None) -> Type:
        """The type of what remains of a value of this type."""
        if isinstance(held, Slot):
            partition, group = self.partitions[held.weight], self.groups[held.weight]
            if held.cast is not None and isinstance(whole, TensorType) and isinstance(group.type, TensorType):
                whole = replace(whole, dtype=group.type.dtype)
            return whole if isinstance(partition, Owner) else part_type(whole, partition, group.replicas.size)
        if held is None or not isinstance(whole, TupleType):
            return whole
        pairs = zip(whole.items, held, strict=True)
        return TupleType(tuple(self.type(item, of) for item, of in pairs if self.remains(of)))

    def key(self, helds: Sequence[Held | None]) -> tuple[Hashable, tuple[int, ...]]:
        """A cache key for rewriting a function, and the weights in the order of their first occurrence."""
        order: dict[int, int] = {}
        return tuple([self._key(held, order) for held in helds]), tuple(order)

    def _key(self, held: Held | None, order: dict[int, int]) -> Hashable:
        if held is None:
            return None
        if isinstance(held, tuple):
            return tuple([self._key(item, order) for item in held])
        number = order.setdefault(held.weight, len(order))
        group, partition = self.groups[held.weight], self.partitions[held.weight]
        return number, held.rank, held.cast, partition, group.devices if isinstance(partition, Owner) else None


def renumbered(held: Held | None, weights: Mapping[int, int]) -> Held | None:
    """The same structure for other weights."""
    if isinstance(held, Slot):
        return replace(held, weight=weights[held.weight])
    return None if held is None else tuple(renumbered(item, weights) for item in held)


def ranks_of(held: Held | None) -> dict[int, set[int]]:
    """By weight: the replicas whose copies a value holds."""
    found: dict[int, set[int]] = {}
    if isinstance(held, Slot):
        found[held.weight] = {held.rank}
    for item in held if isinstance(held, tuple) else ():
        for weight, ranks in ranks_of(item).items():
            found.setdefault(weight, set()).update(ranks)
    return found


def sends(module: Module, entry: Function) -> bool:
    """Whether the program sends values between devices, as the stages of a pipeline do."""
    functions = (entry, *map(module.functions.__getitem__, reachable(module.functions, [entry])))
    return any(any(ops_in(function, "Send")) for function in functions)
