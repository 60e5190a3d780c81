"""Decides how one op runs on split values: the cheapest of its typings over operands that may be moved.

By the op's rule alone (`placement.rule`). Writes no statements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Attributes, Site, TensorType, Type
from distir.ops import Op, Value, bind, type_of
from distir.ops.layout import Layout
from distir.ops.splitting import layout
from distir.placement.along import PARTIAL, WHOLE, Split, State, is_host
from distir.placement.rule import (
    Typing,
    are_equal,
    at,
    by_letter,
    dim_of,
    elements,
    joins,
    kept,
    placed_along,
)
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.sizes import divisors


class NoRule(Exception):  # noqa: N818 - a verdict on an op, not a failure of ours
    """The op has no rule by which it can be split."""


class NotExchanged(Exception):  # noqa: N818
    """The op should be split along another dimension than its operands, but its sizes do not allow that."""

    def __init__(self, op: str, sizes: tuple[int, ...], devices: int) -> None:
        super().__init__(op, sizes, devices)
        self.op, self.sizes, self.devices = op, sizes, devices

    def at(self, site: Site) -> ProgramError:
        """The error for a statement."""
        sizes = " and ".join(map(str, sorted(self.sizes, reverse=True)))
        message = f"`{self.op}` has {sizes} heads, which do not split over {self.devices} devices"
        hint = f"{divisors(math.gcd(*self.sizes))} would do, or `cp_kind=allgather`"
        return ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), hint)])


@dataclass(frozen=True, slots=True)
class Exchanged(Typing):
    """The typing of an op whose results are brought into other placements at once, as its layout says (`exchanged`)."""

    returned: tuple[State, ...] = ()

    @property
    def mark(self) -> str:
        """The attribute of the op that says it is executed so."""
        assert self.layout is not None
        assert self.layout.exchanged is not None
        return self.layout.exchanged.mark

    def unmarked(self, attrs: Attributes) -> Attributes:
        """The attributes of the op without that one."""
        return Attributes({name: value for name, value in attrs.items() if name != self.mark})


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
    if (as_they_are := kept(op, vs, states, ws)) is not None:
        return as_they_are
    if not any(isinstance(state, Split) for state in states):
        return Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))
    found = layout(op, vs, ws, attrs)
    if found is None:
        raise NoRule
    for one in (found, *found.others):
        if one.exchanged is not None and (decision := _exchanged(op, one, attrs, vs, states, ws, size)) is not None:
            return decision
        for letter in _by_cost(one, vs, states, ws):
            count = order.parts(size)
            near = _apart(letter, one, vs, states, count) if letter == one.apart and joins(letter, one) else states
            decision = by_letter(op, letter, one, bind(op, attrs), vs, near, ws, count)
            if decision is not None:
                return decision
    return Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))


def _apart(letter: str, found: Layout, vs: Sequence[Value], states: Sequence[State], size: int) -> tuple[State, ...]:
    """The states in which operands are joined along a letter: what is split otherwise is gathered."""
    axes = [letters.index(letter) for letters in found.operands]
    return tuple(_piece(s, v, axis, size) for s, v, axis in zip(states, vs, axes, strict=True))


def _piece(state: State, value: Value, axis: int, size: int) -> State:
    """The state needed of an operand that is joined with others; a host value is sliced, if possible."""
    if isinstance(state, Split) and state.axis == axis and not state.loose:
        return state
    found = type_of(value)
    shape = found.shape if isinstance(found, TensorType) else None
    dim = shape[axis] if is_host(value) and shape is not None else None
    return Split(axis) if isinstance(dim, int) and dim % size == 0 else WHOLE


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
        raise NotExchanged(op.name, tuple(n for n in counts if isinstance(n, int)), size)
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
