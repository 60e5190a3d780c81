"""The typings of an op for given placements of its operands: what the checker asks of each statement and mesh axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from distir.ir import Attributes, TensorType, TupleType, Type
from distir.ops import Op, Value, bind, item_of, type_of
from distir.ops.group import represented
from distir.ops.infer import match_operands
from distir.ops.splitting import layout
from distir.placement.along import PARTIAL, WHOLE, OwnedBy, Split, State, is_host
from distir.placement.rule import Typing, at, by_letter, kept


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
    1. `placements` are along one mesh axis, a tuple's with one for each item. `size` is the number of devices by which
    what is split must divide: of this axis and of all others that split the same dimensions; None where one is a name.

    Nothing is moved: `()` is a type error, whose reason and remedy `nearest` gives. A pending sum that is added to a
    whole value is one, and so is an op that draws random numbers in turn. A host value is known to every device, which
    takes the part that meets its parts of other operands. A host result of a split operand is its size in the whole
    program, as the per-device form has to state.
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
        return (Typing(states, tuple(item_along(states[0], k) for k in range(len(ws)))),)
    if any(isinstance(type_of(v), TupleType) for v in vs) and not op.awaits:
        return _of_items(op, attrs, vs, states, ws, size)
    if is_refused(op, attrs, vs):
        return ()
    if any(isinstance(s, OwnedBy) for s in states):
        return by_owner(vs, states, ws) or over_owners(op, vs, states, ws, size)
    return tuple(t for t in candidates(op, attrs, vs, states, ws, size) if fits(t, vs, states))


def by_owner(vs: Sequence[Value], states: tuple[State, ...], ws: Sequence[Type]) -> tuple[Typing, ...]:
    """The typing of an op that the owner of its operands computes alone, if the others are whole there."""
    owners = {s for s in states if isinstance(s, OwnedBy)}
    others = [s for s in states if not isinstance(s, OwnedBy)]
    if len(owners) > 1 or any(s is not WHOLE for s in others):
        return ()
    (owner,) = owners
    return (Typing(states, tuple(WHOLE if is_host(w) else owner for w in ws)),)


def over_owners(
    op: Op, vs: Sequence[Value], states: tuple[State, ...], ws: Sequence[Type], size: int
) -> tuple[Typing, ...]:
    """The typing of a sum of what several devices have: of its terms, where each has some."""
    if op.name != "Sum" or not isinstance(ws[0], TensorType):
        return ()
    numbers = {s.number for s in states if isinstance(s, OwnedBy)}
    rest = [s for s in states if not isinstance(s, OwnedBy)]
    alike = all(isinstance(t := type_of(v), TensorType) and t.shape == ws[0].shape for v in vs)
    has_each = bool(rest) or (size > 1 and len(numbers) == size)
    return (Typing(states, (PARTIAL,)),) if alike and has_each and all(s is PARTIAL for s in rest) else ()


def candidates(
    op: Op,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
) -> Iterator[Typing]:
    """The typings that need operands as they are, or split along a dimension along which one of them is, or whole."""
    if (as_they_are := kept(op, vs, states, ws)) is not None:
        yield as_they_are
    if op.awaits:
        return
    if all(map(is_host, ws)) and not all(map(is_host, vs)):
        yield Typing(states, (WHOLE,) * len(ws))  # a size, whatever the parts of the operand are
        return
    yield Typing((WHOLE,) * len(vs), (WHOLE,) * len(ws))
    found = layout(op, vs, ws, attrs)
    bound = bind(op, attrs)
    for one in () if found is None else (found, *found.others):
        letters = {at(own, s.axis) for own, s in zip(one.operands, states, strict=True) if isinstance(s, Split)}
        for letter in sorted(letter for letter in letters if letter is not None):
            made = by_letter(op, letter, one, bound, vs, states, ws, size)
            if made is not None:
                yield made
                yield from _with_pending_addends(op, states, made)


def _with_pending_addends(op: Op, states: Sequence[State], typing: Typing) -> Iterator[Typing]:
    """The typing of which results are pending sums, with addends that are such sums themselves: none takes a share."""
    pending = {i for i, s in enumerate(states) if s is PARTIAL and op.operand_name(i) in op.addends}
    if pending and typing.layout is not None and all(s is PARTIAL for s in typing.given):
        needed = tuple(PARTIAL if i in pending else s for i, s in enumerate(typing.needed))
        divided = {letter: own for letter, own in typing.layout.divided.items() if letter != typing.letter}
        yield replace(typing, needed=needed, layout=replace(typing.layout, divided=divided))


def fits(typing: Typing, vs: Sequence[Value], states: Sequence[State]) -> bool:
    """Whether operands are placed as a typing needs them; of host values each device takes what it needs."""
    rows = zip(typing.needed, states, vs, strict=True)
    return all(need == s or (is_host(v) and isinstance(need, Split)) for need, s, v in rows)


def is_refused(op: Op, attrs: Attributes, vs: Sequence[Value]) -> bool:
    """Whether the op has no place in a program of a mesh: `refusal` says why."""
    return represented(op.name, attrs) is not None or draws(op, attrs, vs)


def draws(op: Op, attrs: Attributes, vs: Sequence[Value]) -> bool:
    """Whether the op draws random numbers in turn: then devices that run it hold different results."""
    bound = bind(op, attrs)
    return op.draws is not None and op.draws(*match_operands(op, vs, bound).values, **bound)


def item_along(state: State, index: int) -> State:
    """The placement of an item of a tuple."""
    return state[index] if isinstance(state, tuple) else state


def _of_items(
    op: Op,
    attrs: Attributes,
    vs: tuple[Value, ...],
    states: tuple[State, ...],
    ws: tuple[Type, ...],
    size: int,
) -> tuple[Typing, ...]:
    """The typing of an op over tuples: each item has its own, the first where it has several."""
    count = next(len(t.items) for v in vs if isinstance(t := type_of(v), TupleType))
    given: list[tuple[State, ...]] = []
    for k in range(count):
        own = tuple(item_along(s, k) for s in states)
        types = tuple(type_of(item_of(w, k)) for w in ws)
        found = _typings(op, attrs, tuple(item_of(v, k) for v in vs), own, types, size)
        if not found:
            return ()
        given.append(found[0].given)
    return (Typing(states, tuple(tuple(item[j] for item in given) for j in range(len(ws)))),)
