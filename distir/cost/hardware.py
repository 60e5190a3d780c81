"""A machine as a value: its devices, its links, and what work costs on it. Knows no files and no programs.

Devices are *positions* from 0, each with a memory of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from distir.cost.collectives import ALGORITHMS, ROOTED, Algorithm, forwarded
from distir.cost.compute import DeviceKind, contracting, roofline
from distir.cost.errors import HardwareError, Problem
from distir.cost.extents import Runs
from distir.cost.network import Cards
from distir.cost.sustained import sustained
from distir.cost.topology import BlocksByDevice, Level, Link, Ranks, Use, ranks_of
from distir.ops.resources import Communication, Work

Bound = Literal["compute", "memory", "latency", "link", "free"]


@dataclass(frozen=True, slots=True)
class Cost:
    """How long an op occupies its devices, and what most of that time goes into.

    `uncertainty`: how far the time may be off, as a share of it; 0 where the profile does not say.
    """

    seconds: float
    bound: Bound
    uncertainty: float = 0.0

    def times(self, factor: float) -> Cost:
        """The same with all times multiplied by `factor`."""
        return self if factor == 1 else Cost(self.seconds * factor, self.bound, self.uncertainty)


FREE = Cost(0.0, "free")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a profile as its file states it. `basis`: specified, measured, derived or estimated."""

    name: str
    value: str
    unit: str
    source: str
    basis: str
    note: str = ""


PUBLISHED_SHARE = 0.8
"""Of published runs lie in the bands that profiles state."""


Fit = Literal["fits", "may not fit", "does not fit"]
"""Whether a program has enough memory, as far as simulated memory is known to be right."""

MAY_NOT: Final[Fit] = "may not fit"

FITS: Final[tuple[Fit, ...]] = ("fits", MAY_NOT, "does not fit")


@dataclass(frozen=True, slots=True)
class MemoryErrors:
    """How much memory published runs took, over what is simulated of them: from `low` to `high` for 8 in 10."""

    low: float = 1.0
    high: float = 1.0

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} times the simulated memory in {PUBLISHED_SHARE:.0%} of published runs"

    def fit(self, needed: float, capacity: float) -> Fit:
        """Whether so many bytes fit into others: `may not fit` where the capacity is within the band of the need."""
        if needed * self.high <= capacity:
            return "fits"
        return MAY_NOT if needed * self.low <= capacity else "does not fit"


def worst_fit(fits: Iterable[Fit]) -> Fit:
    """The verdict on several devices: that on the one which fits least; `fits` for none."""
    return FITS[max((FITS.index(fit) for fit in fits), default=0)]


EXACT_MEMORY: Final = MemoryErrors()
"""Of machines whose profile states no band: what is simulated is taken as it is."""


@dataclass(frozen=True, slots=True)
class PublishedErrors:
    """The errors of a machine's simulated times for published training runs: the band of 8 in 10.

    `low`, `high`: measured over simulated times. `apart`: of two layouts of the same work on equal machines, the ratio
    of their times is off by less than this share. `memory`: the band of the memory that they took.
    """

    low: float
    high: float
    apart: float
    memory: MemoryErrors = EXACT_MEMORY

    def band(self, seconds: float) -> tuple[float, float]:
        """The probable range of a step's time, in seconds, given the simulated time."""
        return self.low * seconds, self.high * seconds

    def alike(self, seconds: float, others: float) -> bool:
        """Whether two simulated times are too close to say which of them is shorter."""
        return max(seconds, others) <= (1 + self.apart) * min(seconds, others)


DeviceLink = tuple[int, int]
"""A device's link in a level: its position, and the level's index in the machine."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of an op, in seconds: its communication, and concurrent computation at each position."""

    communication: float
    computing: Mapping[int, float]


_Reach = tuple[tuple[int, ...], int | None, Use]


@dataclass(frozen=True, slots=True, eq=False)
class Hardware:
    """A machine. `kinds` has for each device its kind.

    Equal machines have equal contents. `sources` are the texts that the figures cite, by their keys. `edge`: where in
    their bands costs are taken, from -1 (all as short as they may be) to 1 (as long).
    """

    name: str
    title: str
    kinds: Runs[DeviceKind]
    levels: tuple[Level, ...]
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    figures: tuple[Figure, ...] = ()
    edge: float = 0.0
    network: str | None = None
    """The level that joins nodes like this machine; None where its profile states none."""
    published: PublishedErrors | None = None
    """How far times and memory were off in published runs; None where the profile does not say."""
    slow_links: Mapping[DeviceLink, float] = field(default_factory=dict[DeviceLink, float])
    _blocks: BlocksByDevice = field(init=False, repr=False)
    _ranks: dict[_Reach, Ranks | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_blocks", BlocksByDevice(self.levels))
        object.__setattr__(self, "_ranks", {})

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Hardware) and _contents(self) == _contents(other))

    def __hash__(self) -> int:
        return hash((self.name, self.devices))

    @property
    def memory_errors(self) -> MemoryErrors:
        """How far simulated memory was off in published runs; exact where the profile does not say."""
        return EXACT_MEMORY if self.published is None else self.published.memory

    def __str__(self) -> str:
        return self.name

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.kinds)

    @property
    def uncertain(self) -> bool:
        """Whether the profile states uncertainties."""
        kinds = any(kind.uncertainty or any(f.uncertainty for f in kind.ops.values()) for kind in self.kinds.distinct)
        links = any(link.uncertainty for level in self.levels for link in level.links.values())
        return kinds or links or any(times.uncertainty for level in self.levels for times in level.times.values())

    @property
    def cached(self) -> bool:
        """Whether the profile has figures of what caches hold, so that costs depend on a program's working set."""
        return any(kind.cache for kind in self.kinds.distinct)

    def running(self, working_sets: Mapping[int, int]) -> Hardware:
        """The machine while a program runs on it; `working_sets`: the bytes that it has in use, by device.

        The same object where the profile knows no caches. Devices that the program does not use stay as they are.
        """
        if not self.cached:
            return self
        used = {d: self.kinds[d].running(nbytes) for d, nbytes in working_sets.items()}
        return replace(self, kinds=replace(self.kinds, others={**self.kinds.others, **used}))

    def slowed(self, devices: Mapping[int, float], links: Mapping[DeviceLink, float] | None = None) -> Hardware:
        """The machine on which some devices compute, and some links transfer, more slowly than others of their kind.

        By position, and by link: how many times as long as now that takes. What several devices do together takes as
        long as on the slowest of them; what crosses several links, as over the slowest. Hosts are as fast as they were.
        """
        slow = {d: replace(self.kinds[d], slowdown=factor * self.kinds[d].slowdown) for d, factor in devices.items()}
        over = {link: factor * self.slow_links.get(link, 1.0) for link, factor in (links or {}).items()}
        kinds = replace(self.kinds, others={**self.kinds.others, **slow})
        return replace(self, kinds=kinds, slow_links={**self.slow_links, **over})

    def crossed(self, positions: tuple[int, ...]) -> tuple[DeviceLink, ...]:
        """The links that these devices communicate over: of each device, those of the levels where it meets others."""
        members, found = sorted(set(positions)), list[DeviceLink]()
        for device in members:
            met = 1
            for block in self._blocks[device]:
                inside = bisect_left(members, block.devices.stop) - bisect_left(members, block.devices.start)
                if inside > met:
                    found.append((device, block.level))
                met = inside
        return tuple(found)

    def node(self, position: int) -> range:
        """The devices of a device's node: those of the innermost level; of a device that none joins, itself."""
        return next((block.devices for block in self._blocks[position]), range(position, position + 1))

    def under(self, framework: str) -> Hardware | None:
        """The machine where hosts issue ops as a framework does; None where the profile does not say how fast."""
        if not any(kind.host.frameworks.get(framework) for kind in self.kinds.distinct):
            return None

        def under(kind: DeviceKind) -> DeviceKind:
            return replace(kind, host=kind.host.frameworks.get(framework) or kind.host)

        return replace(self, name=f"{self.name}@{framework}", kinds=self.kinds.map(under))

    def by_rates(self) -> Hardware:
        """The machine where products and attention take what their FLOPs and bytes say, whatever their shape."""

        def by_rates(kind: DeviceKind) -> DeviceKind:
            return replace(kind, products={}, experts={}, attention={})

        return replace(self, kinds=self.kinds.map(by_rates))

    def kind(self, position: int) -> DeviceKind:
        """The kind of the device at a position, counted from 0."""
        return self.kinds[position]

    def capacity(self, position: int) -> int:
        """The size in bytes of a device's memory."""
        return self.kind(position).memory

    def with_memory(self, most: int) -> Hardware:
        """The machine with at most this many bytes usable on each device."""

        def limited(kind: DeviceKind) -> DeviceKind:
            if most >= kind.memory:
                return kind
            return replace(kind, memory=most, process=replace(kind.process, limited=True))

        return replace(self, kinds=self.kinds.map(limited))

    def sustained(self) -> Hardware:
        """The machine whose devices have been busy for minutes, and are at the limit of their power (`sustained`)."""
        return replace(self, kinds=self.kinds.map(sustained))

    def place(self, program_devices: Iterable[int]) -> dict[int, int]:
        """The position of each device number of a program, which counts from 0 if it uses device 0, else from 1.

        Raises HardwareError where the program uses more devices than there are, ValueError for negative numbers.
        """
        numbers = sorted(set(program_devices))
        if numbers and numbers[0] < 0:
            raise ValueError(f"{numbers[0]} is not a device number")
        base = 0 if 0 in numbers else 1
        if numbers and numbers[-1] - base >= self.devices:
            raise HardwareError([_too_many(self, numbers, base)])
        return {number: number - base for number in numbers}

    @property
    def period(self) -> int:
        """After how many devices the machine repeats itself: groups that are that far apart have equal shapes.

        The number of all devices where it does not.
        """
        levels = [level for level in self.levels if level.blocks.period < self.devices]
        regular = not self.kinds.others and not self.slow_links and all(level.torus is None for level in self.levels)
        cards = (len(level.cards.of) for level in self.levels if level.cards is not None)
        found = math.lcm(self.kinds.period, *(level.blocks.period for level in levels), *cards)
        return found if regular and self.devices % found == 0 else self.devices

    def shape(self, positions: tuple[int, ...]) -> tuple[object, ...]:
        """What costs depend on: positions of equal shape have equal kinds and links, one by one.

        So `cost(work, a) == cost(work, b)` where `shape(a) == shape(b)`, with the root at the same place in both.
        """
        labels: dict[object, int] = {}

        def label(thing: object) -> int:
            return labels.setdefault(thing, len(labels))

        entries: list[object] = []
        span = (min(positions), max(positions)) if positions else (0, 0)
        crossed = [level.crossed(*span) for level in self.levels]
        for device in positions:
            around = tuple((block.level, block.height, label(block.devices)) for block in self._blocks[device])
            kind = self.kinds[device]
            over = self._blocks[device] if self.slow_links else ()
            pace = kind.slowdown, *(self.slow_links.get((device, block.level), 1.0) for block in over)
            network = self._network(device, span, crossed, label)
            entries.append((kind.name, kind.warmth, pace, label(device), around, *network))
        return tuple(entries)

    def _network(
        self, device: int, span: tuple[int, int], crossed: Sequence[Cards | None], label: Callable[[object], int]
    ) -> Iterator[object]:
        """What of a device's place in cards and tori costs depend on. `crossed`: by level, the cards that matter."""
        for block in self._blocks[device]:
            level = self.levels[block.level]
            if level.torus is not None:
                start, torus = block.devices.start, level.torus
                places = (torus.coordinates(d - start) for d in (device, max(span[0], start)))
                yield tuple(a - b for a, b in zip(*places, strict=True))
            cards = crossed[block.level]
            if cards is not None:
                yield label(("rail", cards.card(device))) if cards.rails else None, cards.crowd(device, *span)

    def cost(self, work: Work, positions: tuple[int, ...], op: str | None = None) -> Cost:
        """The cost of one op on these positions, distinct and in the op's order. `op`: its name, where known.

        `work.communication.root` must be one of these positions, where the pattern has a root (without one, the first
        is taken). An op that also computes overlaps that with its communication. Of different kinds of device, the
        slowest decides. Raises ValueError for a root that is not among the positions.
        """
        cost = FREE if work.communication is None else self._communication(work.communication, positions)
        if self._computes(work, positions, op):
            computing = max((_computing(kind, work, op) for kind in self._kinds_at(positions)), key=_seconds)
            cost = max(cost, computing, key=_seconds)
        if self.edge:
            return Cost(cost.seconds * max(0.0, 1 + self.edge * cost.uncertainty), cost.bound, cost.uncertainty)
        return cost

    def seconds(self, work: Work, positions: tuple[int, ...], op: str | None = None) -> Spending:
        """The components of an op's cost, of which it is the greatest. Raises ValueError as `cost` does."""
        computing = positions if self._computes(work, positions, op) else ()
        return Spending(
            0.0 if work.communication is None else self._communication(work.communication, positions).seconds,
            {position: _computing(self.kinds[position], work, op).seconds for position in computing},
        )

    def _computes(self, work: Work, positions: tuple[int, ...], op: str | None) -> bool:
        if work.flops or work.bytes or work.copied:
            return True
        return op is not None and work.communication is None and self.measured(op, positions)

    def measured(self, op: str, positions: tuple[int, ...]) -> bool:
        """Whether an op has figures of its own on these positions."""
        return any(kind.ops and kind.figures_of(op, None) for kind in self._kinds_at(positions))

    def _kinds_at(self, positions: tuple[int, ...]) -> Iterable[DeviceKind]:
        if len(positions) == 1:  # nearly all ops that compute
            return (self.kinds[positions[0]],)
        return {(kind.name, kind.warmth, kind.slowdown): kind for kind in map(self.kind, positions)}.values()

    def _communication(self, communication: Communication, positions: tuple[int, ...]) -> Cost:
        cost = self._at_pace(communication, positions)
        if not self.slow_links:
            return cost
        return cost.times(max((self.slow_links.get(link, 1.0) for link in self.crossed(positions)), default=1.0))

    def _at_pace(self, communication: Communication, positions: tuple[int, ...]) -> Cost:
        """The cost if no link is slower than others."""
        root = positions[0] if communication.root is None else communication.root
        if root not in positions:
            raise ValueError(f"the root {root} is not among the positions {positions}")
        if measured := self._measured(communication, positions):
            return measured
        best, latency = float("inf"), 0.0
        anchor = root if communication.pattern in ROOTED else None
        for algorithm in self._algorithms(communication):
            for use in algorithm.over:
                key = (positions, anchor, use)
                ranks = self._ranks[key] if key in self._ranks else self._reach(key)
                if ranks is None:
                    continue
                if not ranks.tiers:
                    return FREE
                spent = algorithm.spent(ranks, communication.nbytes)
                seconds = ranks.startup + spent.latency + spent.transfer
                if seconds < best:
                    best, latency = seconds, ranks.startup + spent.latency
        uncertainty = max((link.uncertainty for level in self.levels for link in level.links.values()), default=0.0)
        bound: Bound = "latency" if latency >= best - latency else "link"
        level = self.meeting(positions) if any(level.corrections for level in self.levels) else None
        if level is not None and not self._forwards(communication):
            best *= level.correction(communication.pattern, len(set(positions)), communication.nbytes)
        return Cost(best, bound, uncertainty)

    def _algorithms(self, communication: Communication) -> Sequence[Algorithm]:
        """The algorithms that libraries choose from. Kernels that forward tokens are chosen by who starts them."""
        found = ALGORITHMS[communication.pattern]
        if communication.routed is None:
            return found
        if self._forwards(communication):
            return (forwarded(communication.routed, stated=True),)
        return (*found, forwarded(communication.routed))

    def _forwards(self, communication: Communication) -> bool:
        """Whether links have figures of the kernels that do this: of those that forward tokens."""
        return communication.routed is not None and any("forwarded" in level.links for level in self.levels)

    def meeting(self, positions: tuple[int, ...]) -> Level | None:
        """The level that joins these devices, where they meet in it alone."""
        devices = set(positions)
        around = (b for b in self._blocks[positions[0]] if devices <= set(b.devices))
        block, ranks = next(around, None), self._reach((positions, None, "send"))
        return None if block is None or ranks is None or len(ranks.tiers) > 1 else self.levels[block.level]

    def _measured(self, communication: Communication, positions: tuple[int, ...]) -> Cost | None:
        """The measured time of the pattern, if the devices are in one level that has such figures."""
        if not any(level.times for level in self.levels):
            return None
        level = self.meeting(positions)
        times = None if level is None else level.times.get(communication.pattern)
        devices = set(positions)
        if times is None or len(devices) < 2:
            return None
        # A group whose devices share their cards with others takes as long as one alone with so many times the bytes.
        span = min(devices), max(devices)
        crowd = 1 if level is None or level.cards is None else max(level.cards.crowd(d, *span) for d in devices)
        seconds = times.seconds(len(devices), max(1, crowd) * communication.nbytes)
        if seconds is None:
            return None
        least = times.seconds(len(devices), 0) or 0.0
        return Cost(seconds, "latency" if 2 * least >= seconds else "link", times.uncertainty)

    def _reach(self, key: _Reach) -> Ranks | None:
        """The devices of a group as `use` sees them; remembered, since programs use few groups many times."""
        members, root, use = key

        def link(level: int) -> Link | None:
            return self.levels[level].links.get(use)

        self._ranks[key] = ranks = ranks_of(self._blocks, members, link, root, self.levels)
        return ranks


def _computing(kind: DeviceKind, work: Work, op: str | None) -> Cost:
    if work.copied and kind.host_memory is not None:
        spent = kind.host_memory.seconds(work.copied)
        return Cost(spent, "latency" if 2 * kind.host_memory.latency >= spent else "link", kind.uncertainty)
    return _at_pace(kind, work, op).times(kind.slowdown)


def _at_pace(kind: DeviceKind, work: Work, op: str | None) -> Cost:
    figures = None if op is None or not kind.ops else kind.figures_of(op, work.dtype)
    if figures is not None:
        spent = figures.spent(work.flops, work.bytes, kind.warmth)
        bound: Bound = "compute" if spent.arithmetic >= spent.traffic else "memory"
        bound = "latency" if spent.launch > spent.arithmetic + spent.traffic else bound
        return Cost(spent.seconds, bound, spent.uncertainty)
    if work.contractions and (shaped := contracting(kind, work)) is not None:
        bound = "compute" if shaped.arithmetic >= shaped.memory else "memory"
        bound = "latency" if shaped.launch > shaped.seconds - shaped.launch else bound
        return Cost(shaped.seconds, bound, kind.uncertainty)
    arithmetic, traffic = roofline(kind, work.arithmetic, work.bytes)
    running = max(arithmetic, traffic)
    bound = "latency" if kind.launch > running else "compute" if arithmetic >= traffic else "memory"
    return Cost(kind.launch + running, bound, kind.uncertainty)


def _seconds(cost: Cost) -> float:
    return cost.seconds


def _contents(hardware: Hardware) -> tuple[object, ...]:
    return (
        hardware.name,
        hardware.title,
        hardware.kinds,
        hardware.levels,
        hardware.sources,
        hardware.figures,
        hardware.edge,
        hardware.network,
        hardware.published,
        hardware.slow_links,
    )


def _too_many(hardware: Hardware, numbers: list[int], base: int) -> Problem:
    beyond = [number for number in numbers if number - base >= hardware.devices]
    listed = ", ".join(f"`{number}`" for number in beyond[:4]) + (", …" if len(beyond) > 4 else "")
    return Problem(
        f"the program uses device{'s' if len(beyond) > 1 else ''} {listed}, but `{hardware.name}` has "
        f"{hardware.devices} devices, numbered here from {base} to {hardware.devices - 1 + base}",
        help="choose hardware with more devices, or a strategy that needs fewer",
    )
