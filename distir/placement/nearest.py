"""What is wrong with operands of which an op computes no parts of its results, and which collectives mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from distir.ir import Attributes, TupleType, Type
from distir.ops import Op, Value, item_of, type_of
from distir.placement.along import GREATEST, PARTIAL, WHOLE, OwnedBy, Split, State, is_host
from distir.placement.rule import Typing, elements
from distir.placement.typings import candidates, draws, is_refused, item_along, typings

Means = Literal[
    "AllReduce", "AllReduce max", "ReduceScatter", "AllGather", "AllToAll", "Slice", "Share", "Reduce", "Broadcast"
]
"""What brings a value from one placement along an axis into another.

`Slice` (whole to split) and `Share` (whole to a pending sum) communicate nothing.
"""


@dataclass(frozen=True, slots=True)
class Reshard:
    """An operand that must be placed otherwise, and by what means; None: by no single collective."""

    operand: int
    now: State
    needed: State
    means: Means | None
    item: int | None = None
    """The item of the operand, a tuple, that is meant."""

    @property
    def axis(self) -> int | None:
        """The dimension that is scattered, sliced or gathered; of an all-to-all the one that will be split."""
        split = self.needed if isinstance(self.needed, Split) else self.now
        return split.axis if isinstance(split, Split) else None


@dataclass(frozen=True, slots=True)
class Nearest:
    """The typing with the fewest operands changed; None if the op has none. `reason`: what is wrong, as a clause."""

    typing: Typing | None
    changes: tuple[Reshard, ...]
    reason: str


def nearest(
    op: Op,
    attrs: Attributes,
    operands: Sequence[Value],
    placements: Sequence[State],
    results: Sequence[Type],
    size: int | None,
) -> Nearest:
    """For placements that have no typing: what is wrong, and how it is mended. Arguments as of `typings`.

    No split begins here: a typing is along a dimension along which an operand is split, or whole. Of those with equally
    few changes, it is the one that communicates least, sums of its results included.
    """
    vs, states, ws = tuple(operands), tuple(placements), tuple(results)
    if is_refused(op, attrs, vs):
        return Nearest(None, (), _refusal(op, attrs, vs))
    if any(isinstance(type_of(v), TupleType) for v in vs):
        return _of_items(op, attrs, vs, states, ws, size)
    if any(isinstance(s, OwnedBy) for s in states):
        return _of_owners(op, states)
    ranked: list[tuple[tuple[int, int, int], Typing, tuple[Reshard, ...]]] = []
    every = [*candidates(op, attrs, vs, states, ws, size or 1), *_as_sums(op, attrs, vs, states, ws, size)]
    for typing in every:
        changes = tuple(
            Reshard(i, now, needed, means_of(now, needed))
            for i, (now, needed) in enumerate(zip(states, typing.needed, strict=True))
            if now != needed and not (is_host(vs[i]) and isinstance(needed, Split))
        )
        stuck = sum(change.means is None for change in changes)
        ranked.append(((stuck, len(changes), _cost(changes, vs, typing, ws, size or 2)), typing, changes))
    _, typing, changes = min(ranked, key=lambda one: one[0])
    split = bool(size and size > 1 and typings(op, attrs, vs, states, ws, 1))
    reason = f"sizes do not divide by {size} devices" if split else _reason(op, vs, states, changes)
    return Nearest(typing, changes, reason)


def means_of(now: State, needed: State) -> Means | None:
    """The collective that brings a value into another placement, or the local op; None if it takes several."""
    match now, needed:
        case (OwnedBy(), _) if needed is WHOLE:
            return "Broadcast"
        case (_, OwnedBy()) if now is PARTIAL:
            return "Reduce"
        case (_, Split(blocks=blocks)) if now is PARTIAL and not blocks:
            return "ReduceScatter"
        case Split(blocks=(), zigzag=False), Split(blocks=(), zigzag=False) if now.axis != needed.axis:
            return "AllToAll"
        case Split(), _ if needed is WHOLE:
            return "AllGather"
        case _, Split() if now is WHOLE and not needed.is_repeated:
            return "Slice"
        case _ if now is PARTIAL and needed is WHOLE:
            return "AllReduce"
        case _ if now is GREATEST and needed is WHOLE:
            return "AllReduce max"
        case _ if now is WHOLE and needed is PARTIAL:
            return "Share"
        case _:
            return None


def _of_owners(op: Op, states: Sequence[State]) -> Nearest:
    """Of operands of which some are on one device alone: sums go to it; else they are made whole."""
    owners = [s for s in states if isinstance(s, OwnedBy)]
    others = [s for s in states if not isinstance(s, OwnedBy) and s is not WHOLE]
    if len({*owners}) == 1 and all(s is PARTIAL for s in others):
        needed: list[State] = [owners[0] if s is PARTIAL else s for s in states]
        reason = f"`{op.name}` is computed by the owner of its operands, which has no sum"
    else:
        needed = [WHOLE if isinstance(s, OwnedBy) else s for s in states]
        several = len({*owners}) > 1
        found = "other devices have other operands" if several else "other operands are parts, which it has not all"
        reason = f"`{op.name}` is computed by the owner of its operands, and {found}"
    pairs = enumerate(zip(states, needed, strict=True))
    changes = (Reshard(i, now, then, means_of(now, then)) for i, (now, then) in pairs if now != then)
    return Nearest(None, tuple(changes), reason)


def _as_sums(
    op: Op, attrs: Attributes, vs: tuple[Value, ...], states: tuple[State, ...], ws: tuple[Type, ...], size: int | None
) -> tuple[Typing, ...]:
    """The typing of a sum of pending sums and whole values, with each device adding its share of those."""
    if op.linear != "jointly" or PARTIAL not in states:
        return ()
    return typings(op, attrs, vs, [WHOLE if is_host(v) else PARTIAL for v in vs], ws, size)


def _cost(changes: Sequence[Reshard], vs: Sequence[Value], typing: Typing, ws: Sequence[Type], size: int) -> int:
    """The elements that are communicated, and those of results that become pending sums; a share last among equals."""
    total = 0
    for change in changes:
        count = elements(type_of(vs[change.operand]))
        match change.means:
            case "AllReduce" | "AllReduce max":
                total += 2 * count * size
            case "AllToAll":
                total += count
            case "Slice":
                total += 1
            case "Share":
                total += 2
            case _:
                total += count * size
    return total + sum(2 * elements(w) * size for w, s in zip(ws, typing.given, strict=True) if s is PARTIAL)


def _of_items(
    op: Op, attrs: Attributes, vs: tuple[Value, ...], states: tuple[State, ...], ws: tuple[Type, ...], size: int | None
) -> Nearest:
    """Of the first item of tuples that has no typing."""
    count = next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))
    for k in range(count):
        own = [item_along(s, k) for s in states]
        types = [type_of(item_of(w, k)) for w in ws]
        items = [item_of(v, k) for v in vs]
        if not typings(op, attrs, items, own, types, size):
            found = nearest(op, attrs, items, own, types, size)
            tuples = [isinstance(type_of(v), TupleType) for v in vs]
            changes = tuple(replace(c, item=k if tuples[c.operand] else None) for c in found.changes)
            return Nearest(found.typing, changes, f"in item {k}, {found.reason}")
    raise AssertionError("some item has no typing")


def _refusal(op: Op, attrs: Attributes, vs: tuple[Value, ...]) -> str:
    """Why an op has no place in a program of a mesh."""
    if draws(op, attrs, vs):
        return f"`{op.name}` draws random numbers in turn, and each device would draw others: give it a key or a seed"
    return f"`{op.name}` is of one device that represents others: on a mesh, name the axis"


def _reason(op: Op, vs: Sequence[Value], states: Sequence[State], changes: Sequence[Reshard]) -> str:
    """What is wrong with the operands that change."""
    if PARTIAL in states:
        whole = any(s is WHOLE and v is not None for v, s in zip(vs, states, strict=True))
        if op.linear == "jointly" and whole:
            return "a whole value would be added once for each device of a sum that is pending"
        if states.count(PARTIAL) > 1:
            return f"`{op.name}` of pending sums would have terms of one device alone"
        return f"`{op.name}` of the terms of a pending sum does not give terms of its result"
    if GREATEST in states:
        return f"`{op.name}` of pending maxima does not give those of its result"
    first = changes[0]
    split = [s for s in states if isinstance(s, Split)]
    if any(s.axis == t.axis and (s.blocks, s.zigzag) != (t.blocks, t.zigzag) for s in split for t in split):
        return f"`{op.name}` is given parts of other rows: operands are split along a dimension in other orders"
    if isinstance(first.now, Split) and first.needed is WHOLE:
        return f"`{op.name}` needs all places of dimension {first.now.axis}, which is split"
    return f"`{op.name}` needs parts of one dimension of its operands, which are split otherwise"
