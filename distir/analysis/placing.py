"""Where the parts of a statement's results are, on a program's mesh: the domain of placements.

A type states the value of the sequential program, and where its parts are. So the results of an op are those of the op
on whole values, placed as its rule says (`placement.typings`), along each axis of the mesh by itself. An op that does
not compute parts of its results of what each device has is refused, with the collective that mends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from distir.analysis.domains import Types
from distir.analysis.known_ops import lookup
from distir.analysis.stated_places import complaint, refuse, unknown_axis
from distir.diagnostics.codes import placements as codes
from distir.ir import (
    HOST,
    AnyType,
    Apply,
    Attributes,
    Mesh,
    Part,
    PendingAlong,
    Places,
    SplitAlong,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.places import NOUNS, Place, along, cuts_of, places, without
from distir.ops import Reject, Value, bind, item_of, type_of
from distir.ops.mesh import COLLECTIVES
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, State, Unsplit, is_host
from distir.placement.nearest import Reshard, means_of, nearest
from distir.placement.part_types import part_of
from distir.placement.rule import Typing
from distir.placement.typings import item_along, typings
from distir.syntax import print_literal

Infer = Callable[[tuple[Value, ...]], tuple[Value, ...]]
"""The results of a statement on whole values. Raises Reject."""


@dataclass
class PlacedTypes(Types):
    """Types and known values, and where their parts are on the module's mesh, if it has one."""

    @cached_property
    def mesh(self) -> Mesh:
        """The mesh of the module, on which values are placed; empty where there is none."""
        return self.module.mesh

    def most_precise(self, op: Apply, vs: tuple[Value, ...]) -> tuple[Value, ...]:
        """The answer of the first rule that has one; on a mesh, with where its parts are."""
        if self.mesh or op.op in COLLECTIVES:
            return placed(self.mesh, op, vs, partial(super().most_precise, op))
        return super().most_precise(op, vs)

    def meet(self, claim: Type, w: Value, part: Part) -> Value:
        """A value with what is claimed of its type. Raises Reject if that is refuted, or cannot be on the mesh."""
        refuse(claim, self.mesh, part)
        try:
            return super().meet(claim, w, part)
        except Reject as reject:
            reject.help = reject.help or bringing(type_of(w), claim)
            raise


def placed(mesh: Mesh, statement: Apply, vs: tuple[Value, ...], infer: Infer) -> tuple[Value, ...]:
    """The results of a statement on values that are placed on a mesh. Raises Reject."""
    whole = tuple(map(erased, vs))
    ws = infer(whole)
    if statement.op in COLLECTIVES:
        return (_moved(mesh, statement, vs[0], ws[0]),)
    if all(map(is_host, ws)):
        return ws
    if not all(map(_is_known, vs)) or any(complaint(type_of(v), mesh) for v in vs):
        return tuple(map(_unplaced, ws))
    found: list[Typing] = []
    for axis, _ in mesh:
        states = tuple(state(v, axis) for v in vs)
        try:
            found.append(typing(statement, whole, ws, states, axis, dividing(vs, axis, dict(mesh))))
        except Reject:
            if any(_is_open(t, axis) for v in vs for t in _tensors(type_of(v))):
                return tuple(map(_unplaced, ws))  # a function by itself: its calls are checked with their sizes
            raise
    order = _order(statement, vs, mesh)
    each = zip(ws, *(one.given for one in found), strict=True)
    return tuple(_placed(statement, w, states, mesh, order) for w, *states in each)


def dividing(vs: Sequence[Value], axis: str, sizes: Mapping[str, int]) -> int:
    """By how many devices what is split along an axis divides: those of all axes that split the same dimension."""
    leaves = [leaf for v in vs if isinstance(v, (TensorType, TupleType)) for leaf in types.leaves(v)]
    cuts = [
        cuts_of(leaf.places, place.dim)
        for leaf in leaves
        if isinstance(leaf, TensorType)
        for place in leaf.places or ()
        if isinstance(place, SplitAlong) and place.axis == axis
    ]
    return max((math.prod(sizes[cut.axis] for cut in own) for own in cuts), default=sizes[axis])


@lru_cache(maxsize=1 << 14)
def erased(v: Value) -> Value:
    """A value, and nothing of where its parts are: as in the sequential program."""
    match v:
        case TensorType(places=()):
            return v
        case TensorType():
            return replace(v, places=())
        case TupleType(items):
            return TupleType(tuple(map(erased_type, items)))
        case tuple():
            return tuple(map(erased, v))
        case _:
            return v


def erased_type(type: Type) -> Type:
    """A type, and nothing of where parts are."""
    found = erased(type)
    assert isinstance(found, (TensorType, TupleType, AnyType))
    return found


def held(type: Type, mesh: Mesh) -> Type:
    """The type of what each device of a mesh holds of a value. Raises DimensionError if a dimension does not divide."""
    part = erased_type(type)
    for axis, size in mesh:
        part = part_of(part, state(type, axis), size)
    return part


def state(v: Value, axis: str) -> State:
    """The placement of a value along one axis; of a tuple, that of each item."""
    if isinstance(v, TensorType):
        return state_of(along(v.places, axis))
    if isinstance(v, TupleType):
        return tuple(state(item, axis) for item in v.items)
    return tuple(state(item, axis) for item in v) if isinstance(v, tuple) else WHOLE


def state_of(place: Place | None) -> Unsplit | Split:
    """An entry of a placement as a state along its axis."""
    match place:
        case None:
            return WHOLE
        case SplitAlong(dim, _, blocks):
            return Split(dim, blocks)
        case PendingAlong(how="sum"):
            return PARTIAL
        case PendingAlong():
            return GREATEST


def place_of(state: State, axis: str) -> Place | None:
    """A state along an axis as an entry of a placement; None where the value is whole."""
    if isinstance(state, Split):
        return SplitAlong(state.axis, axis, state.blocks)
    return PendingAlong(axis, "sum") if state is PARTIAL else PendingAlong(axis, "max") if state is GREATEST else None


# ---- ops, along one axis


def typing(
    statement: Apply, vs: tuple[Value, ...], ws: tuple[Value, ...], states: tuple[State, ...], axis: str, size: int
) -> Typing:
    """How a statement computes parts of its results along one axis. Raises Reject if it does not."""
    op, given = lookup(statement.op), tuple(map(type_of, ws))
    found = typings(op, statement.attrs, vs, states, given, size)
    if found:
        return found[0]
    wrong = nearest(op, statement.attrs, vs, states, given, size)
    first = next(iter(wrong.changes), None)
    made = None if first is None else inserted(statement, first, axis)
    if first is None:
        raise Reject(codes.NOT_PARTS, f"`{op.name}` along `{axis}`: {wrong.reason}", Part("callee"))
    what = f"`%{arg}`" if isinstance(arg := statement.args[first.operand], str) else f"operand {first.operand}"
    needed, now = (described(item_along(s, first.item or 0)) for s in (first.needed, first.now))
    message = f"`{op.name}` expected {what} {needed} along `{axis}`, found {now}: {wrong.reason}"
    hint = None if made is None else f"insert `{shown(made)}` for `%{made.args[0]}`"
    raise Reject(codes.NOT_PARTS, message, Part("operand", first.operand), help=hint)


def described(state: State) -> str:
    """A placement along an axis, as a message says it."""
    if isinstance(state, Split):
        return f"split in dimension {state.axis}" + (" by blocks" if state.blocks else "")
    return "a pending sum" if state is PARTIAL else "a pending maximum" if state is GREATEST else "whole"


def bringing(found: Type, wanted: Type) -> str | None:
    """The collective that brings a value to where a type states that it is, as help; None if no single one does."""
    if not isinstance(found, TensorType) or not isinstance(wanted, TensorType) or erased(found) != erased(wanted):
        return None
    differing = {place.axis for place in {*found.places} ^ {*wanted.places}}
    if len(differing) != 1:
        return None
    (axis,) = differing
    now, needed = state(found, axis), state(wanted, axis)
    made = inserted(Apply((), "", ("",)), Reshard(0, now, needed, means_of(now, needed)), axis)
    return None if made is None else f"`{shown(made)}` brings it there"


MEANS: Mapping[str, str] = {"AllReduce max": "AllReduce", "Slice": "Shard"}
"""By what `placement.nearest` calls a change of placement: the op, where that has another name."""


def inserted(statement: Apply, change: Reshard, axis: str) -> Apply | None:
    """The collective, without results, that brings an operand to where a statement needs it; None if none does."""
    arg = statement.args[change.operand]
    if change.means is None or change.item is not None or not isinstance(arg, str):
        return None
    attrs: dict[str, int | str] = {"axis": axis}
    if change.means == "AllReduce max":
        attrs["op"] = "max"
    elif change.means == "AllToAll":
        assert isinstance(change.now, Split)
        attrs |= {"split": change.axis or 0, "join": change.now.axis}
    elif change.axis is not None:
        attrs["dim"] = change.axis
    return Apply((), MEANS.get(change.means, change.means), (arg,), Attributes(attrs))


def shown(collective: Apply) -> str:
    """A collective as a message names it: `AllReduce[axis = "tp"]`."""
    said = (f"{name} = {print_literal(value)}" for name, value in collective.attrs.items())
    return f"{collective.op}[{', '.join(said)}]"


# ---- several axes


def _order(statement: Apply, vs: Sequence[Value], mesh: Mesh) -> dict[tuple[str, str], int]:
    """By two axes that split one dimension of an operand: the operand, with the outer axis first.

    Raises Reject where two operands have them in other orders: their parts are other rows.
    """
    found: dict[tuple[str, str], int] = {}
    for index, v in enumerate(vs):
        for tensor in _tensors(type_of(v)):
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


def _placed(
    statement: Apply, w: Value, states: Sequence[State], mesh: Mesh, order: Mapping[tuple[str, str], int]
) -> Value:
    """A result with its placement along each axis. Raises Reject where it cannot be placed so."""
    if isinstance(w, TupleType):
        items = (
            _placed(statement, item, [s[k] if isinstance(s, tuple) else s for s in states], mesh, order)
            for k, item in enumerate(w.items)
        )
        return TupleType(tuple(map(type_of, items)))
    found = [place_of(s, axis) for s, (axis, _) in zip(states, mesh, strict=True)]
    entries = [place for place in found if place is not None]
    if not isinstance(w, TensorType) or w.device == HOST:
        if entries and not is_host(w):
            return _unplaced(w)
        return w
    made = replace(w, places=places(_outermost_first(entries, order)))
    wrong = complaint(made, mesh)
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


def _tensors(type: Type) -> Iterator[TensorType]:
    if isinstance(type, TupleType):
        for item in type.items:
            yield from _tensors(item)
    elif isinstance(type, TensorType):
        yield type


def _is_known(v: Value) -> bool:
    """Whether it is known where a value is."""
    if isinstance(v, tuple):
        return all(map(_is_known, v))
    if isinstance(v, TupleType):
        return all(map(_is_known, v.items))
    if isinstance(v, TensorType) and v.shape is None:
        return v.device == HOST
    return not isinstance(v, AnyType) or v.device == HOST


def _is_open(type: TensorType, axis: str) -> bool:
    """Whether a value is split along an axis, and some of its sizes are not known."""
    return isinstance(along(type.places, axis), SplitAlong) and None in (type.shape or (None,))


def _unplaced(v: Value) -> Value:
    """Of a value whose placement is not known, the device."""
    if isinstance(v, TupleType):
        return TupleType(tuple(type_of(_unplaced(item)) for item in v.items))
    return AnyType(v.device) if isinstance(v, TensorType) and v.device != HOST else v


# ---- collectives


def _moved(mesh: Mesh, statement: Apply, v: Value, w: Value) -> Value:
    """The result of a collective over an axis of the mesh. Raises Reject."""
    axis = statement.attrs.get("axis")
    if not isinstance(axis, str) or axis not in dict(mesh):
        wrong = unknown_axis(str(axis), mesh)
        raise Reject(codes.UNKNOWN_AXIS, wrong.message, Part("attribute", "axis"), help=wrong.help)
    if isinstance(w, TupleType):
        cuts = [place for t in _tensors(type_of(v)) for place in t.places if isinstance(place, SplitAlong)]
        if statement.attrs.get("op") == "max" or any(cut.blocks for cut in cuts):
            message = f"`{statement.op}` of pending maxima, or of parts in blocks, takes no tuple"
            raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help="unpack it")
        return TupleType(tuple(type_of(_moved(mesh, statement, item_of(v, k), item)) for k, item in enumerate(w.items)))
    found = type_of(v)
    if (isinstance(found, AnyType) and found.device != HOST) or complaint(found, mesh):
        return _unplaced(w)
    if not isinstance(found, TensorType) or not isinstance(w, TensorType) or found.device == HOST:
        message = f"`{statement.op}` expected a value on a device, found a host value, which every device has"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help="use the value as it is")
    made = replace(w, places=_changed(statement, found, axis))
    if (wrong := complaint(made, mesh)) is not None:
        raise Reject(
            codes.BAD_PLACEMENT,
            f"`{statement.op}` would give `{made}`: {wrong.message}",
            Part("callee"),
            help=wrong.help,
        )
    return made


def _changed(statement: Apply, x: TensorType, axis: str) -> Places:
    """The placement of a collective's result. Raises Reject where its operand is placed otherwise than it takes."""
    rule, attrs = COLLECTIVES[statement.op], bind(lookup(statement.op), statement.attrs)
    now, rest = along(x.places, axis), without(x.places, axis)
    before = str(attrs["op"]) if rule.before == "pending" else rule.before

    def dim(name: str) -> int:
        at = attrs[name]
        assert isinstance(at, int)
        return at + len(x.shape or ()) if at < 0 else at

    match now:
        case None:
            fits = before == "whole"
        case PendingAlong(how=how):
            fits = before == how
        case SplitAlong():
            fits = before == "split" and now.dim == dim(rule.taken)
    if not fits:
        raise _unfit(statement, x, now, axis, before, dim(rule.taken) if rule.taken else None)
    if isinstance(now, SplitAlong):
        inside = cuts_of(x.places, now.dim)
        if inside[-1].axis != axis:
            message = f"`{statement.op}` along `{axis}` would put rows of `{x}` in another order"
            hint = f"gather along `{inside[-1].axis}` first, the innermost axis of dimension {now.dim}"
            raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)
        if now.blocks and rule.after == "split":
            message = f"`{statement.op}` expected one part of dimension {now.dim} on each device, found several: `{x}`"
            hint = "write `AllGather` and `Shard`, or split the blocks apart before"
            raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)
    if rule.after == "split":
        return places((*rest, SplitAlong(dim(rule.given), axis)))
    return places((*rest, PendingAlong(axis, rule.after))) if rule.after == "sum" else rest


def _unfit(statement: Apply, x: TensorType, now: Place | None, axis: str, before: str, dim: int | None) -> Reject:
    """The refusal of a collective for an operand that is placed otherwise."""
    takes = {"whole": "a whole value", "split": f"a value split in dimension {dim}"}
    wanted = takes.get(before, f"a pending {NOUNS.get(before, before)}")
    what = f"`%{arg}`" if isinstance(arg := statement.args[0], str) else "its operand"
    message = f"`{statement.op}` expected {wanted} along `{axis}`, found {what} {described(state_of(now))}: `{x}`"
    other = next((p.axis for p in x.places if _kind(p) == before and p.axis != axis), None)
    if other is not None:
        hint = f'write `axis = "{other}"`, along which it is {"split" if before == "split" else "pending"}'
    else:
        hint = _instead(now, axis, before)
    return Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)


def _instead(now: Place | None, axis: str, before: str) -> str:
    """What to write in place of a collective that takes values of another placement."""
    match now:
        case None:
            return "remove it: nothing is left to be " + ("joined" if before == "split" else "added up")
        case PendingAlong(how=how):
            op = ', op = "max"' if how == "max" else ""
            return f'write `AllReduce[axis = "{axis}"{op}]`, which ends what is pending'
        case SplitAlong() if before == "split":
            return f"name dimension {now.dim}, which is split"
        case SplitAlong():
            return f'write `AllGather[axis = "{axis}", dim = {now.dim}]`, which joins the parts'


def _kind(place: Place) -> str:
    return place.how if isinstance(place, PendingAlong) else "split"
