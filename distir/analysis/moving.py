"""What collectives over axes of a mesh do to the placement of their operand."""

from __future__ import annotations

from dataclasses import replace

from distir.analysis.known_ops import lookup
from distir.analysis.mending import described, ending, named, shown
from distir.analysis.placement_states import state_of, tensors, unplaced
from distir.analysis.stated_places import complaint, unknown_axis
from distir.diagnostics.codes import placements as codes
from distir.ir import (
    HOST,
    AnyType,
    Apply,
    Constant,
    Meshes,
    OwnedAlong,
    Part,
    PendingAlong,
    Places,
    SplitAlong,
    TensorType,
    TupleType,
)
from distir.ir.places import NOUNS, Place, along, cuts_of, places, show_axes
from distir.ir.types import device_of
from distir.ops import Reject, Value, bind, item_of, type_of
from distir.ops.mesh import COLLECTIVES, cut_along
from distir.syntax import print_literal


def moved(meshes: Meshes, statement: Apply, v: Value, w: Value) -> Value:
    """The result of a collective over axes of the mesh. Raises Reject."""
    axes, device = axes_of(statement), device_of(type_of(v))
    mesh = meshes.of(device)
    for axis in axes:
        if axis not in dict(mesh):
            wrong = unknown_axis(axis, mesh)
            raise Reject(codes.UNKNOWN_AXIS, wrong.message, Part("attribute", "axis"), (), wrong.help, wrong.cause)
    if not axes or len({*axes}) < len(axes):
        which = "an axis twice" if axes else "no axis"
        message = f"`{statement.op}` names {which}: `axis = {print_literal(axes)}`"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("attribute", "axis"), help="name each axis once")
    return _moved(meshes, statement, axes, v, w)


def axes_of(collective: Apply) -> tuple[str, ...]:
    """The axes along which a collective is, outermost first."""
    axes = bind(lookup(collective.op), collective.attrs)["axis"]
    return tuple(map(str, axes)) if isinstance(axes, tuple) else (str(axes),)


def _moved(meshes: Meshes, statement: Apply, axes: tuple[str, ...], v: Value, w: Value) -> Value:
    if isinstance(w, TupleType):
        cuts = [along(t.places, axis) for t in tensors(type_of(v)) for axis in axes]
        if statement.attrs.get("op") == "max" or any(isinstance(cut, SplitAlong) and cut.has_several for cut in cuts):
            message = f"`{statement.op}` of pending maxima, or of parts in blocks or zig-zag, takes no tuple"
            raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help="unpack it")
        items = (_moved(meshes, statement, axes, item_of(v, k), item) for k, item in enumerate(w.items))
        return TupleType(tuple(map(type_of, items)))
    found = type_of(v)
    if (isinstance(found, AnyType) and found.device != HOST) or complaint(found, meshes):
        return unplaced(w)
    if not isinstance(found, TensorType) or not isinstance(w, TensorType) or found.device == HOST:
        message = f"`{statement.op}` expected a value on a device, found a host value, which every device has"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help="use the value as it is")
    made = replace(w, places=_changed(statement, found, axes))
    if (wrong := complaint(made, meshes)) is not None:
        raise Reject(
            codes.BAD_PLACEMENT,
            f"`{statement.op}` would give `{made}`: {wrong.message}",
            Part("callee"),
            help=wrong.help,
            cause=wrong.cause,
        )
    return made


def _changed(statement: Apply, x: TensorType, axes: tuple[str, ...]) -> Places:
    """The placement of a collective's result. Raises Reject where its operand is placed otherwise than it takes."""
    rule, attrs = COLLECTIVES[statement.op], bind(lookup(statement.op), statement.attrs)
    before = str(attrs["op"]) if rule.before == "pending" else rule.before

    def dim(name: str) -> int | None:
        at = attrs.get(name)
        return at + len(x.shape or ()) if isinstance(at, int) and at < 0 else at if isinstance(at, int) else None

    if rule.after == "owned":
        return _owned(statement, x, axes, attrs["to"])
    taken, given = dim(rule.taken), dim(rule.given)
    if not all(_fits(along(x.places, axis), before, taken) for axis in axes):
        raise _unfit(statement, x, axes, before, taken)
    if taken is not None:
        _refuse_other_rows(statement, x, axes, taken)
    rest = tuple(place for place in x.places if place.axis not in axes)
    if given is not None:
        return places((*rest, *(cut_along(axis, given, attrs) for axis in axes)))
    return places((*rest, *(PendingAlong(axis, "sum") for axis in axes))) if rule.after == "sum" else rest


def _owned(statement: Apply, x: TensorType, axes: tuple[str, ...], to: Constant) -> Places:
    """The placement of a sum that one device along each axis has. Raises Reject."""
    numbers = to if isinstance(to, tuple) else (to,)
    if len(numbers) != len(axes):
        message = (
            f"`{statement.op}` over {show_axes(axes)} expected a number for each, found `to = {print_literal(to)}`"
        )
        hint = "say which device has the sum, along each axis: `to = [1, 2]`"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("attribute", "to"), help=hint)
    if not all(_fits(along(x.places, axis), "sum", None) for axis in axes):
        raise _unfit(statement, x, axes, "sum", None)
    rest = (place for place in x.places if place.axis not in axes)
    return places((*rest, *(OwnedAlong(axis, n) for axis, n in zip(axes, numbers, strict=True) if isinstance(n, int))))


def _fits(now: Place | None, before: str, taken: int | None) -> bool:
    """Whether a value that is placed so along an axis is what a collective takes."""
    match now:
        case None:
            return before == "whole"
        case PendingAlong(how=how):
            return before == how
        case OwnedAlong():
            return before == "owned"
        case SplitAlong():
            return before == "split" and now.dim == taken


def _refuse_other_rows(statement: Apply, x: TensorType, axes: tuple[str, ...], dim: int) -> None:
    """Raises Reject where what a device has of a dimension cannot be joined along axes to what the type says."""
    cuts = cuts_of(x.places, dim)
    inner = tuple(cut.axis for cut in cuts[-len(axes) :])
    if inner != axes:
        message = f"`{statement.op}` along {show_axes(axes)} would put rows of `{x}` in another order"
        hint = f"gather along `{cuts[-1].axis}` first, the innermost axis of dimension {dim}"
        if {*inner} == {*axes}:
            hint = f"write `axis = {print_literal(inner)}`, in the order in which they split dimension {dim}"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)
    joined = cuts[-len(axes) :]
    has_blocks = any(cut.blocks for cut in joined)
    if len(axes) > 1 and (has_blocks or len({cut.zigzag for cut in joined}) > 1):
        message = f"`{statement.op}` along {show_axes(axes)} would put rows of `{x}` in another order"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help="gather along one axis after the other")
    if has_blocks and COLLECTIVES[statement.op].after == "split":
        message = f"`{statement.op}` expected one part of dimension {dim} on each device, found several: `{x}`"
        hint = "write `AllGather` and `Shard`, or split the blocks apart before"
        raise Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)


def _unfit(statement: Apply, x: TensorType, axes: tuple[str, ...], before: str, dim: int | None) -> Reject:
    """The refusal of a collective for an operand that is placed otherwise."""
    takes = {"whole": "a whole value", "owned": "a value of one device", "split": f"a value split in dimension {dim}"}
    wanted = takes.get(before, f"a pending {NOUNS.get(before, before)}")
    what = f"`%{arg}`" if isinstance(arg := statement.args[0], str) else "its operand"
    axis = next(axis for axis in axes if not _fits(along(x.places, axis), before, dim))
    now = along(x.places, axis)
    message = f"`{statement.op}` expected {wanted} along `{axis}`, found {what} {described(state_of(now))}: `{x}`"
    so = [place.axis for place in x.places if _fits(place, before, dim)]
    fitting = [other for other in so if other in axes] or so[:1]
    if fitting:
        along_which = "along which it is " + {"split": "split", "owned": "on one device"}.get(before, "pending")
        hint = f"write `axis = {print_literal(named(fitting))}`, {along_which}"
    else:
        hint = _instead(now, axis, before)
    return Reject(codes.BAD_COLLECTIVE, message, Part("operand", 0), help=hint)


def _instead(now: Place | None, axis: str, before: str) -> str:
    """What to write in place of a collective that takes values of another placement."""
    match now:
        case None:
            undone = {"split": "joined", "owned": "sent"}.get(before, "added up")
            return f"remove it: nothing is left to be {undone}"
        case PendingAlong(how=how):
            return f"write `{shown(ending([axis], how))}`, which ends what is pending"
        case OwnedAlong():
            return f'write `Broadcast[axis = "{axis}"]`, which gives it to all'
        case SplitAlong() if before == "split":
            return f"name dimension {now.dim}, which is split"
        case SplitAlong():
            return f'write `AllGather[axis = "{axis}", dim = {now.dim}]`, which joins the parts'
