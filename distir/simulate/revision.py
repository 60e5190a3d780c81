"""Simulates the next version of a program: only the blocks that an edit affects are built again, then all are composed.

`RevisionPlan` is what one version hands to the next. A test compares the result with a simulation from nothing, and
with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Any

from distir.analysis import Checker, Instance, refuse_mesh
from distir.analysis.revision import affected
from distir.cost import Hardware, HardwareError
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, Apply, Call, Module, types
from distir.ir.collection import paused_collection
from distir.ir.deep import Deep, finish
from distir.ops import Value, type_of
from distir.simulate.blocks import Block, BlockedFunction, instance_of, joined, outlined
from distir.simulate.bodies import Bodies, Fate
from distir.simulate.body import Body
from distir.simulate.effects import Effects
from distir.simulate.held import NOTHING_GIVEN, Given
from distir.simulate.leaves import Leaves
from distir.simulate.simulation import Simulation, cannot, place
from distir.simulate.storage import Sizes, StorageMap, Storages, Unplanned, go_on
from distir.simulate.streams import check_streams
from distir.simulate.synchronisation import PLAIN, Synchronisation

__all__ = ["RevisionPlan", "go_on", "replan"]

EFFECTS_KEPT = 50_000
"""How many effects of distinct ops are kept from version to version."""


@dataclass(slots=True)
class BlockedModule:
    """The functions of one version of a module, those that are long cut into blocks, and the instances of all."""

    domain: Checker
    functions: dict[str, BlockedFunction | None] = field(default_factory=dict[str, "BlockedFunction | None"])
    blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    """By the name under which it is called."""
    instances: dict[Any, Instance] = field(default_factory=dict[Any, Instance])
    """Of blocks, by their names and what they take."""
    run: dict[tuple[int, str], Instance] = field(default_factory=dict[tuple[int, str], Instance])
    """Of blocks, by the identity of the caller, and their names: those of this version."""
    calling: dict[int, tuple[Instance, Instance]] = field(default_factory=dict[int, tuple[Instance, Instance]])
    """By identity, an instance as it is written, and as it calls its blocks."""
    written: dict[int, Instance] = field(default_factory=dict[int, Instance])
    """By identity of one that calls its blocks: as it is written."""
    devices: dict[int, tuple[Instance, frozenset[int]]] = field(
        default_factory=dict[int, tuple[Instance, frozenset[int]]]
    )
    """By identity of an instance: the devices of its values and of its callees' values."""

    @classmethod
    def of(cls, module: Module, domain: Checker, earlier: BlockedModule | None, changed: Set[str]) -> BlockedModule:
        """`changed`: the functions that have come to mean something else than in the earlier version."""
        found = cls(domain)
        if earlier is not None:
            found.instances, found.calling = dict(earlier.instances), dict(earlier.calling)
            found.written, found.devices = dict(earlier.written), dict(earlier.devices)
        for name, function in module.functions.items():
            old = earlier.functions.get(name) if earlier is not None else None
            if old is not None and name in changed:
                cut = old.revised(function, changed)
            else:
                cut = old or outlined(function)
            found.functions[name] = cut
            if cut is not None:
                calls = (s for s in cut.calls.body if isinstance(s, Call))
                found.blocks.update((call.function, block) for call, block in zip(calls, cut.blocks, strict=True))
        return found

    def called(self, caller: Instance, call: Call) -> Instance:
        """The callee of a call: a block of the caller, or a function."""
        here = (id(caller), call.function)
        if here in self.run:
            return self.run[here]
        block = self.blocks.get(call.function)
        args = caller.state(call.args)
        if block is None:
            return self.domain.instance(call.function, args)
        key = (call.function, args, tuple(caller.dims.items()))
        known = self.instances.get(key)
        if known is None:
            known = self.instances[key] = instance_of(block, call, caller)
        self.run[here] = known  # a block is called once
        return known

    def as_calls(self, instance: Instance) -> Instance:
        """The instance as it calls its blocks; itself, where it is short, or follows from another one."""
        known = self.calling.get(id(instance))
        if known is not None:
            return known[1]
        cut = self.functions.get(instance.function.name)
        if cut is None or instance.replica is not None or cut.function is not instance.function:
            return instance
        made = Instance(cut.calls, instance.args, instance.dims, instance.state)
        self.calling[id(instance)] = instance, made
        self.written[id(made)] = instance
        return made

    def used_devices(self, instance: Instance) -> Deep[frozenset[int]]:
        """The devices of an instance's values and of its callees' values."""
        instance = self.as_calls(instance)
        known = self.devices.get(id(instance))
        if known is not None:
            return known[1]
        function, state = instance.function, instance.state
        found = _of(instance.args) if id(instance) in self.written else _of(state.values())
        for statement in function.body:
            if isinstance(statement, Apply) and DISCARD in statement.results:
                found |= _of(self.domain.answer(statement, state(statement.args)))
            elif isinstance(statement, Call) and self._names_devices(statement.function):
                found |= yield self.used_devices(self.called(instance, statement))
        self.devices[id(instance)] = instance, frozenset(found)
        return self.devices[id(instance)][1]

    def _names_devices(self, name: str) -> bool:
        """Whether a call may use other devices than those that its arguments are on."""
        return name in self.blocks or self.domain.replicas.names_devices(name)

    def site(self, name: str, index: int | None) -> tuple[str, int | None]:
        """A function as it is written and a statement in it, of a function or a block by its name."""
        for cut in filter(None, self.functions.values()):
            first = 0
            for call, block in zip(cut.calls.body, cut.blocks, strict=False):
                if isinstance(call, Call) and call.function == name:
                    return cut.function.name, None if index is None else first + index
                first += len(block.statements)
        return name, index

    def keep(self, used: Set[int]) -> None:
        """Let go of all instances but those used, by identity."""
        self.run = {}
        self.written = {key: written for key, written in self.written.items() if key in used}
        self.calling = {key: pair for key, pair in self.calling.items() if id(pair[1]) in used}
        self.devices = {key: found for key, found in self.devices.items() if key in used}
        self.instances = {key: instance for key, instance in self.instances.items() if id(instance) in used}


@dataclass(slots=True)
class CutStorages(StorageMap):
    """The storages of functions by those of their blocks."""

    cut: BlockedModule = field(kw_only=True)

    def found(
        self,
        instance: Instance,
        partition: Leaves | None = None,
        given: Sizes | None = None,
        pending: Given = NOTHING_GIVEN,
    ) -> Deep[Storages]:
        return (yield from StorageMap.found(self, self.cut.as_calls(instance), partition, given, pending))

    def called(self, caller: Instance, call: Call) -> Instance:
        return self.cut.called(caller, call)


@dataclass(slots=True)
class CutBodies(Bodies):
    """The bodies of functions from those of their blocks."""

    cut: BlockedModule = field(kw_only=True)

    def build(
        self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...], how: Synchronisation
    ) -> Deep[Body]:
        body = yield from Bodies.build(self, found, fates, wanted, how)
        written = self.cut.written.get(id(found.instance))
        return body if written is None else joined(body, written)


@dataclass(slots=True)
class RevisionPlan:
    """A simulation, and what of it serves the next version."""

    simulation: Simulation
    cut: BlockedModule
    storages: CutStorages
    bodies: CutBodies


def replan(
    module: Module,
    domain: Checker,
    instance: Instance,
    machine: Hardware,
    earlier: RevisionPlan | None = None,
    pause: Callable[[], None] = go_on,
) -> RevisionPlan:
    """Simulate an instance that has been checked, as `plan` does. Raises ProgramError.

    `earlier`, of another version of the program, makes no difference but in time. Afterwards the checker lets go of
    earlier versions. `pause` is called every few milliseconds; what it raises ends the simulation, and leaves all as
    it was.
    """
    refuse_mesh(module)
    with paused_collection():
        changed: Set[str] = frozenset()
        if earlier is not None:
            calls = {name: facts.calls for name, facts in domain.structure.names.items()}
            changed = affected(earlier.simulation.module, module, calls, ())
        cut = BlockedModule.of(module, domain, earlier.cut if earlier is not None else None, changed)
        places = _places(cut, instance, machine)
        effects = Effects(domain, machine, places)
        storages = CutStorages(domain, effects, pause=pause, cut=cut)
        bodies = CutBodies(storages, cut=cut)
        if earlier is not None and _is_same_machine(earlier, machine, places):
            known = earlier.storages.effects.known
            effects.known = known if len(known) <= EFFECTS_KEPT else {}
            storages.known, bodies.known = dict(earlier.storages.known), dict(earlier.bodies.known)
            storages.alike, bodies.synchronised = dict(earlier.storages.alike), earlier.bodies.synchronised
        try:
            body = bodies.entry(instance)
        except Unplanned as unplanned:
            unplanned.function, unplanned.index = cut.site(unplanned.function, unplanned.index)
            raise ProgramError([cannot(unplanned)]) from None
        check_streams(body, effects)
        storages.pause = go_on
        _let_go(storages, bodies, finish(storages.found(instance)))
        domain.forget()
    return RevisionPlan(Simulation(module, instance, machine, body, effects), cut, storages, bodies)


def _let_go(storages: CutStorages, bodies: CutBodies, entry: Storages) -> None:
    """Keep what this version uses, and nothing of earlier ones."""
    used = {id(entry): entry}
    waiting = [entry]
    while waiting:
        found = waiting.pop()
        for callee in (*found.callees.values(), *(found.replica[:1] if found.replica is not None else ())):
            if id(callee) not in used:
                used[id(callee)] = callee
                waiting.append(callee)
    storages.known = {key: found for key, found in storages.known.items() if id(found) in used}
    storages.alike = {kin: like for kin, like in storages.alike.items() if id(like[0]) in used}
    how = {key: bodies.synchronised.get(id(found.origin), PLAIN) for key, found in used.items()}
    bodies.known = {key: body for key, body in bodies.known.items() if how.get(key[0]) is key[-1]}
    storages.cut.keep({id(found.instance) for found in used.values()})


def _is_same_machine(earlier: RevisionPlan, machine: Hardware, places: dict[int, int]) -> bool:
    return earlier.simulation.hardware is machine and earlier.storages.effects.place == places


def _places(cut: BlockedModule, entry: Instance, machine: Hardware) -> dict[int, int]:
    """The machine's position of each device that the program uses. Raises ProgramError where it has too few."""
    try:
        return machine.place(finish(cut.used_devices(entry)))
    except HardwareError:
        return place(cut.domain, entry, machine)  # which says what is wrong


def _of(values: Iterable[Value | None]) -> frozenset[int]:
    """The devices of values, of which few are distinct."""
    distinct = {id(value): value for value in values if value is not None}
    return frozenset[int]().union(*[types.devices(type_of(value)) for value in distinct.values()])
