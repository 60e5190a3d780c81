"""What is sent to a stage whose mesh is another: of which placements each device there gets its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.analysis.mending import ending, shown
from distir.diagnostics.codes import placements as codes
from distir.ir import (
    HOST,
    Apply,
    Attributes,
    Meshes,
    OwnedAlong,
    Part,
    PendingAlong,
    SplitAlong,
    TensorType,
    Type,
    types,
)
from distir.ir.places import NOUNS, Place, Size, count, cuts_of
from distir.ops import Reject


def refuse_between(statement: Apply, given: Sequence[Type], made: Sequence[Type], meshes: Meshes) -> None:
    """Raises Reject where a statement is of stages whose meshes differ, and is no send of what they have alike.

    What is sent is split along the same axes there, into more or fewer parts: of several one is joined, or one is cut
    into several.
    """
    leaves = [leaf for found in (*given, *made) for leaf in types.leaves(found)]
    devices = [leaf.device for leaf in leaves if leaf.device is not None and leaf.device != HOST]
    if len({meshes.of(device) for device in devices}) < 2:
        return
    if statement.op != "Send" or not isinstance(given[0], TensorType):
        stages = " and ".join(map(str, sorted({*devices})))
        message = f"`{statement.op}` is of stages {stages}, whose meshes differ"
        raise Reject(codes.NOT_PARTS, message, Part("callee"), help="send each tensor by itself to one stage before")
    for place in given[0].places:
        _refuse(statement, given[0], place, devices[-1], meshes)


def _refuse(statement: Apply, x: TensorType, place: Place, to: int, meshes: Meshes) -> None:
    here, there = dict(meshes.of(x.device)), dict(meshes.of(to))
    reason = None
    if place.axis not in there:
        reason = f"the mesh of stage {to} has no axis `{place.axis}`"
    elif isinstance(place, PendingAlong) and here[place.axis] != there[place.axis]:
        sizes = f"{here[place.axis]} devices along `{place.axis}`, and stage {to} has {there[place.axis]}"
        reason = f"the terms of a pending {NOUNS[place.how]} are on {sizes}"
    elif isinstance(place, OwnedAlong) and here[place.axis] != there[place.axis]:
        reason = (
            f"it is on one of {here[place.axis]} devices along `{place.axis}`, and stage {to} has {there[place.axis]}"
        )
    elif isinstance(place, SplitAlong):
        axes = [cut.axis for cut in cuts_of(x.places, place.dim)]
        if not all(axis in there for axis in axes):
            return  # said of the axis that is not there
        own, other = (count(sizes[axis] for axis in axes) for sizes in (here, there))
        if place.has_several and [here[axis] for axis in axes] != [there[axis] for axis in axes]:
            how = "blocks" if place.blocks else "zig-zag"
            reason = f"dimension {place.dim} is split in {how}, over {_sizes(axes, here)} here"
            reason += f" and {_sizes(axes, there)} there"
        elif isinstance(own, int) and isinstance(other, int) and own % other and other % own:
            reason = f"{own} parts of dimension {place.dim} do not make up {other}"
    if reason is not None:
        arg = statement.args[0]
        made = ending([place.axis], place.how) if isinstance(place, PendingAlong) else _gathering(place)
        hint = f"insert `{shown(made)}` for `%{arg}`" if isinstance(arg, str) else None
        message = f"`{statement.op}` of `{x}` to stage {to}: {reason}"
        raise Reject(codes.NOT_PARTS, message, Part("operand", 0), help=hint)


def _sizes(axes: Sequence[str], sizes: Mapping[str, Size]) -> str:
    """Axes with their sizes: `dp = 4, cp = 2`."""
    return f"`{', '.join(f'{axis} = {sizes[axis]}' for axis in axes)}`"


def _gathering(place: SplitAlong | OwnedAlong) -> Apply:
    if isinstance(place, OwnedAlong):
        return Apply((), "Broadcast", (), Attributes({"axis": place.axis}))
    return Apply((), "AllGather", (), Attributes({"axis": place.axis, "dim": place.dim}))
