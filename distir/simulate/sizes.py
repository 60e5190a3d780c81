"""One program at many sizes of its named dimensions: planned once with symbolic sizes, costed for each binding.

What does not depend on sizes (the storages, when they are freed, which calls are equal up to devices) is found once,
with bytes and seconds symbolic: a *pattern*. For a binding, each distinct op is costed, once for all devices of the
same kind, and the effects of each distinct body are composed. Where the pattern might not hold (an op whose shape rule
gives another result, a donation that is possible because two sizes happen to be equal), the program is simulated from
nothing.

Types are inferred with symbolic sizes, and the binding must make all dimensions whole numbers. A type rule that would
refuse particular numbers for another reason is not applied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from distir.analysis import Analysis
from distir.cost import Hardware
from distir.diagnostics import ProgramError
from distir.ir import (
    HOST,
    AnyType,
    Apply,
    Constant,
    Dense,
    Dim,
    DimensionError,
    Function,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir import dims as dimensions
from distir.ir.collection import paused_collection
from distir.ops import Reject, Value, type_of
from distir.ops.infer import ADDRESSABLE
from distir.simulate.algebra.usage import Use, compose
from distir.simulate.bodies import Bodies
from distir.simulate.body import Body, use_of_op
from distir.simulate.effects import Effect, Effects, Launched, Relocation
from distir.simulate.late import Late
from distir.simulate.simulation import Bind, BindError, Simulation, arguments, place, plan
from distir.simulate.storage import StorageMap, Unplanned
from distir.simulate.streams import check_streams

Sizes = Mapping[str, int]


class _Differs(Exception):  # noqa: N818 - a verdict on sizes, not a failure
    """The pattern does not hold for these sizes."""


class Sweep:
    """Simulates the entry function of a checked module on one machine, for many bindings."""

    def __init__(self, analysis: Analysis, entry: Function, machine: Hardware) -> None:
        self.analysis = analysis
        self.entry = entry
        self.machine = machine
        self._patterns: dict[tuple[tuple[str, Constant], ...], _Pattern | None] = {}

    def at(self, bind: Bind) -> Simulation:
        """As `simulate` with this binding. Raises ProgramError and BindError as it does."""
        with paused_collection():
            known = self._costed(bind)
        return known if known is not None else self.once(bind)

    def once(self, bind: Bind) -> Simulation:
        """The same for a single binding: nothing is cached for others. Raises as `at` does."""
        instance = self.analysis.instance(self.entry, arguments(self.entry, bind))
        return plan(self.analysis.module, self.analysis.domain, instance, self.machine)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*map(types.dim_names, {p.type for p in self.entry.params}))

    def _costed(self, bind: Bind) -> Simulation | None:
        """By the pattern; None where it does not hold."""
        sizes = {name: value for name, value in bind.items() if name in self._names and isinstance(value, int)}
        if sizes.keys() != self._names or min(sizes.values(), default=1) < 1:
            return None
        values = tuple(sorted((name, value) for name, value in bind.items() if name not in sizes))
        try:
            if values not in self._patterns:
                self._patterns[values] = None  # for good, should it fail
                self._patterns[values] = _Pattern(self, dict(values), sizes)
            pattern = self._patterns[values]
            return pattern.at(sizes) if pattern is not None else None
        except (_Differs, BindError, DimensionError, ProgramError, Reject, Unplanned):
            return None


@dataclass
class _OpenEffects(Effects):
    """Effects whose bytes are numbers of sizes, in `sizes`. `probe` are sizes to see with what an op does at all."""

    probe: Sizes = field(kw_only=True)
    sizes: dict[Dim, int] = field(default_factory=dict[Dim, int])
    groups: dict[Any, list[_Found]] = field(default_factory=dict[Any, "list[_Found]"])
    """The ops found, those together that differ only in devices of the same kinds and links."""

    def __post_init__(self) -> None:
        self.closed = Effects(self.domain, self.hardware, self.place)

    def _size(self, leaf: TensorType | AnyType) -> tuple[int, int] | None:
        if leaf.device == HOST:
            return None
        size = leaf.nbytes if isinstance(leaf, TensorType) and leaf.device is not None else None
        if size is None or leaf.device is None:
            raise _Differs
        return self.memory_of(leaf), self.sizes.setdefault(size, len(self.sizes))

    def effect(self, op: Apply | Launched, vs: Sequence[Value], ws: Sequence[Type]) -> Effect:
        kin, devices = self.kin(op, vs, ws)
        group = self.groups.get(kin)
        if group is not None:
            there = self.between(group[0].devices, devices)
            effect = there.effect(group[0].effect)
            group.append(_Found(effect, op, tuple(vs), tuple(ws), devices, there))
            return effect
        closed = _at(vs, self.probe), _at(ws, self.probe)
        probed = self.closed.effect(op, closed[0], [type_of(w) for w in closed[1]])
        effect = probed.sized(tuple([self.size(leaf) for w in ws for leaf in types.leaves(w)]))
        open_sizes = closed != (tuple(vs), tuple(ws))
        self.groups[kin] = [_Found(effect, op, tuple(vs), tuple(ws), devices, None, probed, open_sizes)]
        return effect


@dataclass(frozen=True, slots=True)
class _Found:
    """An op of the pattern, with its operands and the types of its results, sizes open."""

    effect: Effect
    op: Apply | Launched
    vs: tuple[Value, ...]
    ws: tuple[Type, ...]
    devices: tuple[int, ...]
    """Those of its operands and results."""
    there: Relocation | None = None
    """From the devices of the first of a group."""
    probed: Effect | None = None
    """Of the first of a group: the effect for the sizes to see with."""
    open_sizes: bool = True
    """Whether it may be another one for other sizes."""


class _Pattern:
    def __init__(self, sweep: Sweep, values: Bind, probe: Sizes) -> None:
        analysis = sweep.analysis
        self.module, self.machine = analysis.module, sweep.machine  # and no more of the sweep: it keeps this
        names = frozenset(probe)
        self.instance = (
            analysis.instance(sweep.entry, arguments(sweep.entry, values, names))
            if values or sweep.entry.name not in analysis.domain.own
            else analysis.domain.own[sweep.entry.name]  # for the types that its parameters state
        )
        places = place(analysis.domain, self.instance, sweep.machine)
        self.effects = _OpenEffects(analysis.domain, sweep.machine, places, probe=probe)
        storages = StorageMap(analysis.domain, self.effects)
        bodies = Bodies(storages, sized=False)
        self.entry = bodies.entry(self.instance)
        check_streams(self.entry, self.effects)
        self.bodies = [  # callees first, and those that others follow from
            _Shape.of(body) if body.origin is None else _Replica(body, *body.origin) for body in bodies.known.values()
        ]
        reached = {id(known.instance): known.instance for known in storages.known.values()}
        named = [v for instance in reached.values() for v in instance.state.values()]
        self.groups = list(self.effects.groups.values())
        self.dims = _open_dims([*named, *(w for group in self.groups for w in group[0].ws)])  # `_` has a type too
        self.unequal = bodies.unequal

    def at(self, sizes: Sizes) -> Simulation:
        """Raises _Differs or DimensionError where the pattern does not hold."""
        for dim in self.dims:
            dimensions.substitute(dim, sizes)
        nbytes = [_known(dimensions.substitute(size, sizes)) for size in self.effects.sizes]
        if any(nbytes[a] == nbytes[b] for a, b in self.unequal):
            raise _Differs
        steps: dict[int, Effect | Body] = {}
        for group in self.groups:
            self._cost(group, sizes, nbytes, steps)
        for shape in self.bodies:
            steps[id(shape.body)] = made = shape.at(steps, nbytes)
            if shape.body is not self.entry:
                _ = made.summary  # callees first: later a long chain of calls would be too deep
        body = steps[id(self.entry)]
        assert isinstance(body, Body)
        return Simulation(self.module, self.instance, self.machine, body, self.effects.closed)

    def _cost(self, group: Sequence[_Found], sizes: Sizes, nbytes: Sequence[int], steps: dict[int, Any]) -> None:
        """Cost the ops of a group, which differ in their devices only."""
        first, effects = group[0], self.effects
        if first.probed is not None and (sizes == effects.probe or not first.open_sizes):
            made = first.probed
        elif not first.effect.devices:  # it is a view, or of the host, and costs nothing
            sized = [None if size is None else (size[0], nbytes[size[1]]) for size in first.effect.sizes]
            made = first.effect.sized(tuple(sized))
        else:
            ws = [types.substitute(w, sizes) for w in first.ws]
            made = effects.closed.effect(first.op, _at(first.vs, sizes), ws)
        if not _have_one_structure(made, first.effect):
            raise _Differs
        for member in group:
            steps[id(member.effect)] = made if member.there is None else member.there.effect(made)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A body of the pattern. `turns`: by statement, what moves memory, as a call or by the number of `kinds`."""

    body: Body
    turns: list[int | Body]
    sizes: list[tuple[int, int]]
    """The memories and the numbers of the sizes of its storages, each once."""
    kinds: list[tuple[Effect | None, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]]
    """An op (None: `return`), the memories and the numbers of the sizes that it takes as it starts, and gives back."""

    @classmethod
    def of(cls, body: Body) -> _Shape:
        kinds: dict[Any, int] = {}
        turns: list[int | Body] = []
        sizes = body.sizes
        for step, taken, given in zip(body.steps, body.taken, body.given, strict=True):
            if isinstance(step, Body):
                turns.append(step)
            else:
                kind = (step, tuple([sizes[s] for s in taken]), tuple([sizes[s] for s in given]))
                turns.append(kinds.setdefault(kind, len(kinds)))
        return cls(body, turns, [*dict.fromkeys(sizes)], list(kinds))

    def at(self, steps: Mapping[int, Any], nbytes: Sequence[int]) -> Body:
        """The body for certain sizes: `steps` are its effects and bodies, by those of the pattern."""
        body = self.body
        pairs = {pair: (pair[0], nbytes[pair[1]]) for pair in self.sizes}
        parameters = [pairs[pair] for pair in body.parameters]
        made = body.alike(
            [None if step is None else steps[id(step)] for step in body.steps],
            Late(lambda: [pairs[pair] for pair in body.sizes]),
            parameters,
        )
        known = [
            use_of_op(
                None if effect is None else steps[id(effect)],
                [(memory, nbytes[size]) for memory, size in taken],
                [(memory, nbytes[size]) for memory, size in given],
            )
            for effect, taken, given in self.kinds
        ]
        uses: list[Use] = [known[turn] if isinstance(turn, int) else steps[id(turn)].memory for turn in self.turns]
        vars(made).update(uses=uses, memory=compose(uses))
        return made


@dataclass(frozen=True, slots=True)
class _Replica:
    """A body of the pattern that follows from another one."""

    body: Body
    origin: Body
    there: Relocation

    def at(self, steps: Mapping[int, Effect | Body], nbytes: Sequence[int]) -> Body:
        """The body for certain sizes."""
        origin = steps[id(self.origin)]
        assert isinstance(origin, Body)
        return origin.relocated(self.there, self.body.instance)


def _open_dims(values: Iterable[Value]) -> set[Dim]:
    """The dimensions that have no size yet."""
    leaves = {leaf for t in {type_of(v) for v in values if v is not None} for leaf in types.leaves(t)}
    shapes = [leaf.shape for leaf in leaves if isinstance(leaf, TensorType)]
    return {dim for shape in shapes for dim in shape or () if isinstance(dim, dimensions.SymbolicDim)}


def _known(size: Dim) -> int:
    if not isinstance(size, int) or size >= ADDRESSABLE:
        raise _Differs
    return size


def _at(vs: Sequence[Value], sizes: Sizes) -> tuple[Value, ...]:
    """Values with named dimensions replaced. Raises DimensionError."""
    return tuple([_value_at(v, sizes) for v in vs])


def _value_at(v: Value, sizes: Sizes) -> Value:
    match v:
        case TensorType() | TupleType():
            return types.substitute(v, sizes)
        case Dense(dtype, shape, values) if v.symbolic:
            known = [dimensions.substitute(x, sizes) if isinstance(x, dimensions.SymbolicDim) else x for x in values]
            return Dense(dtype, shape, tuple(_integer(x) for x in known))
        case tuple():
            return _at(v, sizes)
        case _:
            return v


def _integer(value: Any) -> Any:
    if value is None:
        raise _Differs
    return value


def _have_one_structure(a: Effect, b: Effect) -> bool:
    """Whether two effects are alike in all that a pattern is made of."""
    return (
        a.devices == b.devices
        and a.widths == b.widths
        and a.shares == b.shares
        and a.donations == b.donations
        and a.reuses == b.reuses
        and [size is None for size in a.sizes] == [size is None for size in b.sizes]
    )
