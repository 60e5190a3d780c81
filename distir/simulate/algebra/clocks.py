"""The effects of blocks of statements on clocks: computed once per block, and composed.

An op that waits for its devices and then occupies them is a linear map in the algebra of maximum and sum (*max-plus*),
and so is every straight-line block (Baccelli et al., *Synchronization and Linearity*, 1992): where M[i, j] is the
longest chain of ops from the start of device j to the end of device i, clocks x become x'[i] = max over j of
x[j] + M[i, j]. After ops that join all devices, rows differ by a constant only; so rows are kept once, with an offset
for each device that has them. A block on one device is a single offset.

Clocks count *ticks*, whole numbers of any size, of which sums are exact: so `compose` is associative to the last bit,
and a call summarised, entered, or inlined gives the same numbers. Knows no ops and no functions.

A device's number is the key of its compute stream's clock. Other streams, hosts and values have clocks of their own
(`lanes`), to which the same two operations apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple, Protocol


class Lane(NamedTuple):
    """A clock that is no compute stream: another stream of a device, its host, or when a value is ready.

    `number`: the device, or the storage that the value is in. Made by `lane` alone, one object for each, so that they
    are compared by identity: dictionaries find one in half the time that a tuple takes.
    """

    kind: Literal["host", "ready", "stream"]
    number: int
    stream: str = ""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[object, ...]:
        return lane, tuple(self)


_LANES: dict[tuple[str, int, str], Lane] = {}


def lane(kind: Literal["host", "ready", "stream"], number: int, stream: str = "") -> Lane:
    """A clock, always the same object, in all threads."""
    found = _LANES.get((kind, number, stream))
    return found if found is not None else _LANES.setdefault((kind, number, stream), Lane(kind, number, stream))


@cache
def ready(storage: int) -> Lane:
    """When the value in a storage is there."""
    return lane("ready", storage)


Clock = int | Lane
"""The owner of a clock: a device, by its number, for its compute stream, or something else."""

Clocks = dict[Clock, int]
"""By clock: ticks from the start of the entry function."""

Delays = dict[Clock, int]
"""By clock that is waited for: how many ticks after it. Never changed."""

Row = tuple[tuple[Clock, int], ...]
"""Clocks waited for, and how many ticks after each of them."""


class ClockEvent(Protocol):
    """An op on the timeline: it waits for its devices, and occupies all of them for `ticks`."""

    @property
    def devices(self) -> tuple[Clock, ...]:
        """In ascending order."""
        ...

    @property
    def ticks(self) -> int:
        """For how long."""
        ...

    @property
    def communicates(self) -> bool:
        """Whether devices talk to each other meanwhile."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Occupation:
    """An event, and nothing else of the op."""

    devices: tuple[Clock, ...]
    ticks: int
    communicates: bool


@dataclass(slots=True, eq=False)  # not frozen, as `Effect` is not
class Summary:
    """The effect of a body on the clocks of its devices."""

    devices: tuple[Clock, ...]
    ticks: int
    """With one device: how long it is occupied."""
    rows: tuple[Row, ...]
    """With several: moments of the body, each by what it waits for."""
    ends: tuple[tuple[Clock, int, int], ...]
    """With several: by device, the row that it ends after, and how many ticks after that; not of those unchanged."""
    shifts: tuple[tuple[Clock, int], ...]
    """With several: devices that end so many ticks after they begin, whatever the others do."""
    busy: Clocks
    communication: Clocks
    """By device: ticks that communication ops occupy it. Summaries that have `busy` in common have this in common."""
    last: dict[Clock, int]
    """By device: the number of the last event that ends on it, counted from the body's first."""
    events: int
    """How many there are."""
    inline: tuple[ClockEvent, ...] | None
    """The block's events, where running them takes no longer than the rows do."""
    steps: Steps | None = None
    """In place of rows, where running the block's steps takes no longer: then `ends` says which clocks move."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a block, to be run on clocks of their own."""

    steps: Sequence[Step]
    names: Mapping[Clock, Clock]
    """By clock of the steps: the one that it is of the summary."""
    inner: Collection[Clock]
    """Clocks of the block alone."""

    def run(self, clocks: Clocks) -> None:
        """Move the clocks of a caller on."""
        own = {here: clocks[there] for here, there in self.names.items()}
        own.update(dict.fromkeys(self.inner, min(own.values())))  # what is there already delays nothing
        run(self.steps, own)
        clocks.update([(there, own[here]) for here, there in self.names.items()])

    def retreat(self, latest: Clocks) -> None:
        """The same backwards: from when they must be done to when they must begin."""
        own = {here: latest[there] for here, there in self.names.items()}
        own.update(dict.fromkeys(self.inner, max(own.values())))
        retreat(reversed(self.steps), own)
        latest.update([(there, own[here]) for here, there in self.names.items()])

    def named(self, names: Mapping[Clock, Clock]) -> Steps:
        """The same on other clocks of a caller; those that `names` lacks stay."""
        return Steps(self.steps, {here: names.get(there, there) for here, there in self.names.items()}, self.inner)


Step = ClockEvent | Summary

FEW = 128
"""Up to how many clocks rows are always kept: a block is called often, and its rows are read more quickly each time."""

STEPS_BETWEEN_LOOKS = 512
HOPELESS = 4
"""How many times longer than its steps the rows of a block may be on the way: some are shorter at its end."""


def compose(steps: Sequence[Step], inner: Collection[Clock] = ()) -> Summary:
    """The composition of steps on clocks; `inner`: clocks that nothing waits for before they are set, nor after."""
    devices = _in_order(dict.fromkeys(chain.from_iterable([step.devices for step in distinct_steps(steps)])))
    busy, communication = totals(steps)
    last: dict[Clock, int] = {}
    events = 0
    for step in steps:
        if isinstance(step, Summary):
            for device, number in step.last.items():
                last[device] = events + number
            events += step.events
        else:
            for device in step.devices:
                last[device] = events
            events += 1
    touched = devices
    if inner:
        devices = tuple([device for device in devices if device not in inner])
        last = {device: number for device, number in last.items() if device not in inner}
    if len(devices) == 1:  # one stream, which never waits for what it has made itself
        return Summary(devices, busy[devices[0]], (), (), (), busy, communication, last, events, None)
    found = _rows(steps, touched, inner)
    if found is None:
        whole = Steps(steps, dict(zip(devices, devices, strict=True)), inner)
        return Summary(
            devices,
            0,
            (),
            tuple([(device, 0, 0) for device in last]),
            (),
            busy,
            communication,
            last,
            events,
            None,
            whole,
        )
    rows, ends, shifts = found
    inline = _inline(steps, len(devices) + sum(map(len, rows)))
    return Summary(devices, 0, rows, ends, shifts, busy, communication, last, events, inline)


def power(summary: Summary, times: int) -> Summary:
    """The effect on clocks of a block repeated `times` times, 1 or more, by squaring."""
    found: Summary | None = None
    square = summary
    while times:
        if times & 1:
            found = square if found is None else compose([found, square])
        times >>= 1
        square = compose([square, square]) if times else square
    assert found is not None
    return found


def rename(summary: Summary, devices: Mapping[int, int]) -> Summary:
    """The same on other devices, different ones for different ones."""
    return _renamed(summary, {clock: _there(clock, devices) for clock in summary.devices})


def rebind(summary: Summary, values: Mapping[Clock, Clock]) -> Summary:
    """The same where values that get ready are others, different ones for different ones."""
    there = values.get
    return Summary(  # no op occupies a value: what is busy stays as it is
        tuple([there(clock, clock) for clock in summary.devices]),
        summary.ticks,
        tuple([tuple([(there(clock, clock), ticks) for clock, ticks in row]) for row in summary.rows]),
        tuple([(there(clock, clock), row, ticks) for clock, row, ticks in summary.ends]),
        tuple([(there(clock, clock), ticks) for clock, ticks in summary.shifts]),
        summary.busy,
        summary.communication,
        {there(clock, clock): number for clock, number in summary.last.items()},
        summary.events,
        None,
        summary.steps and summary.steps.named(values),
    )


def awaited(clocks: Iterable[Clock]) -> list[Lane]:
    """Those of the clocks that say when a value is ready."""
    return [clock for clock in clocks if isinstance(clock, Lane) and clock.kind == "ready"]


def of_device(clock: Clock) -> int | None:
    """The device of a clock; None for a value's."""
    return clock if isinstance(clock, int) else None if clock.kind == "ready" else clock.number


def stream_name(clock: Clock) -> str:
    """The name of a stream; "" for that of compute."""
    return "" if isinstance(clock, int) else clock.stream


def renamed_clock(clock: Clock, devices: Mapping[int, int]) -> Clock:
    """The clock of another device in the place of a device's; that of a device without one in its place is the same."""
    if isinstance(clock, int):
        return devices.get(clock, clock)
    if clock.kind == "ready":
        return clock
    return lane(clock.kind, devices.get(clock.number, clock.number), clock.stream)


def _there(clock: Clock, devices: Mapping[int, int]) -> Clock:
    if isinstance(clock, int):
        return devices[clock]
    return clock if clock.kind == "ready" else lane(clock.kind, devices[clock.number], clock.stream)


def _renamed(summary: Summary, names: Mapping[Clock, Clock]) -> Summary:
    def by_device(found: Clocks) -> Clocks:
        return {names[device]: number for device, number in found.items()}

    def event(one: ClockEvent) -> ClockEvent:
        return Occupation(tuple([names[device] for device in one.devices]), one.ticks, one.communicates)

    return Summary(
        tuple(dict.fromkeys([names[device] for device in summary.devices])),
        summary.ticks,
        tuple([tuple([(names[device], ticks) for device, ticks in row]) for row in summary.rows]),
        tuple([(names[device], row, ticks) for device, row, ticks in summary.ends]),
        tuple([(names[device], ticks) for device, ticks in summary.shifts]),
        by_device(summary.busy),
        by_device(summary.communication),
        by_device(summary.last),
        summary.events,
        None if summary.inline is None else tuple(map(event, summary.inline)),
        summary.steps and summary.steps.named(names),
    )


def _in_order(clocks: Collection[Clock]) -> tuple[Clock, ...]:
    """Clocks, those of devices in ascending order and first."""
    devices = sorted([clock for clock in clocks if isinstance(clock, int)])
    return (*devices, *[clock for clock in clocks if not isinstance(clock, int)])


def totals(steps: Sequence[Step]) -> tuple[Clocks, Clocks]:
    """By device: for how long it is busy, and the part of that for which it communicates."""
    counts = Counter([id(step.busy) if isinstance(step, Summary) else id(step) for step in steps])
    different = {id(step.busy) if isinstance(step, Summary) else id(step): step for step in steps}
    busy: Clocks = {}
    communication: Clocks = {}
    for key, step in different.items():  # few, even where each step waits for a value of its own
        count = counts[key]
        if isinstance(step, Summary):
            _add(busy, step.busy, count)
            _add(communication, step.communication, count)
        else:
            ticks = count * step.ticks
            for device in step.devices:
                busy[device] = busy.get(device, 0) + ticks
                if step.communicates:
                    communication[device] = communication.get(device, 0) + ticks
    return busy, communication


def run(steps: Iterable[Step], clocks: Clocks) -> None:
    """Run a body: move the clocks on."""
    for step in steps:
        group = step.devices
        if len(group) == 1:
            clocks[group[0]] += step.ticks
        elif isinstance(step, Summary):
            advance(step, clocks)
        else:
            end = max([clocks[device] for device in group]) + step.ticks
            for device in group:
                clocks[device] = end


def start_of(event: Step, clocks: Mapping[Clock, int]) -> int:
    """When an op starts, alone or as `lanes.occupation` gives it."""
    if isinstance(event, Summary):
        return max([clocks[clock] + ticks for clock, ticks in event.rows[0]])
    return max([clocks[device] for device in event.devices])


def run_op(event: ClockEvent, clocks: Clocks) -> int:
    """Run one op: move the clocks on, and say when it starts."""
    group = event.devices
    start = clocks[group[0]] if len(group) == 1 else max([clocks[device] for device in group])
    end = start + event.ticks
    for device in group:
        clocks[device] = end
    return start


def ends_on(step: Step) -> Collection[Clock]:
    """The clocks that some event of a step ends on."""
    return step.last if isinstance(step, Summary) else step.devices


def advance(summary: Summary, clocks: Clocks) -> None:
    """Run a body on several devices by its summary."""
    if summary.inline is not None:
        run(summary.inline, clocks)
        return
    if summary.steps is not None:
        summary.steps.run(clocks)
        return
    rows = summary.rows
    if len(rows) == 1:
        moment = max([clocks[device] + ticks for device, ticks in rows[0]])
        for device, _, ticks in summary.ends:
            clocks[device] = moment + ticks
    else:
        moments = [max([clocks[device] + ticks for device, ticks in row]) for row in rows]
        for device, row, ticks in summary.ends:
            clocks[device] = moments[row] + ticks
    for device, ticks in summary.shifts:
        clocks[device] += ticks


def retreat(steps: Iterable[Step], latest: Clocks) -> None:
    """Run a body backwards: from when each device must be done to when it must begin."""
    for step in steps:
        group = step.devices
        if len(group) == 1:
            latest[group[0]] -= step.ticks
        elif not isinstance(step, Summary):
            start = min([latest[device] for device in group]) - step.ticks
            for device in group:
                latest[device] = start
        elif step.inline is not None:
            retreat(reversed(step.inline), latest)
        elif step.steps is not None:
            step.steps.retreat(latest)
        else:
            _retreat(step, latest)


def _retreat(summary: Summary, latest: Clocks) -> None:
    moments: dict[int, int] = {}
    for device, row, ticks in summary.ends:
        moment = latest[device] - ticks
        moments[row] = min(moments.get(row, moment), moment)
    # A device that is waited for, and stays as it was, must be done for those who wait for it later, too.
    unchanged = set(summary.devices).difference([device for device, _, _ in summary.ends])
    begins: Clocks = {device: latest[device] for device in unchanged}
    begins.update([(device, latest[device] - ticks) for device, ticks in summary.shifts])
    for row, moment in moments.items():
        for device, ticks in summary.rows[row]:
            begin = moment - ticks
            begins[device] = min(begins.get(device, begin), begin)
    latest.update(begins)


def distinct_steps(steps: Sequence[Step]) -> list[Step]:
    """Each step once."""
    return list({id(step): step for step in steps}.values())


def _add(total: Clocks, more: Clocks, times: int) -> None:
    for device, ticks in more.items():
        total[device] = total.get(device, 0) + times * ticks


def _inline(steps: Sequence[Step], cost: int) -> tuple[ClockEvent, ...] | None:
    """The ops of a body, if to run them takes no longer than `cost` devices of rows do."""
    found: list[ClockEvent] = []
    for step in steps:
        if not isinstance(step, Summary):
            found.append(step)
        elif step.inline is not None:
            found += step.inline
        else:
            return None
        cost -= len(step.inline or ()) if isinstance(step, Summary) else 1
        if cost < 0:
            return None
    return tuple(found) if sum(len(effect.devices) for effect in found) <= cost + len(found) else None


def _rows(
    steps: Sequence[Step], devices: Sequence[Clock], inner: Collection[Clock]
) -> tuple[tuple[Row, ...], tuple[tuple[Clock, int, int], ...], tuple[tuple[Clock, int], ...]] | None:
    """Run a body on clocks that are not known, each a row and an offset; gives the rows, ends and shifts of devices.

    None where running the steps takes no longer than all rows do. That may be where many values cross the edge of a
    call, each with a clock: rows are as long as there are values.
    """
    own: dict[Clock, Delays] = {device: {device: 0} for device in devices}
    own.update([(clock, {}) for clock in inner])
    clocks: dict[Clock, tuple[Delays, int]] = {device: (row, 0) for device, row in own.items()}
    if len(devices) > FEW:
        cost = _cost(steps)
        for start in range(0, len(steps), STEPS_BETWEEN_LOOKS):
            _follow(steps[start : start + STEPS_BETWEEN_LOOKS], clocks)
            if _length(clocks) > HOPELESS * cost:
                return None
    else:
        cost = None
        _follow(steps, clocks)
    for device in inner:
        clocks.pop(device, None)
    if cost is not None and _length(clocks) > cost:
        return None
    numbers: dict[int, int] = {}
    rows: list[Row] = []
    ends: list[tuple[Clock, int, int]] = []
    shifts: list[tuple[Clock, int]] = []
    for device, (row, offset) in clocks.items():
        if row is own[device]:
            shifts.append((device, offset))
            continue
        if id(row) not in numbers:
            numbers[id(row)] = len(rows)
            rows.append(tuple(row.items()))
        ends.append((device, numbers[id(row)], offset))
    return tuple(rows), tuple(ends), tuple(shifts)


def _length(clocks: Mapping[Clock, tuple[Delays, int]]) -> int:
    """Of how many clocks all rows are."""
    return sum(map(len, {id(row): row for row, _ in clocks.values()}.values()))


def _follow(steps: Iterable[Step], clocks: dict[Clock, tuple[Delays, int]]) -> None:
    """Move on clocks that are not known."""
    for step in steps:
        group = step.devices
        if len(group) == 1:
            row, offset = clocks[group[0]]
            clocks[group[0]] = (row, offset + step.ticks)
        elif not isinstance(step, Summary):
            row, offset = _join([(*clocks[device], step.ticks) for device in group])
            for device in group:
                clocks[device] = (row, offset)
        elif step.steps is not None:
            inside = {here: clocks[there] for here, there in step.steps.names.items()}
            inside.update([(clock, ({}, 0)) for clock in step.steps.inner])
            _follow(step.steps.steps, inside)
            clocks.update([(there, inside[here]) for here, there in step.steps.names.items()])
        else:
            moments = [_join([(*clocks[device], ticks) for device, ticks in row]) for row in step.rows]
            for device, number, ticks in step.ends:
                row, offset = moments[number]
                clocks[device] = (row, offset + ticks)
            for device, ticks in step.shifts:
                row, offset = clocks[device]
                clocks[device] = (row, offset + ticks)


def _cost(steps: Sequence[Step]) -> int:
    """Of how many clocks running steps reads or sets."""
    counts = Counter(map(id, steps))
    return sum(counts[id(step)] * _cost_of(step) for step in distinct_steps(steps))


def _cost_of(step: Step) -> int:
    if not isinstance(step, Summary):
        return len(step.devices)
    if step.steps is not None:
        return 2 * len(step.steps.names) + _cost(step.steps.steps)
    return sum(map(len, step.rows)) + len(step.ends) + len(step.shifts)


def _join(clocks: Sequence[tuple[Delays, int, int]]) -> tuple[Delays, int]:
    """The latest of clocks, each a row, its offset, and ticks after that."""
    first, offset, ticks = clocks[0]
    shifts: dict[int, int] = {id(first): offset + ticks}
    rows: dict[int, Delays] = {id(first): first}
    for row, offset, ticks in clocks:  # of clocks with one row the latest counts
        shift = shifts.get(id(row))
        if shift is None or offset + ticks > shift:
            rows[id(row)], shifts[id(row)] = row, offset + ticks
    if len(rows) == 1:
        return first, shifts[id(first)]
    longest = max(rows.values(), key=len)
    latest, base = longest, shifts.pop(id(longest))  # the others, mostly short ones, are counted from it
    for key, shift in shifts.items():
        shift -= base
        for clock, delay in rows[key].items():
            moment, known = delay + shift, latest.get(clock)
            if known is None or moment > known:
                if latest is longest:
                    latest = longest.copy()
                latest[clock] = moment
    return latest, base
