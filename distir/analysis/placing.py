"""Where the parts of a statement's results are, on a program's mesh: the domain of placements.

A type states the value of the sequential program, and where its parts are. So the results of an op are those of the op
on whole values, placed as its rule says (`placement.typings`), along each axis of the mesh by itself. An op that does
not compute parts of its results of what each device has is refused, with the collective that mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from distir.analysis.domains import Types
from distir.analysis.known_ops import lookup
from distir.analysis.mending import bringing, refusal
from distir.analysis.moving import moved
from distir.analysis.placed_sends import refuse_between
from distir.analysis.placement_states import erased, place_of, state, tensors, unplaced
from distir.analysis.stated_places import complaint, parts_along, refuse
from distir.diagnostics.codes import placements as codes
from distir.ir import HOST, AnyType, Apply, Mesh, Meshes, Part, SplitAlong, TensorType, TupleType, Type, types
from distir.ir.places import Place, Size, along, cuts_of, places, show_axes
from distir.ops import Reject, Value, item_of, type_of
from distir.ops.mesh import COLLECTIVES
from distir.placement.along import State, is_host
from distir.placement.nearest import Nearest, nearest
from distir.placement.rule import Typing
from distir.placement.typings import item_along, typings

Infer = Callable[[tuple[Value, ...]], tuple[Value, ...]]
"""The results of a statement on whole values. Raises Reject."""


@dataclass
class PlacedTypes(Types):
    """Types and known values, and where their parts are on the module's mesh, if it has one."""

    @cached_property
    def meshes(self) -> Meshes:
        """The meshes of the module, on which values are placed; false where there are none."""
        return self.module.meshes

    def most_precise(self, op: Apply, vs: tuple[Value, ...]) -> tuple[Value, ...]:
        """The answer of the first rule that has one; on a mesh, with where its parts are."""
        if self.meshes or op.op in COLLECTIVES:
            return placed(self.meshes, op, vs, partial(super().most_precise, op))
        return super().most_precise(op, vs)

    def meet(self, claim: Type, w: Value, part: Part) -> Value:
        """A value with what is claimed of its type. Raises Reject if that is refuted, or cannot be on the mesh."""
        refuse(claim, self.meshes, part)
        try:
            return super().meet(claim, w, part)
        except Reject as reject:
            reject.help = reject.help or bringing(type_of(w), claim)
            raise


def placed(meshes: Meshes, statement: Apply, vs: tuple[Value, ...], infer: Infer) -> tuple[Value, ...]:
    """The results of a statement on values that are placed on a mesh. Raises Reject."""
    whole = tuple(map(erased, vs))
    ws = infer(whole)
    if statement.op in COLLECTIVES:
        return (moved(meshes, statement, vs[0], ws[0]),)
    if all(map(is_host, ws)):
        return ws
    if not all(map(_is_known, vs)) or any(complaint(type_of(v), meshes) for v in vs):
        return tuple(map(unplaced, ws))
    if meshes.stages:
        refuse_between(statement, [*map(type_of, vs)], [*map(type_of, ws)], meshes)
    if statement.op == "MakeTuple":
        return (TupleType(tuple(map(type_of, vs))),)
    if statement.op == "UnpackTuple" and isinstance(vs[0], TupleType):
        return vs[0].items
    found = _along_each(meshes, statement, vs, ws)
    wrong = {axis: one for axis, one in found.items() if isinstance(one, Nearest)}
    if wrong:
        split = [t for axis in wrong for v in vs for t in tensors(type_of(v)) if _is_split(t, axis)]
        if any(map(_is_open, [*split, *(map(type_of, ws) if split else ())])):
            return tuple(map(unplaced, ws))  # a function by itself: its calls are checked with their sizes
        raise refusal(statement, vs, wrong)
    _refuse_parted_twice(statement, found)
    each = zip(ws, *(one.given for one in found.values() if isinstance(one, Typing)), strict=True)
    return tuple(_placed(statement, w, dict(zip(found, states, strict=True)), meshes, vs) for w, *states in each)


def is_written_out(meshes: Meshes, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...]) -> bool:
    """Whether devices run other ops in place of a statement, as a loss of logits that are split along the classes."""
    if not any(isinstance(t := type_of(v), TensorType) and t.places for v in vs) or statement.op in COLLECTIVES:
        return False
    found = _along_each(meshes, statement, vs, tuple(map(erased, ws)))
    return any(isinstance(one, Typing) and one.parted for one in found.values())


def _along_each(
    meshes: Meshes, statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...]
) -> dict[str, Typing | Nearest]:
    """By axis: how a statement computes parts of its results, or what is wrong. `ws`: its whole results."""
    sizes, whole = dict(mesh_of(meshes, vs)), tuple(map(erased, vs))
    return {
        axis: _typing(statement, whole, ws, tuple(state(v, axis) for v in vs), dividing(vs, axis, sizes))
        for axis in sizes
    }


def mesh_of(meshes: Meshes, vs: Sequence[Value]) -> Mesh:
    """The mesh on which a statement is executed; of a tuple of several stages' values all their axes."""
    if not meshes.stages:
        return meshes.mesh
    each = (t.device for v in vs for t in tensors(type_of(v)))
    found = [meshes.of(device) for device in each if device is not None and device != HOST] or [meshes.mesh]
    return Meshes(found[0], tuple(enumerate(found))).axes


def _refuse_parted_twice(statement: Apply, found: Mapping[str, Typing | Nearest]) -> None:
    """Raises Reject where a statement would be written as others along each of two dimensions: no rule does both."""
    parted = {
        axis: one.letter
        for axis, one in found.items()
        if isinstance(one, Typing) and one.parted and one.layout is not None and not one.layout.again
    }
    if len({*parted.values()}) > 1:
        message = f"`{statement.op}` takes parts of one dimension, and is given parts along {show_axes([*parted])}"
        hint = "gather its operands along one of these axes first"
        raise Reject(codes.NOT_PARTS, message, Part("callee"), help=hint)


def dividing(vs: Sequence[Value], axis: str, sizes: Mapping[str, Size]) -> int | None:
    """By how many devices what is split along an axis divides: those of all axes that split the same dimension.

    Blocks are divided by the devices of all axes that are in the same ones, and those of others have whole ones. In
    zig-zag along another axis there are two parts for each device; along this one its state says so. None where a size
    is a name.
    """
    leaves = [leaf for v in vs if isinstance(v, (TensorType, TupleType)) for leaf in types.leaves(v)]
    cuts = [
        [cut for cut in cuts_of(leaf.places, place.dim) if cut.blocks == place.blocks]
        for leaf in leaves
        if isinstance(leaf, TensorType)
        for place in leaf.places or ()
        if isinstance(place, SplitAlong) and place.axis == axis
    ]
    twice = [any(cut.zigzag and cut.axis == axis for cut in own) for own in cuts]
    each = [sizes[axis], *(parts_along(own, sizes) for own in cuts)]
    halved = [size // 2 if isinstance(size, int) and own else size for size, own in zip(each[1:], twice, strict=True)]
    numbers = [size for size in (sizes[axis], *halved) if isinstance(size, int)]
    return max(numbers) if len(numbers) == len(each) else None


def typing(
    statement: Apply,
    vs: tuple[Value, ...],
    ws: tuple[Value, ...],
    states: tuple[State, ...],
    axis: str,
    size: int | None,
) -> Typing:
    """How a statement computes parts of its results along one axis. Raises Reject if it does not."""
    found = _typing(statement, vs, ws, states, size)
    if isinstance(found, Nearest):
        raise refusal(statement, vs, {axis: found})
    return found


def _typing(
    statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...], states: tuple[State, ...], size: int | None
) -> Typing | Nearest:
    """How a statement computes parts of its results along one axis, or what is wrong."""
    op, given = lookup(statement.op), tuple(map(type_of, ws))
    found = typings(op, statement.attrs, vs, states, given, size)
    return found[0] if found else nearest(op, statement.attrs, vs, states, given, size)


# ---- several axes


def _order(statement: Apply, vs: Sequence[Value]) -> dict[tuple[str, str], int]:
    """By two axes that split one dimension of an operand, or of an item of one: the operand, with the outer axis first.

    Raises Reject where two operands have them in other orders: their parts are other rows.
    """
    found: dict[tuple[str, str], int] = {}
    if any(isinstance(v, TupleType) for v in vs):
        for k in range(next(len(v.items) for v in vs if isinstance(v, TupleType))):
            found |= _order(statement, [item_of(v, k) for v in vs])
        return found
    for index, v in enumerate(vs):
        for tensor in tensors(type_of(v)):
            for dim in range(len(tensor.shape or ())):
                axes = [cut.axis for cut in cuts_of(tensor.places, dim)]
                pairs = [(a, b) for n, a in enumerate(axes) for b in axes[n + 1 :]]
                for outer, inner in pairs:
                    other = found.get((inner, outer))
                    if other is not None:
                        a, b = (f"@({', '.join(pair)})" for pair in ((inner, outer), (outer, inner)))
                        other_rows = f"one operand is split `{a}`, another `{b}`"
                        message = f"`{statement.op}` is given parts of other rows: {other_rows}"
                        hint = "write the axes in one order, the outermost first"
                        raise Reject(codes.NOT_PARTS, message, Part("operand", index), help=hint)
                    found.setdefault((outer, inner), index)
    return found


def _placed(statement: Apply, w: Value, states: Mapping[str, State], meshes: Meshes, vs: Sequence[Value]) -> Value:
    """A result of operands with its placement along each axis. Raises Reject where it cannot be placed so."""
    if isinstance(w, TupleType):
        items = (
            _placed(
                statement, item, {a: item_along(s, k) for a, s in states.items()}, meshes, [item_of(v, k) for v in vs]
            )
            for k, item in enumerate(w.items)
        )
        return TupleType(tuple(map(type_of, items)))
    entries = [place for axis, s in states.items() if (place := place_of(s, axis)) is not None]
    if not isinstance(w, TensorType) or w.device == HOST:
        if entries and not is_host(w):
            return unplaced(w)
        return w
    made = replace(w, places=places(_outermost_first(entries, _order(statement, vs))))
    wrong = complaint(made, meshes)
    if wrong is not None:
        raise Reject(codes.NOT_PARTS, f"`{statement.op}` would give `{made}`: {wrong.message}", Part("callee"))
    return made


def _outermost_first(entries: Sequence[Place], order: Mapping[tuple[str, str], int]) -> Iterator[Place]:
    """The entries of a placement in the order in which they cut operands; else in that of the mesh."""
    left = list(entries)
    while left:
        first = next((p for p in left if not any((other.axis, p.axis) in order for other in left)), None)
        if first is None:
            raise Reject(codes.NOT_PARTS, "operands are split along axes in orders that contradict", Part("callee"))
        left.remove(first)
        yield first


def _is_known(v: Value) -> bool:
    """Whether it is known where a value is."""
    if isinstance(v, tuple):
        return all(map(_is_known, v))
    if isinstance(v, TupleType):
        return all(map(_is_known, v.items))
    if isinstance(v, TensorType) and v.shape is None:
        return v.device == HOST
    return not isinstance(v, AnyType) or v.device == HOST


def _is_split(type: TensorType, axis: str) -> bool:
    return isinstance(along(type.places, axis), SplitAlong)


def _is_open(type: Type) -> bool:
    """Whether some sizes of a value are not known."""
    return any(tensor.shape is None or None in tensor.shape for tensor in tensors(type))
