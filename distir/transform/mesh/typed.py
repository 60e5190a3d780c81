"""How a statement is executed on a mesh: along each axis by the rule of its op, on parts that operands have or get.

Statements with equal operands are decided once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis.placement_states import erased
from distir.analysis.placing import dividing
from distir.ir import Apply, Attributes, SplitAlong, TensorType, TupleType
from distir.ir.places import cuts_of
from distir.ops import OPS, Value, item_of, type_of
from distir.placement.along import PARTIAL, WHOLE, OwnedBy, Split, State, is_host, of_item
from distir.placement.rule import Typing
from distir.placement.typings import over_owners
from distir.transform.mesh.collectives import is_as_needed, order_of_cuts
from distir.transform.mesh.spread import SpreadSums
from distir.transform.mesh.values import FIXED, Loose, PlacedValues, loose_where
from distir.transform.mesh.wanted import is_update
from distir.transform.sharding.decide import Exchanged, decide

OWNERS = "owners"
"""The attribute of ops whose rows are sent to the devices that own them: along the axes of experts alone."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How an op is executed on operands that are placed so."""

    each: tuple[Typing, ...]
    """Along each axis."""
    needed: tuple[tuple[State, ...], ...]
    """By operand, along each axis."""
    order: tuple[str, ...]
    """The axes, in the order in which they are to cut dimensions."""
    moved: tuple[int, ...]
    """The operands that are not where they are needed."""
    loose: tuple[Loose, ...]
    """By result: the axes along which it is split only to be stored so."""
    whole_along: frozenset[str]
    """The axes along which operands that are split are gathered, whatever the op's rule says."""
    needs_sizes: bool
    """Whether it depends on sizes."""


@dataclass(slots=True)
class Executions:
    """The decisions of one run of the partitioner, by op, operands, and what is known of those beside their types."""

    together: Sequence[Sequence[str]] = ()
    """Groups of axes of which several may split one dimension."""
    _known: dict[object, Execution] = field(default_factory=dict[object, Execution])

    def of(
        self,
        statement: Apply,
        vs: tuple[Value, ...],
        ws: tuple[Value, ...],
        spread: SpreadSums,
        whole_along: frozenset[str] = FIXED,
    ) -> Execution:
        """How a statement is executed on operands `vs`, giving `ws`, and along some axes on no parts. Raises NoRule."""
        beside = tuple([(spread.values.loose(arg), spread.tokens(arg)) for arg in statement.args])
        key = statement.op, statement.attrs, vs, ws, beside, whole_along
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _decided(statement, vs, ws, spread, whole_along, self.together)
        return known


def _decided(
    statement: Apply,
    vs: tuple[Value, ...],
    ws: tuple[Value, ...],
    spread: SpreadSums,
    whole_along: frozenset[str],
    together: Sequence[Sequence[str]],
) -> Execution:
    axes, needs_sizes = [axis for axis, _ in spread.values.axes], False
    while True:
        each = tuple([typing_along(axis, statement, vs, ws, spread, whole_along) for axis in axes])
        needs_sizes |= any(map(_depends_on_sizes, each))
        apart = {typing.letter: axis for axis, typing in zip(axes, each, strict=True) if typing.parted}
        torn = torn_apart(dict(zip(axes, each, strict=True)), vs, together) - whole_along
        if len(apart) < 2 and not torn:
            break
        whole_along |= {*[*apart.values()][:-1]} or torn  # of parts of two dimensions no device can compute its part
    needed = tuple([tuple([typing.needed[i] for typing in each]) for i in range(len(vs))])
    loose = tuple(
        loose_where({axis: typing.given[j] for axis, typing in zip(axes, each, strict=True)}, _is_loose)
        for j in range(len(ws))
    )
    order = tuple(order_of_cuts(spread.values.axes, vs, needed))
    pairs = enumerate(zip(vs, needed, strict=True))
    moved = tuple(i for i, (v, states) in pairs if not is_as_needed(spread.values.axes, v, states, order))
    return Execution(each, needed, order, moved, loose, whole_along, needs_sizes)


def typing_along(
    axis: str,
    statement: Apply,
    vs: tuple[Value, ...],
    ws: tuple[Value, ...],
    spread: SpreadSums,
    whole_along: Collection[str] = (),
) -> Typing:
    """How a statement is executed along an axis, on operands `vs` that are placed so, giving `ws`."""
    op, values = OPS[statement.op], spread.values
    size = values.parts((SplitAlong(0, axis),))
    whole, made = tuple(map(erased, vs)), [type_of(w) for w in ws]
    states = [values.state(arg, axis) for arg in statement.args]
    if any(isinstance(type_of(v), TupleType) for v in vs):
        size = dividing(vs, axis, dict(values.axes)) or 1  # sizes are numbers
        return _of_items(op.name, statement, whole, states, ws, size)
    if any(isinstance(s, OwnedBy) for s in states):
        found = _by_owner(statement, whole, states, ws) or next(
            iter(over_owners(op, whole, tuple(states), made, size)), None
        )
        if found is not None:
            return found
        states = [WHOLE if isinstance(s, OwnedBy) else s for s in states]
    if axis in whole_along:
        states = [WHOLE if isinstance(s, Split) else s for s in states]

    def decided(states: Sequence[State], attrs: Attributes = statement.attrs, parts: int = size) -> Typing:
        """How it is executed on operands placed so, if a dimension is cut into so many parts, or into more."""
        found = decide(op, attrs, whole, states, made, parts)
        if isinstance(found, Exchanged) and found.mark == OWNERS and axis not in values.owners:
            return decided(states, found.unmarked(attrs))
        needed = _parts(vs, found.needed, axis, values)
        return found if parts % needed == 0 else decided(states, attrs, math.lcm(parts, needed))

    return spread.typing(statement, axis, states, lambda states: decided(states))


def _by_owner(statement: Apply, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value]) -> Typing | None:
    """How the owner of some operands executes an op alone, with sums brought to it; None if every device does.

    What is only stored by its owner is needed by all, but by an op that is of nothing else on devices, and by the
    update of a weight, whose gradient all may have.
    """
    updates = is_update(statement)
    owners = [s for s in dict.fromkeys(states) if isinstance(s, OwnedBy)]
    fixed = [s for s in dict.fromkeys(states[1:] if updates else states) if isinstance(s, OwnedBy) and not s.loose]
    rest = [s for v, s in zip(vs, states, strict=True) if not isinstance(s, OwnedBy) and not is_host(v)]
    (owner, *others) = fixed or owners
    if updates:
        states = [WHOLE if isinstance(s, Split) else s for s in states]
    elif others or any(s is not WHOLE and s is not PARTIAL for s in rest) or (owner.loose and rest):
        return None
    needed = (OwnedBy(owner.number) if s is PARTIAL or s == replace(owner, loose=True) else s for s in states)
    found = tuple(WHOLE if isinstance(s, OwnedBy) and s.number != owner.number else s for s in needed)
    return Typing(found, tuple(WHOLE if is_host(w) else owner for w in ws))


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
            cuts = [cut for cut in others if not cut.blocks]
            if all(cut.axis != axis for cut in cuts):
                cuts.append(SplitAlong(need.axis, axis, zigzag=need.zigzag))
            most = max(most, values.parts(cuts) // (2 if need.zigzag else 1))  # of which the rule takes two
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


def _depends_on_sizes(typing: Typing) -> bool:
    """Whether a dimension is split in parts that the op takes of certain sizes only."""
    return typing.parted or typing.located or (typing.layout is not None and typing.letter in typing.layout.grains)


def _is_loose(found: State) -> bool:
    return isinstance(found, (Split, OwnedBy)) and found.loose
