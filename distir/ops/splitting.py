"""The `Layout` of an op for given operands, from its `sharding` rule or its signature.

In a signature every letter may be split, except one that an attribute names (`n@axis`) and those in `whole`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from distir.ir import NO_ATTRIBUTES, Attributes, Dense, Dim, Literal, Shape, TensorType, Type
from distir.ops.attributes import bind
from distir.ops.core import Op
from distir.ops.infer import Value, match_operands, type_of
from distir.ops.layout import Layout, Letters
from distir.ops.signature import AnyPattern, Broadcast, DimVar, OperandPattern, Segment, TensorPattern


def layout(op: Op, args: Sequence[Value], results: Sequence[Type], attrs: Attributes) -> Layout | None:
    """The op's layout for these operands and results; None if neither a rule nor its signature determines one.

    `args` are no tuples: an op over tuples has the layout of each leaf. Raises Reject for operands that do not match.
    """
    return _layout(op, tuple(args), tuple(results), attrs)


@lru_cache(maxsize=1 << 12)  # leaves of tuples, and layers of a model, repeat
def _layout(op: Op, args: tuple[Value, ...], results: tuple[Type, ...], attrs: Attributes) -> Layout | None:
    bound = bind(op, attrs)
    matched = match_operands(op, args, bound)
    if rule := op.rules.get("sharding"):
        found: Layout | None = rule(*matched.values, results=tuple(map(_shape, results)), **bound)
        left_out = () if found is None else ((),) * (len(args) - len(found.operands))  # a rule may omit them
        return replace(found, operands=(*found.operands, *left_out)) if found is not None and left_out else found
    signature = matched.signature
    places = [signature.operands[min(i, len(signature.operands) - 1)] for i in range(len(args))]
    ends = [signature.results[min(i, len(signature.results) - 1)] for i in range(len(results))]
    if not all(_has_shape(place) for place in [*places, *ends]):
        return None
    whole = {*op.whole, *(t.name for p in places for t in _terms(p) if isinstance(t, DimVar) and t.axis)}
    segments = matched.bindings.segments
    operands = [
        () if arg is None else _letters(place, _shape(type_of(arg)), whole, segments)
        for place, arg in zip(places, args, strict=True)
    ]
    given = [_letters(end, _shape(t), whole, segments) for end, t in zip(ends, results, strict=True)]
    return Layout(tuple(operands), tuple(given))


def linear_operands(op: Op, args: Sequence[Value]) -> tuple[str, ...]:
    """The operands in which an op is linear, each by itself, for these arguments; None is one that is left out."""
    if op.linear == "jointly":
        return ()
    added = {op.operand_name(i) for i, arg in enumerate(args) if not _is_zero(arg)}.intersection(op.addends)
    return tuple(name for name in op.linear if added <= {name})


def _is_zero(value: Value) -> bool:
    """Whether an operand is left out, or known to hold zeros alone."""
    held = value.value if isinstance(value, Literal) else value
    return held is None or held == 0 or (isinstance(held, Dense) and not any(held.values))


def operand_places(op: Op, args: Sequence[Value]) -> list[TensorPattern | AnyPattern]:
    """The pattern of each operand in the op's signature. Raises Reject for operands that do not match."""
    signature = (
        op.signatures[0] if len(op.signatures) == 1 else match_operands(op, args, bind(op, NO_ATTRIBUTES)).signature
    )
    return [signature.operands[min(i, len(signature.operands) - 1)].pattern for i in range(len(args))]


def _has_shape(operand: OperandPattern) -> bool:
    return isinstance(operand.pattern, TensorPattern) and operand.pattern.shape is not None


def _terms(operand: OperandPattern) -> Sequence[object]:
    return (operand.pattern.shape or ()) if isinstance(operand.pattern, TensorPattern) else ()


def _shape(type: Type) -> Shape | None:
    return type.shape if isinstance(type, TensorType) else None


def _letters(operand: OperandPattern, shape: Shape | None, whole: set[str], segments: Mapping[str, Shape]) -> Letters:
    """A letter for each dimension of an operand or result; empty for an unknown shape."""
    if shape is None:
        return ()
    terms = _terms(operand)
    lengths = [len(segments.get(t.name, ())) if isinstance(t, Segment) else 1 for t in terms]
    spread = next((i for i, t in enumerate(terms) if isinstance(t, Broadcast)), None)
    if spread is not None:
        lengths[spread] += len(shape) - sum(lengths)
    if sum(lengths) != len(shape):
        return (None,) * len(shape)
    letters: list[str | None] = []
    for term, length in zip(terms, lengths, strict=True):
        letters += [_letter(term, k, length, shape[len(letters) + k], whole) for k in range(length)]
    return tuple(letters)


def _letter(term: object, k: int, length: int, dim: Dim, whole: set[str]) -> str | None:
    match term:
        case Segment(name) if name not in whole:
            return f"*{name}{k}"
        case Broadcast():
            return None if dim == 1 else f"...{length - k}"
        case DimVar(name) if name not in whole and not term.indexed:
            return name
        case _:
            return None
