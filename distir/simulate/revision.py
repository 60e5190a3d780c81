"""Simulating the next version of a program: what an edit did not reach is taken from the version before.

`Plan` is what one version leaves to the next. A test compares what this gives with what simulating the program alone
gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from distir.analysis import Checker, Instance
from distir.analysis.revision import affected
from distir.cost import Hardware, HardwareError
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, Apply, Call, Module, types
from distir.ir.collection import paused_collection
from distir.ops import Value, type_of
from distir.simulate.effects import Effects
from distir.simulate.revision_body import RevisedBodies
from distir.simulate.revision_storage import RevisedStorages
from distir.simulate.simulation import Simulation, cannot, place
from distir.simulate.storage import Unplanned, go_on

__all__ = ["Plan", "go_on", "replan"]

EFFECTS_KEPT = 50_000
"""How many effects of distinct ops are kept from version to version."""


@dataclass(slots=True)
class Seen:
    """The devices of an instance's values, each with the number of values there."""

    instance: Instance
    devices: Counter[int]


@dataclass(slots=True)
class Plan:
    """A simulation, and what of it serves the next version."""

    simulation: Simulation
    storages: RevisedStorages
    bodies: RevisedBodies
    seen: dict[int, Seen] = field(default_factory=dict[int, Seen])


def replan(
    module: Module,
    domain: Checker,
    instance: Instance,
    machine: Hardware,
    earlier: Plan | None = None,
    pause: Callable[[], None] = go_on,
) -> Plan:
    """Simulate an instance that has been checked, as `plan` does. Raises ProgramError.

    `earlier`, of another version of the program, makes no difference but in time. Afterwards the checker lets go of
    earlier versions. `pause` is called every few milliseconds; what it raises ends the simulation, and leaves all as
    it was.
    """
    with paused_collection():
        seen: dict[int, Seen] = {}
        places = _places(domain, instance, machine, earlier.seen if earlier is not None else {}, seen)
        effects = Effects(domain, machine, places)
        storages = RevisedStorages(domain, effects, pause=pause)
        bodies = RevisedBodies(storages)
        if earlier is not None and _is_same_machine(earlier, machine, places):
            known = earlier.storages.effects.known
            effects.known = known if len(known) <= EFFECTS_KEPT else {}
            calls = {name: facts.calls for name, facts in domain.structure.names.items()}
            storages.functions = affected(earlier.simulation.module, module, calls, ())
            storages.take_over(earlier.storages)
            bodies.take_over(earlier.bodies, storages.functions)
        try:
            body = bodies.entry(instance)
        except Unplanned as unplanned:
            raise ProgramError([cannot(unplanned)]) from None
        storages.earlier, storages.revised, bodies.earlier = {}, {}, {}
        storages.pause = go_on
        if len(bodies.made) > bodies.most_kept:
            bodies.sweep(body)
        domain.earlier.forget()
    return Plan(Simulation(module, instance, machine, body, effects), storages, bodies, seen)


def _is_same_machine(earlier: Plan, machine: Hardware, places: dict[int, int]) -> bool:
    return earlier.simulation.hardware is machine and earlier.storages.effects.place == places


def _places(
    domain: Checker, entry: Instance, machine: Hardware, known: dict[int, Seen], seen: dict[int, Seen]
) -> dict[int, int]:
    """The machine's position of each device that the program uses. Raises ProgramError where it has too few."""
    found: set[int] = set()
    waiting = [entry]
    while waiting:
        instance = waiting.pop()
        if id(instance) in seen:
            continue
        names = domain.structure.names[instance.function.name]
        seen[id(instance)] = here = _devices(domain, instance, known)
        found.update(here.devices)
        if names.discards:
            found |= _discarded(domain, instance)
        if names.calls:
            for statement in instance.function.body:
                if isinstance(statement, Call) and domain.where.names_devices(statement.function):
                    waiting.append(domain.instance(statement.function, instance.state(statement.args)))
    try:
        return machine.place(found)
    except HardwareError:
        return place(domain, entry, machine)  # which says what is wrong


def _devices(domain: Checker, instance: Instance, known: dict[int, Seen]) -> Seen:
    """The devices of an instance's values: of one made from an earlier one, what changed is counted."""
    same = known.get(id(instance))
    if same is not None and same.instance is instance:
        return same
    origin = domain.earlier.origins.get(id(instance))
    old = known.get(id(origin.instance)) if origin is not None else None
    if origin is None or old is None or old.instance is not origin.instance:
        return Seen(instance, _counted(instance.state))
    counts = old.devices.copy()
    for name in origin.changed:
        for device in _of(origin.instance.state.get(name)):
            counts[device] -= 1
            if not counts[device]:
                del counts[device]
        counts.update(_of(instance.state.get(name)))
    return Seen(instance, counts)


def _counted(state: dict[str, Value]) -> Counter[int]:
    values = Counter(map(id, state.values()))
    distinct = {id(value): value for value in state.values()}
    counts: Counter[int] = Counter()
    for identity, times in values.items():
        for device in _of(distinct[identity]):
            counts[device] += times
    return counts


def _of(value: Value | None) -> frozenset[int]:
    return frozenset() if value is None else frozenset(types.devices(type_of(value)))


def _discarded(domain: Checker, instance: Instance) -> set[int]:
    """The devices of results that are discarded."""
    found: set[int] = set()
    for statement in instance.function.body:
        if isinstance(statement, Apply) and DISCARD in statement.results:
            for value in domain.answer(statement, instance.state(statement.args)):
                found |= _of(value)
    return found
