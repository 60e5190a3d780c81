"""Which links join which devices. Knows positions and link figures; nothing of work, kinds of device or files.

A machine is a hierarchy of *blocks* of neighbouring devices: a node of 8, a rack of 4 nodes. A *level* says what joins
the members of such blocks. Two devices communicate over the innermost block that holds both. What a collective needs to
know of its devices is summed up in `Ranks`: one `Tier` for each level that it crosses, from inside out.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from distir.cost.correction import Correction
from distir.cost.extents import LevelBlocks
from distir.cost.network import Cards, Torus
from distir.ops.resources import Pattern

Use = Literal["send", "collective", "low_latency", "switch", "forwarded", "hybrid"]
"""What a link is used for: transfers between two devices, collectives, collectives by a protocol for small messages,
reductions done inside the switch, and all-to-alls of tokens that kernels of their own forward: those of DeepEP, and of
HybridEP."""


@dataclass(frozen=True, slots=True)
class Link:
    """`startup`: seconds once per op; `latency`: seconds per step; `bandwidth`: bytes/s per device, one way, achieved.

    `uplink`: bytes/s that all devices of one unit (a node) together can bring over this link, where their network
    cards are fewer than they. `uncertainty`: how far a time may be off, as a share of it.
    """

    startup: float
    latency: float
    bandwidth: float
    uplink: float | None = None
    uncertainty: float = 0.0

    def reaching(self, share: float) -> Link:
        """The link with this share of its bandwidths."""
        uplink = None if self.uplink is None else self.uplink * share
        return replace(self, bandwidth=self.bandwidth * share, uplink=uplink)

    def of_unit(self, devices: int) -> float:
        """Bytes/s of this many devices of one unit together."""
        together = devices * self.bandwidth
        return together if self.uplink is None else min(together, self.uplink)


@dataclass(frozen=True, slots=True)
class Times:
    """Measured times of one pattern by the number of devices. `by_devices`: (bytes, seconds), both ascending.

    `uncertainty`: how far a time may be off, as a share of it.
    """

    by_devices: Mapping[int, tuple[tuple[float, float], ...]]
    uncertainty: float = 0.0

    def reaching(self, share: float) -> Times:
        """The times where this share of the bandwidth is reached: of messages, and so of their latencies."""
        slower = {n: tuple((size, s / share) for size, s in points) for n, points in self.by_devices.items()}
        return replace(self, by_devices=slower)

    def seconds(self, devices: int, nbytes: float) -> float | None:
        """Seconds; None for more or fewer devices than were measured.

        Between measured sizes, and between measured numbers of devices, a line in the logarithms of both. A smaller
        message takes as long as the smallest, a larger one as long per byte as the largest.
        """
        if devices in self.by_devices:
            return _between(self.by_devices[devices], nbytes)
        less = max((n for n in self.by_devices if n < devices), default=None)
        more = min((n for n in self.by_devices if n > devices), default=None)
        if less is None or more is None:
            return None
        low, high = (_between(self.by_devices[n], nbytes) for n in (less, more))
        return low * (high / low) ** (math.log(devices / less) / math.log(more / less))


def _between(points: Sequence[tuple[float, float]], nbytes: float) -> float:
    if nbytes <= points[0][0]:
        return points[0][1]
    if nbytes >= points[-1][0]:
        return points[-1][1] * nbytes / points[-1][0]
    above = bisect_right(points, (nbytes, math.inf))
    (size, seconds), (next_size, next_seconds) = points[above - 1], points[above]
    return seconds * (next_seconds / seconds) ** (math.log(nbytes / size) / math.log(next_size / size))


@dataclass(frozen=True, slots=True)
class Level:
    """One layer of the network, with the blocks that it joins as ranges of devices, and its figures by use.

    `times`: of a pattern that was measured itself. They count where a group meets in this level alone. `cards`: through
    which the devices of a unit get here; the figures are those of a device with a card of its own. `torus`: how the
    devices of a block are linked, if not each with each; the figures are those of one link, and so they are where the
    level is `fully_connected`: each device has a link of its own to each other one. `corrections`: of a
    pattern, by devices and bytes, where a group meets in this level alone and has as many devices as were measured.
    `reached`: the share of bandwidths that is reached in training, by which all of these are multiplied already.
    """

    name: str
    blocks: LevelBlocks
    links: Mapping[Use, Link]
    times: Mapping[Pattern, Times] = field(default_factory=dict[Pattern, Times])
    cards: Cards | None = None
    torus: Torus | None = None
    fully_connected: bool = False
    corrections: Mapping[Pattern, Correction] = field(default_factory=dict[Pattern, Correction])
    reached: float = field(default=1.0, repr=False)  # what it changes is shown changed

    def reaching(self, share: float) -> Level:
        """The level with this share of the bandwidth of its links. Its cards are as fast as they were."""
        links = {use: link.reaching(share) for use, link in self.links.items()}
        times = {pattern: each.reaching(share) for pattern, each in self.times.items()}
        return replace(self, links=links, times=times, reached=self.reached * share)

    def crossed(self, first: int, last: int) -> Cards | None:
        """The cards that devices from `first` to `last` share; None in one unit, and where `uplink` says it all."""
        cards = self.cards
        if cards is None or first // len(cards.of) == last // len(cards.of):
            return None
        return None if all(link.uplink is not None for link in self.links.values()) else cards

    def correction(self, pattern: Pattern, devices: int, nbytes: int) -> float:
        """By what the time of a pattern is multiplied."""
        found = self.corrections.get(pattern)
        if found is None or not found.axes[0][0] <= devices <= found.axes[0][-1]:
            return 1.0
        return found.factor(devices, max(1, nbytes))


@dataclass(frozen=True, slots=True)
class Tier:
    """A level as one collective meets it. A *unit* is what inner tiers have joined: at first a device, then a node.

    `innermost`: the units are devices of one node; `ranks`: units that communicate in one block; `hops`: steps at this
    level in one pass around a ring through all devices; `latency`: seconds per step. Bandwidths in bytes/s: of a unit,
    all its members together (`bandwidth`); of a device while all members of its unit send (`share`), and while only it
    sends (`alone`). Where blocks differ, the slowest counts.
    """

    innermost: bool
    ranks: int
    hops: int
    latency: float
    bandwidth: float
    share: float
    alone: float


@dataclass(frozen=True, slots=True)
class Ranks:
    """The devices of one collective: how many, the tiers they span from inside out, seconds to start up.

    `peers`: how many other devices a device meets at each tier; one entry for each different answer.
    """

    n: int
    startup: float
    tiers: tuple[Tier, ...]
    peers: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TopologyBlock:
    """Devices that one level joins directly. `height`: 1 for blocks without inner blocks."""

    level: int
    devices: range
    height: int


class BlocksByDevice:
    """For each device the blocks that hold it, from inside out. The blocks must nest (`clashes` finds none)."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels
        self._heights: dict[tuple[int, range], int] = {}
        self._found: dict[int, tuple[TopologyBlock, ...]] = {}

    def __getitem__(self, device: int) -> tuple[TopologyBlock, ...]:
        found = self._found.get(device)
        if found is None:
            blocks = [(block, i) for i, level in enumerate(self._levels) if (block := level.blocks.at(device))]
            blocks.sort(key=lambda entry: len(entry[0]))
            found = tuple(TopologyBlock(i, block, self._height(i, block)) for block, i in blocks)
            self._found[device] = found
        return found

    def _height(self, index: int, block: range) -> int:
        key = index, block
        if key not in self._heights:
            inside = (
                self._height(other, found)
                for other, level in enumerate(self._levels)
                for found in level.blocks.within(block)
                if len(found) < len(block)
            )
            self._heights[key] = 1 + max(inside, default=0)
        return self._heights[key]


def clashes(levels: Sequence[Sequence[range]]) -> list[tuple[int, range, int, range]]:
    """Pairs of blocks that are equal or overlap without one holding the other, with the indices of their levels."""
    # Sorted by start, longer first, a block can only clash with one that is still open when it starts.
    ranges = [(block.start, -block.stop, index) for index, blocks in enumerate(levels) for block in blocks]
    found: list[tuple[int, range, int, range]] = []
    open_blocks: list[tuple[int, int, int]] = []
    for start, minus_stop, index in sorted(ranges):
        stop = -minus_stop
        open_blocks = [block for block in open_blocks if block[1] > start]
        found += [
            (i, range(a, b), index, range(start, stop))
            for a, b, i in open_blocks
            if b < stop or (a, b) == (start, stop)
        ]
        open_blocks.append((start, stop, index))
    return found


def ranks_of(
    blocks: BlocksByDevice,
    members: Sequence[int],
    link: Callable[[int], Link | None],
    root: int | None = None,
    levels: Sequence[Level] = (),
) -> Ranks | None:
    """Sum up at least two distinct devices. `link` gives the figures of a level by its index; `levels`: their shapes.

    With a `root`, `peers` are the root's alone. None where a level that the devices cross has no figures. Raises
    ValueError where no level joins them.
    """
    units = [_Unit(device, 1, {device: ()}) for device in members]
    tiers: list[Tier] = []
    startup, height = 0.0, 0
    tallest = max((block.height for device in members for block in blocks[device]), default=0)
    while len(units) > 1:
        height += 1
        if height > tallest:
            raise ValueError(f"no level joins the devices {tuple(members)}")
        joined = _join(blocks, units, height)
        crossed = [(block, inside) for block, inside in joined if block is not None and len(inside) > 1]
        if crossed:
            links = [link(block.level) for block, _ in crossed]
            figures = [figure for figure in links if figure is not None]
            if len(figures) < len(links):
                return None
            startup = max(startup, *(figure.startup for figure in figures))
            span = min(members), max(members)
            meetings = [
                _Meeting(block, inside, figure, levels[block.level] if levels else None, span)
                for (block, inside), figure in zip(crossed, figures, strict=True)
            ]
            around = _step_inside(blocks, meetings[0], link) if meetings[0].changes_rails else 0.0
            tiers.append(_tier(meetings, height == 1, around))
        units = [_union(inside, met=bool(crossed)) for _, inside in joined]
    peers = units[0].peers
    return Ranks(
        len(members), startup, tuple(tiers), (peers[root],) if root is not None else tuple(set(peers.values()))
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """Members joined so far: one of them, their number, and whom each of them met tier by tier."""

    device: int
    size: int
    peers: Mapping[int, tuple[int, ...]]


def _join(
    blocks: BlocksByDevice, units: Sequence[_Unit], height: int
) -> list[tuple[TopologyBlock | None, list[_Unit]]]:
    """The units, grouped by the blocks of this height; a unit that is in none stays alone."""
    groups: dict[tuple[int, int], tuple[TopologyBlock | None, list[_Unit]]] = {}
    for unit in units:
        block = next((block for block in blocks[unit.device] if block.height == height), None)
        key = (0, block.devices.start) if block is not None else (1, unit.device)
        groups.setdefault(key, (block, []))[1].append(unit)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Units that communicate in one block. `span`: the first and the last device of the whole group."""

    block: TopologyBlock
    units: Sequence[_Unit]
    link: Link
    level: Level | None
    span: tuple[int, int]

    @property
    def changes_rails(self) -> bool:
        """Whether a message must get from one rail to another."""
        cards = None if self.level is None else self.level.cards
        if cards is None or not cards.rails:
            return False
        first, *others = (frozenset(map(cards.card, unit.peers)) for unit in self.units)
        return any(rails != first for rails in others)

    def bandwidths(self) -> list[tuple[float, float, float]]:
        """Of each unit: all its members together, the least of one of them, and of one that sends alone."""
        cards = None if self.level is None else self.level.cards
        if cards is None or self.link.uplink is not None or len(set(cards.of)) == len(cards.of):
            sizes = (unit.size for unit in self.units)
            links = len(self.units) - 1 if self.level is not None and self.level.fully_connected else 1
            return [(w := links * self.link.of_unit(size), w / size, self.link.of_unit(1)) for size in sizes]
        found: list[tuple[float, float, float]] = []
        for unit in self.units:
            crowds = Counter(cards.crowd(device, *self.span) for device in unit.peers)
            own = Counter((device // len(cards.of), cards.card(device)) for device in unit.peers)
            together = sum(count * self.link.bandwidth / crowd for crowd, count in crowds.items())
            alone = self.link.bandwidth * min(own.values()) / max(crowds)
            found.append((together, self.link.bandwidth / max(crowds), alone))
        return found


def _tier(meetings: Sequence[_Meeting], innermost: bool, around: float) -> Tier:
    grids = [meeting for meeting in meetings if meeting.level is not None and meeting.level.torus is not None]
    if grids:
        return _torus_tier(grids, innermost)
    figures = [figure for meeting in meetings for figure in meeting.bandwidths()]
    return Tier(
        innermost=innermost,
        ranks=max(len(meeting.units) for meeting in meetings),
        hops=sum(len(meeting.units) - 1 for meeting in meetings),
        latency=max(meeting.link.latency for meeting in meetings) + around,
        bandwidth=min(together for together, _, _ in figures),
        share=min(share for _, share, _ in figures),
        alone=min(alone for _, _, alone in figures),
    )


def _torus_tier(meetings: Sequence[_Meeting], innermost: bool) -> Tier:
    """A torus whose members are devices; of several, the slowest counts."""
    tiers: list[Tier] = []
    for meeting in meetings:
        assert meeting.level is not None
        assert meeting.level.torus is not None
        start, link = meeting.block.devices.start, meeting.link
        grid = meeting.level.torus.grid([device - start for unit in meeting.units for device in unit.peers])
        pair = len(meeting.units) == 2
        figures = grid.ring * link.bandwidth, grid.exchange * link.bandwidth, grid.direct * link.bandwidth
        latency = link.latency * (grid.distance if pair else 1)
        tiers.append(Tier(innermost, len(meeting.units), 1 if pair else grid.hops, latency, *figures))
    return Tier(
        innermost=innermost,
        ranks=max(tier.ranks for tier in tiers),
        hops=sum(tier.hops for tier in tiers),
        latency=max(tier.latency for tier in tiers),
        bandwidth=min(tier.bandwidth for tier in tiers),
        share=min(tier.share for tier in tiers),
        alone=min(tier.alone for tier in tiers),
    )


def _step_inside(blocks: BlocksByDevice, meeting: _Meeting, link: Callable[[int], Link | None]) -> float:
    """Seconds of a step in the node that a message takes to get to another rail; 0 where nothing joins its devices."""
    inner = [block for block in blocks[meeting.units[0].device] if block.height < meeting.block.height]
    figures = link(inner[0].level) if inner else None
    return 0.0 if figures is None else figures.latency


def _union(units: Sequence[_Unit], met: bool) -> _Unit:
    """The units as one. `met`: some units communicate at this height, so that each member notes how many it met."""
    size = sum(unit.size for unit in units)
    if not met:
        return _Unit(units[0].device, size, units[0].peers)
    peers = {device: (*seen, size - unit.size) for unit in units for device, seen in unit.peers.items()}
    return _Unit(units[0].device, size, peers)
