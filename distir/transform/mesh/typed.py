"""How a statement is executed along one axis of a mesh: by the rule of its op, on parts that operands have or get."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from distir.analysis.placement_states import erased
from distir.analysis.placing import dividing
from distir.ir import Apply, SplitAlong, TensorType, TupleType
from distir.ir.places import cuts_of
from distir.ops import OPS, Value, item_of, type_of
from distir.placement.along import WHOLE, Split, State, of_item
from distir.placement.rule import Typing
from distir.transform.mesh.spread import SpreadSums
from distir.transform.mesh.values import PlacedValues
from distir.transform.sharding.decide import decide


def typing_along(
    axis: str,
    statement: Apply,
    vs: tuple[Value, ...],
    ws: tuple[Value, ...],
    spread: SpreadSums,
    gathered: bool,
) -> Typing:
    """How a statement is executed along an axis, of operands `vs` placed so, giving `ws`; `gathered`: on no parts."""
    op, values = OPS[statement.op], spread.values
    size = values.parts((SplitAlong(0, axis),))
    whole, made = tuple(map(erased, vs)), [type_of(w) for w in ws]
    states = [values.state(arg, axis) for arg in statement.args]
    if any(isinstance(type_of(v), TupleType) for v in vs):
        size = dividing(vs, axis, dict(values.axes)) or 1  # sizes are numbers
        return _of_items(op.name, statement, whole, states, ws, size)
    if gathered:
        states = [WHOLE if isinstance(s, Split) else s for s in states]

    def decided(states: Sequence[State], parts: int = size) -> Typing:
        """How it is executed on operands placed so, if a dimension is cut into so many parts, or into more."""
        found = decide(op, statement.attrs, whole, states, made, parts)
        needed = _parts(vs, found.needed, axis, values)
        return found if parts % needed == 0 else decided(states, math.lcm(parts, needed))

    return spread.typing(statement, axis, states, lambda states: decided(states))


def torn_apart(each: Mapping[str, Typing], vs: Sequence[Value], together: Sequence[Sequence[str]]) -> set[str]:
    """The axes along which an operand stays split which is gathered along others that split the same dimension.

    Where an op takes the places of rows to be these of one axis, what is split over several is gathered along all.
    """
    found: set[str] = set()
    for own in ({axis: each[axis] for axis in group if axis in each} for group in together):
        if not any(typing.parted for typing in own.values()):
            continue
        for i, v in enumerate(vs):
            cuts = [p for p in v.places if isinstance(p, SplitAlong)] if isinstance(v, TensorType) else []
            needs = {cut.axis: own[cut.axis].needed[i] for cut in cuts if cut.axis in own}
            if len(needs) == len(own) > 1 and WHOLE in needs.values():
                found |= {axis for axis, need in needs.items() if isinstance(need, Split)}
    return found


def _parts(vs: Sequence[Value], needed: Sequence[State], axis: str, values: PlacedValues) -> int:
    """Into how many parts a dimension that is to be split along an axis is cut, along that and other axes."""
    most = 1
    for v, need in zip(vs, needed, strict=True):
        if isinstance(v, TensorType) and isinstance(need, Split):
            others = () if need.blocks else cuts_of(v.places, need.axis)
            cuts = [cut for cut in others if not cut.blocks and cut.axis != axis]
            most = max(most, values.parts((SplitAlong(need.axis, axis), *cuts)))
    return most


def _of_items(
    op: str,
    statement: Apply,
    vs: tuple[Value, ...],
    states: Sequence[State],
    ws: tuple[Value, ...],
    size: int,
) -> Typing:
    """How an op over tuples is executed along one axis: item by item."""
    tuples = [isinstance(type_of(v), TupleType) for v in vs]
    count = next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))
    each: list[Typing] = []
    for k in range(count):
        own, made = [item_of(v, k) for v in vs], tuple(item_of(w, k) for w in ws)
        found = [of_item(s, k) for s in states]
        if any(isinstance(type_of(v), TupleType) for v in own):
            each.append(_of_items(op, statement, tuple(own), found, made, size))
        else:
            each.append(decide(OPS[op], statement.attrs, own, found, [*map(type_of, made)], size))
    needed = (tuple(t.needed[i] for t in each) if is_tuple else WHOLE for i, is_tuple in enumerate(tuples))
    return Typing(tuple(needed), tuple(tuple(t.given[j] for t in each) for j in range(len(ws))))
