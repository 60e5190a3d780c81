"""The collectives that bring a value to where it is needed, as messages name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.analysis.placement_states import erased, state, tensors
from distir.diagnostics.codes import placements as codes
from distir.ir import Apply, Attributes, Constant, Part, TensorType, Type
from distir.ir.places import cuts_of, show_axes
from distir.ops import Reject, Value, type_of
from distir.ops.mesh import stating
from distir.placement.along import GREATEST, PARTIAL, OwnedBy, Split, State
from distir.placement.nearest import Nearest, Reshard, means_of
from distir.placement.typings import item_along
from distir.syntax import print_literal


def refusal(statement: Apply, vs: Sequence[Value], wrong: Mapping[str, Nearest]) -> Reject:
    """The refusal of a statement that does not compute parts of its results along axes, with what mends the first.

    Where the same mends it along others, it is one collective over all of them.
    """
    (axis, nearest), *others = wrong.items()
    change = next(iter(nearest.changes), None)
    if change is None:
        return Reject(codes.NOT_PARTS, f"`{statement.op}` along `{axis}`: {nearest.reason}", Part("callee"))
    axes = as_cut([axis, *(other for other, own in others if change in own.changes)], [vs[change.operand], *vs])
    made = inserted(statement, change, axes)
    what = f"`%{arg}`" if isinstance(arg := statement.args[change.operand], str) else f"operand {change.operand}"
    needed, now = (described(item_along(s, change.item or 0)) for s in (change.needed, change.now))
    message = f"`{statement.op}` expected {what} {needed} along {show_axes(axes)}, found {now}: {nearest.reason}"
    hint = None if made is None else f"insert `{shown(made)}` for `%{made.args[0]}`"
    return Reject(codes.NOT_PARTS, message, Part("operand", change.operand), help=hint)


def as_cut(axes: Sequence[str], vs: Sequence[Value]) -> tuple[str, ...]:
    """Axes in the order in which they split a dimension of one of the values, if any does."""
    for tensor in (tensor for v in vs for tensor in tensors(type_of(v))):
        for dim in range(len(tensor.shape or ())):
            cuts = [cut.axis for cut in cuts_of(tensor.places, dim) if cut.axis in axes]
            if len(cuts) == len(axes):
                return tuple(cuts)
    return tuple(axes)


def described(state: State) -> str:
    """A placement along an axis, as a message says it."""
    if isinstance(state, Split):
        how = " by blocks" if state.blocks else ""
        return f"split in dimension {state.axis}{how}{' in zig-zag' if state.zigzag else ''}"
    if isinstance(state, OwnedBy):
        return f"on device {state.number} alone"
    return "a pending sum" if state is PARTIAL else "a pending maximum" if state is GREATEST else "whole"


def bringing(found: Type, wanted: Type) -> str | None:
    """The collective that brings a value to where a type states that it is, as help; None if no single one does."""
    if not isinstance(found, TensorType) or not isinstance(wanted, TensorType) or erased(found) != erased(wanted):
        return None
    differing = {place.axis for place in {*found.places} ^ {*wanted.places}}
    changes = {(state(found, axis), state(wanted, axis)) for axis in differing}
    if len(changes) != 1:
        return None
    ((now, needed),) = changes
    axes = as_cut(sorted(differing), (found, wanted))
    made = inserted(Apply((), "", ("",)), Reshard(0, now, needed, means_of(now, needed)), axes)
    return None if made is None else f"`{shown(made)}` brings it there"


MEANS: Mapping[str, str] = {"AllReduce max": "AllReduce", "Slice": "Shard"}
"""By what `placement.nearest` calls a change of placement: the op, where that has another name."""


def inserted(statement: Apply, change: Reshard, axes: Sequence[str]) -> Apply | None:
    """The collective, without results, that brings an operand to where a statement needs it; None if none does."""
    arg = statement.args[change.operand]
    if change.means is None or change.item is not None or not isinstance(arg, str):
        return None
    attrs: dict[str, Constant] = {"axis": named(axes)}
    if change.means == "AllReduce max":
        attrs["op"] = "max"
    elif change.means == "AllToAll":
        assert isinstance(change.now, Split)
        attrs |= {"split": change.axis or 0, "join": change.now.axis}
    elif isinstance(change.needed, OwnedBy):
        attrs["to"] = named_numbers([change.needed.number] * len(axes))
    elif change.axis is not None:
        attrs["dim"] = change.axis
        attrs |= stating(change.needed.blocks, change.needed.zigzag) if isinstance(change.needed, Split) else {}
    return Apply((), MEANS.get(change.means, change.means), (arg,), Attributes(attrs))


def ending(axes: Sequence[str], how: str) -> Apply:
    """The collective, without results and operand, that ends what is pending along axes."""
    return Apply((), "AllReduce", (), Attributes({"axis": named(axes), **({"op": how} if how != "sum" else {})}))


def named(axes: Sequence[str]) -> str | tuple[str, ...]:
    """Axes as the attribute of a collective."""
    return axes[0] if len(axes) == 1 else tuple(axes)


def named_numbers(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """The numbers of devices along axes as the attribute of a collective."""
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def shown(collective: Apply) -> str:
    """A collective as a message names it: `AllReduce[axis = "tp"]`."""
    said = (f"{name} = {print_literal(value)}" for name, value in collective.attrs.items())
    return f"{collective.op}[{', '.join(said)}]"
