"""Bodies: a function's statements with their costs and their use of memory, built once per distinct call.

A call means the same as its inlined body, in memory too. So a body depends on the arguments' types and devices, on
which arguments share memory, on whether the caller frees or donates that memory, and on which results it uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, cast

from distir.analysis import Instance, Replica
from distir.ir.deep import Deep, finish
from distir.ops.devices import renamed
from distir.simulate.algebra import clocks, usage
from distir.simulate.algebra.clocks import Clock, Clocks, Step, Summary, awaited, of_device, ready, rebind
from distir.simulate.algebra.lanes import synchronised
from distir.simulate.algebra.usage import Usage, Use
from distir.simulate.effects import DataFlow, Effect, Relocation
from distir.simulate.late import Late
from distir.simulate.leaves import Leaves
from distir.simulate.needs import Needs


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
    _outer_clocks: dict[int, dict[Clock, Clock]] = field(default_factory=dict[int, "dict[Clock, Clock]"], init=False)
    _made_outside: list[int] | None = field(default=None, init=False)
    _ended_outside: tuple[Collection[int], list[int]] | None = field(default=None, init=False)

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
        found = self.moves_alone
        if not self.streamed:
            return found
        found = found[:]
        for index, flow in self.flow.items():
            found[index] = synchronised(cast("Summary", found[index]), flow.awaited, flow.made)
        for index in self.arguments:
            step = self.steps[index]
            if isinstance(step, Body) and step.edge != CLOSED and step.events:
                found[index] = rebind(step.summary, self.outer_clocks(index))
        return found

    @cached_property
    def moves_alone(self) -> list[Step | None]:
        """The same without values that it waits for or makes; of calls as their callees number values."""
        found = self._alone(self.steps)
        known: dict[tuple[int, str], Step] = {}  # few are distinct
        for index, flow in self.flow.items():
            step = self.steps[index]
            key = id(step), flow.stream
            move = known.get(key)
            if move is None:
                move = known[key] = cast("Effect", step).move(flow.stream)
            found[index] = move
        return found

    def _alone(self, steps: Sequence[Effect | Body | None]) -> list[Step | None]:
        """The effects of steps on clocks, where these are synchronised by their devices and hosts alone."""
        moves: dict[int, Step | None] = {}
        for key, step in {id(step): step for step in steps}.items():
            if step is None or not events_of(step):
                moves[key] = None
            else:
                moves[key] = step.summary if isinstance(step, Body) else step.move()
        return [moves[id(step)] for step in steps]

    @cached_property
    def summaries(self) -> list[Step]:
        """By step that occupies devices: its effect on clocks."""
        return [move for move in self.moves if move is not None] if self.streamed else self.summaries_alone

    @cached_property
    def summaries_alone(self) -> list[Step]:
        """The same without values that it waits for or makes, of which few are distinct."""
        moves = self.moves_alone if self.streamed else self._alone(self.timed)
        return [move for move in moves if move is not None]

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

    def outside(self, index: int) -> dict[int, int]:
        """By storage of a callee that gets ready by a clock of its own: ours."""
        step = self.steps[index]
        assert isinstance(step, Body)
        ours, created = self.arguments[index], self.created[index]
        found = {s: ours[s] for s in step.edge.awaited}
        found.update([created[at] for at in step.made_outside(created)])
        return found

    def made_outside(self, created: Sequence[tuple[int, int]]) -> list[int]:
        """Of what a call of this body creates, the places of what gets ready by clocks of its own."""
        found = self._made_outside  # the same for each call, and on other devices
        if found is None and self.origin is not None:
            found = self._made_outside = self.origin[0].made_outside(created)
        elif found is None:
            made = frozenset(self.edge.made)
            found = self._made_outside = [at for at, (theirs, _) in enumerate(created) if theirs in made]
        return found

    def ended_outside(self, created: Sequence[tuple[int, int]]) -> tuple[Collection[int], list[int]]:
        """The parameters whose memory a call frees or passes on, and the places in what it creates of what is dead."""
        if self._ended_outside is None:
            released, inherited = self.passed_on
            alive = self.live_out | inherited.keys()
            dead = [at for at, (theirs, _) in enumerate(created) if theirs not in alive]
            self._ended_outside = {*released, *inherited.values()}, dead
        return self._ended_outside

    def outer_clocks(self, index: int) -> dict[Clock, Clock]:
        """By clock of a value that crosses the edge of a call: ours."""
        found = self._outer_clocks.get(index)
        if found is None:
            outside = self.outside(index).items()
            found = self._outer_clocks[index] = {ready(own): ready(ours) for own, ours in outside}
        return found

    def inside(self, index: int, clocks: Clocks) -> Clocks:
        """The clocks of a calling statement as the callee knows them."""
        step = self.steps[index]
        if not isinstance(step, Body) or step.edge == CLOSED:
            return clocks
        names = {ours: own for own, ours in self.outer_clocks(index).items()}
        return {names.get(clock, clock): moment for clock, moment in clocks.items()}

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
