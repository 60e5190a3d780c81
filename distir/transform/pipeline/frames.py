"""Writes passes and messages one by one, and what repeats as calls of a function, one call after the other.

The steady state of a pipeline is a function `round`, whose parameters are the values in flight from earlier rounds and
the next microbatches. In the text its calls are one counted call. Independent of fill and drain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from distir.ir import HOST, UNKNOWN, AnyType, Facts, Function, Module
from distir.ir.builder import FunctionBuilder, namer
from distir.transform.pipeline.order import Event, Message
from distir.transform.pipeline.passes import Task
from distir.transform.pipeline.placement import Placement
from distir.transform.pipeline.repetition import Stretch, Timetable

LEAST = 4
"""The least number of repetitions that is written as calls."""

Key = tuple[str, int, int]
"""A value of the sequential program, for which microbatch, on which device (HOST for host values)."""

EVERY = -1
"""In place of a microbatch: a value that all of them share."""

TOTAL = -2
"""In place of a microbatch: the sum over the microbatches so far."""


class Frame:
    """A function in progress: the names of its values."""

    def __init__(self, placement: Placement, builder: FunctionBuilder, missing: Callable[[Key], str]) -> None:
        self.placement, self.builder, self.missing = placement, builder, missing
        self.called: dict[Key, str] = {}
        self.pending: dict[int, list[Key]] = {}
        """By device: terms not yet added to their sums."""
        self.totals: dict[tuple[str, int], None] = {}
        """The sums begun so far, by value and device."""
        self.reads: Counter[Key] = Counter()
        """By value: how often it has been used here."""

    def find(self, key: Key) -> str:
        """The name of a value that is used."""
        self.reads[key] += 1
        known = self.called.get(key)
        if known is None:
            known = self.called[key] = self.missing(key)
        return known

    def run(self, timetable: Timetable, functions: dict[str, Function]) -> None:
        """Write passes and messages; what repeats as calls of rounds, which are added to the functions."""
        for stretch in timetable:
            for number in range(stretch.count):
                before = self._under_way(stretch.step)
                self._straight(stretch.events_of(number))
                if before == self._under_way(0) and stretch.count - number > LEAST:  # now all sums have been begun
                    self._repeat(stretch, number + 1, functions)
                    break

    def finish_sums(self) -> None:
        """Add up all terms."""
        for device in list(self.pending):
            self._add_up(device)

    def _under_way(self, step: int) -> tuple[object, ...]:
        """The state that distinguishes rounds: sums begun, and terms not yet added, shifted by `step` microbatches."""
        return frozenset(self.totals), self._pending(step)

    def _pending(self, step: int) -> dict[int, list[Key]]:
        return {device: _moved(keys, step) for device, keys in self.pending.items() if keys}

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
        totals = [] if adding is None else [(self.placement.total(name), TOTAL, device) for name in adding.sums]
        if adding is not None and all((name, device) in self.totals for name, _, _ in totals):
            args += map(self.find, totals)
            keys = [*((name, task.microbatch, self.placement.on(name, device)) for name in adding.gives), *totals]
            self._define(keys, self.builder.call(adding.function.name, *args, results=self._hints(keys)))
            return
        keys = [(name, task.microbatch, self.placement.on(name, device)) for name in outlined.gives]
        self._define(keys, self.builder.call(outlined.function.name, *args, results=self._hints(keys)))
        self.pending.setdefault(device, []).extend(key for key in keys if key[0] in self.placement.summed)

    def _operand(self, name: str, number: int, device: int) -> Key:
        split = name in self.placement.made or name in self.placement.reading.batch
        return name, number if split else EVERY, self.placement.on(name, device)

    def _message(self, message: Message) -> None:
        source, target = message
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
            name = self.placement.total(key[0])
            self.builder.facts = self.placement.facts(key[0]).filled(self._of(key[1]))
            term, total = self.find(key), (name, TOTAL, device)
            if (name, device) in self.totals:
                (term,) = self.builder.apply("Sum", self.find(total), term, results=self._hints([total]))
            self.totals[name, device] = None
            self.called[total] = term

    def _of(self, number: int) -> Facts:
        """The facts of what is for a microbatch, counted from 0 here."""
        return Facts(microbatch=number + 1) if self.placement.reading.count > 1 else Facts()

    def _define(self, keys: Sequence[Key], called: Sequence[str]) -> None:
        self.called.update(zip(keys, called, strict=True))

    def _hints(self, keys: Sequence[Key], of: str = "") -> tuple[str, ...]:
        return tuple([self._hint(key, of) for key in keys])

    def _hint(self, key: Key, of: str = "") -> str:
        """The preferred name of a value; `of`: that of a sum ends so."""
        name, number, device = key
        if number == TOTAL:
            return f"{name}_sum{of}"
        made = self.placement.made.get(name)
        sent = f".{device}" if made is not None and device not in (HOST, self.placement.device(made[0])) else ""
        return name + sent if number == EVERY or self.placement.reading.count == 1 else f"{name}_{number + 1}{sent}"

    def _repeat(self, stretch: Stretch, done: int, functions: dict[str, Function]) -> None:
        """Write the repetitions that are left as calls of a function, whose microbatches count from its first one."""
        events = stretch.events_of(done)
        first = min([*(e.microbatch for e in events), *(k for keys in self.pending.values() for _, k, _ in keys)])
        builder, takes = FunctionBuilder(namer(Module(functions.values())).fresh("round")), list[Key]()

        def param(key: Key) -> str:
            takes.append(key)
            return builder.param(self._hint(key), UNKNOWN if key[2] == HOST else AnyType(key[2]))

        inner = Frame(self.placement, builder, param)
        inner.totals, inner.pending = dict(self.totals), self._pending(-first)
        inner._straight([event.moved(-first) for event in events])
        params = {param.name for param in builder.params}
        gives = [key for key, name in inner.called.items() if name not in params and inner._wanted(key)]
        function = functions[builder.name] = builder.returns(*(inner.called[key] for key in gives))
        steps = range(first, first + (stretch.count - done) * stretch.step, stretch.step)
        for number, step in enumerate(steps, 1):
            self.builder.facts, keys = self._of(step), _moved(gives, step)
            args, hints = map(self.find, _moved(takes, step)), self._hints(keys, f"_round_{number}")
            self._define(keys, self.builder.call(function.name, *args, results=hints))
        self.pending = {device: _moved(keys, steps[-1]) for device, keys in inner.pending.items()}

    def _wanted(self, key: Key) -> bool:
        """Whether a value has further uses."""
        return key[1] == TOTAL or self.reads[key] < self.placement.uses[key[0], key[2]]


def _moved(keys: Sequence[Key], step: int) -> list[Key]:
    """The keys shifted by `step` microbatches."""
    return [(name, number if number < 0 else number + step, device) for name, number, device in keys]
