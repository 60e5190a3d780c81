"""All draws at once: the rule of the timeline (`algebra.lanes`), with a vector over draws for each clock.

Times are doubles, in seconds. A clock that does not depend on the draw, as of most hosts, is a single number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from distir.cost.hardware import DeviceLink
from distir.ops.numeric import np
from distir.simulate.algebra.clocks import Clock, ready
from distir.simulate.algebra.lanes import BLOCKING, host, stream
from distir.simulate.spread.lateness import LateSource, Sources
from distir.simulate.spread.track import Alone, Lines, Timing, Together, Track, TrackCall

if TYPE_CHECKING:
    from distir.simulate.spread.lateness import Vector

Moments = Any
"""A vector over draws, or one number for all."""


class Factors:
    """How many times as long things take in some draws."""

    def __init__(self, sources: Sources, factors: Mapping[LateSource, Vector]) -> None:
        self._sources, self._factors = sources, factors
        self._devices: dict[int, Moments] = {}
        self._most: dict[tuple[int, ...] | tuple[DeviceLink, ...], Moments] = {}

    def device(self, position: int) -> Moments:
        """Of what a device computes."""
        if position not in self._devices:
            self._devices[position] = self._product(self._sources.of_device(position))
        return self._devices[position]

    def seconds(self, timing: Timing) -> Moments:
        """Of an op."""
        found: Moments = timing.communication * self._slowest_link(timing.links) if timing.communication else 0.0
        for seconds, positions in timing.computing:
            found = np.maximum(found, seconds * self._slowest_device(positions))
        return found

    def _slowest_device(self, positions: tuple[int, ...]) -> Moments:
        if len(positions) == 1:
            return self.device(positions[0])
        if positions not in self._most:
            self._most[positions] = _latest(map(self.device, positions))
        return self._most[positions]

    def _slowest_link(self, links: tuple[DeviceLink, ...]) -> Moments:
        if links not in self._most:
            own = [self._product(of) for of in map(self._sources.of_link, links) if of]
            self._most[links] = _latest([*own, *([1.0] if len(own) < max(1, len(links)) else [])])
        return self._most[links]

    def _product(self, sources: Iterable[LateSource]) -> Moments:
        found: Moments = 1.0
        for source in sources:
            if source in self._factors:
                found = found * self._factors[source]
        return found


def latencies(track: Track, factors: Factors) -> Moments:
    """When the last stream is done, by draw, in seconds."""
    clocks: dict[Clock, Moments] = defaultdict(float)
    numbers = count()
    pending: list[tuple[Iterator[Alone | Together | TrackCall], dict[int, int]]] = [(iter(track.steps), {})]
    own: list[list[int]] = [[]]
    while pending:
        steps, storages = pending[-1]
        for step in steps:
            if isinstance(step, Alone):
                _alone(step, factors.device(step.position), clocks)
            elif isinstance(step, Together):
                for storage in (*step.flow.awaited, *step.flow.made):
                    if storage not in storages:
                        storages[storage] = next(numbers)
                        own[-1].append(storages[storage])
                _together(step, factors.seconds(step.timing), clocks, storages)
            else:
                inside: dict[int, int] = {}
                for theirs, ours in step.storages.items():
                    if ours not in storages:
                        storages[ours] = next(numbers)
                        own[-1].append(storages[ours])
                    inside[theirs] = storages[ours]
                pending.append((iter(step.track.steps), inside))
                own.append([])
                break
        else:
            pending.pop()
            for number in own.pop():  # no caller knows these values
                clocks.pop(ready(number), None)
    ends = [moment for clock, moment in clocks.items() if isinstance(clock, int) or clock.kind == "stream"]
    return _latest([0.0, *ends])


def _alone(step: Alone, factor: Moments, clocks: dict[Clock, Moments]) -> None:
    device = step.device
    before = clocks[device]
    if not step.stream_after_host and not step.host_after_stream:
        clocks[device] = before + _value(step.stream_after_stream, factor)
        return
    issuer = host(device)
    issued = clocks[issuer]
    clocks[device] = _after(before, step.stream_after_stream, issued, step.stream_after_host, factor)
    clocks[issuer] = _after(before, step.host_after_stream, issued, step.host_after_host, factor)


def _after(before: Moments, own: Lines, issued: Moments, of_host: Lines, factor: Moments) -> Moments:
    if not own:
        return issued + _value(of_host, factor)
    if not of_host:
        return before + _value(own, factor)
    return np.maximum(before + _value(own, factor), issued + _value(of_host, factor))


def _value(lines: Lines, factor: Moments) -> Moments:
    return _latest([a + b * factor if b else a for a, b in lines])


def _together(step: Together, seconds: Moments, clocks: dict[Clock, Moments], storages: Mapping[int, int]) -> None:
    name = step.flow.stream
    lanes = [stream(device, name) for device in step.devices]
    hosts = list(zip(map(host, step.devices), step.issue, strict=False))
    moments = [clocks[lane] for lane in lanes]
    moments += [clocks[lane] if spent == BLOCKING else clocks[lane] + spent for lane, spent in hosts]
    moments += [clocks[ready(storages[storage])] for storage in step.flow.awaited]
    end = _latest(moments) + seconds
    for lane, spent in hosts:
        clocks[lane] = end if spent == BLOCKING else clocks[lane] + spent
    for device, (begin, share) in zip(step.devices, step.taxes, strict=False):
        clocks[device] = clocks[device] + (begin + share * seconds)
    for lane in (*lanes, *[ready(storages[storage]) for storage in step.flow.made]):
        clocks[lane] = end


def _latest(moments: Iterable[Moments]) -> Moments:
    first, *others = moments
    for other in others:
        first = np.maximum(first, other)
    return first
