"""Writes the collectives that bring a value to where a statement needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distir.analysis.placement_states import place_of, state, tensors
from distir.ir import Apply, Arg, Attributes, Literal, Places, SplitAlong, TensorType, types
from distir.ir import Mesh as Axes
from distir.ir.places import Repeated, cuts_of, places
from distir.ops import Value, type_of
from distir.placement.along import Split, State, any_split, is_host, of_item
from distir.transform.mesh.moves import AxisMove, NoWay, moves
from distir.transform.mesh.spread import SpreadSums
from distir.transform.mesh.values import PlacedValues, loose_axes


class Collectives:
    """The collectives of one function: each move of a value is written once.

    `together`: axes of which several may be in one collective, outermost first. `apply` writes an op.
    """

    def __init__(
        self,
        values: PlacedValues,
        spread: SpreadSums,
        together: tuple[tuple[str, ...], ...],
        apply: Callable[[Apply], None],
    ) -> None:
        self.values, self.spread, self.together, self._apply = values, spread, together, apply
        self.wide: set[str] = set()
        """Gradients that are summed in Float32."""
        self.sums = 0
        """The number of pending sums that were ended."""
        self.spread_sums = 0
        self.lists_blocks = False
        """Whether one lists the blocks of a dimension, of which there are as many as its size says."""
        self.split_as: dict[str, str] = {}
        """By value: what it was first brought to, split along another dimension, or as it is computed in parts."""
        self._moved: dict[tuple[str, Places, str], str] = {}
        """By value, placement and, of one that is gathered for its use, phase: the collective's result."""

    def as_needed(self, arg: Arg, needed: Sequence[State], order: Sequence[str], name: str = "") -> Arg:
        """An operand as a statement needs it along each axis, under a name if one is given. Raises NoWay."""
        if is_as_needed(self.values.axes, self.values.value(arg), needed, order):
            return arg
        if any(isinstance(s, tuple) for s in needed):
            return self.values.by_items(
                arg, lambda item, k: self.as_needed(item, [of_item(s, k) for s in needed], order)
            )
        made = self.brought(arg, _places(self.values.axes, needed, order), name)
        if isinstance(made, str):
            pairs = zip(self.values.axes, needed, strict=True)
            self.spread.as_tokens(made, [axis for (axis, _), s in pairs if isinstance(s, Split) and s.loose])
        return made

    def brought(self, arg: Arg, wanted: Places, name: str = "") -> Arg:
        """A value in another placement, under a name if one is given. Raises NoWay."""
        now = self.values.places(arg)
        for move in moves(now, wanted, self.together) if now != wanted else ():
            assert isinstance(arg, str), "literals are host values"
            arg = self._collective(arg, move, name if move.given == wanted else "")
        return arg

    def _collective(self, arg: str, move: AxisMove, name: str = "") -> str:
        """The result of a collective; of a weight that is gathered for its use, again in each phase."""
        of = self.spread.stored(arg).intersection(move.axes)
        key = (arg, move.given, self.values.phase if of else "")
        if key not in self._moved:
            if move.cut is not None and move.cut.blocks and cuts_of(self.values.places(arg), move.cut.dim):
                self._moved[key] = self._in_blocks_of_parts(arg, move.cut)
                return self._moved[key]
            made = self._moved[key] = name or self.values.names.fresh(f"{arg}_{move.ending}")
            is_wide = arg in self.wide and move.op == "AllReduce"
            attrs = Attributes({**move.attrs, "wide": True}) if is_wide else move.attrs
            self.values.written.append(Apply((made,), move.op, (arg,), attrs, facts=self.values.around))
            before = type_of(self.values.value(arg))
            assert isinstance(before, TensorType)
            loose = loose_axes(self.values.loose(arg)) - of
            if move.cut is not None and move.cut in self.spread.tokens(arg):
                loose |= {*move.axes}
                self.spread_sums += 1
            self.values.define(made, types.one(replace(before, places=move.given)), loose)
            self.lists_blocks |= "blocks" in move.attrs
            if move.op == "AllToAll":
                self.split_as.setdefault(arg, made)
            if move.reduces:
                self.sums += 1
                self.values.settled_as.setdefault(arg, made)
        return self._moved[key]

    def _in_blocks_of_parts(self, arg: str, cut: SplitAlong) -> str:
        """A value in parts of whole blocks of one size, with each block split: blocks are a dimension meanwhile."""
        found = type_of(self.values.value(arg))
        assert isinstance(found, TensorType)
        before, behind = (0,) * cut.dim, (found.shape or ())[cut.dim + 1 :]
        block = cut.blocks[0].size if isinstance(cut.blocks[0], Repeated) else cut.blocks[0]
        sizes = [dim for dim in (block, *behind) if isinstance(dim, int)]
        if len(sizes) < 1 + len(behind):
            raise NoWay
        apart, made = (self.values.names.fresh(f"{arg}_{ending}") for ending in ("blocks", "part"))
        self._apply(Apply((apart,), "Reshape", (arg, Literal((*before, -1, *sizes))), facts=self.values.around))
        inner = SplitAlong(cut.dim + 1, cut.axis, zigzag=cut.zigzag)
        part = self.brought(apart, places((*self.values.places(apart), inner)))
        self._apply(Apply((made,), "Reshape", (part, Literal((*before, -1, *sizes[1:]))), facts=self.values.around))
        return made

    def for_use(self, arg: Arg) -> Arg:
        """An argument, gathered where it is split only to be stored so: once for a function, before it is called."""
        return self.brought(arg, tuple(p for p in self.values.places(arg) if p.axis not in self.spread.stored(arg)))


def is_as_needed(axes: Axes, v: Value, needed: Sequence[State], order: Sequence[str]) -> bool:
    """Whether a value is where a statement needs it along each axis; one on the host is everywhere."""
    if any(isinstance(s, tuple) for s in needed):
        return all(state(v, axis) == s for (axis, _), s in zip(axes, needed, strict=True))
    found = type_of(v)
    return not isinstance(found, TensorType) or is_host(v) or found.places == _places(axes, needed, order)


def _places(axes: Axes, needed: Sequence[State], order: Sequence[str]) -> Places:
    """The placement of a tensor that is in a state along each axis; `order`: that in which they cut dimensions."""
    states = dict(zip((axis for axis, _ in axes), needed, strict=True))
    found = (place_of(states[axis], axis) for axis in order)
    return places(place for place in found if place is not None)


def order_of_cuts(axes: Axes, vs: Sequence[Value], needed: Sequence[Sequence[State]]) -> list[str]:
    """The axes, in the order in which they are to cut dimensions of operands: that of operands which have it."""
    stated, more = list[Sequence[str]](), list[Sequence[str]]()
    for v, states in zip(vs, needed, strict=True):
        for tensor in tensors(type_of(v)):
            for dim in range(len(tensor.shape or ())):
                then = [axis for (axis, _), s in zip(axes, states, strict=True) if _is_along(s, dim)]
                own = [cut.axis for cut in cuts_of(tensor.places, dim) if cut.axis in then]
                stated.append(own)
                more.append([*own, *(axis for axis in then if axis not in own)])
    first: set[tuple[str, str]] = set()
    for own in (*stated, *more):
        pairs = ((a, b) for n, a in enumerate(own) for b in own[n + 1 :])
        first |= {(a, b) for a, b in pairs if (b, a) not in first}
    left, found = [axis for axis, _ in axes], list[str]()
    while left:
        axis = next((a for a in left if not any((b, a) in first for b in left)), left[0])
        left.remove(axis)
        found.append(axis)
    return found


def _is_along(found: State, dim: int) -> bool:
    return any_split(found, lambda split: split.axis == dim)
