"""The typings of an op for given placements of its operands: what the checker asks of each statement and mesh axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from distir.ir import Attributes, Type
from distir.ops import Op, Value, bind
from distir.ops.splitting import layout
from distir.placement.along import GREATEST, PARTIAL, WHOLE, Split, State
from distir.placement.rule import Typing, at, by_letter, stays_greatest, stays_partial


def typings(
    op: Op,
    attrs: Attributes,
    operands: Sequence[Value],
    placements: Sequence[State],
    results: Sequence[Type],
    size: int | None,
) -> tuple[Typing, ...]:
    """The ways in which the op, on parts of its operands as they are placed, computes parts of its results.

    Operands, attributes, host values and results are those of the whole program: letters vanish where a part has size
    1. `placements` are along one mesh axis of `size` devices, None where it is a name; where several axes split one
    dimension each is asked by itself, and their product must divide. Nothing is moved: `()` is a type error, whose
    reason and remedy `nearest` gives. A literal with dimensions is whole, as a value is: one that meets a split operand
    must be sliced; a scalar need not be.
    """
    return _typings(op, attrs, tuple(operands), tuple(placements), tuple(results), size or 1)


@lru_cache(maxsize=1 << 12)  # layers repeat
def _typings(
    op: Op,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
) -> tuple[Typing, ...]:
    if op.name == "MakeTuple":
        return (Typing(states, (states,)),)
    if op.name == "UnpackTuple":
        (items,) = states
        return (Typing(states, items if isinstance(items, tuple) else (items,) * len(ws)),)
    return tuple(t for t in _candidates(op, attrs, vs, states, ws, size) if t.needed == states)


def _candidates(
    op: Op,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
) -> Iterator[Typing]:
    if op.awaits:  # the others are waited for, and not read
        yield Typing(states, (states[0],))
        return
    if PARTIAL in states and stays_partial(op, vs, states):
        yield Typing(states, (PARTIAL,) * len(ws))
    if GREATEST in states and stays_greatest(op, states):
        yield Typing(states, (GREATEST,) * len(ws))
    yield Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))
    found = layout(op, vs, ws, attrs)
    for one in () if found is None else (found, *found.others):
        split = {at(own, s.axis) for own, s in zip(one.operands, states, strict=True) if isinstance(s, Split)}
        for letter in sorted(letter for letter in split if letter is not None):
            made = by_letter(op, letter, one, bind(op, attrs), vs, states, ws, size)
            if made is not None:
                yield made
