"""Shapes of networks: the cards of a node, and a torus. Knows positions; nothing of levels, work or files.

Many groups of a mesh run the same statement at once: eight data-parallel groups, each of one device of every node. A
group's *siblings* are those it gives by moving all its devices by as many. Which links it shares with them follows from
its own positions, so that a program of a representative device costs what the program of all devices does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Cards:
    """The network cards of a node. `of`: by device of the node, its card; `bandwidth`: of a card, bytes/s one way.

    `rails`: the first cards of all nodes are on one switch, the second ones on another. A message to another rail takes
    a step in the node first, to the device with a card on that rail (NCCL's PXN).
    """

    of: tuple[int, ...]
    bandwidth: float
    rails: bool = False

    def card(self, device: int) -> int:
        """The card of a device, counted within its node."""
        return self.of[device % len(self.of)]

    def crowd(self, device: int, first: int, last: int) -> int:
        """How many devices use a device's card at once, itself included, in a group from `first` to `last`.

        A device does whose group, by moving this one to it, reaches from one node into another. So if the group spans a
        node or more, all do.
        """
        each = len(self.of)
        own = device % each
        movements = (other - own for other, card in enumerate(self.of) if card == self.of[own])
        return sum((first + by) // each != (last + by) // each for by in movements)


@dataclass(frozen=True, slots=True)
class Grid:
    """The bandwidth of a group of devices in a torus, in links of one device.

    `ring`: links that a device sends over at once; `exchange`: the same in an all-to-all, as the narrowest cut allows;
    `direct`: its share of a link while one device sends to another; `hops`: links in one pass along the longest axes;
    `distance`: links between the two that are furthest apart.
    """

    ring: float
    exchange: float
    direct: float
    hops: int
    distance: int


@dataclass(frozen=True, slots=True)
class Torus:
    """Devices in a grid, the last axis fastest, each linked with its neighbours along each axis.

    `wrap`: along which axes the last device is linked with the first.
    """

    sizes: tuple[int, ...]
    wrap: tuple[bool, ...]

    @property
    def devices(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    def grid(self, members: Sequence[int]) -> Grid:
        """The links of two or more devices, numbered within the torus.

        Groups that lie evenly along axes do a ring along each axis at once, each with a part of the payload, in both
        directions where the axis is whole and wraps around. Siblings between their members share the links. Others get
        one link, shared by as many as lie between neighbours.
        """
        coordinates = [self.coordinates(member) for member in members]
        along = [sorted(set(axis)) for axis in zip(*coordinates, strict=True)]
        lines = [self._line(axis, places) for axis, places in enumerate(along) if len(places) > 1]
        distance = sum(line.distance for line in lines)
        apart = max(line.distance for line in lines)
        if math.prod(map(len, along)) == len(members):
            n = len(members)
            ring = sum(line.links / line.gap for line in lines)
            cut = min(4 * line.links / (line.count * line.gap) for line in lines)
            return Grid(ring, min(ring, (n - 1) / n * cut), 1 / apart, sum(line.hops for line in lines), distance)
        return Grid(1 / apart, 1 / (apart * len(members)), 1 / apart, distance * (len(members) - 1), distance)

    def coordinates(self, member: int) -> tuple[int, ...]:
        """The coordinates of a device."""
        found: list[int] = []
        for size in reversed(self.sizes):
            member, at = divmod(member, size)
            found.append(at)
        return tuple(reversed(found))

    def _line(self, axis: int, places: Sequence[int]) -> _Line:
        size, count = self.sizes[axis], len(places)
        gaps = {b - a for a, b in pairwise(places)}
        gap = max(gaps)
        whole = self.wrap[axis] and count > 2 and gaps == {gap} and count * gap == size
        span = places[-1] - places[0]
        if whole:
            return _Line(count, gap, 2, gap * (count // 2), gap * (count // 2))
        if self.wrap[axis] and count == 2:
            span = min(span, size - span)
            return _Line(count, span, 1, span, span)
        return _Line(count, gap, 1, span, span)


@dataclass(frozen=True, slots=True)
class _Line:
    """A group along one axis: members, links between neighbours, directions used, links to the furthest."""

    count: int
    gap: int
    links: int
    hops: int
    distance: int
