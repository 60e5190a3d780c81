"""Partitions functions over the devices of one mesh axis, once for each function and states of its arguments.

A function without communication stays one function that is called for each device. Any other becomes a function that is
called for all devices at once. The ops' layouts determine the collectives (see `decide`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from distir.analysis import Analysis
from distir.analysis.provenance import with_parameters_named
from distir.ir import Apply, Arg, Call, Function, Module, Param, Return, Statement, Type, types
from distir.ir.deep import Deep, finish
from distir.ir.rewrite import mapped
from distir.ops import Value, type_of
from distir.placement.along import State, is_host
from distir.placement.part_types import kept_names, open_part_of, part_of
from distir.transform.sharding.batch import Places
from distir.transform.sharding.body import Callee, ShardedBody
from distir.transform.sharding.buckets import bucketed
from distir.transform.sharding.closures import Closures, Findings
from distir.transform.sharding.items import Each, Expansion, alike, at_rank
from distir.transform.sharding.mesh import Mesh
from distir.transform.sharding.sums import names_devices

SUMS = frozenset({"MPIAllreduce", "MPIReduceScatter", "GroupAllreduce", "GroupReduceScatter"})

Key = tuple[str, tuple[Value, ...], tuple[State, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry function for all devices, and the states of its parameters and results."""

    function: Function
    params: tuple[State, ...]
    results: tuple[State, ...]
    result_values: tuple[Value, ...]
    constrained: Mapping[str, tuple[str, ...]]
    """By constrained value: its names on the devices."""


@dataclass(frozen=True, slots=True)
class Written:
    """A function for given states of its arguments. Its names are local: other functions may have the same ones."""

    callee: Callee
    functions: tuple[tuple[str, Function], ...]
    """The function after all its callees, each with its preferred name."""
    sums: int
    """The number of sums over the devices in a call."""
    spread: int
    """The number of sums that were spread."""


NONE: Final[Mapping[str, State]] = {}

_WRITTEN: Final[Findings[Hashable, Written]] = Findings()
"""A cache of all programs: those of a search share most of their functions."""


@dataclass
class Partition:
    """One run over one module. `functions` are those written so far, callees before callers.

    `tokens` says by function where the batch is, if sums are to be spread over the devices along other dimensions.
    """

    analysis: Analysis
    mesh: Mesh
    tokens: Mapping[str, Places] | None = None
    spread: int = 0
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    closures: Closures = field(init=False)
    findings: Findings[Hashable, Written] = field(init=False)
    """Cached results about functions."""
    _done: dict[Key, Callee] = field(default_factory=dict[Key, Callee])
    _moved: dict[tuple[Type, int], Type] = field(default_factory=dict[tuple[Type, int], Type])
    """By type and rank: the type on the device of that rank."""
    _hints: dict[str, str] = field(default_factory=dict[str, str])
    """By name of a function: its preferred name."""

    def __post_init__(self) -> None:
        self.closures = Closures(self.analysis.module)
        self.findings = _WRITTEN if self.tokens is None else Findings()  # batch dimensions depend on the program

    @property
    def cut_sends(self) -> bool:
        """Whether sends are in parts."""
        return self.mesh.cut_sends

    @property
    def is_staged(self) -> bool:
        """Whether stages become differently many devices."""
        return False

    @property
    def module(self) -> Module:
        """The module that is partitioned."""
        return self.analysis.module

    def callee(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[Callee]:
        """The partitioned callee for arguments in these states."""
        key = (name, tuple(vs), tuple(states))
        known = self._done.get(key)
        if known is None:
            known = self._done[key] = self._taken((yield self._written(*key)))
        return known

    def sums(self, name: str, vs: Sequence[Value], states: Sequence[State]) -> Deep[int]:
        """The number of sums over the devices in a call with arguments in these states."""
        return (yield self._written(name, tuple(vs), tuple(states))).sums

    def entry(
        self,
        function: Function,
        states: Sequence[State],
        bucket_bytes: int = 0,
        results: Sequence[State | None] = (),
        constraints: Mapping[str, State] | None = None,
    ) -> Entry:
        """The entry function for all devices; its results are whole or split.

        `results`: stated states of results; `constraints`: stated states of values, by name.
        """
        vs = tuple(p.type for p in function.params)
        body = finish(self._body(function, vs, states, constraints or {}))
        pairs = zip(function.returned, results or [None] * len(function.returned), strict=True)
        returned = tuple(body.result(arg, state) for arg, state in pairs)
        if bucket_bytes:
            body.items[:] = bucketed(body, bucket_bytes)
        params = tuple(
            replace(p, type=part_of(p.type, s, self.mesh.of(p.type).size))
            for p, s in zip(function.params, states, strict=True)
        )
        written, expansion = self._expanded(function.name, params, body, returned)
        copies = {p.name: own[0] for p in function.params if (own := expansion.own(p.name))}
        self.functions |= {name: with_parameters_named(callee, copies) for name, callee in self.functions.items()}
        self.functions[written.name] = written
        return Entry(
            written,
            tuple(states),
            tuple(body.state(arg) for arg in returned),
            tuple(body.value(arg) for arg in function.returned),
            {name: expansion.names(str(body.settled(name))) for name in body.constraints},
        )

    def _body(
        self,
        function: Function,
        vs: tuple[Value, ...],
        states: Sequence[State],
        constraints: Mapping[str, State] = NONE,
    ) -> Deep[ShardedBody]:
        instance = self.analysis.domain.instance(function.name, vs)
        body = ShardedBody(self, self.analysis.domain, self.mesh, function, instance, states, constraints)
        yield from body.run()
        return body

    def _written(self, name: str, vs: tuple[Value, ...], states: tuple[State, ...]) -> Deep[Written]:
        """A function for arguments in these states, with all that it calls, found once."""
        closure = self.closures.of(name)
        place = self.analysis.domain.replicas.key(name, vs)
        key = (closure, vs if place is None else place[0], states, closure.split_by(self.mesh))
        known = self.findings.get(key)
        if known is None:
            inner = Partition(self.analysis, self.mesh, self.tokens)
            inner.closures, inner.findings, inner._moved = self.closures, self.findings, self._moved
            callee = yield from inner._function(name, vs, states)
            functions = tuple((inner._hints[f.name], f) for f in inner.functions.values())
            sums = _sums(inner.functions, callee.name) if callee.joint else 0
            known = self.findings.put(key, Written(callee, functions, sums, inner.spread))
        return known

    def _taken(self, written: Written) -> Callee:
        """Add cached functions to this run, under free names."""
        names: dict[str, str] = {}
        for hint, function in written.functions:
            calling = mapped(function, partial(_calling, names))

            def named(name: str, calling: Function = calling) -> Function:
                return calling if name == calling.name else replace(calling, name=name)

            names[function.name] = self._named(hint, named)
        self.spread += written.spread
        return replace(written.callee, name=names[written.callee.name])

    def _function(self, name: str, vs: tuple[Value, ...], states: tuple[State, ...]) -> Deep[Callee]:
        function = self.module.functions[name]
        body = yield from self._body(function, vs, states)
        placed = names_devices(function)
        returned = tuple(map(body.kept, function.returned))
        given = tuple(map(body.state, returned))
        stated = [p.type for p in function.params]
        if body.concrete:
            stated = [types.substitute(t, body.instance.dims) for t in stated]
        kept = kept_names(zip(stated, states, strict=True))
        params = tuple(
            replace(p, type=open_part_of(t, s, self.mesh.of(type_of(v)).size, kept))
            for p, t, s, v in zip(function.params, stated, states, vs, strict=True)
        )
        single = tuple(is_host(body.value(arg)) for arg in function.returned)
        if alike(body.items) and not placed and not body.owns:
            own = [item.statement for item in body.items if isinstance(item, Each)]
            statements = (*own, Return(function.returned))
            results = [type_of(body.value(arg)) for arg in returned]
            result_types = None if body.concrete else self._result_types(function, results, given, kept)
            written = self._named(
                name, lambda n: Function(n, params, statements, result_types, function.kernel, function.facts)
            )
            return Callee(written, False, given, single, body.concrete)
        written = self._named(name, lambda n: self._expanded(n, params, body, returned)[0])
        return Callee(written, True, given, single, body.concrete)

    def _result_types(
        self, function: Function, results: Sequence[Type], given: Sequence[State], kept: frozenset[str]
    ) -> tuple[Type, ...] | None:
        if function.result_types is None:
            return None
        stated = zip(function.result_types, given, results, strict=True)
        return tuple(open_part_of(t, s, self.mesh.of(of).size, kept) for t, s, of in stated)

    def _expanded(
        self, name: str, params: Sequence[Param], body: ShardedBody, returned: Sequence[Arg]
    ) -> tuple[Function, Expansion]:
        """The function with every parameter and result once for each device, and the names of its values."""
        single = {p.name for p in params if is_host(p.type)} | body.single
        expansion = self._expansion(body, single)
        written: list[Param] = []
        for param in params:
            for rank, own in zip(expansion.ranks(param.name), expansion.own(param.name), strict=False):
                held = self.mesh.held(param.type, body.state(param.name), rank) if body.owns else param.type
                written.append(Param(own, self._placed(held, rank, param.name in single), param.roles))
        self._write(body, expansion)
        statements: tuple[Statement, ...] = (*expansion.body, Return(expansion.all(returned)))
        return Function(name, tuple(written), statements, facts=body.function.facts), expansion

    def _expansion(self, body: ShardedBody, single: set[str]) -> Expansion:
        """What writes the items of a body."""
        return Expansion(self.mesh, single, body.names.taken)

    def _write(self, body: ShardedBody, expansion: Expansion) -> None:
        """Write the items of a body."""
        for item in body.items:
            expansion.write(item)

    def _placed(self, type: Type, rank: int, single: bool) -> Type:
        if single:
            return type
        known = self._moved.get((type, rank))
        if known is None:
            known = self._moved[type, rank] = at_rank(type, self.mesh, rank)
        return known

    def _named(self, name: str, make: Callable[[str], Function]) -> str:
        """Add a function under its own name, with a number if that is taken."""
        number, chosen = 0, name
        while (made := make(chosen)) != self.functions.get(chosen, made) or (
            number and chosen in self.module.functions
        ):
            number += 1
            chosen = f"{name}_{number}"
        self.functions[chosen] = made
        self._hints[chosen] = name
        return chosen


def _calling(names: Mapping[str, str], statement: Statement) -> Statement:
    """A statement with callees renamed."""
    if not isinstance(statement, Call) or names[statement.function] == statement.function:
        return statement
    return replace(statement, function=names[statement.function])


def _sums(functions: Mapping[str, Function], name: str) -> int:
    """The number of sums over the devices in a function and its callees."""
    known: dict[str, int] = {}
    for function in functions.values():  # callees before callers
        known[function.name] = sum(
            known[s.function] if isinstance(s, Call) else isinstance(s, Apply) and s.op in SUMS for s in function.body
        )
    return known[name]
