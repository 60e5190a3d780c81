"""Bodies: a function's statements with their costs and their use of memory, built once per distinct call.

A call means the same as its inlined body, in memory too. So a body depends on the arguments' types and devices, on
which arguments share memory, on whether the caller frees or donates that memory, and on which results it uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate, compress
from typing import NamedTuple

from distir.analysis import Instance, Replica
from distir.diagnostics.codes import simulation as codes
from distir.ir.deep import Deep, finish
from distir.ir.roles import is_donated
from distir.ops import Reject
from distir.ops.devices import renamed
from distir.simulate.algebra import clocks, usage
from distir.simulate.algebra.clocks import Clock, Step, Summary, awaited, of_device, rebind
from distir.simulate.algebra.lanes import ready
from distir.simulate.algebra.usage import Usage, Use
from distir.simulate.effects import DataFlow, Effect, Relocation
from distir.simulate.late import Late
from distir.simulate.leaves import NO_STORAGE, Leaves
from distir.simulate.needs import Needs
from distir.simulate.storage import STATEMENTS_BETWEEN_PAUSES, Called, StorageMap, Storages, Unplanned


class Fate(Enum):
    """The fate of a parameter's memory after its last use in a body."""

    KEPT = "the caller still needs it"
    PINNED = "its value is dead, but it is not freed: parameters of the entry function"
    FREED = "it is freed"

    __hash__ = object.__hash__  # many are hashed: not by way of their names


FATES = (Fate.KEPT, Fate.FREED)
"""The fate of a value that is used again, and of one that is not."""

NOTHING: Leaves = ()


class Edge(NamedTuple):
    """The parameters and results of a body with ready times of their own, as they are used on several streams.

    `awaited`: storages of parameters; `behind`: of each, the streams that are behind its making as it comes, of those
    that use it; `made`: storages that are made here.
    """

    awaited: Leaves
    behind: tuple[tuple[str, ...], ...]
    made: Leaves


CLOSED = Edge((), (), ())

FEW = 4
"""Up to this many storages are counted one by one."""


@dataclass
class Body:
    """The statements of one function for one kind of call, in order."""

    instance: Instance
    parameters: list[tuple[int, int]]
    """Memory and bytes of the storages of the parameters."""
    steps: Sequence[Effect | Body | None]
    """By statement: an op's effect, a call's body; None for `return`."""
    sizes: Sequence[tuple[int, int]]
    """Memory and bytes of each of the body's storages."""
    taken: Sequence[Leaves]
    """By statement: the storages that an op takes as it starts. A call takes its own."""
    given: Sequence[Leaves]
    """By statement: the storages that are freed as the op ends."""
    moved: Mapping[int, tuple[tuple[int, int], ...]]
    """By statement, for few: storages that are donated another's memory, the new one and the old one."""
    arguments: Mapping[int, tuple[int, ...]]
    """By calling statement: our storage for each storage of the callee's parameters."""
    created: Mapping[int, tuple[tuple[int, int], ...]]
    """By calling statement: the callee's storages that become ours: theirs, ours."""
    live_out: frozenset[int]
    """The storages of ours that the caller wants."""
    pinned: frozenset[int]
    """The leaves returned, and after these what is left pending, that are in memory which must not be freed."""
    passed_on: tuple[frozenset[int], dict[int, int]] = (frozenset(), {})
    """The fate of the parameters' storages: those freed, and by storage of ours the one that was donated to it."""
    order: Mapping[int, Leaves] = field(default_factory=dict[int, Leaves])
    """By statement, for few: the storages that it makes, as the results come, where their numbers come otherwise."""
    flow: Mapping[int, DataFlow] = field(default_factory=dict[int, DataFlow])
    """By statement: how an op is synchronised where that does not follow from its devices alone."""
    edge: Edge = CLOSED
    origin: tuple[Body, Relocation] | None = None
    """The body that this one follows from, on other devices."""
    blocks: Body | None = None
    """The body of calls of its blocks, where its function is cut into some."""

    def alike(
        self,
        steps: Sequence[Effect | Body | None],
        sizes: Sequence[tuple[int, int]],
        parameters: list[tuple[int, int]],
    ) -> Body:
        """The same body with other seconds, bytes or devices: its steps, its storages, those of the parameters."""
        _ = self.streamed  # once, not of each size
        other = Body(
            self.instance,
            parameters,
            steps,
            sizes,
            self.taken,
            self.given,
            self.moved,
            self.arguments,
            self.created,
            self.live_out,
            self.pinned,
            self.passed_on,
            self.order,
            self.flow,
            self.edge,
        )
        same = {name: vars(self)[name] for name in ("events", "ops", "first_events", "streamed") if name in vars(self)}
        vars(other).update(same)  # what has been found of this body holds of the other too
        return other

    def relocated(self, there: Relocation, instance: Instance) -> Body:
        """The body of an instance that is as this one is, on other devices. What has been found is renamed."""
        found = self.alike(
            Late(lambda: self._relocated_steps(there)),
            Late(lambda: there.sizes(self.sizes)),
            there.sizes(self.parameters),
        )
        found.instance, found.origin = instance, (self, there)
        if "memory" in vars(self):
            vars(found)["memory"] = usage.rename(self.memory, there.memories)
        if "summary" in vars(self):
            vars(found)["summary"] = clocks.rename(self.summary, there.devices)
        return found

    def _relocated_steps(self, there: Relocation) -> list[Effect | Body | None]:
        """The steps of which few are distinct."""
        found: dict[int, Effect | Body | None] = {}
        for step in {id(step): step for step in self.steps}.values():
            if isinstance(step, Body):
                found[id(step)] = step.relocated(there, Replica.of(step.instance, renamed(there.devices)))
            else:
                found[id(step)] = step and there.effect(step)
        return [found[id(step)] for step in self.steps]

    @cached_property
    def timed(self) -> list[Effect | Body]:
        """The steps that occupy devices, and the calls that hold some."""
        return [s for s in self.steps if s is not None and (s.events if isinstance(s, Body) else s.devices)]

    @cached_property
    def moves(self) -> list[Step | None]:
        """By statement: its effect on clocks; None if it has none."""
        return [self._move(index, step) for index, step in enumerate(self.steps)]

    @cached_property
    def summaries(self) -> list[Step]:
        """The same of the steps that occupy devices."""
        if self.flow or self.streamed:
            return [move for move in self.moves if move is not None]
        return [step.summary if isinstance(step, Body) else step.move(None) for step in self.timed]

    @cached_property
    def summary(self) -> Summary:
        """The effect of a call of this body on the clocks of its devices."""
        return clocks.compose(self.summaries, self._inner)

    @cached_property
    def streamed(self) -> bool:
        """Whether values get ready by clocks of their own, here or in calls."""
        return bool(self.flow) or any(isinstance(step, Body) and step.edge != CLOSED for step in self.steps)

    @property
    def devices(self) -> tuple[int, ...]:
        """Those that ops occupy, in calls too."""
        found = self.summary.devices
        devices = tuple(clock for clock in found if isinstance(clock, int))
        if len(devices) == len(found):
            return devices
        return tuple(sorted({d for d in map(of_device, found) if d is not None}))

    @cached_property
    def clocks(self) -> list[Clock]:
        """All that statements wait for or move on."""
        return [*dict.fromkeys([clock for move in self.summaries for clock in move.devices])]

    @property
    def _inner(self) -> Collection[Clock]:
        """The clocks of values that no caller knows."""
        if not self.streamed:
            return ()
        outer = {ready(storage) for storage in (*self.edge.awaited, *self.edge.made)}
        return {lane for lane in awaited(self.clocks) if lane not in outer}

    def _move(self, index: int, step: Effect | Body | None) -> Step | None:
        if step is None or not events_of(step):
            return None
        if isinstance(step, Effect):
            return step.move(self.flow.get(index))
        return step.summary if step.edge == CLOSED else rebind(step.summary, self.outside(index))

    def outside(self, index: int) -> dict[int, int]:
        """By storage of a callee that gets ready by a clock of its own: ours."""
        step = self.steps[index]
        assert isinstance(step, Body)
        ours = self.arguments[index]
        made = dict(self.created[index])
        return {s: ours[s] for s in step.edge.awaited} | {s: made[s] for s in step.edge.made}

    @cached_property
    def events(self) -> int:
        """How many ops occupy devices, in calls too."""
        return sum(events_of(step) for step in self.steps)

    @cached_property
    def ops(self) -> int:
        """How many ops there are, in calls too."""
        return sum(s.ops if isinstance(s, Body) else s is not None for s in self.steps)

    @cached_property
    def first_events(self) -> list[int]:
        """By statement: how many events come before it in this body."""
        return [0, *accumulate(events_of(step) for step in self.steps)]

    def made(self, index: int) -> Sequence[int]:
        """The storages that an op makes, as its results come."""
        return self.order.get(index) or sorted([*self.taken[index], *(new for new, _ in self.moved.get(index, ()))])

    @cached_property
    def firsts(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each op, in calls too, before which nothing occupies any of them. One of these starts first.

        An op that starts as early as any can be followed back along its devices: what runs there before it starts no
        later.
        """
        return finish(_firsts(self))

    @cached_property
    def needs(self) -> Needs:
        """The groups of devices that communicate here, and in which types devices compute, in calls too."""
        return finish(_needs(self))

    @cached_property
    def memory(self) -> Use:
        """By memory: by how many bytes its use changes from start to end, and how far it rises in between."""
        return use_of_memory(self, 0, len(self.steps))

    @cached_property
    def uses(self) -> Sequence[Use]:
        """The same by statement. Most statements do what others do, each for another layer or microbatch."""
        sizes, known, found = [*self.sizes], dict[object, Use](), list[Use]()
        for step, taken, given in zip(self.steps, self.taken, self.given, strict=True):
            if isinstance(step, Body):
                found.append(step.memory)
                continue
            key = (id(step), tuple([sizes[s] for s in taken]), tuple([sizes[s] for s in given]))
            use = known.get(key)
            if use is None:
                use = known[key] = use_of_op(step, *key[1:])
            found.append(use)
        return found


def _firsts(body: Body) -> Deep[tuple[tuple[int, ...], ...]]:
    known = vars(body)  # where cached properties are kept
    if "firsts" not in known:
        seen: set[int] = set()
        found: list[tuple[int, ...]] = []
        for step in body.timed:
            devices = step.devices
            if not seen.issuperset(devices):
                groups = (yield _firsts(step)) if isinstance(step, Body) else (devices,)
                found += [group for group in groups if seen.isdisjoint(group)]
                seen.update(devices)
        known["firsts"] = tuple(found)
    return known["firsts"]


def _needs(body: Body) -> Deep[Needs]:
    known = vars(body)
    if "needs" not in known:
        if body.origin is not None:
            origin, there = body.origin
            known["needs"] = (yield _needs(origin)).relocated(there)
        elif body.blocks is not None:
            known["needs"] = yield _needs(body.blocks)
        else:
            steps: list[Effect | Needs] = []
            for step in {id(step): step for step in body.steps}.values():
                if step is not None:
                    steps.append((yield _needs(step)) if isinstance(step, Body) else step)
            known["needs"] = Needs.of(steps)
    return known["needs"]


def use_of_memory(body: Body, first: int, end: int) -> Use:
    """The same of some of the statements."""
    use, sizes, pieces = Usage(), body.sizes, slice(first, end)
    for step, taken, given in zip(body.steps[pieces], body.taken[pieces], body.given[pieces], strict=True):
        if isinstance(step, Body):
            use.block(step.memory)
        elif step is not None and (taken or given or step.temporary):
            use.op(_sized(taken, sizes), step.temporary, _sized(given, sizes))
    return use.total


def use_of_op(effect: Effect | None, taken: usage.Sized, given: usage.Sized) -> Use:
    """The use of memory by an op that takes some as it starts, and gives some back as it ends."""
    use = Usage()
    use.op(taken, () if effect is None else effect.temporary, given)
    return use.total


def _sized(storages: Leaves, sizes: Sequence[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Memory and bytes of storages; those of many together, for few are distinct."""
    found = [sizes[s] for s in storages]
    if len(found) <= FEW:
        return found
    return [(memory, size * count) for (memory, size), count in Counter(found).items()]


def events_of(step: Effect | Body | None) -> int:
    """How many events a step has: none if it occupies no device."""
    if isinstance(step, Body):
        return step.events
    return 1 if step is not None and step.devices else 0


def distinct(entry: Body) -> Iterator[Body]:
    """A body and all that it calls, each once, callees first."""
    seen = {id(entry)}
    way = [(entry, iter(entry.steps))]
    while way:
        body, rest = way[-1]
        inner = next((step for step in rest if isinstance(step, Body) and id(step) not in seen), None)
        if inner is None:
            way.pop()
            yield body
        else:
            seen.add(id(inner))
            way.append((inner, iter(inner.steps)))


def runs(entry: Body) -> list[tuple[Body, int]]:
    """A body and all that it calls, each with how often it runs in one run of the first; callers first."""
    times: Counter[int] = Counter({id(entry): 1})
    found: list[tuple[Body, int]] = []
    for body in reversed([*distinct(entry)]):
        found.append((body, times[id(body)]))
        for step in body.steps:
            if isinstance(step, Body):
                times[id(step)] += times[id(body)]
    return found


Key = tuple[int, tuple[Fate, ...], tuple[bool, ...], Edge]
"""The cache key of a body: storages by identity, the fate of its parameters' memory, the results used, and the values
with separate ready times."""


@dataclass(slots=True)
class Bodies:
    """Builds bodies, each once."""

    storages: StorageMap
    sized: bool = field(default=True, kw_only=True)
    """Whether the storages' sizes are bytes, so that the bodies' use of memory is wanted."""
    known: dict[Key, Body] = field(default_factory=dict["Key", Body])
    unequal: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]], kw_only=True)
    """Pairs of sizes: were they equal, a result would be donated memory that it is not."""

    def entry(self, instance: Instance) -> Body:
        """The body of a program's entry function: its parameters live throughout, its results to the end.

        Those that are `{donated}` live until their last use. Raises Unplanned for a kernel, which takes time where it
        is called, and for what cannot be simulated.
        """
        name = instance.function.name
        if instance.function.kernel:
            message = f"`@{name}` is a kernel: it is simulated where a function calls it"
            raise Unplanned(name, None, Reject(codes.KERNEL_ALONE, message, help="simulate a function that calls it"))
        found = self.storages.of(instance)
        returned = set(found.returned)
        donated = {s for p in instance.function.params if is_donated(p) for s in found.places[p.name]}

        def fate(storage: int) -> Fate:
            return Fate.KEPT if storage in returned else Fate.FREED if storage in donated else Fate.PINNED

        return finish(self._of(found, tuple(map(fate, range(found.parameters))), (True,) * len(found.returned)))

    def _of(
        self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...], edge: Edge = CLOSED
    ) -> Deep[Body]:
        key = (id(found), fates, wanted, edge)  # the storage map keeps `found`, so its id stays its own
        known = self.known.get(key)
        if known is not None:
            return known
        if found.replica is None:
            known = self.known[key] = yield from self.build(found, fates, wanted, edge)
        else:
            original, there = found.replica
            origin = yield self._of(original, fates, wanted, edge)
            known = self.known[key] = origin.relocated(there, found.instance)
        return known

    def build(self, found: Storages, fates: tuple[Fate, ...], wanted: tuple[bool, ...], edge: Edge) -> Deep[Body]:
        """The body for one kind of call; `wanted` says which results are."""
        return Builder(self, found, fates, wanted, edge).build()

    def called(self, called: Called, fates: tuple[Fate, ...], wanted: tuple[bool, ...], edge: Edge) -> Deep[Body]:
        """The body of a call."""
        body = yield self._of(called.callee, fates, wanted, edge)
        if self.sized:
            _ = body.summary  # now, callees first, as all that is found of bodies
        return body


class Builder:
    """Builds one body, statement by statement."""

    def __init__(
        self, bodies: Bodies, found: Storages, fates: Sequence[Fate], wanted: Sequence[bool], edge: Edge
    ) -> None:
        self.bodies = bodies
        self.found = found
        self.last = found.last_uses
        self.used = self.last
        """By storage: its last use, with no regard to ops on other streams that are pending."""
        if found.held.pendings:
            self.last, self.used = self.last[:], found.last_used
        self.fates = fates
        self.wanted = wanted
        self.live_out = {s for s, w in zip(found.returned, wanted, strict=True) if w and s >= found.parameters}
        self.pinned = {s for s, fate in enumerate(fates) if fate is Fate.PINNED}
        self.kept = {s for s, fate in enumerate(fates) if fate is Fate.KEPT}
        self.moved: dict[int, tuple[tuple[int, int], ...]] = {}
        self.arguments: dict[int, Leaves] = {}
        self.created: dict[int, tuple[tuple[int, int], ...]] = {}
        self.crossing = found.crossing.union(edge.made) if found.streamed or edge != CLOSED else frozenset[int]()
        """The storages made here that ops of other streams wait for."""
        self.edge = edge
        self.ready: dict[int, Set[str]] = dict(zip(edge.awaited, map(frozenset, edge.behind), strict=True))
        """The storages that are ready by a clock of their own so far, and the streams that need not wait for it.

        Those are the one that has made the value, and those on which an op that uses it has waited.
        """
        self.flow: dict[int, DataFlow] = {}

    def build(self) -> Deep[Body]:
        """The body, statement by statement."""
        done: list[tuple[Effect | Body | None, Leaves, Leaves]] = []
        for index in range(len(self.found.statements)):
            if not index % STATEMENTS_BETWEEN_PAUSES:
                self.bodies.storages.pause()
            done.append((yield from self.statement(index)))
        body = self.body([d[0] for d in done], [d[1] for d in done], [d[2] for d in done])
        _ = body.events, body.ops  # now, callees first: later a long chain of calls would be too deep
        if self.bodies.sized:
            _ = body.memory
        return body

    def statement(self, index: int) -> Deep[tuple[Effect | Body | None, Leaves, Leaves]]:
        """The effect of a statement, and the storages allocated at its start and freed at its end."""
        statement = self.found.statements[index]
        if isinstance(statement, Called):
            return (yield from self._call(index, statement)), NOTHING, NOTHING
        if statement is None:
            return None, NOTHING, NOTHING
        created = self.found.created[index]
        if self.found.streamed or self.ready or self.crossing:
            self._synchronise(index, statement)
        takes = created
        if statement.shares:
            pairs = zip(created, statement.shares, strict=True)
            takes = NOTHING if statement.view else tuple([s for s, shared in pairs if shared is None])
        gives = self._last_used(index)
        if (statement.donations or statement.reuses) and (gives or self.used is not self.last):
            takes, gives = self._take_over(index, statement, created, takes, gives)
        if NO_STORAGE in takes:
            takes = tuple([s for s in takes if s != NO_STORAGE])
        if self.pinned and gives:
            gives = tuple([s for s in gives if s not in self.pinned])
        return statement, takes, gives

    def body(self, steps: list[Effect | Body | None], taken: list[Leaves], given: list[Leaves]) -> Body:
        """The body that consists of what was found of its statements."""
        found = self.found
        pinned = frozenset(i for i, s in enumerate((*found.returned, *found.left)) if s in self.pinned)
        live_out = self.live_out
        if self.used is not self.last:
            live_out = live_out.union(
                s for s in range(found.parameters, len(found.sizes)) if self.last[s] == len(steps)
            )
        body = Body(
            found.instance,
            found.sizes[: found.parameters],
            steps,
            found.sizes,
            taken,
            given,
            self.moved,
            self.arguments,
            self.created,
            frozenset(live_out),
            pinned,
            flow=self.flow,
            edge=self.edge._replace(made=tuple([s for s in self.edge.made if s in self.ready])),
        )
        body.passed_on = self._passed_on(body)
        return body

    def _synchronise(self, index: int, effect: Effect) -> None:
        """Find what an op waits for beside its devices, and who waits for it."""
        if not effect.devices:
            return
        stream = self.found.streams.get(index, "")
        ready = self.ready
        waits = tuple([s for s in dict.fromkeys(self.found.operands[index]) if s in ready and stream not in ready[s]])
        ready.update([(s, ready[s] | {stream}) for s in waits])
        made = [s for s in self.found.created[index] if s in self.crossing and s not in self.ready]
        made = [s for s in made if s not in self.found.operands[index]]  # of a view, what is there already
        if stream or waits or made:
            self.flow[index] = DataFlow(stream, waits, tuple(made))
            ready.update(dict.fromkeys(made, frozenset((stream,))))

    def _last_used(self, index: int) -> Leaves:
        """The storages that are dead after an op, in the order in which it mentions them."""
        last = self.last
        last_used = [s for s in self.found.operands[index] if last[s] == index]
        last_used += [s for s in self.found.created[index] if last[s] == index]
        last_used += [s for s in self.found.held.waited.get(index, ()) if last[s] == index]
        if not last_used:
            return NOTHING
        live_out, kept = self.live_out, self.kept
        return tuple([s for s in dict.fromkeys(last_used) if s >= 0 and s not in live_out and s not in kept])

    def _passed_on(self, body: Body) -> tuple[frozenset[int], dict[int, int]]:
        """Follow each parameter's memory through those that take it over."""
        released: set[int] = set()
        inherited: dict[int, int] = {}
        ends: dict[int, tuple[Set[int], Mapping[int, int]]] = {}
        for parameter in range(self.found.parameters):
            held = parameter
            while (index := self.last[held]) >= 0:
                if index not in ends:
                    ends[index] = self._ends(body, index) if index < len(body.steps) else (set[int](), {})
                given, heirs = ends[index]
                if held in given:
                    released.add(parameter)
                    break
                if held not in heirs:
                    if held >= self.found.parameters:
                        inherited[held] = parameter
                    break
                held = heirs[held]
        return frozenset(released), inherited

    def _ends(self, body: Body, index: int) -> tuple[Set[int], Mapping[int, int]]:
        """The storages that a statement frees, and by donated storage the one that it becomes."""
        step = body.steps[index]
        if not isinstance(step, Body):
            return set(body.given[index]), {old: new for new, old in self.moved.get(index, ())}
        ours, (released, inherited) = self.arguments[index], step.passed_on
        heirs = {ours[inherited[theirs]]: mine for theirs, mine in self.created[index] if theirs in inherited}
        return {ours[parameter] for parameter in released}, heirs

    def _take_over(
        self, index: int, effect: Effect, created: Leaves, takes: Leaves, gives: Leaves
    ) -> tuple[Leaves, Leaves]:
        """Donate the memory of operands that die here to results; returns what is still allocated and freed."""
        moved: dict[int, int] = {}
        operands, sizes = self.found.operands[index], self.found.sizes
        free = set(gives)
        if self.used is not self.last:
            free = {s for s in operands if s >= 0 and self._is_free(s, index)}
        owned = [(w, v) for w, v in effect.reuses if operands[v] not in self.pinned] if effect.reuses else []
        for w, v in (*effect.donations, *owned):
            old, new = operands[v], created[w]
            if old not in free or new == NO_STORAGE or new in moved:
                continue
            if sizes[old] != sizes[new]:
                (here, was), (there, will_be) = sizes[old], sizes[new]
                if here == there:
                    self.bodies.unequal.add((was, will_be))
                continue
            moved[new] = old
            free.discard(old)
            if self.used is not self.last:
                self.last[old] = index  # whatever is pending now uses what it became
            if old in self.pinned:
                self.pinned.add(new)
        if not moved:
            return takes, gives
        self.moved[index] = tuple(moved.items())
        gone = set(moved.values())
        return tuple([s for s in takes if s not in moved]), tuple([s for s in gives if s not in gone])

    def _is_free(self, storage: int, index: int) -> bool:
        """Whether nothing needs a storage after a statement, but for ops that this one leaves pending."""
        if self.used[storage] != index or storage in self.live_out or storage in self.kept:
            return False
        return self.last[storage] == index or not self.found.held.others(storage, index)

    def _call(self, index: int, called: Called) -> Deep[Body]:
        callee = called.callee
        fates = self._fates(index, called.arguments)
        # By leaf of the results; `NO_STORAGE` is the last entry, which nothing uses.
        wanted = tuple(map(index.__lt__, map(self.used.__getitem__, called.results)))
        if not self.live_out.isdisjoint(called.results):
            wanted = tuple([w or s in self.live_out for w, s in zip(wanted, called.results, strict=True)])
        created = tuple(zip(callee.made, self.found.created[index], strict=True)) + called.left
        edge = CLOSED
        if self.ready or self.crossing:
            edge = self._edge(called, created)
        body = yield from self.bodies.called(called, fates, wanted, edge)
        self.arguments[index] = called.arguments
        self.created[index] = created
        if body.edge != CLOSED:
            made = body.edge.made
            self.ready.update((ours, callee.behind(theirs)) for theirs, ours in created if theirs in made)
        for i in body.pinned:
            self.pinned.add((*called.results, *(ours for _, ours in called.left))[i])
        if self.used is not self.last:
            self._taken_over(index, body)
        return body

    def _fates(self, index: int, arguments: Leaves) -> tuple[Fate, ...]:
        """The fates of the arguments of a call, of which there are many."""
        ends = [*map(index.__eq__, map(self.last.__getitem__, arguments))]  # used here, and then no more
        if self.used is not self.last:
            ends = [last or self._is_free(storage, index) for last, storage in zip(ends, arguments, strict=True)]
        dead = {*compress(arguments, ends)}
        if dead.isdisjoint(self.live_out) and dead.isdisjoint(self.kept) and dead.isdisjoint(self.pinned):
            return tuple(map(FATES.__getitem__, ends))
        alive = self.live_out | self.kept
        return tuple(
            Fate.KEPT if not last or s in alive else Fate.PINNED if s in self.pinned else Fate.FREED
            for last, s in zip(ends, arguments, strict=True)
        )

    def _edge(self, called: Called, created: Iterable[tuple[int, int]]) -> Edge:
        """How values that get ready by clocks of their own come into a call, and leave it."""
        awaited: dict[int, tuple[str, ...]] = {}
        used_on = called.callee.used_on
        for parameter, storage in enumerate(called.arguments):
            behind, streams = self.ready.get(storage), used_on.get(parameter)
            if behind is not None and streams is not None and not streams <= behind:
                awaited[parameter] = tuple(sorted(streams & behind))
                self.ready[storage] = behind | streams
        made = tuple([theirs for theirs, ours in created if ours in self.crossing])
        return Edge(tuple(awaited), tuple(awaited.values()), made)

    def _taken_over(self, index: int, body: Body) -> None:
        """Storages whose memory has been freed in a call, or become that of others, although pending ops used them."""
        released, inherited = body.passed_on
        for parameter in {*released, *inherited.values()}:
            self.last[self.arguments[index][parameter]] = index
        for theirs, ours in self.created[index]:
            if theirs not in body.live_out and theirs not in inherited:
                self.last[ours] = index
