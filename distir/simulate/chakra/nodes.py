"""The Chakra nodes of a rank for an op, with the attributes that ASTRA-sim reads.

Those are listed in astra-sim/workload/feeder_v3/et_feeder_node_attr.h of https://github.com/astra-sim/astra-sim, and
used in astra-sim/workload/Workload.cc: of compute `num_ops` and `tensor_size`, by which its roofline times the node, or
else `duration_micros`; of communication `comm_type`, `comm_size`, `pg_name`, or `comm_src`, `comm_dst`, `comm_tag`.
Ranks count from 0. Knows no files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from distir.ir import Apply, names, types
from distir.ops import type_of
from distir.ops.resources import Communication
from distir.simulate.chakra.schema import (
    COLLECTIVES,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
)
from distir.simulate.timeline import Event

NOT_RUN_BY_ASTRA = ("gather", "reduce", "scatter")
"""Patterns that the schema has and ASTRA-sim stops at; it replays broadcasts by their duration."""

Attributes = dict[str, tuple[str, Any]]
"""By name: which of an attribute's values, without `_val`, and the value."""


@dataclass(frozen=True, slots=True)
class RankNode:
    """One node of an op on one rank. `order`: which one, where there are several; fewer than devices of the op."""

    rank: int
    order: int
    type: int
    attributes: Attributes


@dataclass
class NodeMaker:
    """The nodes of ops. `ranks`: by device."""

    ranks: Mapping[int, int]
    groups: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    """The communicators so far, by their ranks in order: numbers from 1, for 0 means all ranks to ASTRA-sim."""
    unsupported: Counter[str] = field(default_factory=Counter[str])
    """Nodes by patterns that ASTRA-sim does not run."""
    _tags: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    def of(self, event: Event) -> Iterator[RankNode]:
        """The nodes of an op on all of its ranks."""
        communication, devices = event.effect.work.communication, event.effect.devices
        if communication is None or len(devices) == 1:
            for device in devices:
                yield RankNode(self.ranks[device], 0, COMP_NODE, _compute(event, communication))
        elif communication.pattern == "send":
            yield from self._send(event)
        elif communication.pattern == "shift":
            yield from sorted(self._shift(event, communication), key=lambda part: part.order)
        else:
            yield from self._collective(communication, devices)

    def _message(self, source: int, target: int, nbytes: int, sends: int, receives: int) -> Iterator[RankNode]:
        """One from device to device: no other on its way has the same ranks and the same tag."""
        ends = self.ranks[source], self.ranks[target]
        said: Attributes = {
            "is_cpu_op": ("bool", False),
            "comm_src": ("uint32", ends[0]),
            "comm_dst": ("uint32", ends[1]),
            "comm_size": ("uint64", nbytes),
            "comm_tag": ("uint32", self._tags[ends]),
        }
        self._tags[ends] += 1
        yield RankNode(ends[0], sends, COMM_SEND_NODE, said)
        yield RankNode(ends[1], receives, COMM_RECV_NODE, said)

    def _send(self, event: Event) -> Iterator[RankNode]:
        """A message from each device that holds a part of the value, but from where it goes to."""
        state, statement = event.place.run.body.instance.state, event.statement
        assert isinstance(statement, Apply)
        target = statement.attrs["device"]
        assert isinstance(target, int)
        nbytes: Counter[int] = Counter()
        for leaf in (leaf for name in names(statement.args) for leaf in types.leaves(type_of(state[name]))):
            size = types.nbytes(leaf)
            for device in types.devices(leaf):
                assert isinstance(size, int), "what is simulated has known sizes"
                nbytes[device] += size
        for order, source in enumerate(sorted(nbytes.keys() - {target})):
            yield from self._message(source, target, nbytes[source], 0, order)

    def _shift(self, event: Event, communication: Communication) -> Iterator[RankNode]:
        """Each device sends to one and receives from one; Chakra has no collective for that."""
        ring, statement = _ring(event), event.statement
        by = statement.attrs.get("by", 1) if isinstance(statement, Apply) else 1
        assert isinstance(by, int)
        for place, device in enumerate(ring):
            target = ring[(place + by) % len(ring)]
            if target == device:
                yield RankNode(self.ranks[device], 0, COMP_NODE, _compute(event, communication))
            else:
                yield from self._message(device, target, communication.nbytes, 0, 1)

    def _collective(self, communication: Communication, devices: tuple[int, ...]) -> Iterator[RankNode]:
        members = tuple(self.ranks[device] for device in devices)
        number = self.groups.setdefault(members, len(self.groups) + 1)
        pattern = communication.pattern
        said: Attributes = {
            "is_cpu_op": ("bool", False),
            "comm_type": ("int64", COLLECTIVES[pattern]),
            "comm_size": ("uint64", given(communication, len(members))),
            "comm_priority": ("uint32", 0),
            "pg_name": ("string", str(number)),
        }
        if communication.root is not None:
            said["root_rank"] = ("uint32", self.ranks[communication.root])
        if pattern in NOT_RUN_BY_ASTRA:
            self.unsupported[pattern] += len(members)
        for rank in members:
            yield RankNode(rank, 0, COMM_COLL_NODE, said)


def given(communication: Communication, members: int) -> int:
    """`comm_size`: the bytes that each rank puts in, by which ASTRA-sim's algorithms count them (Ring.cc).

    Of a scatter those that each gets; of unequal parts the mean, rounded up.
    """
    if communication.pattern in ("allgather", "gather", "scatter"):
        return -(-communication.nbytes // members)
    return communication.nbytes


def idle() -> Attributes:
    """The node of a rank without ops, as ASTRA-sim does not accept empty traces."""
    return {"is_cpu_op": ("bool", False), "num_ops": ("uint64", 1), "tensor_size": ("uint64", 1)}


def _compute(event: Event, communication: Communication | None) -> Attributes:
    """At least 1 of each: ASTRA-sim's roofline divides by both. A message to oneself is a copy."""
    work = event.effect.work
    flops = sum(count for _, count in work.arithmetic)
    nbytes = work.bytes if communication is None else communication.nbytes
    return {
        "is_cpu_op": ("bool", False),
        "num_ops": ("uint64", max(flops, 1)),
        "tensor_size": ("uint64", max(nbytes, 1)),
    }


def _ring(event: Event) -> list[int]:
    """The devices of operands, in their order."""
    state = event.place.run.body.instance.state
    found = (types.devices(type_of(state[name])) for name in names(event.statement.args))
    return list(dict.fromkeys(device for devices in found for device in sorted(devices)))
