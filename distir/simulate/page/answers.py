"""The data of views of a simulation: its timeline and its memory. Defines their form and limits.

An editor asks for them (`distir/timeline`, `distir/memory`, documented in `docs/lsp-requests.md`), and the page of
`distir simulate --html` holds the same. Knows no text: `locate` tells where a statement stands.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.analysis.kinds import KINDS
from distir.cost.hardware import Fit
from distir.diagnostics import Span
from distir.ir import Site
from distir.simulate.composition import compositions, curves, highest
from distir.simulate.curves import Moment, TooManyRuns
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.page.blocks import BarFacts, BarKind, BlockTable, Origin, bar_facts, blocks_of
from distir.simulate.timeline import Event
from distir.simulate.trace import placing_of

if TYPE_CHECKING:
    from distir.simulate.simulation import Simulation

NOWHERE = -1
"""In place of the number of a statement: calls that are left out, and the op itself."""

MOST_POINTS = 4000
"""A curve of more points is thinned: of each stretch its highest point is kept."""

MOST_POINTS_IN_ALL = 200_000
"""Of many memories each curve has fewer points, but at least `FEWEST_POINTS`."""

FEWEST_POINTS = 400

FEW_OPS = 20_000
"""Curves of programs of more ops are thinned as they are made."""

MOST_OF_PATH = 1_000_000
"""The most events of a critical path that are listed: the last ones."""

MOST_VALUES = 50

Locate = Callable[[Site], Span | None]


@dataclass(frozen=True, slots=True)
class DeviceLane:
    """The totals of one device, in seconds and bytes. `overhead_bytes`: its process's memory beside tensors."""

    device: int
    busy_s: float
    idle_s: float
    comm_s: float
    peak_memory_bytes: int
    capacity_bytes: int
    overhead_bytes: int
    fits: bool
    """Whether the device has that much memory: the tensors' peak, and what else takes of the capacity."""
    fit: Fit
    """The same with the errors of simulated memory."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A statement that calls a function."""

    function: str
    statement: int
    span: Span | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One op on the timeline. `calls`: the functions that lead to it, outermost first, its own last.

    `callers`: the statements that call them, of all but the first. Of very many calls, those in the middle are one
    entry that says how many there are.

    `communication`: its pattern of messages, such as `send`; `root`: the device at the root of that.

    `stream`: what it runs on, on all of its devices; "" is compute.

    `phase`, `microbatch`: its facts, as far as the program says (`distir.ir.facts`).
    """

    event: int
    op: str
    label: str
    function: str
    statement: int
    calls: tuple[str, ...]
    callers: tuple[CallPlace, ...]
    span: Span | None
    start_s: float
    duration_s: float
    devices: tuple[int, ...]
    bound: str
    slack_s: float | None
    communication: str | None
    root: int | None
    stream: str
    phase: str | None
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class BarTable:
    """Bars as columns, for programs of many: a tenth of what rows take.

    `origin`, `call`, `kind` and `work` count in the lists. `callers`: for each of `calls` the statements that call
    these functions, of all but the first, counted in `places`.
    """

    origins: tuple[Origin, ...]
    calls: tuple[tuple[str, ...], ...]
    callers: tuple[tuple[int, ...], ...]
    places: tuple[CallPlace, ...]
    kinds: tuple[BarKind, ...]
    works: tuple[BarFacts, ...]
    event: array[int]
    origin: array[int]
    call: array[int]
    kind: array[int]
    work: array[int]
    start_s: array[float]
    slack_s: array[float] | None

    def rows(self) -> Iterator[Bar]:
        """The same, bar by bar."""
        for i, event in enumerate(self.event):
            origin, kind, work = self.origins[self.origin[i]], self.kinds[self.kind[i]], self.works[self.work[i]]
            yield Bar(
                event,
                origin.op,
                origin.label,
                origin.function,
                origin.statement,
                self.calls[self.call[i]],
                tuple([self.places[place] for place in self.callers[self.call[i]]]),
                origin.span,
                self.start_s[i],
                kind.duration_s,
                kind.devices,
                kind.bound,
                self.slack_s[i] if self.slack_s is not None else None,
                kind.communication,
                kind.root,
                kind.stream,
                work.phase,
                work.microbatch,
            )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A device that idles until an op starts there, for another op; NOWHERE for the host. `stream`: "" is compute."""

    device: int
    start_s: float
    duration_s: float
    before: int
    blocker: int
    stream: str


@dataclass(frozen=True, slots=True)
class HostLane:
    """The host of a device, as columns: the events that it issues, and from when until when."""

    device: int
    event: array[int]
    start_s: array[float]
    end_s: array[float]


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A piece of a timeline. `next_event`: where to continue; None at the end.

    With a `table`, or with `blocks`, there are no `bars`; blocks are all of the timeline.

    Shares of (devices × latency): `bubble`, in which devices do nothing; `exposed_communication`, in which they
    communicate and do not compute; `host_bound`, in which they wait for nothing but hosts, None of long programs.
    `hosts`: what hosts issue, of those that take time for it.
    """

    hardware: str
    function: str
    latency_s: float
    bubble: float
    exposed_communication: float
    host_bound: float | None
    ops: int
    events: int
    devices: tuple[DeviceLane, ...]
    bars: tuple[Bar, ...]
    next_event: int | None
    critical_path: tuple[int, ...]
    waits: tuple[Waiting, ...]
    table: BarTable | None
    blocks: BlockTable | None
    hosts: tuple[HostLane, ...]


@dataclass(frozen=True, slots=True)
class Resident:
    """A value in memory at the peak: where it was made (None: a parameter of the entry function)."""

    name: str
    nbytes: int
    function: str
    statement: int | None
    span: Span | None


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """The bytes of one kind of values in a memory: at its peak, and over time.

    `changes`: from which of the curve's points on, counted from 0, they take how many bytes.
    """

    name: str
    nbytes: int
    changes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One physical memory. `points`: seconds and bytes, each from then on; `peak_*`: the first op at the peak.

    `values`: the largest values that are live then; `parts`: what all of them are, by kind. `devices`: those of the
    program that use this memory.
    `overhead_bytes`: what the process of a device holds beside tensors, throughout.
    """

    devices: tuple[int, ...]
    capacity_bytes: int
    overhead_bytes: int
    peak_bytes: int
    peak_op: str | None
    peak_span: Span | None
    peak_s: float
    values: tuple[Resident, ...]
    parts: tuple[MemoryPart, ...]
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class MemoryView:
    """All memories that a program uses."""

    hardware: str
    function: str
    latency_s: float
    memories: tuple[Curve, ...]


def timeline_of(
    simulation: Simulation,
    locate: Locate,
    first_event: int = 0,
    most: int | None = None,
    devices: frozenset[int] | None = None,
    columns: bool = False,
    blocks: bool = False,
) -> TimelineView:
    """The timeline from one event on, in program order: at most so many bars, or all; of certain `devices` alone.

    `columns`: as a table in place of bars. `blocks`: if it is longer than is followed op by op, all of it as blocks,
    whatever else is said. There the critical path is its
    last `MOST_OF_PATH` events.
    """
    timeline = simulation.timeline()
    is_long = timeline.is_long
    in_blocks = blocks and is_long
    has_path = not is_long or in_blocks
    limit = 0 if in_blocks else most
    table, hosts, following = _table(simulation, locate, not is_long, first_event, limit, devices)
    following = None if in_blocks else following
    last = following if following is not None else timeline.body.events
    return TimelineView(
        simulation.hardware.name,
        simulation.function.name,
        simulation.latency_s,
        simulation.bubble,
        simulation.exposed_communication,
        simulation.host_bound,
        simulation.ops,
        timeline.body.events,
        tuple(
            DeviceLane(
                d,
                use.busy_s,
                use.idle_s,
                use.comm_s,
                use.peak_memory_bytes,
                use.capacity_bytes,
                use.overhead.total,
                use.fits,
                use.fit,
            )
            for d, use in simulation.devices.items()
        ),
        () if columns or in_blocks else tuple(table.rows()),
        following,
        tuple(e for e in timeline.critical_end(MOST_OF_PATH) if first_event <= e < last) if has_path else (),
        () if is_long else tuple(_waits(simulation, first_event, last)),
        table if columns and not in_blocks else None,
        blocks_of(simulation, locate) if in_blocks else None,
        tuple(hosts),
    )


def memory_of(simulation: Simulation, locate: Locate) -> MemoryView:
    """The use of memory over time, and what each memory holds at its peak."""
    users: dict[int, list[int]] = {}
    for device in simulation.devices:
        users.setdefault(simulation.memory_of(device), []).append(device)
    most = max(FEWEST_POINTS, min(MOST_POINTS, MOST_POINTS_IN_ALL // max(1, len(users))))
    tolerance = None if simulation.ops <= FEW_OPS else simulation.timeline().finish // (most // 2)
    try:
        found = curves(simulation, tolerance)
    except TooManyRuns:
        found = {}
    peaks = compositions(simulation) if not found else {m: highest(moments) for m, moments in found.items()}
    shown = tuple(
        _curve(simulation, locate, memory, devices, peaks.get(memory, {}), thinned(found.get(memory, []), most))
        for memory, devices in users.items()
    )
    return MemoryView(simulation.hardware.name, simulation.function.name, simulation.latency_s, shown)


def _parts(peak: Mapping[str, int], points: Sequence[Moment]) -> tuple[MemoryPart, ...]:
    """The contents of a memory by kind."""
    found: list[MemoryPart] = []
    for number, kind in enumerate(KINDS):
        changes: list[tuple[int, int]] = []
        for place, (_, _, levels) in enumerate(points):
            if levels[number] != (changes[-1][1] if changes else 0):
                changes.append((place, levels[number]))
        if changes or kind in peak:
            found.append(MemoryPart(kind, peak.get(kind, 0), tuple(changes)))
    return tuple(found)


def thinned(points: list[Moment], most: int) -> list[Moment]:
    """At most `most` points, in order: the highest one of each interval, and the last point."""
    if len(points) <= most:
        return points
    size = -(-len(points) // (most - 1))
    kept = [max(points[i : i + size], key=lambda point: point[1]) for i in range(0, len(points), size)]
    return [*kept[: most - 1], points[-1]]


def _table(
    simulation: Simulation,
    locate: Locate,
    with_slack: bool,
    first: int,
    most: int | None,
    devices: frozenset[int] | None,
) -> tuple[BarTable, Collection[HostLane], int | None]:
    """The bars from event `first` on, what hosts issue of them, and where to continue after them."""
    timeline = simulation.timeline()
    hosts: dict[int, HostLane] = {}
    origins: dict[tuple[str, int], int] = {}
    calls: dict[tuple[tuple[str, int], ...], int] = {}
    callers: list[tuple[int, ...]] = []
    places: dict[tuple[str, int], int] = {}
    kinds: dict[BarKind, int] = {}
    placing = placing_of(simulation)
    works: dict[BarFacts, int] = {}
    placed: dict[tuple[int, int], int] = {}  # works, by calls and origins
    known: dict[tuple[int, str], int] = {}  # kinds by their effects, which live as long as the timeline, and streams
    listed: list[Origin] = []
    event_of, origin_of, call_of, kind_of, work_of = (array("q") for _ in range(5))
    starts, slack = array("d"), array("d")
    following: int | None = None
    for event in timeline.events(first):
        effect = event.effect
        if most is not None and len(event_of) >= most:
            following = event.index
            break
        if devices is not None and devices.isdisjoint(effect.devices):
            continue
        function, index = event.function, event.place.statement
        origin = origins.get((function.name, index))
        if origin is None:
            origin = origins[function.name, index] = len(origins)
            span = locate(Site(function.name, index))
            listed.append(Origin(effect.op, event.label, function.name, index, span))
        shared = id(effect), event.statement.stream
        kind = known.get(shared)
        if kind is None:
            kind = known[shared] = kinds.setdefault(_kind(effect, event.statement.stream), len(kinds))
        event_of.append(event.index)
        origin_of.append(origin)
        way = _way(event)
        call = calls.get(way)
        if call is None:
            call = calls[way] = len(calls)
            callers.append(tuple([places.setdefault(place, len(places)) for place in way[:-1]]))
        call_of.append(call)
        work = placed.get((call, origin))
        if work is None:
            work = works.setdefault(bar_facts(placing(event)), len(works))
            if not event.place.run.around[1]:  # where calls are left out, others may be called the same
                placed[call, origin] = work
        work_of.append(work)
        kind_of.append(kind)
        starts.append(event.start)
        for device, begin, end in event.place.issued if timeline.has_hosts else ():
            if devices is None or device in devices:
                lane = hosts.setdefault(device, HostLane(device, array("q"), array("d"), array("d")))
                lane.event.append(event.index)
                lane.start_s.append(to_seconds(begin))
                lane.end_s.append(to_seconds(end))
        if with_slack:
            slack.append(timeline.slack[event.index])
    table = BarTable(
        tuple(listed),
        tuple([tuple([name for name, _ in way]) for way in calls]),
        tuple(callers),
        tuple([CallPlace(name, i, locate(Site(name, i)) if i != NOWHERE else None) for name, i in places]),
        tuple(kinds),
        tuple(works),
        event_of,
        origin_of,
        call_of,
        kind_of,
        work_of,
        starts,
        slack if with_slack else None,
    )
    return table, [hosts[device] for device in sorted(hosts)], following


def _way(event: Event) -> tuple[tuple[str, int], ...]:
    """The functions that lead to an event, its own last, and the statements in them that call; NOWHERE for others."""
    outermost, left_out, innermost = event.shown_path
    more = ((f"… {left_out:,} more …", NOWHERE),) if left_out else ()
    way = (*((f.name, i) for f, i in outermost), *more, *((f.name, i) for f, i in innermost))
    return (*way[:-1], (way[-1][0], NOWHERE))


def _kind(effect: Effect, stream: str) -> BarKind:
    communication = effect.work.communication
    return BarKind(
        effect.cost.seconds,
        effect.devices,
        effect.cost.bound,
        communication.pattern if communication is not None else None,
        communication.root if communication is not None else None,
        stream,
    )


def _waits(simulation: Simulation, first: int, last: int) -> Iterator[Waiting]:
    for wait in simulation.timeline().waits:
        if first <= wait.event < last:
            blocker = NOWHERE if wait.blocker is None else wait.blocker
            yield Waiting(wait.device, wait.start, wait.seconds, wait.event, blocker, wait.stream)


def _curve(
    simulation: Simulation,
    locate: Locate,
    memory: int,
    devices: list[int],
    parts: Mapping[str, int],
    points: list[Moment],
) -> Curve:
    peak, number, live = simulation.memory().peak(memory)
    event = simulation.timeline().event(number) if number is not None else None
    place = event.site if event is not None else None
    return Curve(
        tuple(devices),
        simulation.devices[devices[0]].capacity_bytes,
        simulation.devices[devices[0]].overhead.total,
        peak,
        event.effect.op if event is not None else None,
        locate(place) if place is not None else None,
        event.start if event is not None else 0.0,
        tuple(
            Resident(v.name, v.nbytes, v.function, v.index, locate(Site(v.function, v.index)))
            for v in live[:MOST_VALUES]
        ),
        _parts(parts, points),
        tuple([(to_seconds(ticks), nbytes) for ticks, nbytes, _ in points]),
    )
