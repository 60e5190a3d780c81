"""Requirements of blocks besides time and memory: process groups and element types.

A third property of a block beside clocks and memory. It composes by union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distir.ir import DType
from distir.simulate.effects import Effect, Relocation


class Group(NamedTuple):
    """Devices that communicate together."""

    devices: tuple[int, ...]
    sends: bool
    """By messages from one to another, for which one communicator per device serves all."""
    represented: tuple[int, int] | None
    """Of a representative device: the size and the stride of the group that it represents."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The groups of devices that communicate, and by element type the devices that compute in it; in their order."""

    groups: Mapping[Group, None] = field(default_factory=dict[Group, None])
    arithmetic: Mapping[DType, frozenset[int]] = field(default_factory=dict[DType, frozenset[int]])

    @classmethod
    def of(cls, steps: Iterable[Effect | Needs]) -> Needs:
        """The requirements of a block's steps, each once."""
        groups: dict[Group, None] = {}
        arithmetic: dict[DType, frozenset[int]] = {}
        for step in steps:
            if isinstance(step, Needs):
                groups.update(step.groups)
                computed = step.arithmetic.items()
            else:
                work, devices = step.work, step.devices
                if work.communication is not None and devices:
                    sends = work.communication.pattern == "send"
                    groups[Group(devices, sends, work.communication.group)] = None
                computed = [(dtype, devices) for dtype, flops in work.arithmetic if flops and dtype is not None]
            for dtype, devices in computed:
                known = arithmetic.get(dtype)
                if known is None:
                    arithmetic[dtype] = frozenset(devices)
                elif not known.issuperset(devices):
                    arithmetic[dtype] = known.union(devices)
        return cls(groups, arithmetic)

    def relocated(self, there: Relocation) -> Needs:
        """The same on other devices."""
        devices = there.devices
        return Needs(
            {group._replace(devices=tuple([devices[d] for d in group.devices])): None for group in self.groups},
            {dtype: frozenset([devices[d] for d in found]) for dtype, found in self.arithmetic.items()},
        )
