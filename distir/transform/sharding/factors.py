"""Ops on values that are placed differently along the factors of a mesh axis: decided for each factor by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from distir.ir import Apply, Attributes, TensorType
from distir.ops import OPS, Op, Value, type_of
from distir.placement.along import WHOLE, Nested, Split, State, is_nested, nested, state_along
from distir.placement.part_types import part_of
from distir.placement.rule import Typing
from distir.transform.sharding.decide import Exchanged, NoRule, decide, made_in_parts
from distir.transform.sharding.items import Each, Item
from distir.transform.sharding.mesh import Order
from distir.transform.sharding.rewrite import Rewriting, rewritten


@dataclass(frozen=True, slots=True)
class Decisions:
    """A decision for each factor, outermost first, with the operands and results that it is of: cut along those before.

    `along`: the factors of each decision, where some are of several factors, or these cut in another order.
    """

    each: tuple[Typing, ...]
    operands: tuple[tuple[Value, ...], ...]
    results: tuple[tuple[Value, ...], ...]
    factors: tuple[int, ...]
    along: tuple[tuple[int, ...], ...] = ()

    @property
    def needed(self) -> tuple[State, ...]:
        """The states that operands need."""
        return tuple(map(self._nested, zip(*(d.needed for d in self.each), strict=True)))

    @property
    def given(self) -> tuple[State, ...]:
        """The states of results."""
        return tuple(map(self._nested, zip(*(d.given for d in self.each), strict=True)))

    def _nested(self, states: Sequence[State]) -> State:
        """The state of a value that has these by decision."""
        if self.along:
            found = {factor: state for state, own in zip(states, self.along, strict=True) for factor in own}
            states = [found[factor] for factor in range(len(self.factors))]
        return nested(states, self.factors)


def decide_along(
    op: Op, attrs: Attributes, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value], factors: Sequence[int]
) -> Decisions:
    """How an op runs on operands of which some are `Nested`. Raises NoRule.

    Where it takes the places of rows to be these of one factor, what is split over all devices is gathered, rather than
    split along the others.
    """
    found = _decide_along(op, attrs, vs, states, ws, factors)
    if not any(typing.parted for typing in found.each):
        return found
    apart = [isinstance(s, Split) and is_nested(need) for s, need in zip(states, found.needed, strict=True)]
    if not any(apart):
        return found
    gathered = [WHOLE if is_apart else s for s, is_apart in zip(states, apart, strict=True)]
    return _decide_along(op, attrs, vs, gathered, ws, factors)


def _decide_along(
    op: Op, attrs: Attributes, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Value], factors: Sequence[int]
) -> Decisions:
    each: list[Typing] = []
    operands, results = [tuple(vs)], [tuple(ws)]
    for k, size in enumerate(factors):
        own = [state_along(state, k) for state in states]
        decision = decide(op, attrs, operands[k], own, [type_of(w) for w in results[k]], size)
        if isinstance(decision, Exchanged):
            raise NoRule
        each.append(decision)
        operands.append(tuple(map(_part, operands[k], decision.needed, [size] * len(vs))))
        results.append(tuple(map(_part, results[k], decision.given, [size] * len(ws))))
    return Decisions(tuple(each), tuple(operands[:-1]), tuple(results[:-1]), tuple(factors))


def _part(value: Value, state: State, size: int) -> Value:
    return part_of(value, state, size) if isinstance(value, TensorType) else value


def write_along(
    body: Rewriting, statement: Apply, vs: Sequence[Value], ws: Sequence[Value], decisions: Decisions
) -> None:
    """Append the statement as it was decided for each factor. Raises NoRule where it would become others for two."""
    args = [body.placed(arg, need) for arg, need in zip(statement.args, decisions.needed, strict=True)]
    written_along(body, replace(statement, args=tuple(args), claims=()), decisions)
    for name, w, state in zip(statement.results, ws, decisions.given, strict=True):
        body.define(name, w, state)


def written_along(body: Rewriting, own: Apply, decisions: Decisions) -> None:
    """Append a statement whose operands are placed as it needs them. Raises NoRule as `write_along` does.

    What follows the op itself, as a division of its mean, follows what it becomes for the next factor.
    """
    split = [k for k, typing in enumerate(decisions.each) if typing.letter is not None]
    split.sort(key=lambda k: decisions.each[k].parted)
    first, behind = len(body.items), list[Item]()
    for number, k in enumerate(split):
        if number:
            at = next((n for n, item in _last_first(body.items, first) if _is_of(item, own.op)), None)
            if at is None:
                raise NoRule
            itself, *after = body.items[at:]
            assert isinstance(itself, Each)
            assert isinstance(itself.statement, Apply)
            own, behind = itself.statement, [*after, *behind]
            del body.items[at:]
        along = decisions.along[k] if decisions.along else (k,)
        typing, operands = decisions.each[k], decisions.operands[k]
        with body.along(*along, order=Order(typing.zigzag)), body.holding(own.args, operands):
            rewritten(body, own, list(own.args), operands, decisions.results[k], typing)
    body.items += behind
    if not split:
        body.items.append(Each(own))


def _last_first(items: Sequence[Item], first: int) -> list[tuple[int, Item]]:
    return [*enumerate(items[first:], first)][::-1]


def _is_of(item: Item, op: str) -> bool:
    return isinstance(item, Each) and isinstance(item.statement, Apply) and item.statement.op == op


def write_in_parts_along(
    body: Rewriting, statement: Apply, vs: Sequence[Value], ws: Sequence[Value], wanted: Nested
) -> bool:
    """Append the statement so that devices compute the part of its result that is wanted; whether that is possible."""
    split = [(k, state) for k, (state, _) in enumerate(wanted.parts) if isinstance(state, Split)]
    if len(split) != 1 or any(isinstance(state, Split) is False and state is not WHOLE for state, _ in wanted.parts):
        return False
    ((k, state),) = split
    decision = made_in_parts(OPS[statement.op], statement.attrs, vs, [type_of(ws[0])], state, body.factors[k])
    if decision is None:
        return False
    with body.along(k):
        rewritten(body, replace(statement, claims=()), list(statement.args), vs, ws, decision)
    body.define(statement.results[0], ws[0], wanted)
    return True
