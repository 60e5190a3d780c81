"""How the updates of a training step want gradients to be placed: as the weights and the state that they update.

A gradient that is a pending sum over replicas is so reduced to the part of it that each device updates, and not to the
whole of which each takes its part. What only scales or casts a gradient wants it as its result is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Instance
from distir.ir import Apply, Arg, Function, Places, SplitAlong, TensorType, Type
from distir.ir.places import places, without
from distir.ops import OPS, type_of
from distir.ops.layout import Layout, Letters
from distir.ops.splitting import layout
from distir.placement.along import PARTIAL, WHOLE
from distir.placement.rule import kept


@dataclass(frozen=True, slots=True)
class Gradient:
    """The placement in which a gradient is wanted, and the weight that it is of."""

    wanted: Places
    of: str
    last: bool = True
    """Whether its sum over devices cannot wait: what is computed of it is no sum, as of a cast to another type."""


def gradients(function: Function, instance: Instance, params: Mapping[str, Type]) -> dict[str, Gradient]:
    """By value of an entry function: the gradient that it is. `params`: its parameters, placed."""
    found: dict[str, Gradient] = {}
    for statement in reversed(function.body):
        if not isinstance(statement, Apply):
            continue
        if is_update(statement):
            gradient = statement.args[1]
            if isinstance(gradient, str):
                of = statement.facts.of or str(statement.args[0])
                found.setdefault(gradient, Gradient(_by_update(statement, instance, params), of))
        elif len(statement.results) == 1 and statement.results[0] in found:
            after = found[statement.results[0]]
            for arg, wanted, last in _before(statement, instance, after.wanted):
                found.setdefault(arg, Gradient(wanted, after.of, last))
    return found


def is_update(statement: Apply) -> bool:
    """Whether an op replaces its first operand, a weight or what it is kept in, by means of the second, a gradient."""
    op = OPS[statement.op]
    return op.inplace != "each" and op.inplace.get(0) == 0 and op.communication is None and len(statement.args) > 1


def _by_update(statement: Apply, instance: Instance, params: Mapping[str, Type]) -> Places:
    """How the update of a part wants its gradient: as that is split of its weight and state which is split most.

    A dimension that the update needs whole is not split.
    """
    found = layout_of(statement, instance)
    if found is None:
        return ()
    own = found.operands[1]

    def along_own(arg: Arg, its: Letters) -> Places:
        stored = params.get(arg) if isinstance(arg, str) else None
        cuts = (p for p in stored.places if isinstance(p, SplitAlong)) if isinstance(stored, TensorType) else ()
        pairs = ((cut, its[cut.dim]) for cut in cuts)
        return places(replace(cut, dim=own.index(letter)) for cut, letter in pairs if letter and letter in own)

    return max((along_own(arg, its) for arg, its in zip(statement.args, found.operands, strict=True)), key=len)


def layout_of(update: Apply, instance: Instance) -> Layout | None:
    """What an update's rule says of the dimensions of its operands; None where there is none."""
    results = [type_of(v) for v in instance.state(update.results)]
    return layout(OPS[update.op], instance.state(update.args), results, update.attrs)


def _before(statement: Apply, instance: Instance, wanted: Places) -> list[tuple[str, Places, bool]]:
    """The operands with the dimensions of a statement's result, how they are wanted, and whether they must be sums."""
    vs = instance.state(statement.args)
    (w,) = (type_of(v) for v in instance.state(statement.results))
    if not isinstance(w, TensorType) or not all(isinstance(type_of(v), TensorType) for v in vs):
        return []
    found = layout(OPS[statement.op], vs, [w], statement.attrs)
    if found is None:
        return []
    made = found.results[0]
    alike = [None not in made and sorted(map(str, letters)) == sorted(map(str, made)) for letters in found.operands]
    pending = tuple(PARTIAL if is_alike else WHOLE for is_alike in alike)
    last = kept(OPS[statement.op], vs, pending, [w]) is None
    rows = zip(statement.args, found.operands, alike, strict=True)
    return [(a, _along(wanted, made, own), last) for a, own, is_alike in rows if is_alike and isinstance(a, str)]


def _along(wanted: Places, made: Sequence[str | None], letters: Sequence[str | None]) -> Places:
    """The placement of an operand by that of a result, dimension by dimension."""
    for place in wanted:
        if isinstance(place, SplitAlong) and place.blocks:
            wanted = without(wanted, place.axis)
    return places(SplitAlong(letters.index(made[p.dim]), p.axis) for p in wanted if isinstance(p, SplitAlong))
