"""Alternates layers of two microbatches: one computes while collectives of the other run.

Independent of the collectives and of their streams' names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest

from distir.analysis import Instance, State
from distir.cost import show_seconds
from distir.diagnostics import ProgramError
from distir.ir import (
    DISCARD,
    NO_FACTS,
    Apply,
    Arg,
    Call,
    Dim,
    Facts,
    Function,
    Module,
    Param,
    Return,
    Statement,
    dims,
    operands,
    results,
    types,
)
from distir.ir import names as names_of
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.calls import callees, callees_first
from distir.ir.dataflow import definitions
from distir.ir.rewrite import claiming, facts_of, shared, stated_with, substituted, with_names
from distir.ops import OPS, Value, type_of
from distir.simulate import BindError
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.inline import inline
from distir.transform.instances import first_instances, states_of_calls
from distir.transform.mesh.on_machine import simulated
from distir.transform.orphans import without_orphans
from distir.transform.overlap.kinds import Machine, Overlapped
from distir.transform.overlap.side_by_side import side_by_side

BEFORE_LAYERS = (None, "allgather", "allreduce", "reducescatter")
"""The ops on which a call that moves earlier may depend: no messages, whose time another device determines."""

FARTHEST = 64
"""How many later calls of layers are considered as partners."""


def taking_turns(
    module: Module, machine: Machine, layers: Mapping[str, Function], stream: str, done: str, of: str
) -> Overlapped:
    """The module with calls of `layers` of two microbatches joined, where the simulation is faster.

    A layer's turn ends after each of its devices issues a statement on the `stream`. `done` and `of` are words of the
    report: what is on the stream already, and what alternates.
    """
    plain = module.replacing(*layers.values())
    turns = [_Turns(plain, layers, stream, alike) for alike in (False, True)]
    found = [made for each in turns if (made := each.written()) and each.count]
    if not found:
        return Overlapped(
            plain, done, ("no two microbatches take turns: in no function do two run on the same devices",)
        )
    try:
        least, *times = (simulated(each, machine.hardware, bind=machine.bind).latency_s for each in (plain, *found))
    except (ProgramError, BindError) as error:
        why = error.diagnostics[0].message if isinstance(error, ProgramError) else str(error)
        return Overlapped(plain, done, (f"no microbatches take turns: what that gains is not known: {why}",))
    best = min(times)
    if best >= least:
        more = show_seconds(best - least)
        return Overlapped(plain, done, (f"no microbatches take turns: that takes {more} more",))
    return Overlapped(found[times.index(best)], f"{done}, {of} of two microbatches in turns")


@dataclass
class _Turns:
    """Joins calls with later, independent ones on the same devices.

    `layers` communicate on the `stream`; the functions that call them are joined for those inside.
    """

    module: Module
    layers: Mapping[str, Function]
    stream: str
    alike: bool = False
    """Whether a pass is joined with another one of the same direction, not with the opposite one."""
    count: int = 0
    states: Mapping[str, State] = field(default_factory=dict[str, State])
    joined: dict[tuple[str, str, Facts, Facts], Function] = field(
        default_factory=dict[tuple[str, str, Facts, Facts], Function]
    )

    def __post_init__(self) -> None:
        self.backward: dict[str, bool] = {}
        """By function that communicates on this stream, directly or in callees: whether it is of a backward pass."""
        for function in callees_first(self.module):
            called = [name for name in callees(function) if name in self.backward]
            if function.name in self.layers or called:
                own = function.facts.phase in ("backward", "weight")  # of the joined calls
                self.backward[function.name] = any(map(self.backward.get, called)) if called else own

    def written(self) -> Module:
        """The module with joined calls, and the functions that these call.

        If the passes in a round depend on each other, as a forward and a backward pass of one microbatch do, rounds are
        inlined, so that a pass can be joined with one of the next round.
        """
        entry = entry_of(self.module)
        analysis = checked(self.module)
        self.states, self.names = states_of_calls(analysis, entry), namer(self.module)
        changed: list[Function] = []
        rounds: list[str] = []
        for instance in first_instances(analysis, entry):
            function = instance.function
            calls = [s for s in function.body if isinstance(s, Call)] if function.name not in self.layers else []
            if sum(s.function in self.backward for s in calls) > 1:
                made = replace(function, body=tuple(self._body(function, instance, function.facts)))
                changed.append(made)
                directions = {self.backward[s.function] for s in calls if s.function in self.backward}
                if function.name != entry.name and len(made.body) == len(function.body) and len(directions) > 1:
                    rounds.append(function.name)
        if rounds:
            self.joined.clear()
            self.count, self.module = 0, inline(self.module, tuple(rounds))
            return self.written()
        return without_orphans(self.module, (*self.joined.values(), *self.module.replacing(*changed)))

    def _body(self, function: Function, instance: Instance | None, around: Facts = NO_FACTS) -> Iterator[Statement]:
        body, waiting = function.body, _Waiting(function, self.backward)
        for at, statement in enumerate(body):
            if not waiting.takes(at):
                continue
            partner = self._partner(at, statement, waiting, instance) if isinstance(statement, Call) else None
            if not isinstance(statement, Call) or partner is None:
                yield statement
                continue
            other, before = partner
            for place in sorted(before):
                waiting.takes(place)
                yield body[place]
            waiting.takes(other)
            call = body[other]
            assert isinstance(call, Call)
            name, facts = self._joint(statement, call, around)
            yield Call((*statement.results, *call.results), name, (*statement.args, *call.args), facts=facts)

    def _partner(
        self, at: int, call: Call, waiting: _Waiting, instance: Instance | None
    ) -> tuple[int, Collection[int]] | None:
        """A later call that can run beside the one at a place, and the statements that must come before it.

        `instance`: that of their caller; None if the caller is joined from two, whose calls are on the same devices.
        """
        if call.function not in self.backward:
            return None
        own = {name for name in call.results if name != DISCARD}
        for place, other in waiting.later_calls(at):
            if instance is not None:
                same_direction = self.backward[call.function] == self.backward[other.function]
                if same_direction != self.alike or waiting.devices(at, instance) != waiting.devices(place, instance):
                    continue
            before = waiting.light_ancestors(other, own)
            if before is not None:
                return place, before
        return None

    def _joint(self, statement: Call, call: Call, around: Facts) -> tuple[str, Facts]:
        """The function that alternates the functions of two calls, and the facts of its call.

        `around`: facts of what calls them. Microbatches and layers of both count on from those of the call.
        """
        one, other = statement.function, call.function
        (first, second), (facts,) = shared([[statement.facts, call.facts]])
        own = self._stated(one, first, around), self._stated(other, second, around)
        key = (one, other, *own)
        if key not in self.joined:
            made = in_turns(self.names.fresh(f"{one}.{other}"), self._layer(one), self._layer(other), own)
            if not (one in self.layers and other in self.layers):
                made = replace(made, body=tuple(self._body(made, None)))
            else:
                self.count += 1
            self.joined[key] = made
        return self.joined[key].name, facts

    def _layer(self, name: str) -> _Layer:
        return _Layer.of(self.module.functions[name], self.states[name], self.stream)

    def _stated(self, function: str, said: Facts, around: Facts) -> Facts:
        """The facts of all that a joint of two functions runs of one: with the phase of what calls it."""
        known = self.module.functions.get(function)  # a joined one states those of its statements
        found = said if known is None else known.facts.within(said)
        return replace(found, phase=found.within(around).phase)


class _Waiting:
    """The statements of a body by place, of which those that run earlier than they stand are taken."""

    def __init__(self, function: Function, layers: Container[str]) -> None:
        self.body = function.body
        self.calls = [at for at, s in enumerate(self.body) if isinstance(s, Call) and s.function in layers]
        self.made = definitions(function)
        self.taken: set[int] = set()
        self._devices: dict[int, frozenset[int]] = {}

    def devices(self, at: int, instance: Instance) -> frozenset[int]:
        """The devices of the operands of the statement at a place. `instance`: that of the body."""
        if at not in self._devices:
            found = (types.devices(type_of(instance.state[name])) for name in names_of(operands(self.body[at])))
            self._devices[at] = frozenset[int]().union(*found)
        return self._devices[at]

    def takes(self, at: int) -> bool:
        """Takes the statement at a place; False if it is taken already."""
        if at in self.taken:
            return False
        self.taken.add(at)
        return True

    def later_calls(self, at: int) -> Iterator[tuple[int, Call]]:
        """The next calls of layers behind a place that still wait, and their places."""
        behind = (self.calls[i] for i in range(bisect_right(self.calls, at), len(self.calls)))
        for place in islice((place for place in behind if place not in self.taken), FARTHEST):
            call = self.body[place]
            assert isinstance(call, Call)
            yield place, call

    def light_ancestors(self, call: Call, forbidden: set[str]) -> Collection[int] | None:
        """The places of the statements that still wait on which a call depends.

        None if it depends on `forbidden` values, or on calls and messages.
        """
        found: dict[int, None] = {}
        names = [*names_of(call.args)]
        for name in names:  # grows while it is walked
            if name in forbidden:
                return None
            at = self.made.get(name)
            if at is None or at in found or at in self.taken:
                continue
            statement = self.body[at]
            if not isinstance(statement, Apply) or OPS[statement.op].communication not in BEFORE_LAYERS:
                return None
            found[at] = None
            names += names_of(operands(statement))
        return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """A function, and its body without the `return` in turns."""

    function: Function
    turns: Sequence[Sequence[Statement]]

    @classmethod
    def of(cls, function: Function, values: Mapping[str, Value], stream: str) -> _Layer:
        """A turn ends after statements on the stream that its devices issue side by side. `values`: by name."""
        turns: list[list[Statement]] = [[]]
        for together in side_by_side(values, function.body[:-1], stream, apart=True):
            turns[-1] += together
            if isinstance(together[0], Apply) and together[0].stream == stream:
                turns.append([])
        return cls(function, turns)


def in_turns(name: str, one: _Layer, other: _Layer, stated: tuple[Facts, Facts]) -> Function:
    """A function that alternates two functions. `stated`: the facts of all statements of each."""
    taken = FunctionBuilder(name)
    params: list[Param] = []
    turns: list[list[list[Statement]]] = []
    returned: list[Arg] = []
    for layer, facts in zip((one, _apart(other, one.function)), stated, strict=True):
        function, names = layer.function, dict[str, str]()
        names.update((p.name, taken.fresh(p.name)) for p in function.params)
        names.update((n, taken.fresh(n)) for s in function.body for n in results(s) if n != DISCARD)
        params += [replace(p, name=names[p.name]) for p in function.params]
        returned += substituted(function.returned, names)
        turns.append([[with_names(_within(s, facts), names) for s in turn] for turn in layer.turns])
    body = [s for each in zip_longest(*turns, fillvalue=()) for turn in each for s in turn]
    return Function(name, tuple(params), (*body, Return(tuple(returned))))


def _within(statement: Statement, facts: Facts) -> Statement:
    return stated_with(statement, facts_of(statement).within(facts)) if facts else statement


def _apart(layer: _Layer, other: Function) -> _Layer:
    """The layer with dimensions renamed that another function also names."""
    function = layer.function
    names = [frozenset[str]().union(*(types.dim_names(p.type) for p in f.params)) for f in (function, other)]
    taken, found = names[0] | names[1], dict[str, Dim]()
    for name in sorted(names[0] & names[1]):
        free = f"{name}_2"
        while free in taken:
            free += "_2"
        taken |= {free}
        found[name] = dims.named(free)
    if not found:
        return layer
    params = tuple(replace(p, type=types.substitute(p.type, found)) for p in function.params)
    turns = [[claiming(s, lambda stated: types.substitute(stated, found)) for s in turn] for turn in layer.turns]
    return _Layer(replace(function, params=params), turns)
