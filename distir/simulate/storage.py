"""The storages of values. A *storage* is a piece of one memory.

Ops create one for each leaf of their results; views share those of their operands; host values have none. A call
means the same as its inlined body, so only ops use storages, in callees too; a call or a `return` does not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress, count, zip_longest
from operator import itemgetter
from typing import Any

from distir.analysis import Checker, Instance, Replica
from distir.ir import Apply, Broken, Call, Return, types
from distir.ir.deep import Deep, finish
from distir.ops import Reject, type_of
from distir.ops.devices import Devices, devices_of
from distir.simulate.effects import Effect, Effects, Relocation, hosts_memory, relocation
from distir.simulate.held import NOTHING_GIVEN, Given, LeftPending, PendingOps, Sender
from distir.simulate.kernels import Kernel
from distir.simulate.leaves import NO_STORAGE, Leaves, canonical, leaves_of, name_results
from distir.simulate.stream_use import COMPUTES, NO_STREAMS, StreamUse

STATEMENTS_BETWEEN_PAUSES = 1_000


def go_on() -> None:
    """A pause in which nothing happens."""


class Unplanned(Exception):  # noqa: N818 - a verdict on a program, not a failure of ours
    """A statement cannot be simulated: which, and why."""

    def __init__(self, function: str, index: int | None, reject: Reject) -> None:
        super().__init__(reject.message)
        self.function, self.index, self.reject = function, index, reject


@dataclass(slots=True)
class Called:
    """A call in a body: the callee's storages, and what they are in the caller."""

    callee: Storages
    arguments: Leaves
    """Ours for each storage of the callee's parameters."""
    results: Leaves
    """Ours for each leaf that the callee returns."""
    left: tuple[tuple[int, int], ...] = ()
    """Storages that the callee makes and does not return, but that ops which it leaves pending use: its, and ours."""


@dataclass
class Storages:
    """The storages of one instance of a function, numbered; those of its parameters come first."""

    instance: Instance
    parameters: int
    sizes: list[tuple[int, int]]
    """Memory and bytes of each storage."""
    statements: list[Effect | Called | None] = field(default_factory=list[Effect | Called | None])
    """The effect of each statement."""
    operands: list[Leaves] = field(default_factory=list[Leaves])
    """By statement: the leaves of its operands."""
    created: list[Leaves] = field(default_factory=list[Leaves])
    """By statement: the leaves of an op's results (`NO_STORAGE` for host values); of a call, the new storages."""
    returned: Leaves = ()
    places: dict[str, Leaves] = field(default_factory=dict[str, Leaves])
    """By name: the leaves of a value."""
    callees: dict[int, Storages] = field(default_factory=dict[int, "Storages"])
    """Those of its calls, by identity."""
    viewed: set[int] = field(default_factory=set[int])
    """Storages of which a value may be a part, or a repetition: their sizes do not follow from types."""
    held: PendingOps = field(default_factory=PendingOps)
    streams: StreamUse = field(default_factory=StreamUse)
    replica: tuple[Storages, Relocation] | None = None
    """Those that these follow from, on other devices; then `statements` are those of the other instance."""

    def relocated(self, there: Relocation, instance: Instance) -> Storages:
        """The storages of an instance that is as this one is, on other devices."""
        found = replace(self, instance=instance, sizes=there.sizes(self.sizes), replica=(self, there))
        same = ("last_uses", "last_used", "lent", "widths", "uses", "made")
        vars(found).update({name: getattr(self, name) for name in same})
        if self.held.pendings:
            vars(found)["left_pending"] = self.left_pending
        return found

    @property
    def origin(self) -> Storages:
        """The storages that these follow from, on other devices, or these."""
        found = self
        while found.replica is not None:
            found = found.replica[0]
        return found

    @cached_property
    def last_uses(self) -> array[int]:
        """By storage: the statement that uses it last, or waits last for an op that is pending and uses it.

        The number of statements, where none here waits; the statement which creates it if none uses it; -1 for unused
        parameters. One entry too many at the end, where `NO_STORAGE` points to.
        """
        if not self.held.pendings:
            return self.last_used
        last = self.last_used[:]
        for storage, until in self.held.until(len(self.statements)).items():
            if until > last[storage]:
                last[storage] = until
        return last

    @cached_property
    def last_used(self) -> array[int]:
        """The same, with no regard to pending ops."""
        last = [NO_STORAGE] * (len(self.sizes) + 1)
        for index, statement in enumerate(self.statements):
            for storage in self.created[index]:
                last[storage] = index
            if isinstance(statement, Called):
                for storage in compress(statement.arguments, statement.callee.uses):
                    last[storage] = index
            elif statement is not None:
                for storage in self.operands[index]:
                    last[storage] = index
        last[NO_STORAGE] = NO_STORAGE
        return array("q", last)

    @cached_property
    def lent(self) -> Mapping[int, Sequence[int]]:
        """By statement: the storages that are used there last, but for ops that it leaves pending."""
        held, used, last, end = self.held, self.last_used, self.last_uses, len(self.statements)
        users = [(p.since, p.uses, held.settled.get(number, end)) for number, p in enumerate(held.pendings)]
        kept = {s for since, uses, until in users for s in uses if since < used[s] < until}
        found: dict[int, list[int]] = {}
        for storage in {s for _, uses, _ in users for s in uses} - kept:
            if last[storage] != used[storage]:
                found.setdefault(used[storage], []).append(storage)
        return found

    @cached_property
    def left(self) -> Leaves:
        """The storages made here, and not returned, that ops use which nothing here waits for."""
        uses = [s for number in self.held.left for s in self.held.pendings[number].uses]
        returned = set(self.returned)
        return tuple([s for s in dict.fromkeys(uses) if s >= self.parameters and s not in returned])

    @cached_property
    def sends(self) -> Set[Sender]:
        """The devices and streams from which ops are put that make nothing there, here or in calls."""
        if self.replica is None:
            return self.held.sends
        origin, there = self.replica
        return {(there.memories[memory], stream) for memory, stream in origin.sends}

    @cached_property
    def users_of_parameters(self) -> Mapping[int, Set[str]]:
        """By storage of the parameters: the streams on which ops use it and occupy a device, in calls too."""
        used: list[Iterable[int]] = [()]
        for index, (statement, operands) in enumerate(zip(self.statements, self.operands, strict=True)):
            if isinstance(statement, Called):
                used.append(statement.callee.origin.parameters_computed(statement.arguments))
            elif statement is not None and statement.devices and index not in self.streams.named:
                used.append(operands)
        computed = {*range(self.parameters)}.intersection(chain.from_iterable(used))
        found = dict.fromkeys(computed, COMPUTES)
        for stream, parameters in self.parameters_used.items():
            found.update([(at, found.get(at, NO_STREAMS) | {stream}) for at in parameters])
        return found

    @cached_property
    def parameters_computed(self) -> Take:
        """From the storages of a call's arguments, those of the parameters that ops on the compute stream use."""
        computed = [parameter for parameter, streams in self.users_of_parameters.items() if "" in streams]
        return tuple if len(computed) == self.parameters else taking(sorted(computed))

    @cached_property
    def streams_of_parameters(self) -> Set[str]:
        """All of these streams."""
        return frozenset[str]().union(*self.users_of_parameters.values())

    @cached_property
    def parameters_used(self) -> dict[str, list[int]]:
        """By named stream: the storages of parameters that ops on it use."""
        found = {stream: [s for s in used if 0 <= s < self.parameters] for stream, used in self.streams.used.items()}
        return {stream: parameters for stream, parameters in found.items() if parameters}

    @cached_property
    def results_made(self) -> dict[str, list[int]]:
        """By named stream: the places, among what a call makes, of what ops on it make."""
        return self._places(self.streams.made)

    @cached_property
    def results_used(self) -> dict[str, list[int]]:
        """By stream: the places of what ops on it use, see `StreamUse.used`."""
        return self._places(self.streams.used)

    def _places(self, storages: Mapping[str, Set[int]]) -> dict[str, list[int]]:
        place = dict(zip(self.made, count()))
        known = {stream: found & place.keys() for stream, found in storages.items()}
        return {stream: [place[s] for s in found] for stream, found in known.items() if found}

    @cached_property
    def behind(self) -> Mapping[int, Set[str]]:
        """By storage made and returned that has to do with named streams: those that have made it, or waited for it."""
        places = {*chain.from_iterable([*self.results_made.values(), *self.results_used.values()])}
        return {self.made[at]: self.streams.behind(self.made[at]) for at in places}

    @cached_property
    def made_on_streams(self) -> Leaves:
        """The storages made here, or in a call, and returned, that ops on named streams make."""
        return tuple([self.made[at] for at in chain.from_iterable(self.results_made.values())])

    @cached_property
    def widths(self) -> list[int]:
        """How many leaves each result has."""
        return [types.width(type_of(w)) for w in self.instance.returned]

    @cached_property
    def uses(self) -> tuple[bool, ...]:
        """By storage of the parameters: whether ops use it, here or in calls, with no regard to pending ops."""
        return tuple(map((0).__le__, self.last_used[: self.parameters]))

    @cached_property
    def made(self) -> Leaves:
        """The storages made here or in calls, and returned, in the order of the results."""
        return tuple([s for s in dict.fromkeys(self.returned) if s >= self.parameters])

    @cached_property
    def places_outside(self) -> dict[int, int]:
        """By storage that a caller knows: its place among the arguments of a call, what it creates, and NO_STORAGE."""
        found = dict(zip(range(self.parameters), count()))
        found.update(zip(self.made, count(self.parameters)))
        found[NO_STORAGE] = len(found)
        return found

    @cached_property
    def take_results(self) -> Take:
        """From these, the leaves that a call returns."""
        return taking([self.places_outside[storage] for storage in self.returned])

    @cached_property
    def viewed_outside(self) -> list[int]:
        """The places of what is viewed."""
        return [at for storage, at in self.places_outside.items() if storage in self.viewed]

    @cached_property
    def left_pending(self) -> LeftPending:
        """The pending ops that a call settles of those it is given, and those that it leaves, by places as above.

        The storages that it leaves (`left`) come after those.
        """
        places = dict(self.places_outside)
        places.update(zip(self.left, count(len(places))))
        return self.held.after(places)

    @cached_property
    def made_sizes(self) -> list[tuple[int, int]]:
        """Their memories and bytes."""
        return [self.sizes[s] for s in self.made]


Take = Callable[[Leaves], Leaves]
"""Gives some of the storages that it is given."""


def taking(numbers: Sequence[int]) -> Take:
    """Gives the storages at these places."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda storages: tuple([storages[number] for number in numbers])


Sizes = tuple[tuple[int, int], ...]
"""Memory and bytes of storages."""

Key = tuple[int, Leaves, Sizes | None, Given]
"""An instance by its identity, which leaves of its parameters share memory, their sizes if types do not say, and what
is pending when it is called."""


@dataclass
class StorageMap:
    """Finds the storages of instances, each once."""

    domain: Checker
    effects: Effects
    known: dict[Key, Storages] = field(default_factory=dict[Key, Storages])
    alike: dict[Any, tuple[Storages, Devices, Leaves]] = field(
        default_factory=dict[Any, "tuple[Storages, Devices, Leaves]"], kw_only=True
    )
    """By what instances on other devices share with one: its storages, its devices and their memories."""
    pause: Callable[[], None] = field(default=go_on, kw_only=True)
    """Called now and then while something is built; may raise to give up."""

    def of(self, instance: Instance, partition: Leaves | None = None) -> Storages:
        """The storages of an instance. `partition`: those of its parameters' leaves, where some are the same.

        Raises Unplanned where an op's effect cannot be determined.
        """
        return finish(self.found(instance, partition))

    def found(
        self,
        instance: Instance,
        partition: Leaves | None = None,
        given: Sizes | None = None,
        pending: Given = NOTHING_GIVEN,
    ) -> Deep[Storages]:
        """The same, for who waits for it. `given`: the sizes of the parameters' storages, if types do not say."""
        if partition is None:
            sizes = self.sizes(instance)
            partition = canonical([NO_STORAGE if size is None else i for i, size in enumerate(sizes)])
        key = (id(instance), partition, given, pending)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = yield from self._found(key, instance, partition)
        return known

    def _found(self, key: Key, instance: Instance, partition: Leaves) -> Deep[Storages]:
        """Those that are not known yet: as on other devices, or else by the statements."""
        _, _, given, pending = key
        is_plain = given is None and pending is NOTHING_GIVEN
        replica = instance.replica
        is_alone = is_plain or len(self.effects.place) == 1  # there are no other devices
        if replica is None and (is_alone or self.domain.replicas.names_devices(instance.function.name)):
            return (yield from self.fresh(key, instance, partition))
        devices = devices_of(instance.args) if replica is None else replica.renaming.after
        memories = {self.effects.memory(device): number for number, device in enumerate(devices)}

        def place(memory: int) -> int:
            return (
                hosts_memory(place(hosts_memory(memory))) if memory < 0 else memories.setdefault(memory, len(memories))
            )

        def relative(sizes: Sizes) -> Sizes:
            return tuple([(place(memory), nbytes) for memory, nbytes in sizes])

        origin = instance if replica is None else replica.origin
        shape = self.effects.shape(devices, self.effects.represented)
        sizes = None if given is None else relative(given)
        kin = id(origin), partition, sizes, pending._replace(hidden=relative(pending.hidden)), shape
        like = self.alike.get(kin)
        if like is None and replica is not None and is_plain:
            like = yield from self._origin(replica, partition, shape)
        if like is None:
            found = yield from self.fresh(key, instance, partition)
            self.alike[kin] = found, devices, tuple(memories)
            return found
        self.alike[kin] = like
        return like[0].relocated(relocation(*like[1:], devices, tuple(memories)), instance)

    def _origin(
        self, replica: Replica, partition: Leaves, shape: object
    ) -> Deep[tuple[Storages, Devices, Leaves] | None]:
        """Those of the instance that a replica follows; None where the machine tells its devices apart."""
        devices = replica.renaming.before
        if any(device not in self.effects.place for device in devices):
            return None
        if self.effects.shape(devices, self.effects.represented) != shape:
            return None
        try:
            found = yield self.found(replica.origin, partition)
        except Unplanned:  # it names a device
            return None
        return found, devices, tuple(map(self.effects.memory, devices))

    def fresh(self, key: Key, instance: Instance, partition: Leaves) -> Deep[Storages]:
        """The storages of an instance that are not known yet."""
        own: list[tuple[int, int]] = []
        for storage, size in zip(partition, self.sizes(instance), strict=True):
            if storage == len(own) and size is not None:  # numbered in the order of appearance
                own.append(size)
        _, _, given, pending = key
        sizes = own if given is None else [*given]
        sizes += pending.hidden
        known = Storages(instance, len(sizes), sizes, held=PendingOps.of(pending, sizes))
        known.viewed.update(range(len(own)) if given is not None else ())
        yield from self._fill(known, partition)
        _ = known.last_uses  # now, callees first: later each would wait for those of its callees
        if self.has_streams:
            _ = [callee.origin.parameters_computed for callee in known.callees.values()]  # likewise
        return known

    @cached_property
    def has_streams(self) -> bool:
        """Whether a statement of the program names one."""
        return any(facts.streams for facts in self.domain.structure.names.values())

    def called(self, caller: Instance, call: Call) -> Instance:
        """The body of a call."""
        return self.domain.instance(call.function, caller.state(call.args))

    def sizes(self, instance: Instance) -> list[tuple[int, int] | None]:
        """The memory and the bytes of each leaf of the arguments; None of host values. Raises Unplanned."""
        leaves = [leaf for arg in instance.args for leaf in types.leaves(type_of(arg))]
        try:
            return [self.effects.size(leaf) for leaf in leaves]
        except Reject as reject:
            raise Unplanned(instance.function.name, None, reject) from None

    def _fill(self, found: Storages, partition: Leaves) -> Deep[None]:
        function, rho = found.instance.function, found.instance.state
        places, aside = found.places, found.held.aside
        position = 0
        for param, value in zip(function.params, found.instance.args, strict=True):
            width = types.width(type_of(value))
            places[param.name] = partition[position : position + width]
            position += width
        for index, statement in enumerate(function.body):
            if not index % STATEMENTS_BETWEEN_PAUSES:
                self.pause()
            operands = leaves_of(statement.args, places) if not isinstance(statement, Broken) else ()
            done: Effect | Called | None = None
            created: Leaves = ()
            if isinstance(statement, Apply) or (isinstance(statement, Call) and self._is_kernel(statement)):
                op = statement if isinstance(statement, Apply) else self._kernel(statement, operands)
                try:
                    done = self.effects.of(op, rho)
                except Reject as reject:
                    raise Unplanned(function.name, index, reject) from None
                first = len(found.sizes)
                created = create(found, done, operands)
                if statement.stream or not aside.isdisjoint(operands):
                    _beside(found, index, statement.stream, done, operands, created, first)
                if done.shares:
                    found.viewed.update(_viewed(found, done, created))
                name_results(statement.results, created, done.widths, places)
            elif isinstance(statement, Call):
                done, created = yield from self._call(found, statement, operands)
                name_results(statement.results, done.results, done.callee.widths, places)
            elif isinstance(statement, Return):
                found.returned = operands
            found.statements.append(done)
            found.operands.append(operands)
            found.created.append(created)

    def _is_kernel(self, call: Call) -> bool:
        """Whether a call is one op to its device; a block of statements has no name in the module."""
        function = self.domain.module.functions.get(call.function)
        return function is not None and function.kernel

    def _kernel(self, call: Call, operands: Leaves) -> Kernel:
        return Kernel(self.domain.module.functions[call.function], call.args, canonical(operands))

    def _call(self, found: Storages, call: Call, operands: Leaves) -> Deep[tuple[Called, Leaves]]:
        """The call, and the storages that it creates."""
        given = operands if NO_STORAGE not in operands else [s for s in operands if s != NO_STORAGE]
        ordered = dict.fromkeys(given)
        arguments = tuple(ordered)
        is_viewed = bool(found.viewed) and not found.viewed.isdisjoint(arguments)
        sizes = tuple([found.sizes[s] for s in arguments]) if is_viewed else None
        instance, shared = self.called(found.instance, call), canonical(operands)
        pending, numbers, hidden = found.held.give(ordered)
        callee: Storages = yield self.found(instance, shared, sizes, pending)
        if sent := found.held.sent_before(callee.sends):
            pending, numbers, hidden = found.held.give(ordered, sent)
            callee = yield self.found(instance, shared, sizes, pending)
        found.held.sends |= callee.sends
        arguments += hidden
        found.callees[id(callee)] = callee
        returned = callee.returned
        new = callee.made
        created = tuple(range(len(found.sizes), len(found.sizes) + len(new)))
        found.sizes += callee.made_sizes
        if callee.viewed:
            seen = (*arguments, *created, NO_STORAGE)
            found.viewed.update([seen[at] for at in callee.viewed_outside])
        left: tuple[tuple[int, int], ...] = ()
        if callee.held.pendings:
            left = tuple(zip(callee.left, range(len(found.sizes), len(found.sizes) + len(callee.left)), strict=True))
            found.sizes += [callee.sizes[theirs] for theirs in callee.left]
            after, ours = callee.left_pending, ()
            if after.left or after.depends:
                ours = (*arguments, *created, NO_STORAGE, *[ours for _, ours in left])
            found.held.called(len(found.statements), after, numbers, ours)
        if self.has_streams:
            _used_in_call(found, callee.origin, ordered, arguments, created)
        results = created if new == returned else callee.take_results((*arguments, *created, NO_STORAGE))
        return Called(callee, arguments, results, left), created


def _viewed(found: Storages, effect: Effect, created: Leaves) -> Iterator[int]:
    """The storages of which a view is of another size."""
    for size, shared, storage in zip(effect.sizes, effect.shares, created, strict=True):
        if shared is not None and storage != NO_STORAGE and found.sizes[storage] != size:
            yield storage


def _beside(
    found: Storages, index: int, stream: str, effect: Effect, operands: Leaves, created: Leaves, first: int
) -> None:
    """An op on a named stream, or one that uses what such ops make. Its own storages are numbered from `first` on."""
    new, held, streams = [s for s in created if s >= first], found.held, found.streams
    if not effect.devices:
        held.derive(operands, new)
    elif stream:
        held.start(index, stream, operands, new)
        streams.use(index, operands, stream)
    else:
        held.settle(index, operands)
        streams.use(index, streams.fresh.intersection(operands), "")
    if stream:
        streams.named[index] = stream
        streams.make(new, stream)
        held.aside.update(new)


def _used_in_call(
    found: Storages, callee: Storages, given: Mapping[int, object], arguments: Leaves, created: Leaves
) -> None:
    """On which streams a call uses what it is given, and on which it makes what it gives. `given`: the arguments."""
    streams, index = found.streams, len(found.statements)
    users = callee.users_of_parameters
    fresh = streams.fresh & given.keys()  # few
    streams.use(index, [s for s in fresh if "" in users.get(arguments.index(s), NO_STREAMS)], "")
    if not callee.streams.anywhere:
        return
    streams.anywhere = True
    for stream, parameters in callee.parameters_used.items():
        streams.use(index, [arguments[parameter] for parameter in parameters], stream)
    for stream, places in callee.results_made.items():
        made = [created[at] for at in places]
        streams.make(made, stream)
        found.held.aside.update(made)
    for stream, places in callee.results_used.items():
        used = [created[at] for at in places]
        streams.used[stream].update(used)
        if not stream:
            streams.fresh.difference_update(used)


def own_of(effect: Effect, created: Leaves) -> Leaves:
    """Of the leaves of an op's results those with memory of their own; `NO_STORAGE` is that of host values."""
    if not effect.shares:
        return created
    return tuple([s for s, shared in zip(created, effect.shares, strict=True) if shared is None])


def create(found: Storages, effect: Effect, operands: Leaves) -> Leaves:
    """The storages of an op's results, by leaf: those that it makes, and those of operands that it shares."""
    if effect.view:
        return tuple([operands[leaf] for leaf in effect.shares if leaf is not None])
    sizes = found.sizes
    known = [size for size in effect.sizes if size is not None]
    if len(known) == len(effect.sizes) and not effect.shares:
        first = len(sizes)
        sizes += known
        return tuple(range(first, first + len(known)))
    leaves: list[int] = []
    for size, shared in zip_longest(effect.sizes, effect.shares):
        if shared is not None:
            leaves.append(operands[shared])
        elif size is None:
            leaves.append(NO_STORAGE)
        else:
            leaves.append(len(sizes))
            sizes.append(size)
    return tuple(leaves)
