"""How a statement is executed along one axis of a mesh: by the rule of its op, on parts that operands have or get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from distir.analysis.placement_states import erased
from distir.analysis.placing import dividing
from distir.ir import Apply, TensorType, TupleType
from distir.ir.places import cuts_of
from distir.ops import OPS, Value, item_of, type_of
from distir.placement.along import PARTIAL, WHOLE, OwnedBy, Split, State, is_host, of_item
from distir.placement.rule import Typing
from distir.placement.typings import over_owners
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
    size = values.devices({axis})
    whole, made = tuple(map(erased, vs)), [type_of(w) for w in ws]
    states = [values.state(arg, axis) for arg in statement.args]
    if any(isinstance(type_of(v), TupleType) for v in vs):
        size = dividing(vs, axis, dict(values.axes)) or 1  # sizes are numbers
        return _of_items(op.name, statement, whole, states, ws, size)
    if any(isinstance(s, OwnedBy) for s in states):
        found = _by_owner(whole, states, ws) or next(iter(over_owners(op, whole, tuple(states), made, size)), None)
        if found is not None:
            return found
        states = [WHOLE if isinstance(s, OwnedBy) else s for s in states]
    if gathered:
        states = [WHOLE if isinstance(s, Split) else s for s in states]

    def decided(states: Sequence[State], parts: int = size) -> Typing:
        """How it is executed on operands placed so, if a dimension is cut into so many parts, or into more."""
        found = decide(op, statement.attrs, whole, states, made, parts)
        needed = _parts(vs, found.needed, axis, values)
        return found if parts % needed == 0 else decided(states, math.lcm(parts, needed))

    return spread.typing(statement, axis, states, lambda states: decided(states))


def _by_owner(vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]) -> Typing | None:
    """How the owner of some operands executes an op alone, with sums brought to it; None if every device does.

    What is only stored by its owner is needed by all, but by an op that is of nothing else on devices.
    """
    owners = {s for s in states if isinstance(s, OwnedBy)}
    fixed = {s for s in owners if not s.loose} or owners
    rest = [s for v, s in zip(vs, states, strict=True) if not isinstance(s, OwnedBy) and not is_host(v)]
    (owner, *others) = fixed
    if others or any(s is not WHOLE and s is not PARTIAL for s in rest) or (owner.loose and rest):
        return None
    needed = (OwnedBy(owner.number) if s is PARTIAL or s == replace(owner, loose=True) else s for s in states)
    found = tuple(WHOLE if isinstance(s, OwnedBy) and s.number != owner.number else s for s in needed)
    return Typing(found, tuple(WHOLE if is_host(w) else owner for w in ws))


def _parts(vs: Sequence[Value], needed: Sequence[State], axis: str, values: PlacedValues) -> int:
    """Into how many parts a dimension that is to be split along an axis is cut, along that and other axes."""
    most = 1
    for v, need in zip(vs, needed, strict=True):
        if isinstance(v, TensorType) and isinstance(need, Split):
            others = () if need.blocks else cuts_of(v.places, need.axis)
            cuts = {axis, *(cut.axis for cut in others if not cut.blocks)}
            most = max(most, values.devices(cuts))
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
