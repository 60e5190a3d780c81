"""The state at a stop, as text: each device's call stack, the op, the values, the memory, the devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from distir.cost import show_bytes, show_seconds
from distir.ide.stepping.events import StreamEvent
from distir.ide.stepping.stepper import Stepper
from distir.ide.stepping.streams import Spot, device_of, stream_name
from distir.ide.stepping.values import HeldValue, LiveValues, leaves_of_value
from distir.ir import Dense, Site
from distir.ir.counted import titled
from distir.simulate.algebra.clocks import Clock
from distir.simulate.body import Body
from distir.simulate.effects import to_seconds
from distir.simulate.memory import Live
from distir.simulate.show import show_value


@dataclass(frozen=True, slots=True)
class ShownVariable:
    """A name, what there is to say of it, and what is found by opening it. `type`: of a value, its type."""

    name: str
    text: str
    type: str = ""
    inner: Callable[[], Sequence[ShownVariable]] | None = None


@dataclass(frozen=True, slots=True)
class ScopeShown:
    """A group of what is shown. `expensive`: it is not to be opened unasked."""

    name: str
    items: Callable[[], Sequence[ShownVariable]]
    expensive: bool = False
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A call that leads to what a stream runs; the innermost frame is the op's. `spot`: None for a mere remark.

    `is_ahead`: the stream has not begun it.
    """

    name: str
    stream: Clock
    spot: Spot | None
    is_ahead: bool = False

    @property
    def site(self) -> Site | None:
        """Where it stands."""
        return None if self.spot is None else Site(self.spot.function.name, self.spot.statement)


def frames(stepper: Stepper, stream: Clock) -> Iterator[StackFrame]:
    """The frames of a stream, innermost first; one that idles begins with a remark, and the op that it waits for."""
    spot = stepper.spot(stream)
    is_ahead = spot is None
    if spot is None:
        following = stepper.follows(stream)
        yield StackFrame(doing(stepper, stream), stream, None)
        if following is None:
            return
        spot = Spot(following.place.run, following.place.statement)
    name = f"{_label(spot)} in {titled(spot.function)}"
    while True:
        yield StackFrame(name, stream, spot, is_ahead)
        if spot.run.caller is None:
            return
        spot = Spot(*spot.run.caller)
        name = titled(spot.function)


def depth(stepper: Stepper, stream: Clock) -> int:
    """How many frames a stream has."""
    spot = stepper.spot(stream)
    if spot is not None:
        return spot.run.depth + 1
    following = stepper.follows(stream)
    return 1 if following is None else following.place.run.depth + 2


def doing(stepper: Stepper, stream: Clock) -> str:
    """Describes briefly what a stream does now."""
    running = stepper.runs(stream)
    if running is not None:
        return f"runs `{running.op}` until {show_seconds(running.end)}"
    following = stepper.follows(stream)
    if following is None:
        return f"has been done since {show_seconds(to_seconds(stepper.streams.done(stream)))}"
    if following.wait:
        return f"idles until {show_seconds(following.time)}: waits for {following.waited_for}"
    return f"starts `{following.op}` at {show_seconds(following.time)}"


class Inspector:
    """Inspects a program at its stops."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.values = LiveValues(stepper.simulation, stepper.streams)

    def scopes(self, frame: StackFrame) -> list[ScopeShown]:
        """The scopes of a frame."""
        found: list[ScopeShown] = []
        spot, stream = frame.spot, frame.stream
        if spot is not None:
            event = self.stepper.event(spot, stream)
            found.append(ScopeShown("Call" if spot.is_call else "Op", lambda: self.about(event, spot)))
            found.append(ScopeShown("Values", lambda: [*map(self.shown, self.values.live(spot))], is_local=True))
        name = f"Memory of device {device_of(stream)}"
        found.append(ScopeShown(name, lambda: self.memory(stream), expensive=True))
        found.append(ScopeShown("Devices", self.devices, expensive=len(self.stepper.streams.all) > 64))
        return found

    def about(self, event: StreamEvent, spot: Spot) -> list[ShownVariable]:
        """When the statement of a frame runs, and what it waited for. Of a call: its first op on the stream."""
        effect = event.effect
        found = [
            ShownVariable("starts", event.shown_time()),
            ShownVariable("takes", show_seconds(event.duration)),
            ShownVariable("waited", f"{show_seconds(event.wait)} for {event.waited_for}" if event.wait else "0s"),
            ShownVariable("slack", "0s: on the critical path" if event.critical else show_seconds(event.slack)),
            ShownVariable("devices", _listed(effect.devices)),
            ShownVariable("bound by", str(effect.cost.bound)),
        ]
        if spot.is_call:
            last = self.stepper.streams.last(spot, event.of)
            found[1:2] = [
                ShownVariable("first op", f"`{event.op}`, takes {show_seconds(event.duration)}"),
                ShownVariable("ends", f"{show_seconds(to_seconds(last.end))} on {stream_name(event.of)}"),
            ]
        if event.stream != "compute":
            found.append(ShownVariable("stream", event.stream))
        return found

    def shown(self, value: HeldValue) -> ShownVariable:
        """A value: its type and bytes, and inside, when it was made and when its memory is free."""
        size = show_bytes(value.nbytes) if value.devices else "on the host"
        return ShownVariable(f"%{value.name}", f"{value.type} · {size}", str(value.type), lambda: self._details(value))

    def value(self, name: str, spot: Spot) -> ShownVariable | None:
        """A value of the function that a statement is in, live or not; None if it has none of that name."""
        found = self.values.named(spot, name.removeprefix("%"))
        return None if found is None else self.shown(found)

    def memory(self, stream: Clock) -> list[ShownVariable]:
        """What a device's memory holds as the stream's op runs, the largest first; idle, after the op before."""
        simulation = self.stepper.simulation
        device = device_of(stream)
        event = self._last_event(device)
        use = simulation.memory_uses[device]
        memory, profile = simulation.memory_of(device), simulation.memory()
        if event is None:
            live = profile.parameters(memory)
            used = sum(value.nbytes for value in live)
        else:
            live = profile.during(memory, event.place.index)
            used = event.memory
        room = f"{used / use.room_bytes:.1%} of {show_bytes(use.room_bytes)}" if use.room_bytes > 0 else "no room"
        temporary = used - sum(value.nbytes for value in live)
        head = [
            ShownVariable("in use", f"{show_bytes(used)}, {room}"),
            ShownVariable("peak", show_bytes(use.peak_memory_bytes)),
        ]
        if temporary:
            head.append(ShownVariable("while the op runs", show_bytes(temporary)))
        return [*head, *self._live(live)]

    def devices(self) -> list[ShownVariable]:
        """The current activity of each stream."""
        return [ShownVariable(stream_name(s), doing(self.stepper, s)) for s in self.stepper.streams.all]

    def _live(self, live: Sequence[Live]) -> Iterator[ShownVariable]:
        """Values, largest first: leaves of one value are taken together."""
        sums: dict[tuple[str, str, int | None, int | None], int] = {}
        for value in live:
            key = value.name, value.function, value.index, value.event
            sums[key] = sums.get(key, 0) + value.nbytes
        for (name, function, index, event), nbytes in sorted(sums.items(), key=lambda item: -item[1]):
            made = "a parameter" if index is None else f"made in @{function}"
            if event is not None:
                place = self.stepper.streams.timeline.descent.at(event)
                made += f" by `{place.effect.op}` at {show_seconds(to_seconds(place.start))}"
            yield ShownVariable(f"%{name}", f"{show_bytes(nbytes)} · {made}")

    def _last_event(self, device: int) -> StreamEvent | None:
        """The event of a device that started last, in the order of the program."""
        found: list[StreamEvent] = []
        for stream in self.stepper.streams.all:
            if device_of(stream) != device:
                continue
            event = self.stepper.runs(stream)
            if event is None:
                place = self.stepper.streams.started(stream, self.stepper.now.ticks)
                event = None if place is None else StreamEvent(self.stepper.streams, self.stepper.usage, place, stream)
            found += [] if event is None else [event]
        return max(found, key=lambda event: event.place.index, default=None)

    def _details(self, value: HeldValue) -> list[ShownVariable]:
        found = [ShownVariable("type", str(value.type))]
        if value.devices:
            found += [ShownVariable("bytes", str(value.nbytes)), ShownVariable("devices", _listed(value.devices))]
        if isinstance(value.value, Dense) and (known := show_value(value.value)) is not None:
            found.append(ShownVariable("value", known))
        storages = leaves_of_value(value)
        if not storages:
            return found
        made = {place.index: place for s in storages if (place := self.values.made(value.run, s)) is not None}
        if value.is_view:
            found.append(ShownVariable("memory", "that of its operands: a view"))
        if made:
            last = made[max(made)]
            end, now = to_seconds(last.end), self.stepper.now.time
            when = f"by `{last.effect.op}` at {show_seconds(end)}"
            found.append(ShownVariable("made", when if end <= now else f"{when}, which is yet to come"))
        else:
            found.append(ShownVariable("made", "before the program: a parameter"))
        endings = [self.values.ended(value.run, s) for s in storages]
        places = [ending.place for ending in endings if ending.place is not None]
        if len(places) < len(endings):
            found.append(ShownVariable("freed", "at the end of the program"))
        else:
            last = max(places, key=lambda place: place.index)
            donated = all(ending.donated for ending in endings)
            what = "donated to the result of" if donated else "after"
            found.append(ShownVariable("freed", f"{what} `{last.effect.op}` at {show_seconds(to_seconds(last.end))}"))
        return found


def _label(spot: Spot) -> str:
    step = spot.step
    return titled(step.instance.function) if isinstance(step, Body) else f"{step.op}" if step is not None else ""


def _listed(devices: Sequence[int]) -> str:
    shown = ", ".join(map(str, devices[:16]))
    return shown if len(devices) <= 16 else f"{shown}, … ({len(devices)})"
