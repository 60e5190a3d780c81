"""The effect of one op on given operands: where it runs, for how long, and what memory it takes. Once per distinct op.

First of the simulator's two passes (paper, section 3.3): types have been found by mixed interpretation, costs are
looked up by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

from distir.analysis import Checker, State, lookup
from distir.cost import Cost, Hardware, larger
from distir.diagnostics.codes import simulation as codes
from distir.ir import DISCARD, HOST, AnyType, Apply, Arg, TensorType, Type, types
from distir.ops import NO_WORK, Op, Reject, Value, Work, type_of
from distir.ops.devices import Devices, canonical_devices, devices_of, known_work
from distir.ops.group import STATES_GROUP, represented
from distir.simulate.algebra.clocks import Step
from distir.simulate.algebra.lanes import BLOCKING, occupation
from distir.simulate.leaves import Leaves

FREE = Cost(0.0, "free")

Groups = tuple[tuple[int, int], ...]
"""Groups of devices that one represents: how many, and how far apart."""

CACHED = 1 << 14
"""The number of effects that are cached for a machine."""


def hosts_memory(memory: int) -> int:
    """The number of a device's share of its host's memory: below 0, next to that of the device's own memory.

    The other way round, too.
    """
    return ~memory


TICKS_PER_SECOND = 1 << 80
"""Clocks count whole *ticks*: sums of them are exact. A tick is so short that no digit of a nanosecond is lost."""


@dataclass(slots=True, eq=False)  # not frozen, although never changed: that makes them three times as slow to make
class Effect:
    """The effect of an op on its devices and their memories. One object per distinct op and operands."""

    op: str
    work: Work
    devices: tuple[int, ...]
    """The devices that it waits for and occupies; none for host ops and views (unless the machine measured those)."""
    cost: Cost
    ticks: int
    """How long it occupies them, in the whole numbers that clocks count (`to_ticks`)."""
    sizes: tuple[tuple[int, int] | None, ...]
    """Memory and bytes of each leaf of the results; None for host values."""
    widths: tuple[int, ...]
    """How many of these leaves each result has."""
    shares: tuple[int | None, ...]
    """By leaf of the results: the leaf of the operands that it is a view of; None for one with memory of its own. Empty
    where all have."""
    donations: tuple[tuple[int, int], ...]
    """Leaves of the results that may be donated the memory of a leaf of the operands."""
    temporary: tuple[tuple[int, int], ...]
    """Memory, and bytes that the op needs there while it runs."""
    reuses: tuple[tuple[int, int], ...] = ()
    """As `donations`, of memory that is free then: not that of the entry's parameters, which no loop may overwrite."""
    issue: tuple[int, ...] = ()
    """By device: for how many ticks its host issues the op, or `BLOCKING`; empty where that takes no time."""
    taxes: tuple[int, ...] = ()
    """By device: by how many ticks it delays what is computed beside it; empty where it does not."""

    @property
    def view(self) -> bool:
        """The results are where the operands are."""
        return bool(self.shares) and None not in self.shares

    @property
    def communicates(self) -> bool:
        """Whether devices talk to each other meanwhile, or one to its host."""
        return self.work.moves

    def sized(self, sizes: tuple[tuple[int, int] | None, ...]) -> Effect:
        """The same where the leaves of the results have these bytes."""
        return Effect(
            self.op,
            self.work,
            self.devices,
            self.cost,
            self.ticks,
            sizes,
            self.widths,
            self.shares,
            self.donations,
            self.temporary,
            self.reuses,
            self.issue,
            self.taxes,
        )

    def move(self, on: str | None = None) -> Step:
        """Its effect on clocks: itself, if only its devices matter. `on`: its stream, if values synchronise it."""
        if on is None and not self.issue:
            return self
        taxes = self.taxes if on else ()
        return occupation(self.devices, self.ticks, self.communicates, on or "", self.issue, taxes)


class DataFlow(NamedTuple):
    """How an op is synchronised with others by data flow, where there are several streams.

    `awaited`, `made`: the storages of operands that it waits for, and those of its results that others wait for.
    """

    stream: str
    awaited: Leaves
    made: Leaves


@dataclass(frozen=True, slots=True, eq=False)
class Relocation:
    """Other devices, and their memories, in the place of some: of the same kinds, and linked alike."""

    devices: Mapping[int, int]
    memories: Mapping[int, int]

    def effect(self, effect: Effect) -> Effect:
        """The effect of an op on these devices."""
        devices, memories = self.devices, self.memories
        return Effect(
            effect.op,
            effect.work.on(devices),
            tuple([devices[device] for device in effect.devices]),
            effect.cost,
            effect.ticks,
            tuple([None if size is None else (memories[size[0]], size[1]) for size in effect.sizes]),
            effect.widths,
            effect.shares,
            effect.donations,
            tuple([(memories[memory], size) for memory, size in effect.temporary]),
            effect.reuses,
            effect.issue,
            effect.taxes,
        )

    def sizes(self, sizes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Memories, with bytes."""
        memories = self.memories
        return [(memories[memory], size) for memory, size in sizes]


@lru_cache(maxsize=1 << 10)
def relocation(before: Devices, memories: Devices, after: Devices, others: Devices) -> Relocation:
    """From some devices and their memories, and their hosts' ones, to others, one by one."""
    there = dict(zip(memories, others, strict=True))
    there.update([(hosts_memory(memory), hosts_memory(other)) for memory, other in there.items()])
    return Relocation(dict(zip(before, after, strict=True)), there)


@lru_cache(maxsize=4)
def _alike(hardware: Hardware) -> dict[Any, tuple[Effect, Devices, Devices]]:
    """The effects of ops of all programs on a machine, such as those of a search or in an editor."""
    return {}


@lru_cache(maxsize=1 << 14)
def to_ticks(seconds: float) -> int:
    """A time in seconds as whole ticks."""
    return round(Fraction(seconds) * TICKS_PER_SECOND)


def to_seconds(ticks: int) -> float:
    """Ticks in seconds, as the nearest double."""
    return ticks / TICKS_PER_SECOND


class Launched(Protocol):
    """A call that a device executes at once: a kernel (`kernels`)."""

    @property
    def name(self) -> str:
        """Of the function."""
        ...

    @property
    def args(self) -> tuple[Arg, ...]:
        """Its operands."""
        ...

    @property
    def same(self) -> object:
        """Equal for those that do the same to equal operands."""
        ...

    def results_in(self, domain: Checker, vs: tuple[Value, ...]) -> list[Type]:
        """The types of the results."""
        ...

    def found(self, effects: Effects, vs: Sequence[Value], ws: Sequence[Type]) -> Effect:
        """Its effect. Raises Reject if that cannot be determined."""
        ...


@dataclass
class Effects:
    """The effects of a program's ops on one machine. `place` maps the program's devices to the machine's."""

    domain: Checker
    hardware: Hardware
    place: Mapping[int, int]
    known: dict[Any, Effect] = field(default_factory=dict[Any, Effect])
    sized: dict[Type, tuple[int, int] | None] = field(default_factory=dict[Type, "tuple[int, int] | None"])
    shapes: dict[tuple[Devices, Groups], object] = field(default_factory=dict[tuple[Devices, "Groups"], object])

    @cached_property
    def alike(self) -> dict[Any, tuple[Effect, Devices, Devices]]:
        """Effects, each with its devices and their memories, by what ops on equal devices with equal links share."""
        return _alike(self.hardware)

    @cached_property
    def represented(self) -> Groups:
        """The groups that a device of the program may represent."""
        bodies = (function.body for function in self.domain.module)
        stating = [s for body in bodies for s in body if isinstance(s, Apply) and s.op in STATES_GROUP]
        stated = {represented(s.op, s.attrs) for s in stating}
        return tuple(sorted(group for group in stated if group is not None))

    def shape(self, devices: Devices, groups: Groups) -> object:
        """What costs depend on, of the devices and of those that they represent in groups, which fit on the machine."""
        known = self.shapes.get((devices, groups))
        if known is None:
            positions = [self.place[device] for device in devices]
            for size, stride in groups:
                positions += [at + rank * stride for at in positions[: len(devices)] for rank in range(1, size)]
            fitting = tuple([at for at in positions if at < self.hardware.devices])
            known = self.shapes[devices, groups] = self.hardware.shape(fitting)
        return known

    def of(self, op: Apply | Launched, rho: State) -> Effect:
        """The effect of an op in this state. Raises Reject where it cannot be determined."""
        vs = rho(op.args)
        key = (op.op, op.attrs, vs, len(op.results)) if isinstance(op, Apply) else (op.same, vs)
        if isinstance(op, Apply) and op.claims:  # what is claimed may say more than what is inferred
            key = (*key, *map(rho.__getitem__, op.results))
        effect = self.known.get(key)
        if effect is None:
            effect = self.known[key] = self._find(op, vs, rho)
        return effect

    def memory(self, device: int) -> int:
        """The memory that a device of the program has: the number of the machine's device."""
        return self.place[device]

    def size(self, leaf: TensorType | AnyType) -> tuple[int, int] | None:
        """The memory that a leaf is in, and its bytes; None for host values. Raises Reject where it is unknown."""
        if leaf not in self.sized:
            self.sized[leaf] = self._size(leaf)
        return self.sized[leaf]

    def _size(self, leaf: TensorType | AnyType) -> tuple[int, int] | None:
        if leaf.device == HOST:
            return None
        if leaf.device is None:
            hint = "state the device in the types of the entry function's parameters"
            raise Reject(codes.UNPLACED, f"it is not known on which device `{leaf}` lives", help=hint)
        size = leaf.nbytes if isinstance(leaf, TensorType) else None
        if not isinstance(size, int):
            hint = "bind named dimensions with `--bind`; a size that data decides can be claimed beside a result's "
            hint += "name, as in `%i: Tensor[Int64, (2, 16), 1] = NonZero(%x)`"
            raise Reject(codes.UNKNOWN_COST, f"the size of `{leaf}` is unknown", help=hint)
        return self.memory_of(leaf), size

    def memory_of(self, leaf: TensorType | AnyType) -> int:
        """The memory that a value on a known device is in. Raises Reject where the machine states none of its host."""
        assert leaf.device is not None
        memory = self.memory(leaf.device)
        if not isinstance(leaf, TensorType) or not leaf.offloaded:
            return memory
        if self.hardware.kind(memory).host_memory is None:
            message = f"`{self.hardware.name}` states no memory of a host, to which `{leaf}` could be offloaded"
            hint = f"add a table `[kinds.{self.hardware.kind(memory).name}.host_memory]` with `size` and `bandwidth`"
            raise Reject(codes.NO_HOST_MEMORY, message, help=f"{hint} to a profile that extends it")
        return hosts_memory(memory)

    def _find(self, op: Apply | Launched, vs: tuple[Value, ...], rho: State) -> Effect:
        if not isinstance(op, Apply):
            return self.effect(op, vs, op.results_in(self.domain, vs))
        raw = self.domain.answer(op, vs)
        ws = [type_of(w if name == DISCARD else rho[name]) for name, w in zip(op.results, raw, strict=True)]
        return self.effect(op, vs, ws)

    def effect(self, op: Apply | Launched, vs: Sequence[Value], ws: Sequence[Type]) -> Effect:
        """The effect of an op on operands, for these types of results. Raises Reject where it cannot be determined."""
        kin, devices = self.kin(op, vs, ws)
        memories = tuple(map(self.memory, devices))
        known = self.alike.get(kin)
        if known is None:
            if len(self.alike) >= CACHED:
                self.alike.clear()
            known = self.alike[kin] = self.found(op, vs, ws), devices, memories
        effect, *there = known
        return effect if there == [devices, memories] else relocation(*there, devices, memories).effect(effect)

    def kin(self, op: Apply | Launched, vs: Sequence[Value], ws: Sequence[Type]) -> tuple[object, Devices]:
        """A key, equal for ops that differ only in devices of equal kinds and links, and the devices."""
        devices = devices_of((*vs, *ws))
        there = canonical_devices(devices)
        if not isinstance(op, Apply):
            known = (*vs, *ws) if self.domain.replicas.names_devices(op.name) else there((*vs, *ws))
            return (op.same, known, len(ws), self.shape(devices, ())), devices
        definition = lookup(op.op)
        group = represented(op.op, op.attrs)
        shape = self.shape(devices, () if group is None else (group,))
        return (definition, there.attributes(definition, op.attrs), there((*vs, *ws)), len(ws), shape), devices

    def between(self, before: Devices, after: Devices) -> Relocation:
        """From some devices to others."""
        return relocation(before, tuple(map(self.memory, before)), after, tuple(map(self.memory, after)))

    def found(self, op: Apply | Launched, vs: Sequence[Value], ws: Sequence[Type]) -> Effect:
        """The same, found by the op's rules."""
        if not isinstance(op, Apply):
            return op.found(self, vs, ws)
        definition = lookup(op.op)
        inputs = [type_of(v) for v in vs if v is not None]
        sizes = tuple(self.size(leaf) for w in ws for leaf in types.leaves(w))
        done = known_work(definition, tuple(vs), tuple(ws), op.attrs)
        devices = tuple(sorted(frozenset[int]().union(*map(types.devices, [*inputs, *ws]))))
        # A constant is a view of nothing: its result has a leaf, but no operand has one.
        view = bool(inputs) and bool(definition.view)
        free = (definition.view or done == NO_WORK) and not definition.awaits
        if free and not self._takes_time(op.op, devices):
            devices = ()
        cost = self.cost(done, devices, op.op)
        return Effect(
            op.op,
            done,
            devices,
            cost,
            to_ticks(cost.seconds),
            sizes,
            tuple(map(types.width, ws)),
            _shared(definition, inputs, len(sizes)) if view else (),
            () if view else _donations(definition, inputs, ws),
            self.temporary(done, devices) if done.temporary else (),
            issue=self.issue(done, devices, awaits=definition.awaits),
            taxes=self.taxes(done, devices, cost),
        )

    def issue(self, done: Work, devices: Sequence[int], *, awaits: bool = False) -> tuple[int, ...]:
        """By device: for how many ticks its host issues an op of this work; empty if none takes time for that.

        `awaits`: a stream waits, which takes a host no time.
        """
        if not self.hosts:
            return ()
        hosts = [self.hardware.kind(self.place[device]).host for device in devices]
        issued = [0.0 if awaits else host.issuing(done) for host in hosts]
        return tuple([BLOCKING if h.waits(done) else to_ticks(s) for h, s in zip(hosts, issued, strict=True)])

    @cached_property
    def hosts(self) -> bool:
        """Whether hosts take time to issue ops, or wait for them."""
        hosts = [kind.host for kind in self.hardware.kinds.distinct]
        waiting = (h.blocking or h.waits_for_sends or h.waits_for_counts for h in hosts)
        return any(waiting) or any(host.issue for host in hosts)

    def taxes(self, done: Work, devices: Sequence[int], cost: Cost) -> tuple[int, ...]:
        """By device: by how many ticks an op delays what is computed beside it."""
        if done.communication is None or not self.interferes:
            return ()
        kinds = [self.hardware.kind(self.place[device]) for device in devices]
        return tuple([to_ticks(kind.begin + kind.interference * cost.seconds) for kind in kinds])

    @cached_property
    def interferes(self) -> bool:
        """Whether communication delays what is computed beside it."""
        return any(kind.interference or kind.begin for kind in self.hardware.kinds.distinct)

    def _takes_time(self, op: str, devices: Sequence[int]) -> bool:
        """Whether the machine states what a view costs: that torch is asked for one, on one device."""
        return len(devices) == 1 and self.hardware.measured(op, tuple(self.place[d] for d in devices))

    def temporary(self, done: Work, devices: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Memory and bytes: every device needs its own."""
        return tuple([(self.memory(device), done.temporary) for device in devices])

    def cost(self, done: Work, devices: tuple[int, ...], op: str) -> Cost:
        """The cost of an op's work on devices of the program."""
        return self.hardware.cost(*self.placed(done, devices, op), op) if devices else FREE

    def placed(self, done: Work, devices: tuple[int, ...], op: str) -> tuple[Work, tuple[int, ...]]:
        """The work of an op as the machine sees it, and the positions that do it, represented ones too."""
        communication = done.communication
        if communication is not None and communication.root is not None:
            done = replace(done, communication=replace(communication, root=self.place[communication.root]))
        positions = tuple(self.place[d] for d in devices)
        if communication is not None and communication.group is not None:
            positions = self._standing_for(op, devices[0], *communication.group)
        return done, positions

    def _standing_for(self, op: str, device: int, size: int, stride: int) -> Devices:
        """The positions of a device and of those that it represents. Raises Reject where the machine has too few."""
        first = self.place[device]
        if first + (size - 1) * stride >= self.hardware.devices:
            message = f"`{op}` represents device {device + (size - 1) * stride}, and `{self.hardware.name}` has "
            message += f"{self.hardware.devices} devices"
            enough = larger.devices_in_words(self.hardware, first + (size - 1) * stride + 1)
            raise Reject(codes.DEVICE_NOT_IN_HARDWARE, message, help=enough)
        return tuple(range(first, first + size * stride, stride))


def _shared(op: Op, inputs: Sequence[Type], count: int) -> tuple[int, ...]:
    """Of a view, by leaf of the results: the leaf of the operands that it shares memory with."""
    width = types.width(inputs[0]) if op.view == "first" else max(count, 1)
    return tuple([leaf % width for leaf in range(count)])


def _donations(op: Op, inputs: Sequence[Type], ws: Sequence[Type]) -> tuple[tuple[int, int], ...]:
    """By leaves, counted over all results and all operands."""
    pairs = [(i, i) for i in range(len(ws))] if op.inplace == "each" else list(dict(op.inplace).items())
    starts_w, starts_v = _starts(ws), _starts(inputs)
    found: list[tuple[int, int]] = []
    for w, v in pairs:
        if w < len(ws) and v < len(inputs):
            width = starts_w[w + 1] - starts_w[w]
            if width == starts_v[v + 1] - starts_v[v]:
                found += [(starts_w[w] + k, starts_v[v] + k) for k in range(width)]
    return tuple(found)


def _starts(values: Sequence[Type]) -> list[int]:
    starts = [0]
    for value in values:
        starts.append(starts[-1] + sum(1 for _ in types.leaves(value)))
    return starts
