"""Simulates a program: latency, utilization and peak memory of each device, and what they are derived from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from distir.analysis import Checker, Instance, check_entry, refuse_mesh
from distir.analysis.provenance import Provenance
from distir.analysis.reached import reached
from distir.cost import Hardware, HardwareError, StepCost, larger, load, show_bytes, show_seconds, step_cost
from distir.cost.hardware import EXACT_MEMORY, Fit, MemoryErrors
from distir.cost.process import NO_OVERHEAD, NO_PROCESS, Overhead
from distir.diagnostics import Code, Diagnostic, Note, ProgramError
from distir.diagnostics.codes import simulation as codes
from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Constant,
    DimensionError,
    Function,
    Module,
    Part,
    Site,
    TensorType,
    types,
)
from distir.ir.collection import paused_collection
from distir.ir.errors import DistirError
from distir.ops import Value, dense, type_of
from distir.simulate.bodies import Bodies
from distir.simulate.body import Body
from distir.simulate.effects import Effect, Effects, hosts_memory
from distir.simulate.exposure import Exposure
from distir.simulate.memory import Live, MemoryProfile
from distir.simulate.storage import StorageMap, Unplanned
from distir.simulate.streams import check_streams
from distir.simulate.timeline import Timeline
from distir.simulate.tokens import tokens_of_step
from distir.simulate.trace import Locate, Traced, write_chrome_trace
from distir.simulate.working_set import timed_on

LARGEST_SHOWN = 5
"""How many live values the notes of an out-of-memory diagnostic name."""

MOSTLY = 0.5
"""A device is said to be mostly idle if it is so for more than this share of the time."""

DEVICES_SHOWN = 8
"""How many idle devices are named."""

Bind = Mapping[str, Constant]
"""Sizes of named dimensions, and values of host parameters, by name."""


class BindError(DistirError, ValueError):
    """A bound name that the entry function lacks, or a value of the wrong type."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of one device in use, in bytes."""

    peak_memory_bytes: int
    """The tensors'."""
    capacity_bytes: int
    overhead: Overhead = NO_OVERHEAD
    """The memory of the process beside tensors, if the profile states it."""
    offloaded_bytes: int = 0
    """The peak of what is offloaded to its host."""
    host_capacity_bytes: int = 0
    """Its share of the host's memory; 0 if the profile does not state it."""
    errors: MemoryErrors = EXACT_MEMORY
    """How far simulated memory is off, if the profile states it."""

    @property
    def needed_bytes(self) -> int:
        """Bytes of the capacity in use: tensors, and what the process holds beside them."""
        return self.peak_memory_bytes + self.overhead.charged

    @property
    def room_bytes(self) -> int:
        """Bytes available for tensors: the capacity, plus spare memory that the profile does not count in it."""
        return self.capacity_bytes - self.overhead.charged + self.overhead.spare

    @property
    def fits(self) -> bool:
        """Whether it fits in the device's memory, and what is offloaded in its share of the host's."""
        return self.peak_memory_bytes <= self.room_bytes and self.offloaded_bytes <= self.host_capacity_bytes

    @property
    def fit(self) -> Fit:
        """The same with the errors of simulated memory: `may not fit` where they leave it open."""
        return self.device_fit if self.offloaded_bytes <= self.host_capacity_bytes else "does not fit"

    @property
    def device_fit(self) -> Fit:
        """The same of the device's memory alone."""
        return self.errors.fit(self.peak_memory_bytes + self.capacity_bytes - self.room_bytes, self.capacity_bytes)


@dataclass(frozen=True, slots=True)
class DeviceUse(MemoryUse):
    """The time of one device by activity, in seconds, and its memory."""

    busy_s: float = field(kw_only=True)
    idle_s: float = field(kw_only=True)
    comm_s: float = field(kw_only=True)
    """The part of `busy_s` that communication takes."""


class Simulation:
    """One program on one machine. Properties are computed on first use."""

    def __init__(self, module: Module, instance: Instance, hardware: Hardware, body: Body, effects: Effects) -> None:
        self.module = module
        self.instance = instance
        self.hardware = hardware
        self.planned = body
        """The entry function's body, without the effects of caches."""
        self.copies = 1
        """For how many devices that do the same each device of the program stands."""
        self.sooner = ""
        """An op that some of these finish sooner, and then wait; empty if they take the same times."""
        self.of: Module | None = None
        """The program on a mesh that they run together; None where there is none."""
        self._effects = effects

    def __repr__(self) -> str:
        from distir.simulate.notebook import summary

        return f"Simulation({summary(self)})"

    def _repr_html_(self) -> str:
        from distir.simulate.notebook import as_html

        return as_html(self)

    def to_pandas(self) -> Any:
        """The ops as a `pandas.DataFrame`, a row for each device of an op: `op`, `device`, `start_s`, `phase`, ….

        Raises ImportError without pandas.
        """
        from distir.simulate.notebook import to_pandas

        return to_pandas(self)

    def plot(self) -> Any:
        """The timeline as a `matplotlib.figure.Figure`. Raises ImportError, and ValueError for too many ops."""
        from distir.simulate.notebook import plot

        return plot(self)

    @property
    def function(self) -> Function:
        """The entry function."""
        return self.instance.function

    def like(self, planned: Body) -> Simulation:
        """The same program with another body."""
        made = Simulation(self.module, self.instance, self.hardware, planned, self._effects)
        return made.standing_for(self.copies, self.sooner, self.of)

    def standing_for(self, copies: int, sooner: str, of: Module | None) -> Simulation:
        """The simulation of a program each of whose devices represents so many alike, from its own number on.

        `sooner`: an op that some of them finish sooner; `of`: the program on a mesh that they run.
        """
        self.copies, self.sooner, self.of = copies, sooner, of
        return self

    @property
    def effects(self) -> Effects:
        """The effects of ops on the machine, with costs that depend on the program's working set."""
        return Effects(self._effects.domain, self.hardware.running(self._working_sets), self._effects.place)

    def effect_of(self, op: Apply, vs: Sequence[Value]) -> Effect:
        """The effect of an op on these operands. Raises Reject where it cannot be determined."""
        effects = self._effects
        return effects.effect(op, vs, [type_of(w) for w in effects.domain.answer(op, tuple(vs))])

    @cached_property
    def body(self) -> Body:
        """The entry function's body. Its memory is simulated before its time: costs may depend on the working set."""
        return self.planned if not self.hardware.cached else self._timed(self.hardware)

    def _timed(self, machine: Hardware) -> Body:
        return timed_on(machine.running(self._working_sets), self.planned, self._effects)

    @cached_property
    def _timeline(self) -> Timeline:
        return Timeline(self.body)

    def timeline(self) -> Timeline:
        """When each op runs."""
        return self._timeline

    @property
    def latency_s(self) -> float:
        """How long the program takes, in seconds."""
        return self._timeline.latency

    @cached_property
    def band(self) -> tuple[float, float] | None:
        """Seconds between which the latency lies if each op stays within its uncertainty; None if the machine has none.

        With every op at its shortest, or at its longest: a profile's errors are systematic, and do not average out.
        """
        if not self.hardware.uncertain:
            return None
        low, high = (Timeline(self._timed(replace(self.hardware, edge=edge))).latency for edge in (-1.0, 1.0))
        return low, high

    @property
    def published_band(self) -> tuple[float, float] | None:
        """The range in seconds that contains 8 of 10 published training steps with this simulated latency.

        None where the profile does not say.
        """
        errors = self.hardware.published
        return None if errors is None else errors.band(self.latency_s)

    @cached_property
    def cost(self) -> StepCost | None:
        """The price of a step: that of the program's devices for the latency, and of those for which they stand.

        None where the machine has no prices, and where it is not known for how many a device of the program stands.
        """
        if self._effects.represented and self.copies == 1:
            return None
        prices = [self.hardware.kind(position).price for position in sorted(self._effects.place.values())] * self.copies
        given = [type_of(arg) for arg in self.instance.args]
        module = self.of or self._effects.domain.module
        entry = self.function if self.of is None else self.of.functions[self.function.name]
        return step_cost(prices, self.latency_s, tokens_of_step(module, entry, given, self.instance.dims))

    @property
    def ops(self) -> int:
        """How many ops the program has, as if inlined."""
        return self.planned.ops

    @cached_property
    def devices(self) -> dict[int, DeviceUse]:
        """By the program's device numbers."""
        timeline = self._timeline
        found: dict[int, DeviceUse] = {}
        for device, use in self.memory_uses.items():
            busy = timeline.busy.get(device, 0.0)
            idle = max(0.0, timeline.latency - busy)
            comm = timeline.communication.get(device, 0.0)
            taken = use.peak_memory_bytes, use.capacity_bytes, use.overhead
            taken = *taken, use.offloaded_bytes, use.host_capacity_bytes, use.errors
            found[device] = DeviceUse(*taken, busy_s=busy, idle_s=idle, comm_s=comm)
        return found

    @cached_property
    def memory_uses(self) -> dict[int, MemoryUse]:
        """The memory of each device. Needs no timeline."""
        peaks, found = self.peaks, dict[int, MemoryUse]()
        for device, position in sorted(self._effects.place.items()):
            peak = peaks.get(self._effects.memory(device), 0)
            process = self.hardware.kind(position).process
            overhead = NO_OVERHEAD
            if process != NO_PROCESS:
                overhead = process.overhead(peak, self._communicators.get(self._effects.memory(device), 0))
            host = self.hardware.kind(position).host_memory
            offloaded = peaks.get(hosts_memory(self._effects.memory(device)), 0)
            room = self.hardware.capacity(position), overhead, offloaded, 0 if host is None else host.size
            found[device] = MemoryUse(peak, *room, self.hardware.memory_errors)
        return found

    @cached_property
    def _communicators(self) -> Mapping[int, int]:
        """By memory: the number of communicators that it belongs to; all sends share one."""
        groups: dict[int, set[object]] = {}
        for group in self.planned.needs.groups:
            memories = frozenset(map(self._effects.memory, group.devices))
            if len(memories) < 2 and (group.represented is None or group.represented[0] < 2):
                continue
            members = None if group.sends else memories
            for memory in memories:
                groups.setdefault(memory, set()).add((members, group.represented))
        return {memory: len(found) for memory, found in groups.items()}

    @property
    def bubble(self) -> float:
        """The share of (devices × latency) in which a device neither computes nor communicates, from 0 to 1.

        A device is idle while all of its streams are. 0 for a program that takes no time.
        """
        return self._exposure.bubble

    @property
    def exposed_communication(self) -> float:
        """The share of (devices × latency) in which a device communicates and does not compute, from 0 to 1.

        On a device with one stream, all communication is exposed; computation on another stream hides it.
        """
        return self._exposure.exposed_communication

    @cached_property
    def host_bound(self) -> float | None:
        """The share of (devices × latency) in which a device idles as a host has yet to issue what runs there next.

        A part of `bubble`; 0 where hosts take no time. None for a program of more ops than are followed one by one.
        """
        return self._timeline.host_bound(self._effects.place)

    @cached_property
    def _exposure(self) -> Exposure:
        return self._timeline.exposure(self._effects.place)

    @cached_property
    def peaks(self) -> dict[int, int]:
        """By memory, of the machine's device, and of its host (`hosts_memory`): the most bytes in use."""
        base: dict[int, int] = {}
        for (memory, size), count in Counter(self.planned.parameters).items():
            base[memory] = base.get(memory, 0) + size * count
        rises = self.planned.memory
        return {m: base.get(m, 0) + rises.get(m, (0, 0))[1] for m in {*base, *rises}}

    @property
    def _working_sets(self) -> dict[int, int]:
        """By the machine's device: the peak of its own memory."""
        return {memory: peak for memory, peak in self.peaks.items() if memory >= 0}

    def memory(self) -> MemoryProfile:
        """The values in each memory, op by op."""
        return self._memory

    @cached_property
    def _memory(self) -> MemoryProfile:
        names = [
            param.name
            for param, value in zip(self.function.params, self.instance.args, strict=True)
            for leaf in types.leaves(type_of(value))
            if leaf.device != HOST
        ]
        return MemoryProfile(self._timeline, self.body.parameters, names)

    def to_chrome_trace(self, path: str | os.PathLike[str], locate: Locate | None = None) -> None:
        """Write the timeline to a file that Perfetto and Chrome open, with the places of statements from `locate`.

        Raises OSError; ProgramError where there are more than two million ops.
        """
        title = f"@{self.function.name} on {self.hardware.name}"
        memories = {device: self.memory_of(device) for device in self.devices}
        write_chrome_trace(
            Traced(title, self._timeline, Provenance(self.module, self.function), self.memory(), memories), path, locate
        )

    def memory_of(self, device: int) -> int:
        """The memory of a device of the program: the number of the machine's device that it is placed on."""
        return self._effects.memory(device)

    def findings(
        self, max_latency_s: float | None = None, max_memory_bytes: int | None = None
    ) -> tuple[Diagnostic, ...]:
        """Errors in how the program runs: out of memory, budgets exceeded."""
        head = Site(self.function.name, None, Part("name"))
        found: list[Diagnostic] = []
        if max_latency_s is not None and self.latency_s > max_latency_s:
            message = (
                f"expected a latency of at most {show_seconds(max_latency_s)}, found {show_seconds(self.latency_s)}"
            )
            found.append(Diagnostic(codes.OVER_LATENCY_BUDGET, head, message))
        for device, use in self.devices.items():
            if use.offloaded_bytes > use.host_capacity_bytes:
                found.append(self._over_on_host(device, use))
            if use.peak_memory_bytes > use.room_bytes:
                found.append(self._over(codes.OUT_OF_MEMORY, device, use.room_bytes, "has"))
            elif max_memory_bytes is not None and use.peak_memory_bytes > max_memory_bytes:
                found.append(self._over(codes.OVER_MEMORY_BUDGET, device, max_memory_bytes, "may use"))
        return tuple(found)

    def notices(self) -> tuple[Diagnostic, ...]:
        """Warnings: element types that the machine lacks, and devices that are mostly idle."""
        return (*self.lacking(), *self._waiting())

    def lacking(self) -> Iterator[Diagnostic]:
        """The element types that the program computes in and its devices do not support."""
        found: dict[tuple[str, str, str], None] = {}
        for dtype, devices in self.planned.needs.arithmetic.items():
            if any(kind.rates[dtype].instead for kind in self.hardware.kinds.distinct):
                kinds = (self.hardware.kind(self._effects.place[device]) for device in devices)
                lacking = {(kind.title, kind.rates[dtype].instead) for kind in kinds}
                found.update(((title, dtype.name, instead), None) for title, instead in sorted(lacking) if instead)
        for title, name, instead in found:
            message = f"no arithmetic in {name} on `{title}`: it runs as {instead}"
            hint = "choose hardware that has it, or another precision"
            yield Diagnostic(codes.LACKING_PRECISION, Site(self.function.name, None, Part("name")), message, (), hint)

    def _waiting(self) -> tuple[Diagnostic, ...]:
        if self.latency_s <= 0 or len(self._effects.place) < 2:
            return ()
        shares = {device: use.idle_s / self.latency_s for device, use in self.devices.items()}
        waiting = [f"device {device} for {share:.0%}" for device, share in shares.items() if share > MOSTLY]
        if not waiting:
            return ()
        more = f", and {len(waiting) - DEVICES_SHOWN} more" if len(waiting) > DEVICES_SHOWN else ""
        message = f"idle most of the time: {', '.join(waiting[:DEVICES_SHOWN])}{more}"
        return (Diagnostic(codes.MOSTLY_IDLE, Site(self.function.name, None, Part("name")), message),)

    def _over_on_host(self, device: int, use: DeviceUse) -> Diagnostic:
        has, needs = map(show_bytes, (use.host_capacity_bytes, use.offloaded_bytes))
        message = f"the host of device {device} has {has} of memory for it, the program offloads {needs}"
        site, notes = self._largest(hosts_memory(self.memory_of(device)), use.host_capacity_bytes)
        return Diagnostic(codes.OUT_OF_MEMORY, site, message, notes, "offload less, or fewer layers")

    def _largest(self, memory: int, limit: int) -> tuple[Site, tuple[Note, ...]]:
        """Where a memory first holds more than it can, and the largest values in it."""
        over = self.memory().first_over(memory, limit)
        assert over is not None
        event, live = over
        site = Site(self.function.name, None, Part("name"))
        if event is not None:
            site = self._timeline.event(event).site
        return site, tuple(
            Note(f"`%{v.name}`{_role(v)} takes {show_bytes(v.nbytes)}", _made(v)) for v in live[:LARGEST_SHOWN]
        )

    def _over(self, code: Code, device: int, limit: int, verb: str) -> Diagnostic:
        site, notes = self._largest(self.memory_of(device), limit)
        peak = self.devices[device].peak_memory_bytes
        message = f"device {device} {verb} {show_bytes(max(limit, 0))} of memory, the program needs {show_bytes(peak)}"
        charged = self.devices[device].overhead.charged
        if code is codes.OUT_OF_MEMORY and charged:
            message += f"; of {show_bytes(limit + charged)} the process holds {show_bytes(charged)} beside tensors"
        enough = None
        if code is codes.OUT_OF_MEMORY:
            enough = larger.memory_in_words(self.hardware, max(self._effects.place.values()) + 1, peak)
        return Diagnostic(code, site, message, notes, enough)


def _role(value: Live) -> str:
    return f", {value.role}," if value.role else ""


def simulate(
    module: Module,
    hardware: Hardware | str | os.PathLike[str] = "dgx-a100",
    function: str | None = None,
    bind: Bind | None = None,
) -> Simulation:
    """Simulate a module's entry function (or `function`) on a machine.

    `bind` gives sizes to named dimensions and values to host parameters. Raises ProgramError if the program does not
    check or an op's cost cannot be determined, HardwareError for an unknown or broken profile, BindError for a bad
    `bind`, LookupError if there is no such function.
    """
    with paused_collection():
        machine = load(hardware)
        entry, analysis = check_entry(module, function)
        instance = analysis.instance(entry, arguments(entry, bind or {}))
        return plan(module, analysis.domain, instance, machine)


def plan(module: Module, domain: Checker, instance: Instance, machine: Hardware) -> Simulation:
    """Simulate an instance that has been checked. Raises ProgramError."""
    refuse_mesh(module)
    with paused_collection():
        effects = Effects(domain, machine, place(domain, instance, machine))
        try:
            body = Bodies(StorageMap(domain, effects)).entry(instance)
        except Unplanned as unplanned:
            raise ProgramError([cannot(unplanned)]) from None
        check_streams(body, effects)
    return Simulation(module, instance, machine, body, effects)


def arguments(function: Function, bind: Bind, free: frozenset[str] = frozenset()) -> tuple[Value, ...]:
    """The values of the entry function's parameters; dimensions in `free` may stay without a size.

    Raises BindError; ProgramError where a dimension is unbound.
    """
    stated = {p.type for p in function.params}  # parameters are many, their types few
    names = frozenset[str]().union(*map(types.dim_names, stated))
    of_host = {t for t in stated if types.device_of(t) == HOST}
    hosts = {p.name for p in function.params if p.type in of_host} if of_host else set[str]()
    for name in bind:
        if name not in names and name not in hosts:
            known = ", ".join(f"`{n}`" for n in sorted(names | hosts)) or "no named dimensions"
            raise BindError(f"`@{function.name}` has no dimension or host value `{name}`; it has {known}")
    sizes = {name: value for name, value in bind.items() if name in names and isinstance(value, int)}
    unsized = sorted(set(bind) & names - set(sizes))
    if unsized or any(size < 0 for size in sizes.values()):
        raise BindError(f"expected sizes from 0 for named dimensions, found {dict(bind)}")
    problems: list[Diagnostic] = []
    for index, param in enumerate(function.params if not names <= sizes.keys() | free else ()):
        missing = sorted(types.dim_names(param.type) - sizes.keys() - free)
        if missing:
            site = Site(function.name, None, Part("param_type", index))
            message = f"the dimension `{missing[0]}` has no size"
            problems.append(Diagnostic(codes.UNBOUND, site, message, help=f"give one with `--bind {missing[0]}=64`"))
    try:
        bound: dict[types.Type, types.Type] = {t: types.one(types.substitute(t, sizes)) for t in stated}
    except DimensionError as error:
        raise BindError(str(error)) from None
    given = hosts & bind.keys()
    found: list[Value] = [
        _host_value(p.name, bound[p.type], bind[p.name]) if p.name in given else bound[p.type] for p in function.params
    ]
    if problems:
        raise ProgramError(problems)
    return tuple(found)


def _host_value(name: str, type: types.Type, value: Constant) -> Value:
    dtype = type.dtype if isinstance(type, TensorType) else None
    try:
        given = dense(value, dtype)
    except (ValueError, TypeError) as error:
        raise BindError(f"`%{name}`: {error}") from None
    if types.meet(type, given.type) is None:
        raise BindError(f"`%{name}` expected `{type}`, found `{given.type}`")
    return given


def place(domain: Checker, entry: Instance, machine: Hardware) -> dict[int, int]:
    """The machine's position of each device that the program uses. Raises ProgramError where it has too few."""
    instances = [*reached(domain, entry, domain.replicas.names_devices)]  # the others use devices of arguments alone
    found = {device for instance in instances for device in _devices(instance.state.values())}
    for instance, _, statement in _applied(instances):
        if DISCARD in statement.results:
            found |= _devices(domain.answer(statement, instance.state(statement.args)))
    try:
        return machine.place(found)
    except HardwareError as error:
        base = 0 if 0 in found else 1
        lacking = min(d for d in found if d - base >= machine.devices)
        last = machine.devices - 1 + base
        message = f"`{machine.name}` has no device {lacking}: it has {machine.devices}, numbered {base} to {last}"
        site = _user(domain, instances, lacking)
        enough = larger.devices_in_words(machine, max(found) - base + 1)
        raise ProgramError([Diagnostic(codes.DEVICE_NOT_IN_HARDWARE, site, message, help=enough)]) from error


def _applied(instances: Iterable[Instance]) -> Iterator[tuple[Instance, int, Apply]]:
    for instance in instances:
        for index, statement in enumerate(instance.function.body):
            if isinstance(statement, Apply):
                yield instance, index, statement


def _devices(values: Iterable[Value]) -> set[int]:
    return {device for value in set(values) if value is not None for device in types.devices(type_of(value))}


def _user(domain: Checker, instances: Sequence[Instance], device: int) -> Site:
    """The entry function's parameter that lives on a device, or else the first op that has a result there."""
    entry = instances[0]
    for index, value in enumerate(entry.args):
        if device in types.devices(type_of(value)):
            return Site(entry.function.name, None, Part("param_type", index))
    for instance, index, statement in _applied(instances):
        named = [instance.state[name] for name in statement.results if name != DISCARD]
        if device in _devices([*named, *domain.answer(statement, instance.state(statement.args))]):
            return Site(instance.function.name, index)
    return Site(entry.function.name, None, Part("name"))


def cannot(unplanned: Unplanned) -> Diagnostic:
    """Why a program cannot be simulated."""
    reject = unplanned.reject
    part = reject.part if isinstance(reject.part, Part) else None
    if unplanned.index is None:
        part = Part("name")
    return Diagnostic(reject.code, Site(unplanned.function, unplanned.index, part), reject.message, (), reject.help)


def _made(value: Live) -> Site:
    if value.index is None:
        return Site(value.function, None, Part("name"))
    return Site(value.function, value.index)
