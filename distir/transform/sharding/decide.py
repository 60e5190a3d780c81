"""Decides how one op runs on split values: the cheapest of its typings over operands that may be moved.

By the op's rule alone (`placement.rule`). Writes no statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from distir.ir import Attributes, Type
from distir.ops import Op, Value, bind, type_of
from distir.ops.layout import Layout
from distir.ops.splitting import layout
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, State
from distir.placement.rule import (
    Typing,
    are_equal,
    at,
    by_letter,
    dim_of,
    elements,
    placed_along,
    stays_greatest,
    stays_partial,
)
from distir.transform.sharding.mesh import IN_ORDER, Order


class NoRule(Exception):  # noqa: N818 - a verdict on an op, not a failure of ours
    """The op has no rule by which it can be split."""


class NotExchanged(Exception):  # noqa: N818
    """The op should be split along another dimension than its operands, but its sizes do not allow that."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__(sizes)
        self.sizes = sizes


@dataclass(frozen=True, slots=True)
class Exchanged(Typing):
    """The typing of an op whose results are brought into other placements at once, as its layout says (`exchanged`)."""

    returned: tuple[State, ...] = ()


def decide(
    op: Op,
    attrs: Attributes,
    vs: Sequence[Value],
    states: Sequence[State],
    ws: Sequence[Type],
    size: int,
    order: Order = IN_ORDER,
) -> Typing:
    """For operands `vs` in `states` and results `ws`, none of them tuples. Raises NoRule."""
    return _decided(op, attrs, tuple(vs), tuple(states), tuple(ws), size, order)


@lru_cache(maxsize=1 << 12)  # a cache, since leaves of tuples and layers recur
def _decided(
    op: Op,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
    order: Order,
) -> Typing:
    if op.awaits:  # the others are waited for, and not read
        return Typing(states, (states[0],))
    if any(state is PARTIAL for state in states) and stays_partial(op, vs, states):
        return Typing(tuple(states), (PARTIAL,) * len(ws))
    if any(state is GREATEST for state in states) and stays_greatest(op, states):
        return Typing(tuple(states), (GREATEST,) * len(ws))
    if not any(isinstance(state, Split) for state in states):
        return Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))
    found = layout(op, vs, ws, attrs)
    if found is None:
        raise NoRule
    for one in (found, *found.others):
        if one.exchanged is not None and (decision := _exchanged(op, one, attrs, vs, states, ws, size)) is not None:
            return decision
        for letter in _by_cost(one, vs, states, ws):
            decision = by_letter(op, letter, one, bind(op, attrs), vs, states, ws, order.parts(size))
            if decision is not None:
                return decision
    return Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))


def made_in_parts(
    op: Op, attrs: Attributes, vs: Sequence[Value], ws: Sequence[Type], wanted: Split, size: int
) -> Typing | None:
    """The typing that computes a wanted part of a result from whole operands; None if that takes parts of them."""
    main = layout(op, tuple(vs), tuple(ws), attrs)
    for found in () if main is None else (main, *main.others):
        letter = at(found.results[0], wanted.axis)
        if letter in found.parted and not any(letter in letters for letters in found.operands):
            if wanted.blocks and not (letter in found.blocked and are_equal(wanted.blocks)):
                return None
            made = by_letter(op, letter, found, bind(op, attrs), vs, (WHOLE,) * len(vs), ws, size)
            return made and replace(made, given=tuple(wanted if isinstance(s, Split) else s for s in made.given))
    return None


def _exchanged(
    op: Op,
    found: Layout,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
) -> Exchanged | None:
    """The decision to split along another letter than the operands are, and to bring results back."""
    exchange = found.exchanged
    assert exchange is not None
    letters = [at(own, s.axis) for own, s in zip(found.operands, states, strict=True) if isinstance(s, Split)]
    if exchange.before not in letters:
        return None
    bound = bind(op, attrs)
    made = by_letter(op, exchange.inside, found, bound, vs, states, ws, size)
    back = placed_along(exchange.before, found.results, {}, Split(0), PARTIAL)
    if made is None or back is None:
        counts = {bound.get(name) for name in found.divided.get(exchange.inside, ())}
        counts = counts or {dim_of(type_of(v), own, exchange.inside) for v, own in zip(vs, found.operands, strict=True)}
        raise NotExchanged(tuple(n for n in counts if isinstance(n, int)))
    pairs = enumerate(zip(made.given, back, strict=True))
    returned = tuple(
        given if there is PARTIAL or given is PARTIAL or j in exchange.kept else there for j, (given, there) in pairs
    )
    return Exchanged(made.needed, made.given, made.letter, made.layout, made.lessened, returned)


def _by_cost(found: Layout, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Type]) -> list[str]:
    """The letters along which operands are split, loose ones last; the least communication first."""
    weights: dict[str, int] = {}
    fixed: set[str] = set()
    for letters, v, state in zip(found.operands, vs, states, strict=True):
        if isinstance(state, Split) and (letter := at(letters, state.axis)) is not None:
            weights[letter] = weights.get(letter, 0) + elements(type_of(v))
            if not state.loose:
                fixed.add(letter)
    moved = sum(elements(type_of(v)) for v, state in zip(vs, states, strict=True) if state is not WHOLE)

    def cost(letter: str) -> int:
        """The elements communicated: of operands that are not split so, and of sums afterwards."""
        summed = sum(elements(w) for w, letters in zip(ws, found.results, strict=True) if letter not in letters)
        return moved - weights[letter] + summed

    def order(letter: str) -> tuple[bool, bool, int, int]:
        return letter != found.owned, letter not in fixed, cost(letter), -weights[letter]

    return sorted(weights, key=order)
