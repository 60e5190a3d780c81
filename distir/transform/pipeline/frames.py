"""Writes passes and messages one by one, and repetitions as calls of functions.

The steady state of a pipeline is a function `round`, whose parameters are the values in flight from the previous round
and the next microbatches. A function `rounds` calls it several times, so that a program grows with the square root of
the number of microbatches. Independent of fill and drain.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distir.ir import HOST, UNKNOWN, AnyType, Facts, Function, names, types
from distir.ir.builder import FunctionBuilder
from distir.ops import type_of
from distir.transform.pipeline.order import Event, Message
from distir.transform.pipeline.passes import Task
from distir.transform.pipeline.placement import Placement
from distir.transform.pipeline.repetition import Timetable, microbatch, moved

LEAST = 4
"""The least number of repetitions that is written as calls."""

Key = tuple[str, int, int]
"""A value of the sequential program, for which microbatch, on which device (HOST for host values)."""

EVERY = -1
"""In place of a microbatch: a value that all of them share."""

TOTAL = -2
"""In place of a microbatch: the sum over the microbatches so far."""


@dataclass(frozen=True, slots=True)
class FrameFunction:
    """A function of passes and messages. Microbatches count from the first one that it mentions."""

    function: Function
    takes: tuple[Key, ...]
    gives: tuple[Key, ...]
    reads: Counter[Key]
    """By parameter or result: how often it is used inside."""
    pending: dict[int, list[Key]]
    """By device: terms not yet added to their sums when it returns."""


class FrameSite:
    """What all frames of a pipeline share."""

    def __init__(self, placement: Placement, functions: dict[str, Function]) -> None:
        self.placement = placement
        self.functions = functions
        values = placement.reading.values.items()
        self.hosts = {n for n, v in values if types.device_of(type_of(v.full)) == HOST}
        self.summed = placement.reading.totals()
        self.uses: Counter[tuple[str, int]] = Counter()
        """By value, microbatch and device: how often it is used."""
        for (stage, _), outlined in placement.passes.items():
            self.uses.update((name, self.home(name, placement.device(stage))) for name in outlined.takes)
            self.uses.update((name, placement.device(stage)) for name in outlined.gives if name in self.summed)
        for (source, _), values in placement.messages.items():
            self.uses.update((name, placement.device(source[0])) for name in values)
        for name in placement.reading.joined() | set(names(placement.reading.entry.returned)):
            if name in placement.made and name not in self.summed:
                self.uses[name, self.home(name, placement.device(placement.made[name][0]))] += 1

    def facts(self, name: str) -> Facts:
        """The facts of the pass that gives a value."""
        return self.placement.passes[self.placement.made[name]].function.facts

    def total(self, name: str) -> str:
        """The term that names the sum to which a term belongs."""
        return self.placement.reading.joint.get(name, name)

    def home(self, name: str, device: int) -> int:
        """The home of a value: the device, or the host."""
        return HOST if name in self.hosts else device

    def hint(self, key: Key) -> str:
        """The preferred name of a value."""
        name, number, device = key
        if number == TOTAL:
            return f"{name}_sum"
        made = self.placement.made.get(name)
        sent = f".{device}" if made is not None and device not in (HOST, self.placement.device(made[0])) else ""
        return name + sent if number == EVERY or self.placement.reading.count == 1 else f"{name}_{number + 1}{sent}"


class Frame:
    """A function in progress: the names of its values."""

    def __init__(self, site: FrameSite, builder: FunctionBuilder, missing: Callable[[Key], str]) -> None:
        self.site, self.placement, self.builder, self.missing = site, site.placement, builder, missing
        self.called: dict[Key, str] = {}
        self.pending: dict[int, list[Key]] = {}
        """By device: terms not yet added to their sums."""
        self.totals: dict[tuple[str, int], None] = {}
        """The sums begun so far, by value and device."""
        self.reads: Counter[Key] = Counter()

    def find(self, key: Key, times: int = 1) -> str:
        """The name of a value that will be used `times` times."""
        self.reads[key] += times
        known = self.called.get(key)
        if known is None:
            known = self.called[key] = self.missing(key)
        return known

    def run(self, timetable: Timetable) -> None:
        """Write passes and messages, repetitions as calls."""
        for stretch in timetable:
            done = 0
            while done < stretch.count:
                before = self._under_way(stretch.step)
                self._straight([moved(event, done * stretch.step) for event in stretch.events])
                done += 1
                if before == self._under_way(0) and stretch.count - done >= LEAST:  # now all sums have been begun
                    self._repeat(
                        [moved(e, done * stretch.step) for e in stretch.events], stretch.step, stretch.count - done
                    )
                    break

    def finish_sums(self) -> None:
        """Add up all terms."""
        for device in list(self.pending):
            self._add_up(device)

    def _under_way(self, step: int) -> tuple[object, ...]:
        """The state that distinguishes rounds: sums begun, and terms not yet added, shifted by `step` microbatches."""
        pending = {device: _moved(keys, step) for device, keys in self.pending.items() if keys}
        return frozenset(self.totals), pending

    def _straight(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Task):
                self._task(event)
            else:
                self._message(event)

    def _task(self, task: Task) -> None:
        outlined = self.placement.passes.get((task.stage, task.kind))
        if outlined is None:
            return
        device = self.placement.device(task.stage)
        self._add_up(device)
        args = [self.find(self._operand(name, task.microbatch, device)) for name in outlined.takes]
        self.builder.facts = outlined.function.facts.filled(self._of(task.microbatch))
        adding = self.placement.accumulating.get((task.stage, task.kind))
        totals = [] if adding is None else [(self.site.total(name), TOTAL, device) for name in adding.sums]
        if adding is not None and all((name, device) in self.totals for name, _, _ in totals):
            args += map(self.find, totals)
            keys = [*((name, task.microbatch, self.site.home(name, device)) for name in adding.gives), *totals]
            self._define(keys, self.builder.call(adding.function.name, *args, results=self._hints(keys)))
            return
        keys = [(name, task.microbatch, self.site.home(name, device)) for name in outlined.gives]
        self._define(keys, self.builder.call(outlined.function.name, *args, results=self._hints(keys)))
        self.pending.setdefault(device, []).extend(key for key in keys if key[0] in self.site.summed)

    def _operand(self, name: str, number: int, device: int) -> Key:
        split = name in self.placement.made or name in self.placement.reading.batch
        return name, number if split else EVERY, self.site.home(name, device)

    def _message(self, message: Message) -> None:
        source, target = message.source, message.target
        values = self.placement.messages[(source.stage, source.kind), (target.stage, target.kind)]
        here, there = self.placement.device(source.stage), self.placement.device(target.stage)
        facts = self.placement.passes[source.stage, source.kind].function.facts
        self.builder.facts = facts.filled(self._of(source.microbatch))
        parts = [self.find((name, source.microbatch, here)) for name in values]
        keys = [(name, source.microbatch, there) for name in values]
        hints = self._hints(keys)
        if len(parts) == 1:
            arrived = self.builder.apply("Send", parts[0], device=there, results=hints)
        else:
            (packed,) = self.builder.apply("MakeTuple", *parts, results=("message",))
            (received,) = self.builder.apply("Send", packed, device=there, results=("received",))
            arrived = self.builder.apply("UnpackTuple", received, results=hints)
        self._define(keys, arrived)

    def _add_up(self, device: int) -> None:
        """Add the terms of the last microbatch to their sums, after messages for which others wait."""
        for key in self.pending.pop(device, ()):
            name = self.site.total(key[0])
            self.builder.facts = self.site.facts(key[0]).filled(self._of(key[1]))
            term, total = self.find(key), (name, TOTAL, device)
            if (name, device) in self.totals:
                (term,) = self.builder.apply("Sum", self.find(total), term, results=(self.site.hint(total),))
            self.totals[name, device] = None
            self.called[total] = term

    def _of(self, number: int) -> Facts:
        """The facts of what is for a microbatch, counted from 0 here."""
        return Facts(microbatch=number + 1) if self.placement.reading.count > 1 else Facts()

    def _define(self, keys: Sequence[Key], called: Sequence[str]) -> None:
        self.called.update(zip(keys, called, strict=True))

    def _hints(self, keys: Sequence[Key]) -> tuple[str, ...]:
        return tuple(map(self.site.hint, keys))

    # Repetitions.

    def _repeat(self, events: Sequence[Event], step: int, count: int) -> None:
        """Write events `count` times, each time `step` microbatches further."""
        numbers = [*map(microbatch, events), *(number for keys in self.pending.values() for _, number, _ in keys)]
        first = min(numbers)
        block = self._block("round", first, lambda inner: inner._straight([moved(event, -first) for event in events]))
        together = math.isqrt(count)

        def several(inner: Frame) -> None:
            for number in range(together):
                inner._call(block, number * step)

        done = 0
        if together >= LEAST:
            blocks = self._block("rounds", first, several)
            for number in range(count // together):
                self._call(blocks, first + number * together * step)
            done = count // together * together
        for number in range(done, count):
            self._call(block, first + number * step)

    def _block(self, hint: str, first: int, write: Callable[[Frame], None]) -> FrameFunction:
        """A function with the body that `write` writes, its microbatches counted from `first`."""
        taken, number = hint, 1
        while taken in self.site.functions:
            number += 1
            taken = f"{hint}_{number}"
        builder = FunctionBuilder(taken)
        takes: list[Key] = []

        def param(key: Key) -> str:
            takes.append(key)
            return builder.param(self.site.hint(key), UNKNOWN if key[2] == HOST else AnyType(key[2]))

        inner = Frame(self.site, builder, param)
        inner.totals = dict(self.totals)
        inner.pending = {device: _moved(keys, -first) for device, keys in self.pending.items()}
        write(inner)
        params = {p.name for p in builder.params}
        gives = tuple(key for key, name in inner.called.items() if name not in params and inner._wanted(key))
        function = builder.returns(*(inner.called[key] for key in gives))
        self.site.functions[function.name] = function
        return FrameFunction(function, tuple(takes), gives, inner.reads, inner.pending)

    def _wanted(self, key: Key) -> bool:
        """Whether a value has further uses."""
        return key[1] == TOTAL or self.reads[key] < self.site.uses[key[0], key[2]]

    def _call(self, block: FrameFunction, step: int) -> None:
        """Call a function for microbatches `step` further."""
        args = [
            self.find(further, block.reads[key])
            for key, further in zip(block.takes, _moved(block.takes, step), strict=True)
        ]
        keys = _moved(block.gives, step)
        self.builder.facts = self._of(step)
        for key, further in zip(block.gives, keys, strict=True):
            self.reads[further] += block.reads[key]
        self._define(keys, self.builder.call(block.function.name, *args, results=self._hints(keys)))
        self.pending = {device: _moved(pending, step) for device, pending in block.pending.items()}


def _moved(keys: Sequence[Key], step: int) -> list[Key]:
    """The keys shifted by `step` microbatches."""
    return [(name, number if number < 0 else number + step, device) for name, number, device in keys]
