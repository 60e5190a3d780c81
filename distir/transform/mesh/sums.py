"""Ends pending sums: each once, where it is first needed whole, or as an update wants the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from distir.analysis.stated_places import complaint
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Meshes,
    OwnedAlong,
    PendingAlong,
    Places,
    SplitAlong,
    TensorType,
    TupleType,
    Type,
    results,
)
from distir.ir.places import Place, along, places
from distir.ops import type_of
from distir.placement.along import PARTIAL
from distir.placement.rule import Typing
from distir.transform.mesh.collectives import Collectives
from distir.transform.mesh.moves import NoWay
from distir.transform.mesh.values import narrow_type
from distir.transform.mesh.wanted import Gradient


class PendingSums:
    """The pending sums of one function.

    `gradients`: those that updates take, by name; `apply` writes an op. `wide`: gradients of fewer bits than Float32
    are summed whole in it.
    """

    def __init__(
        self, collectives: Collectives, gradients: Mapping[str, Gradient], apply: Callable[[Apply], None], wide: bool
    ) -> None:
        self.values, self.spread, self.collectives = collectives.values, collectives.spread, collectives
        self.gradients, self._apply, self.wide = gradients, apply, wide

    def left(self, arg: Arg, kept: Sequence[str] = ()) -> Places:
        """The placement of a value without pending sums but along axes that are `kept`: whole, or spread."""
        now, pending = self.values.places(arg), self.values.pending(arg)
        if not pending:
            return now
        left = tuple(p for p in now if p.axis in kept or p not in pending)
        spread = self.spread.tokens(arg)
        return left if any(own.axis in kept for own in spread) else places((*left, *spread))

    def ended_of_microbatch(self, name: str) -> None:
        """End the sums of a gradient that is added to those of other microbatches.

        Along axes that do not split it then, the sum of all is taken once, at the end.
        """
        split = {place.axis for place in self.gradients[name].wanted}
        self.ended(name, [place.axis for place in self.values.pending(name) if place.axis not in split])

    def ended(self, arg: Arg, kept: Sequence[str] = ()) -> Arg:
        """A value without pending sums but along axes that are `kept`; a gradient is split as its update wants it."""
        now = self.values.places(arg)
        gradient = self.gradients.get(arg) if isinstance(arg, str) else None
        left = self.left(arg, kept)
        if left == now or gradient is None:
            return self.collectives.brought(arg, left)
        around, self.values.around = self.values.around, replace(self.values.around, of=gradient.of)
        if self.wide and isinstance(arg, str) and narrow_type(self.values.value(arg)) is not None:
            self.collectives.wide.add(arg)
            self.collectives.brought(arg, left)
            arg = self.values.settled(arg)
            now = self.values.places(arg)
        split = places((*left, *(p for p in gradient.wanted if along(left, p.axis) is None and _is_had(p, now))))
        try:
            made = self.collectives.brought(arg, split if self._divides(arg, split) else left)
        except NoWay:
            made = self.collectives.brought(arg, left)
        self.values.around = around
        assert isinstance(arg, str)
        assert isinstance(made, str)
        self.values.settled_as[arg] = made
        return made

    def _divides(self, arg: Arg, wanted: Places) -> bool:
        """Whether the dimensions of a value are multiples of the parts of a placement, as far as sizes are known."""
        found = type_of(self.values.value(arg))
        return (
            complaint(replace(found, places=wanted), Meshes(self.values.axes)) is None
            if isinstance(found, TensorType)
            else True
        )

    def as_wanted(self, statement: Apply, each: Sequence[Typing]) -> Apply:
        """The statement with gradients among its operands summed as their updates want them, where it needs sums."""
        args = statement.args
        for i, arg in enumerate(args):
            if isinstance(arg, str) and arg in self.gradients:
                kept = [axis for (axis, _), t in zip(self.values.axes, each, strict=True) if t.needed[i] is PARTIAL]
                args = (*args[:i], self.ended(arg, kept), *args[i + 1 :])
        return statement if args == statement.args else replace(statement, args=args)

    def before(self, statement: Apply) -> Apply:
        """The statement with operands that are ended already, or before it because that communicates less."""
        for arg in statement.args:
            if (
                isinstance(arg, str)
                and arg not in self.values.settled_as
                and self.values.pending(arg)
                and not self._is_in_parts_beside(arg)
                and self._is_worth_a_sum(arg)
            ):
                self.ended(arg)
        args = tuple(map(self.values.settled, statement.args))
        statement = statement if args == statement.args else replace(statement, args=args)
        if statement.op == "Sum":
            for axis, _ in self.values.axes:
                statement = self._terms_first(statement, axis)
        return statement

    def _terms_first(self, statement: Apply, axis: str) -> Apply:
        """Add operands first that are pending along an axis, or that one device each has, to end one sum."""
        own = [arg for arg in statement.args if self._is_term(arg, axis)]
        if not 1 < len(own) < len(statement.args):
            return statement
        name = self.values.names.fresh(f"{statement.results[0]}_terms")
        self._apply(Apply((name,), "Sum", tuple(own), facts=statement.facts))
        return replace(statement, args=(name, *(arg for arg in statement.args if arg not in own)))

    def _is_term(self, arg: Arg, axis: str) -> bool:
        """Whether devices along an axis have terms of what is added of it, not all the same."""
        place = along(self.values.places(arg), axis)
        return place == PendingAlong(axis) or isinstance(place, OwnedAlong)

    def _is_in_parts_beside(self, name: str) -> bool:
        """Whether it is split along an axis over which it may be summed at once: so is what is computed of it."""
        axes = {place.axis for place in self.values.pending(name)}
        split = {place.axis for place in self.values.places(name) if isinstance(place, SplitAlong)}
        return any(axes & {*group} and split & {*group} for group in self.collectives.together)

    def _is_worth_a_sum(self, name: str) -> bool:
        """Whether several statements use a value whose results, each summed by itself, are larger together."""
        users = [self.values.function.body[i] for i in self.values.uses.get(name, ())]
        made = [tuple(n for n in results(user) if n != DISCARD) or (name,) for user in users]
        sizes = (sum(_elements(type_of(v)) for v in self.values.instance.state(names)) for names in made)
        return len(users) > 1 and _elements(type_of(self.values.value(name))) <= sum(sizes)


def _is_had(place: Place, now: Places) -> bool:
    """Whether a value that is placed so now may be there: a sum, if one device is to have it."""
    return not isinstance(place, OwnedAlong) or along(now, place.axis) == PendingAlong(place.axis)


def _elements(type: Type) -> int:
    """The number of elements, with 1 for unknown dimensions."""
    if isinstance(type, TupleType):
        return sum(map(_elements, type.items))
    shape = type.shape or () if isinstance(type, TensorType) else (0,)
    return math.prod(dim if isinstance(dim, int) else 1 for dim in shape)
