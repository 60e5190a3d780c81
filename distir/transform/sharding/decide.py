"""How one op runs on values that are split: which states it needs of its operands, and which its results then have.

Knows the op by its layout and its linearity alone. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from distir.ir import Attributes, TensorType, Type
from distir.ops import Op, Value, bind, type_of
from distir.ops.layout import Blocks, Layout, Letters
from distir.ops.splitting import layout, linear_operands, operand_places
from distir.transform.sharding.state import PARTIAL, WHOLE, Split, State, is_host


class NoRule(Exception):  # noqa: N818 - a verdict on an op, not a failure of ours
    """Nothing says how the op may be split."""


@dataclass(frozen=True, slots=True)
class Decision:
    """States needed and given. `letter`: the one that is split, if one is, in `layout`."""

    needed: tuple[State, ...]
    given: tuple[State, ...]
    letter: str | None = None
    layout: Layout | None = None


def decide(
    op: Op, attrs: Attributes, vs: Sequence[Value], states: Sequence[State], ws: Sequence[Type], size: int
) -> Decision:
    """For operands `vs` in `states` and results `ws`, none of them tuples. Raises NoRule."""
    return _decided(op, attrs, tuple(vs), tuple(states), tuple(ws), size)


@lru_cache(maxsize=1 << 12)  # leaves of tuples, and layers, are asked for again and again
def _decided(
    op: Op, attrs: Attributes, vs: tuple[Value, ...], states: tuple[State, ...], ws: tuple[Type, ...], size: int
) -> Decision:
    if any(state is PARTIAL for state in states) and _stays_partial(op, vs, states):
        return Decision(tuple(states), (PARTIAL,) * len(ws))
    if not any(isinstance(state, Split) for state in states):
        return Decision((WHOLE,) * len(vs), (WHOLE,) * len(ws))
    found = layout(op, vs, ws, attrs)
    if found is None:
        raise NoRule
    for one in (found, *found.others):
        for letter in _by_weight(one, vs, states):
            decision = _split(letter, one, bind(op, attrs), vs, states, ws, size)
            if decision is not None:
                return decision
    return Decision((WHOLE,) * len(vs), (WHOLE,) * len(ws))


def _stays_partial(op: Op, vs: Sequence[Value], states: Sequence[State]) -> bool:
    """Whether the op gives partial sums of the results for the partial sums that it is given."""
    if op.linear == "jointly":
        places = operand_places(op, vs)
        host = [is_host(v) for v in vs]
        stated = all(place.device == "host" for place, h in zip(places, host, strict=True) if h)
        return stated and all(s is PARTIAL for s, h in zip(states, host, strict=True) if not h)
    partial = [i for i, state in enumerate(states) if state is PARTIAL]
    others = [state for state in states if state is not PARTIAL]
    return (
        len(partial) == 1 and op.operand_name(partial[0]) in linear_operands(op, vs) and all(s is WHOLE for s in others)
    )


def _by_weight(found: Layout, vs: Sequence[Value], states: Sequence[State]) -> list[str]:
    """The letters along which operands are split; first the one whose operands are largest, loose ones last."""
    weights: dict[str, int] = {}
    fixed: set[str] = set()
    for letters, v, state in zip(found.operands, vs, states, strict=True):
        if isinstance(state, Split) and (letter := at(letters, state.axis)) is not None:
            weights[letter] = weights.get(letter, 0) + _weight(type_of(v))
            if not state.loose:
                fixed.add(letter)
    return sorted(weights, key=lambda letter: (letter not in fixed, -weights[letter]))


def _weight(type: Type) -> int:
    elements = type.elements if isinstance(type, TensorType) else None
    return elements if isinstance(elements, int) else 1


def at(letters: Letters, axis: int) -> str | None:
    """The letter of a dimension; None where the shape was not known."""
    return letters[axis] if axis < len(letters) else None


def _split(
    letter: str,
    found: Layout,
    attrs: Attributes,
    vs: Sequence[Value],
    states: Sequence[State],
    ws: Sequence[Type],
    size: int,
) -> Decision | None:
    """The decision to split one letter, or None where that cannot be."""
    blocks = _common_blocks(letter, found, states)
    if blocks is None or (letter in found.contiguous and blocks):
        return None
    if letter in found.averaged and not all(_is_float(w) for w in ws):
        return None
    if not all(_divides(attrs.get(name), size) for name in found.divided.get(letter, ())):
        return None
    if blocks and (letter == found.parted or _joins(letter, found)):
        return None
    loose = _is_loose(letter, found, states)
    if loose and (letter == found.parted or _joins(letter, found) or _cuts(letter, found)):
        return None
    needed = _states(letter, found.operands, found.operand_blocks, Split(0, blocks, loose), WHOLE)
    kept = Split(0, () if _cuts(letter, found) else blocks, loose)
    given = _states(letter, found.results, found.result_blocks, kept, PARTIAL)
    if needed is None or given is None:
        return None
    pairs = [*zip((type_of(v) for v in vs), needed, strict=True), *zip(ws, given, strict=True)]
    if letter == found.parted and not all(_is_known(t, s) for t, s in pairs):
        return None
    return Decision(needed, given, letter, found) if all(_fits(t, s, size) for t, s in pairs) else None


def _joins(letter: str, found: Layout) -> bool:
    """Whether a result is joined from blocks along the letter."""
    return any(found.results[j][axis] == letter for j, axis in found.result_blocks)


def _cuts(letter: str, found: Layout) -> bool:
    """Whether an operand is cut into blocks along the letter."""
    return any(found.operands[i][axis] == letter for i, axis in found.operand_blocks)


def _is_loose(letter: str, found: Layout, states: Sequence[State]) -> bool:
    """Whether all operands that are split along the letter are so loosely."""
    pairs = zip(found.operands, states, strict=True)
    split = [state for letters, state in pairs if isinstance(state, Split) and at(letters, state.axis) == letter]
    return all(state.loose for state in split)


def _common_blocks(letter: str, found: Layout, states: Sequence[State]) -> Blocks | None:
    """The blocks in which operands are split along the letter; None where they are at odds."""
    blocks: set[Blocks] = set()
    for i, (letters, state) in enumerate(zip(found.operands, states, strict=True)):
        if isinstance(state, Split) and at(letters, state.axis) == letter:
            if (wanted := found.operand_blocks.get((i, state.axis))) is not None and wanted != state.blocks:
                return None
            blocks.add(state.blocks)
    return blocks.pop() if len(blocks) == 1 else None


def _states(
    letter: str,
    places: tuple[Letters, ...],
    own_blocks: Mapping[tuple[int, int], Blocks],
    like: Split,
    otherwise: State,
) -> tuple[State, ...] | None:
    """A state for each operand or result, split `like` that along another axis; None where the letter stands twice."""
    found: list[State] = []
    for i, letters in enumerate(places):
        if letters.count(letter) > 1:
            return None
        if letter not in letters:
            found.append(otherwise)
            continue
        axis = letters.index(letter)
        found.append(Split(axis, own_blocks.get((i, axis), like.blocks), like.loose))
    return tuple(found)


def _fits(type: Type, state: State, size: int) -> bool:
    """Whether the dimension that is split, and each block of it, divides, as far as is known."""
    if not isinstance(state, Split) or not isinstance(type, TensorType) or type.shape is None:
        return True
    return all(_divides(dim, size) for dim in (type.shape[state.axis], *state.blocks))


def _is_known(type: Type, state: State) -> bool:
    """Whether the size of the dimension that is split is a number."""
    shape = type.shape if isinstance(type, TensorType) else None
    return not isinstance(state, Split) or (shape is not None and isinstance(shape[state.axis], int))


def _divides(value: object, size: int) -> bool:
    """Whether a dimension, or a number in an attribute, divides, as far as is known."""
    return not isinstance(value, int) or isinstance(value, bool) or value % size == 0


def _is_float(type: Type) -> bool:
    return isinstance(type, TensorType) and type.dtype is not None and type.dtype.kind == "float"
