"""Results that devices could compute whole, of which each computes the part alone that a user needs.

As the rows of experts, which a shard that has some of them permutes for these. The part is cut off by a `Shard` behind
the op, and `expand` writes both as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.analysis.placement_states import erased
from distir.ir import Apply, SplitAlong, TensorType
from distir.ops import OPS, Value, type_of
from distir.ops.tuples import TUPLING
from distir.placement.along import WHOLE, Split, State
from distir.placement.rule import Typing
from distir.transform.mesh.spread import SpreadSums
from distir.transform.mesh.typed import typing_along
from distir.transform.sharding.decide import made_in_parts


def needed_in_parts(
    statement: Apply, ws: tuple[Value, ...], each: Sequence[Typing], spread: SpreadSums
) -> list[State] | None:
    """How the first user of an op's result needs it, by axis; None where the op does not compute such parts.

    `each`: how the op is executed along each axis. It is written already, on operands that are placed so.
    """
    op, values, given = OPS[statement.op], spread.values, [typing.given[0] for typing in each]
    found = type_of(ws[0])
    if "parted" not in op.rules or len(ws) != 1 or not isinstance(found, TensorType) or WHOLE not in given:
        return None
    (name,), vs = statement.results, tuple(erased(values.value(arg)) for arg in statement.args)
    axes = [axis for axis, _ in values.axes]
    users = (values.function.body[i] for i in values.uses.get(name, ()))
    for user in users:
        if not isinstance(user, Apply) or user.op in (*TUPLING, "Send") or not values.are_defined(user.args):
            continue
        theirs = tuple(map(values.value, user.args))
        made = spread.domain.answer(user, tuple(map(erased, theirs)))
        wanted, place = [*given], user.args.index(name)
        for k, axis in enumerate(axes):
            need = typing_along(axis, user, theirs, made, spread).needed[place]
            if given[k] is not WHOLE or not isinstance(need, Split):
                continue
            size = values.parts((SplitAlong(0, axis),))
            if made_in_parts(op, statement.attrs, vs, [found], need, size) is not None:
                wanted[k] = need
        return wanted if wanted != given else None
    return None
