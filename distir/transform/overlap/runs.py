"""The order of text between devices: what a stage does is in one piece, as far as it waits for no other one.

Kinds of overlap write several stages' last backward passes line by line, as they line up devices (`side_by_side`). Each
device's statements stay in their order, so that nothing takes another time, or other memory; but layers follow each
other, and updates, so that they are counted. Devices of a stage communicate by other ops than messages.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Checker, Instance
from distir.analysis.provenance import with_facts
from distir.analysis.reached import callee
from distir.ir import Apply, Call, Module, Return, Statement, names, operands, results
from distir.ir.deep import Deep, finish
from distir.ops import OPS
from distir.ops.devices import devices_of
from distir.ops.purpose import is_update
from distir.transform.checking import checked
from distir.transform.entry import entry_of

Group = tuple[int, ...]
"""The devices of a stage."""

NOWHERE: Group = (-1,)
"""The group of what is on no device."""

UPDATES = 2
"""The rank of a stage's updates, and of what follows them."""


def in_runs(module: Module) -> Module:
    """The module whose entry function has statements from the first gradient on in runs of one stage each."""
    entry, domain = entry_of(module), checked(module).domain
    *stated, last = entry.body
    *body, _ = entry_of(with_facts(module, entry)).body  # those that follow where the program states none
    on: list[frozenset[int]] = finish(_Devices(domain).of(domain.own[entry.name]))
    stages = _stages(body, on)
    if len({*stages.values()}) < 2 or not isinstance(last, Return):
        return module
    first = next((i for i, s in enumerate(body) if isinstance(s, (Apply, Call)) and s.facts.of), len(body))
    groups = [{stages.get(device, ()) for device in on[i]} or {NOWHERE} for i in range(len(body))]
    backward = {group: i for i, s in enumerate(body) if _is_backward(s) for group in groups[i]}
    updates = {group: i for i, s in reversed([*enumerate(body)]) if is_update(s) for group in groups[i]}

    def rank(index: int) -> int:
        if index < first:
            return 0
        starts = [updates.get(group, len(body)) for group in groups[index]]
        done = [backward.get(group, -1) for group in groups[index]]
        return UPDATES if index >= max(starts) and index > max(done) else 1

    order = _Queues(body, groups, [*map(rank, range(len(body)))]).order()
    return module.replacing(replace(entry, body=(*(stated[index] for index in order), last)))


@dataclass(slots=True)
class _Devices:
    """Finds the devices on which statements have something to do, in calls too."""

    domain: Checker
    known: dict[int, list[frozenset[int]]] = field(default_factory=dict[int, "list[frozenset[int]]"])

    def of(self, instance: Instance) -> Deep[list[frozenset[int]]]:
        """By statement of a function."""
        if id(instance) not in self.known:
            found = self.known[id(instance)] = list[frozenset[int]]()
            for statement in instance.function.body:
                vs = instance.state(operands(statement))
                devices = {*devices_of(vs)}
                if isinstance(statement, Apply):
                    devices.update(devices_of(self.domain.answer(statement, vs)))
                elif isinstance(statement, Call):
                    devices.update(*(yield self.of(callee(self.domain, instance, statement))))
                found.append(frozenset(devices))
        return self.known[id(instance)]


class _Queues:
    """The statements of each group in their order. A statement is taken when it is the next one of all its groups."""

    def __init__(self, body: Sequence[Statement], groups: Sequence[set[Group]], ranks: Sequence[int]) -> None:
        self.groups, self.ranks = groups, ranks
        self.queues: defaultdict[Group, deque[int]] = defaultdict(deque)
        self.awaited: list[int] = []
        """By statement: after how many others it may be taken, of those that make its operands."""
        self.users: defaultdict[int, list[int]] = defaultdict(list)
        made: dict[str, int] = {}
        for index, statement in enumerate(body):
            for group in groups[index]:
                self.queues[group].append(index)
            makers = {made[name] for name in names(operands(statement)) if name in made}
            self.awaited.append(len(makers))
            for maker in makers:
                self.users[maker].append(index)
            made.update(dict.fromkeys(results(statement), index))

    def order(self) -> list[int]:
        """The statements: those of the group before first, and all updates in the order of stages at the end."""
        found: list[int] = []
        current: set[Group] = set()
        while heads := {queue[0] for queue in self.queues.values() if queue}:
            index = min(filter(self._is_next, heads), key=lambda index: self._turn(index, current))
            current = current & self.groups[index] or self.groups[index]
            found.append(index)
            for group in self.groups[index]:
                self.queues[group].popleft()
            for user in self.users[index]:
                self.awaited[user] -= 1
        return found

    def _is_next(self, index: int) -> bool:
        return not self.awaited[index] and all(self.queues[group][0] == index for group in self.groups[index])

    def _turn(self, index: int, current: set[Group]) -> tuple[int, Group | bool, int]:
        rank, own = self.ranks[index], self.groups[index]
        return rank, min(own) if rank == UPDATES else rank > 0 and own.isdisjoint(current), index


def _stages(body: Sequence[Statement], on: Sequence[frozenset[int]]) -> dict[int, Group]:
    """By device: those of its stage, with which it communicates but by messages. `on`: the statements' devices."""
    found = {device: frozenset((device,)) for devices in on for device in devices}
    for statement, devices in zip(body, on, strict=False):
        if isinstance(statement, Apply) and _is_in_a_stage(statement):
            together = frozenset[int]().union(*(found[device] for device in devices))
            found |= dict.fromkeys(together, together)
    return {device: tuple(sorted(together)) for device, together in found.items()}


def _is_in_a_stage(statement: Apply) -> bool:
    """Whether it is a collective of a pass, or of gradients of a weight: others are of all stages, as for a norm."""
    communicates = OPS[statement.op].communication is not None and statement.op != "Send"
    return communicates and bool(statement.facts.of or statement.facts.phase in ("forward", "backward", "weight"))


def _is_backward(statement: Statement) -> bool:
    return isinstance(statement, (Apply, Call)) and statement.facts.phase in ("backward", "weight")
