"""One event on one of its streams, in words and figures: when it starts, for whom it waited, what memory it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.cost import show_seconds, show_seconds_apart
from distir.ide.stepping.streams import Key, Streams, device_of, key_of, stream_name
from distir.ir import COMPUTE
from distir.simulate.algebra.clocks import Clock, Lane
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.simulation import Simulation


class MemoryUsage:
    """How many bytes are in use in a memory at an event, in program order: by what is known of calls before it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._before: dict[tuple[int, int], tuple[Body, Sequence[int]]] = {}

    def during(self, place: EventPlace, memory: int) -> int:
        """In use while an op runs, with its results and its temporary memory."""
        body = place.run.body
        use = sum(size for where, size in self.simulation.body.parameters if where == memory)
        use += sum(body.sizes[s][1] for s in body.taken[place.statement] if body.sizes[s][0] == memory)
        use += sum(size for where, size in place.effect.temporary if where == memory)
        run: Run | None = place.run
        statement = place.statement
        while run is not None:
            use += self._prefix(run.body, memory)[statement]
            run, statement = run.caller or (None, 0)
        return use

    def _prefix(self, body: Body, memory: int) -> Sequence[int]:
        """By statement: what has changed since the body began."""
        known = self._before.get((id(body), memory))
        if known is not None:
            return known[1]
        use, found = 0, list[int]()
        for step, taken, given in zip(body.steps, body.taken, body.given, strict=True):
            found.append(use)
            if isinstance(step, Body):
                use += step.memory.get(memory, (0, 0))[0]
            elif step is not None:
                use += sum(body.sizes[s][1] for s in taken if body.sizes[s][0] == memory)
                use -= sum(body.sizes[s][1] for s in given if body.sizes[s][0] == memory)
        self._before[id(body), memory] = body, found
        return found


@dataclass(frozen=True)
class StreamEvent:
    """An event on one of its streams. What `conditions.NAMES` has, in seconds and bytes, is here by those names."""

    streams: Streams
    usage: MemoryUsage
    place: EventPlace
    of: Clock
    """The stream."""
    hits: int = field(default=0, compare=False)

    @property
    def key(self) -> Key:
        """Its place among all events."""
        return key_of(self.place)

    @property
    def device(self) -> int:
        """The device."""
        return device_of(self.of)

    @property
    def stream(self) -> str:
        """The name of the stream; that of compute has one too."""
        return self.of.stream if isinstance(self.of, Lane) else COMPUTE

    @property
    def effect(self) -> Effect:
        """The effect of the op."""
        return self.place.effect

    @property
    def op(self) -> str:
        """The op's name."""
        return self.effect.op

    @property
    def function(self) -> str:
        """The name of the function that the op is in."""
        return self.place.run.body.instance.function.name

    @property
    def communicates(self) -> bool:
        """Whether devices exchange data meanwhile."""
        return self.effect.communicates

    @cached_property
    def begun(self) -> int:
        """From when the stream is free, in ticks."""
        return self.place.run.clocks(self.place.statement)[self.of]

    @property
    def time(self) -> float:
        """When it starts."""
        return to_seconds(self.place.start)

    @property
    def end(self) -> float:
        """When it ends."""
        return to_seconds(self.place.end)

    @property
    def duration(self) -> float:
        """How long it takes."""
        return to_seconds(self.place.end - self.place.start)

    @cached_property
    def wait(self) -> float:
        """For how long the stream idled before."""
        return to_seconds(max(0, self.place.start - self.begun))

    @cached_property
    def host_wait(self) -> float:
        """For how much of that nothing was missing but a host."""
        return to_seconds(min(max(0, self.place.start - self.place.allowed), max(0, self.place.start - self.begun)))

    @cached_property
    def slack(self) -> float:
        """By how much it could end later without the program ending later."""
        return self.streams.timeline.spare(self.place.index)

    @property
    def critical(self) -> bool:
        """Whether it has no slack."""
        return self.slack == 0

    @cached_property
    def memory(self) -> int:
        """The bytes in use in the device's memory while it runs."""
        return self.usage.during(self.place, self.usage.simulation.memory_of(self.device))

    @property
    def capacity(self) -> int:
        """The capacity of the device's memory."""
        return self.usage.simulation.memory_uses[self.device].room_bytes

    @cached_property
    def blocker(self) -> EventPlace | None:
        """The event that it waited for; None where it waited for none."""
        if not self.wait:
            return None
        found = self.streams.timeline.blocker(self.place.index)
        return None if found is None else self.streams.timeline.descent.at(found)

    @property
    def waited_for(self) -> str:
        """For whom the stream waited, in words; empty where it did not."""
        if not self.wait:
            return ""
        blocker = self.blocker
        if blocker is None or self.host_wait == self.wait:
            return "its host"
        if self.of in blocker.streams:
            return f"`{blocker.effect.op}`"
        others = sorted({device_of(stream) for stream in blocker.streams})
        shared = [device for device in others if device in self.effect.devices] or others
        if shared == [self.device]:
            return f"`{blocker.effect.op}` on another stream"
        return f"device {next(d for d in shared if d != self.device)} (`{blocker.effect.op}`)"

    def shown_time(self) -> str:
        """When it starts, with as many digits as tell its start from its end."""
        return show_seconds_apart(self.time, (self.end,))

    def __str__(self) -> str:
        said = f"{stream_name(self.of)} starts `{self.op}` at {self.shown_time()}"
        return f"{said}; waited {show_seconds(self.wait)} for {self.waited_for}" if self.wait else said
