"""Assigns stages, weights and the values of microbatches to devices, and finds the messages that this requires.

Independent of the order of passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import HOST, Apply, Facts, Part, Site, TensorType, Type, names, operands
from distir.ops import OPS, type_of
from distir.transform.pipeline.accumulation import Accumulating
from distir.transform.pipeline.outlining import Outlined
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.reading import Phase, Reading, Work

Place = tuple[int, Pass]
"""A stage and a pass."""


@dataclass(frozen=True)
class Placement:
    """Devices of a pipeline's values, by the program's numbers."""

    reading: Reading
    stage_devices: Sequence[int]
    """By stage: its device, counted from 0, determined by the schedule."""
    passes: Mapping[Place, Outlined]
    accumulating: Mapping[Place, Accumulating]
    """The variants that add to existing sums, of passes that return terms of sums over microbatches."""
    made: dict[str, Place] = field(default_factory=dict[str, Place])
    """By value of a microbatch: the stage and pass that compute it."""
    needed: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """By parameter, and value computed before the microbatches: the devices that need it."""
    home: dict[str, int] = field(default_factory=dict[str, int])
    """By weight that is updated and needed on several devices: its home, which sends it to the others."""
    at_the_end: dict[int, int] = field(default_factory=dict[int, int])
    """By statement after all microbatches: its device."""
    shared: dict[int, tuple[int, ...]] = field(default_factory=dict[int, "tuple[int, ...]"])
    """By statement after all microbatches that several devices run redundantly: these devices.

    One is a sum of scalars on several devices: each adds its own, and these sums are reduced over the devices. Others
    depend on such sums alone, and are not sent from one device to the others.
    """
    messages: dict[tuple[Place, Place], list[str]] = field(default_factory=dict[tuple[Place, Place], list[str]])
    """The values sent per microbatch, by the place that defines them and the first user on another device."""

    def device(self, stage: int) -> int:
        """The device of a stage."""
        return self.reading.device + self.stage_devices[stage]

    def on(self, name: str, device: int) -> int:
        """Where a value is that is used on a device: there, or on the host."""
        return HOST if name in self.hosts else device

    @cached_property
    def hosts(self) -> set[str]:
        """The values on the host."""
        return set(filter(self.reading.is_host, self.reading.values))

    @cached_property
    def summed(self) -> set[str]:
        """The sums over microbatches."""
        return self.reading.totals()

    def total(self, name: str) -> str:
        """The term that names the sum to which a term belongs."""
        return self.reading.joint.get(name, name)

    def facts(self, name: str) -> Facts:
        """The facts of the pass that gives a value."""
        return self.passes[self.made[name]].function.facts

    @cached_property
    def uses(self) -> Counter[tuple[str, int]]:
        """By value of a microbatch and device: how often it is used."""
        found: Counter[tuple[str, int]] = Counter()
        for (stage, _), outlined in self.passes.items():
            found.update((name, self.on(name, self.device(stage))) for name in outlined.takes)
            found.update((name, self.device(stage)) for name in outlined.gives if name in self.summed)
        for ((stage, _), _), values in self.messages.items():
            found.update((name, self.device(stage)) for name in values)
        for name in (self.reading.joined() | set(names(self.reading.entry.returned))) & self.made.keys() - self.summed:
            found[name, self.on(name, self.device(self.made[name][0]))] += 1
        return found

    def deadlock(self) -> ProgramError:
        """The refusal of stages that need values of each other in a circle."""
        entry, late = self.reading.entry, [w for w in self.messages if _turn(w[0]) > _turn(w[1])]
        message, index = f"the stages of `@{entry.name}` need values of each other in a circle", None
        if late:
            (source, target), name = late[0], self.messages[late[0]][0]
            index = next((i for i, s in enumerate(entry.body) if name in names(operands(s))), None)
            kind, given = target[1].name.lower(), source[1].name.lower()
            message = f"the {kind} pass of stage {target[0]} needs `%{name}` of the {given} pass of stage {source[0]}"
            message += ", which follows it: what uses it belongs to both stages"
        site = Site(entry.name, index, Part("name") if index is None else None)
        hint = "cut between other layers (`balance`), or inline the function that uses it before `pp`"
        return ProgramError([Diagnostic(codes.NOT_A_PIPELINE, site, message, (), hint)])


def place(
    reading: Reading,
    stage_devices: Sequence[int],
    passes: Mapping[Place, Outlined],
    accumulating: Mapping[Place, Accumulating],
) -> Placement:
    """Assign all values to devices."""
    found = Placement(reading, stage_devices, passes, accumulating)
    for where, outlined in passes.items():
        found.made.update(dict.fromkeys(outlined.gives, where))
    users = _users(found)
    _find_messages(found, users)
    for name, places in users.items():
        if name not in found.made:
            found.needed[name] = {found.device(stage) for stage, _ in places}
    before = [s for s, phase in reading.statements if phase is Phase.BEFORE]
    _need_operands(found, before)
    trained = {name for name, devices in found.needed.items() if devices}
    _place_the_end(found, trained)
    ended = {r for s, phase in reading.statements if phase is Phase.AFTER for r in s.results}
    for name in names(reading.entry.returned):
        if name not in found.made and name not in ended and not reading.is_host(name):
            found.needed.setdefault(name, {reading.device})
    _need_operands(found, before)
    for param in reading.entry.params:
        if not reading.is_host(param.name):
            found.needed.setdefault(param.name, {reading.device})
    return found


def _users(found: Placement) -> dict[str, list[Place]]:
    """By operand of passes on a device: the places that use it, in the order of a microbatch's passes."""
    users: dict[str, list[Place]] = {}
    for where in sorted(found.passes, key=_turn):
        for name in found.passes[where].takes:
            if name in found.made or not found.reading.is_host(name):
                users.setdefault(name, []).append(where)
    return users


def _turn(where: Place) -> tuple[int, int, int]:
    """The order of a microbatch's passes: forward, then backward, in each stage weight gradients last."""
    stage, kind = where
    return (0, stage, 0) if kind is Pass.FORWARD else (1, -stage, int(kind is Pass.WEIGHT))


def _find_messages(found: Placement, users: Mapping[str, Sequence[Place]]) -> None:
    for name, places in users.items():
        if name not in found.made or found.reading.is_host(name):
            continue
        source = found.made[name]
        reached = {found.device(source[0])}
        for stage, kind in places:
            device = found.device(stage)
            if device not in reached:
                reached.add(device)
                # A weight-gradient pass may run any time after its backward pass, and other backward passes in between.
                alone = all(other == stage or found.device(other) != device for other, _ in places)
                target = (stage, Pass.BACKWARD if kind is Pass.WEIGHT and not alone else kind)
                found.messages.setdefault((source, target), []).append(name)


def _need_operands(found: Placement, before: Sequence[Work]) -> None:
    """Add the operands of statements before the microbatches, on each device that needs their results."""
    for statement in reversed(before):
        devices = set[int]().union(*(found.needed.get(r, set()) for r in statement.results))
        _need(found, names(statement.args), devices)


def _need(found: Placement, values: Iterable[str], devices: set[int]) -> None:
    for name in values:
        if not found.reading.is_host(name):
            found.needed.setdefault(name, set()).update(devices)


def _place_the_end(found: Placement, trained: set[str]) -> None:
    """An update runs where its weight is, as do statements that lead to it, unless their operands are elsewhere."""
    reading = found.reading
    ending = [(i, s) for i, (s, phase) in enumerate(reading.statements) if phase is Phase.AFTER]
    taken = {i: [n for n in names(s.args) if not reading.is_host(n)] for i, s in ending}
    for name in (n for i, _ in ending for n in taken[i] if n in trained and len(found.needed[n]) > 1):
        found.home[name] = min(found.needed[name])
    goals: dict[str, int] = {}
    for i, statement in reversed(ending):
        weights = [min(found.needed[n]) for n in taken[i] if n in trained]
        goal = next(iter([*weights, *(goals[r] for r in statement.results if r in goals)]), None)
        if goal is not None:
            goals.update(dict.fromkeys(taken[i], goal))
            if weights:
                found.at_the_end[i] = goal
    device_of: dict[str, int] = {}
    returned = set(names(reading.entry.returned))
    for i, statement in ending:
        sources = [found.device(found.made[n][0]) for n in taken[i] if n in found.made]
        sources += [device_of[n] for n in taken[i] if n in device_of]
        if returned.isdisjoint(statement.results) and (devices := _shared_on(found, statement, taken[i], sources)):
            found.shared[i] = devices
            for name in taken[i]:
                if name not in found.made and name not in device_of:
                    found.home.setdefault(name, min(found.needed.get(name, devices)))
                    found.needed.setdefault(name, set()).update(devices)
            device_of.update(dict.fromkeys(statement.results, devices[0]))
            continue
        goal = next((goals[r] for r in statement.results if r in goals), None)
        near = goal if goal is not None and goal in sources else next(iter(sources), reading.device)
        device = found.at_the_end.setdefault(i, near)
        device_of.update(dict.fromkeys(statement.results, device))
        for name in taken[i]:
            if name not in found.made and name not in device_of and name not in found.home:
                found.needed.setdefault(name, set()).add(device)
    given = {p.name for p in reading.entry.params}
    for i, statement in ending:  # state that several devices need is on the device that updates it
        if i not in found.shared and not returned.isdisjoint(statement.results):
            several = [n for n in taken[i] if n in given and n not in trained and len(found.needed.get(n, ())) > 1]
            found.home.update(dict.fromkeys(several, found.at_the_end[i]))


def _shared_on(found: Placement, statement: Work, taken: Sequence[str], sources: Sequence[int]) -> tuple[int, ...]:
    """The devices that run a final statement redundantly; none if one device runs it."""
    scalars = all(_is_scalar(type_of(found.reading.values[name].full)) for name in (*taken, *statement.results))
    if not isinstance(statement, Apply) or not scalars:
        return ()
    if statement.op == "Sum" and len(set(sources)) > 1:
        return tuple(sorted(set(sources)))
    spread = {r: devices for i, devices in found.shared.items() for r in found.reading.statements[i][0].results}
    on = {spread[name] for name in taken if name in spread}
    others = [name for name in taken if name not in spread]
    if len(on) != 1 or OPS[statement.op].inplace or any(name in found.made for name in others):
        return ()
    params = {p.name for p in found.reading.entry.params}
    return next(iter(on)) if params.issuperset(others) else ()


def _is_scalar(type: Type) -> bool:
    return isinstance(type, TensorType) and type.shape == ()
