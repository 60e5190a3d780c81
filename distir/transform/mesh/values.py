"""The values of a function that is written on a mesh: where their parts are, and the statements that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Union

from distir.analysis import Instance
from distir.analysis.placement_states import erased
from distir.analysis.placement_states import state as state_along
from distir.analysis.placing import placed
from distir.analysis.stated_places import parts_along
from distir.ir import (
    DISCARD,
    DTYPES,
    NO_FACTS,
    Apply,
    Arg,
    Call,
    DType,
    Function,
    Literal,
    Meshes,
    PendingAlong,
    Places,
    SplitAlong,
    Statement,
    TensorType,
    TupleType,
    Type,
)
from distir.ir import Mesh as Axes
from distir.ir import names as names_of
from distir.ir.builder import namer
from distir.ir.dataflow import uses
from distir.ops import Value, type_of
from distir.placement.along import State, loosened, of_item

Loose = Union[frozenset[str], "tuple[Loose, ...]"]
"""The axes along which a value is split only to be stored so: an op that could be split otherwise gathers it.

Of a tuple, those of each item, unless all have the same.
"""

FIXED: frozenset[str] = frozenset()


def loose_axes(loose: Loose) -> frozenset[str]:
    """The axes along which a value, or an item of it, is split only to be stored so."""
    return FIXED.union(*map(loose_axes, loose)) if isinstance(loose, tuple) else loose


def loose_items(loose: Loose, count: int) -> tuple[Loose, ...]:
    """The same of each of so many items."""
    return loose if isinstance(loose, tuple) else (loose,) * count


def loose_tuple(items: Iterable[Loose]) -> Loose:
    """The same of a tuple of items; of tuples among them each item's."""
    found = tuple(items)
    alike = len({*found}) < 2 and not any(isinstance(item, tuple) for item in found)
    return FIXED.union(*map(loose_axes, found)) if alike else found


def loose_where(given: Mapping[str, State], holds: Callable[[State], bool]) -> Loose:
    """The axes along which something holds for the placement of a value, by axis; of a tuple, those of each item."""
    count = next((len(s) for s in given.values() if isinstance(s, tuple)), None)
    if count is not None:
        items = ({axis: of_item(s, k) for axis, s in given.items()} for k in range(count))
        return loose_tuple(loose_where(item, holds) for item in items)
    return frozenset(axis for axis, s in given.items() if holds(s))


class PlacedValues:
    """The names of a function in progress.

    `instance`: what is known of its values in the sequential program. `phase`: that in which the function is called.
    `made`: by op and operands, its results, of all functions. `owners`: the axes along which devices have experts.
    """

    def __init__(
        self,
        function: Function,
        instance: Instance,
        axes: Axes,
        made: dict[object, tuple[Value, ...]],
        phase: str = "",
        owners: tuple[str, ...] = (),
    ) -> None:
        self.function, self.instance, self.axes, self.names = function, instance, axes, namer(function)
        self._made, self._called_in, self.owners = made, phase, owners
        self.written: list[Statement] = []
        self.around = NO_FACTS
        """The facts of collectives for the present statement."""
        self.settled_as: dict[str, str] = {}
        """By pending sum: what it was first brought to."""
        self._values: dict[str, Value] = {}
        self._loose: dict[str, Loose] = {}

    def value(self, arg: Arg) -> Value:
        """A value of the whole program, with where its parts are."""
        if isinstance(arg, str):
            return self._values[arg] if arg else None
        return arg if isinstance(arg, Literal) else tuple(map(self.value, arg))

    def loose(self, arg: Arg) -> Loose:
        """The axes along which a value is split only to be stored so."""
        return self._loose.get(arg, FIXED) if isinstance(arg, str) else FIXED

    @property
    def phase(self) -> str:
        """The phase of the present statement; where it states none, that in which the function is called."""
        return self.around.phase or self._called_in

    def settled(self, arg: Arg) -> Arg:
        """An argument, with pending sums ended if a statement needed that."""
        while isinstance(arg, str) and arg in self.settled_as:
            arg = self.settled_as[arg]
        return arg

    def places(self, arg: Arg) -> Places:
        """The placement of a tensor; nothing of another value."""
        found = type_of(self.value(arg))
        return found.places if isinstance(found, TensorType) else ()

    def pending(self, arg: Arg) -> Places:
        """The sums that are pending in a value."""
        return tuple([p for p in self.places(arg) if isinstance(p, PendingAlong) and p.how == "sum"])

    def state(self, arg: Arg, axis: str) -> State:
        """The placement along one axis."""
        return _loosened(state_along(self.value(arg), axis), self.loose(arg), axis)

    def parts(self, cuts: Sequence[SplitAlong]) -> int:
        """Into how many parts axes cut a dimension."""
        found = parts_along(cuts, dict(self.axes))
        assert isinstance(found, int)
        return found

    def are_defined(self, args: Iterable[Arg]) -> bool:
        """Whether all values among arguments are known so far."""
        return self._values.keys() >= {*names_of(args)} - {DISCARD}

    def define(self, name: str, value: Value, loose: Loose) -> None:
        """Say what a name is."""
        if name != DISCARD:
            self._values[name] = value
            if loose:
                self._loose[name] = loose

    @cached_property
    def uses(self) -> Mapping[str, Sequence[int]]:
        """By name: the statements that use it."""
        return uses(self.function)

    def write(self, statement: Apply, ws: tuple[Value, ...], loose: Sequence[Loose]) -> None:
        """Append an op whose operands are placed as it needs them."""
        vs = tuple(map(self.value, statement.args))
        key = statement.op, statement.attrs, vs, ws
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = placed(Meshes(self.axes), statement, vs, lambda _: ws)
        self.written.append(replace(statement, claims=claims_of(statement, made)) if statement.claims else statement)
        for name, w, own in zip(statement.results, made, loose, strict=True):
            self.define(name, w, own)

    def by_items(self, arg: Arg, placed: Callable[[str, int], Arg]) -> str:
        """A tuple whose items are placed otherwise, each by itself."""
        assert isinstance(arg, str)
        found = type_of(self.value(arg))
        assert isinstance(found, TupleType)
        items = tuple(self.names.fresh(f"{arg}_{k}") for k in range(len(found.items)))
        unpacked = Apply(items, "UnpackTuple", (arg,), facts=self.around)
        self.write(unpacked, found.items, loose_items(self.loose(arg), len(items)))
        args = tuple(placed(item, k) for k, item in enumerate(items))
        made = self.names.fresh(f"{arg}_placed")
        self.write(Apply((made,), "MakeTuple", args, facts=self.around), (erased(found),), [FIXED])
        return made


def _loosened(found: State, loose: Loose, axis: str) -> State:
    """The placement along an axis, loose where a value, or an item of it, is split only to be stored so."""
    if isinstance(found, tuple):
        return tuple(_loosened(s, own, axis) for s, own in zip(found, loose_items(loose, len(found)), strict=True))
    return loosened(found) if axis in loose_axes(loose) else found


def narrow_type(v: Value) -> DType | None:
    """The element type of a tensor, if it has fewer bits than Float32."""
    found = v.dtype if isinstance(v, TensorType) else None
    return found if found is not None and found.kind == "float" and found.bytes < DTYPES["Float32"].bytes else None


def claims_of(statement: Apply | Call, ws: Sequence[Value]) -> tuple[Type | None, ...]:
    """What a statement states of its results, with where their parts are."""
    pairs = zip(statement.claims, ws, strict=False)
    return tuple(None if claim is None else placed_as(claim, w) for claim, w in pairs)


def placed_as(claim: Type, v: Value, sized: bool = False) -> Type:
    """What is stated of a value, with where its parts are; if `sized`, with the sizes that are known."""
    found = type_of(v)
    if isinstance(claim, TensorType) and isinstance(found, TensorType):
        known = claim.shape if claim.shape is not None or not found.places else found.shape
        if sized and known is not None and found.shape is not None:
            known = tuple(b if isinstance(b, int) else a for a, b in zip(known, found.shape, strict=True))
        return replace(claim, shape=known, places=found.places)
    if isinstance(claim, TupleType) and isinstance(found, TupleType):
        return TupleType(tuple(placed_as(c, t, sized) for c, t in zip(claim.items, found.items, strict=True)))
    return claim
