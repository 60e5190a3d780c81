"""What exporters write without need: casts to the type that is there, reshapes to the shape that is there."""

from __future__ import annotations

from collections.abc import Mapping

from distir.ir import Apply, Attributes, Dense, Shape, TensorType
from distir.ops import Value, type_of


def simpler(op: Apply, values: Mapping[str, Value], makers: Mapping[str, Apply]) -> Apply | str:
    """The same with less: the name of an operand that is the result already, or a statement that does it at once.

    `makers`: the statements that gave the values. The statement itself where nothing is known to be simpler.
    """
    first = op.args[0] if op.args else None
    if not isinstance(first, str) or not first:
        return op
    stated = type_of(values[first])
    if not isinstance(stated, TensorType) or stated.dtype is None:
        return op
    if op.op == "Cast" and op.attrs.get("to") is stated.dtype:
        return first
    if op.op in ("Reshape", "Expand") and stated.shape is not None and None not in stated.shape:
        if _target(op, values) == stated.shape:
            return first
        if op.op == "Reshape":
            return _row_wise(op, first, values, makers) or op
    return op


def _target(op: Apply, values: Mapping[str, Value]) -> Shape | None:
    """The shape that is asked for, where it is plainly said."""
    sizes = values.get(op.args[1]) if len(op.args) > 1 and isinstance(op.args[1], str) else None
    if not isinstance(sizes, Dense) or any(isinstance(size, int) and size < 1 for size in sizes.values):
        return None
    return tuple(size for size in sizes.values if not isinstance(size, float))


def _row_wise(op: Apply, first: str, values: Mapping[str, Value], makers: Mapping[str, Apply]) -> Apply | None:
    """A softmax of rows, as old operator sets define it, where it is one along the last dimension."""
    softmax = makers.get(first)
    if softmax is None or softmax.op not in ("Softmax", "LogSoftmax", "Hardmax") or softmax.attrs.get("axis", -1) != -1:
        return None
    (rows,) = softmax.args
    flatten = makers.get(rows) if isinstance(rows, str) else None
    if flatten is None or flatten.op != "Flatten" or not isinstance(flatten.args[0], str):
        return None
    source = type_of(values[flatten.args[0]])
    if not isinstance(source, TensorType) or not source.shape or source.shape != _target(op, values):
        return None
    if flatten.attrs.get("axis", 1) not in (-1, len(source.shape) - 1):
        return None
    return Apply(op.results, softmax.op, (flatten.args[0],), Attributes({"axis": -1}))
