"""A batch size that an export has fixed, made symbolic again where nodes hold it; `reshaping` does so for `Reshape`.

An export with a batch of 3 keeps that number in the sizes of `Expand` and `ConstantOfShape`, in positions that it has
computed for each of 3 rows, and in indices that count through the batch. What is written instead is the same at size 3
and has the batch's own size at any other. Some of it must be so, for what it is made of already has the named size;
a plain number may be either, so it is taken for the batch only when the program would not
check otherwise (`Freed.guesses`); of a batch of one, which every number 1 could be, the other way round.
"""

from __future__ import annotations

import math
from typing import Any

from distir.importers.core import Freed
from distir.importers.translation import Translation
from distir.ir import DTYPES, Apply, Attributes, Dense, Dim, DimensionError, SymbolicDim, TensorType, dims
from distir.ops import Value, to_array, to_dense, type_of
from distir.ops.numeric import np

LARGEST = 1 << 22
"""Elements of a constant that is looked into."""


def freed(into: Translation, statement: Apply, batch: Freed) -> Apply:
    """The statement without the fixed batch size, as far as it holds it; what it needs is appended before it."""
    args = tuple(map(str, statement.args))
    if batch.guesses and batch.size > 1:
        args = tuple(_expanded_rows(into, arg, batch) if statement.op in _TAKES_ROWS else arg for arg in args)
    found = Apply(statement.results, statement.op, args, statement.attrs)
    rule = _RULES.get(statement.op)
    return found if rule is None else rule(into, found, batch) or found


def _gather(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    """Rows of a batch that was flattened, `b * n + i` for row b, are rows `i` of each of its members."""
    data, indices = map(str, statement.args)
    shape, places = _shape(into, data), _array(into, indices)
    if statement.attrs.get("axis", 0) != 0 or not shape or not batch.within(shape[0]) or not _leads(places, batch):
        return None
    try:
        stride = dims.divide(shape[0], batch.dim)
    except DimensionError:
        return None
    rest = shape[1:]
    members = np.arange(batch.size).reshape(-1, *(1,) * (places.ndim - 1))
    if not isinstance(stride, int) or not all(isinstance(size, int) for size in rest):
        return None
    first = places[0]
    if not np.array_equal(places, members * stride + first) or np.any((first < 0) | (first >= stride)):
        return None
    sizes = _constant(into, f"{data}.members.shape", np.array([-1, stride, *rest], np.int64))
    rows = _append(into, f"{data}.members", "Reshape", (data, sizes))
    into.replaced.add(indices)
    index = _constant(into, f"{indices}.member", first)
    return Apply(statement.results, "Gather", (rows, index), Attributes({"axis": 1}))


def _gather_nd(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    """Indices whose first component counts through the batch, and whose others are the same for each of its members."""
    data, indices = map(str, statement.args)
    shape, places = _shape(into, data), _array(into, indices)
    if statement.attrs.get("batch_dims", 0) != 0 or not shape or shape[0] != batch.dim or not _leads(places, batch):
        return None
    if places.ndim < 2 or places.shape[-1] not in (1, 2):
        return None
    members = np.arange(batch.size).reshape(-1, *(1,) * (places.ndim - 2))
    if np.any(places[..., 0] != members) or np.any(places[..., 1:] != places[:1, ..., 1:]):
        return None
    into.replaced.add(indices)
    if places.shape[-1] == 1:
        return Apply(statement.results, "Identity", (data,)) if places.ndim == 2 else None
    index = _constant(into, f"{indices}.member", places[0, ..., 1])
    return Apply(statement.results, "Gather", (data, index), Attributes({"axis": 1}))


def _expand(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    data, target = map(str, statement.args)
    sizes, shape = _numbers(into, target), _shape(into, data)
    if sizes is None or shape is None:
        return None
    behind = len(sizes) - len(shape)
    said: list[Dim] = list(sizes)
    for i, own in enumerate(shape):
        if own == batch.size > 1 and sizes[i + behind] == batch.dim:
            return Apply(statement.results, "Expand", (_one_row(into, data, i) or data, target))
    for i, size in enumerate(sizes):
        own = shape[i - behind] if i >= behind else 1
        if size == batch.size and (own == batch.dim or (own == 1 and i == 0 and batch.guesses)):
            said[i] = batch.dim
    return _restated(into, statement, 1, said) if said != sizes else None


def _concat(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    """Rows beside those of the batch."""
    axis = statement.attrs.get("axis")
    args = list(map(str, statement.args))
    shapes = [_shape(into, arg) for arg in args]
    if axis == 0 or not any(shape and shape[0] == batch.dim for shape in shapes):
        return None
    said = [
        _expanded_rows(into, arg, batch) if shape and shape[0] == batch.size else arg
        for arg, shape in zip(args, shapes, strict=True)
    ]
    return None if said == args else Apply(statement.results, "Concat", tuple(said), statement.attrs)


def _recurrent(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    """Initial states."""
    axis = 0 if statement.attrs.get("layout", 0) else 1
    args = [str(arg) for arg in statement.args]
    shape = _shape(into, args[0])
    if not shape or shape[axis] != batch.dim:
        return None
    args[5:7] = [_expanded_rows(into, arg, batch, axis) for arg in args[5:7]]
    return Apply(statement.results, statement.op, tuple(args), statement.attrs)


def _constant_of_shape(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    sizes = _numbers(into, str(statement.args[0]))
    if not batch.guesses or sizes is None or len(sizes) < 2 or sizes[0] != batch.size:
        return None
    return _restated(into, statement, 0, [batch.dim, *sizes[1:]])


def _range(into: Translation, statement: Apply, batch: Freed) -> Apply | None:
    """Numbers that count through the batch."""
    start, limit, delta = (into.known(str(arg)) for arg in statement.args)
    if not batch.guesses or start is None or limit is None or delta is None or limit.dtype.name != "Int64":
        return None
    if (start.values, limit.values, delta.values) != ((0,), (batch.size,), (1,)):
        return None
    given = into.builder.fresh(f"{statement.args[1]}.batch")
    into.values[given] = Dense(limit.dtype, (), (batch.dim,))
    return Apply(statement.results, "Range", (statement.args[0], given, statement.args[2]), statement.attrs)


_RULES = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Range": _range,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}

_TAKES_ROWS = frozenset(
    (
        *("Add", "And", "Concat", "Div", "Equal", "Gather", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("MatMul", "Max", "Min", "Mod", "Mul", "Not", "Or", "Pow", "Sub", "Unsqueeze", "Where", "Xor", "Cast"),
    )
)
"""Ops whose operands may be constants with a row for each member of the batch: positions, masks."""


def _expanded_rows(into: Translation, name: str, batch: Freed, axis: int = 0) -> str:
    """A constant with the same row for each member of the batch, as that row for however many there are.

    Of a batch of one, also a value that is computed.
    """
    shape = _shape(into, name)
    if not shape or len(shape) < 2 or shape[axis] != batch.size or None in shape:
        return name
    row = name if batch.size == 1 else _one_row(into, name, axis)
    if row is None:
        return name
    target = into.builder.fresh(f"{name}.batch")
    sizes = tuple(size for size in (*shape[:axis], batch.dim, *shape[axis + 1 :]) if size is not None)
    into.values[target] = Dense(DTYPES["Int64"], (len(shape),), sizes)
    return _append(into, f"{name}.rows", "Expand", (row, target))


def _one_row(into: Translation, name: str, axis: int) -> str | None:
    """The row that a constant has in each place along an axis; None if they differ."""
    rows = _array(into, name)
    if rows is None or np.any(rows != rows.take([0], axis)):
        return None
    into.replaced.add(name)
    return _constant(into, f"{name}.row", rows.take([0], axis))


def _restated(into: Translation, statement: Apply, place: int, sizes: list[Dim]) -> Apply:
    """The statement with these sizes as one of its operands."""
    given = into.builder.fresh(f"{statement.args[place]}.batch")
    into.values[given] = Dense(DTYPES["Int64"], (len(sizes),), tuple(size for size in sizes if size is not None))
    args = (*statement.args[:place], given, *statement.args[place + 1 :])
    return Apply(statement.results, statement.op, args, statement.attrs)


def _leads(array: Any, batch: Freed) -> bool:
    return array is not None and array.ndim > 0 and array.shape[0] == batch.size


def _shape(into: Translation, name: str) -> tuple[Dim, ...] | None:
    stated = type_of(into.values.get(name))
    return stated.shape if isinstance(stated, TensorType) else None


def _numbers(into: Translation, name: str) -> list[Dim] | None:
    """A list of sizes, some of which may be named."""
    value: Value = into.values.get(name)
    if not isinstance(value, Dense) or len(value.shape) != 1 or value.dtype.kind == "float":
        return None
    return [size if isinstance(size, SymbolicDim) else int(size) for size in value.values]


def _array(into: Translation, name: str) -> Any:
    """The data of a constant, or of a weight that is not too large to be one; None for anything else."""
    known = into.known(name)
    if known is not None:
        return to_array(known)
    held = into.weights.get(name)
    if held is None or math.prod(held.shape) > LARGEST:
        return None
    return held.load()


def _constant(into: Translation, hint: str, array: Any) -> str:
    name = into.builder.fresh(hint)
    into.values[name] = to_dense(np.asarray(array))
    return name


def _append(into: Translation, hint: str, op: str, args: tuple[str, ...]) -> str:
    name = into.builder.fresh(hint)
    into.append(Apply((name,), op, args))
    return name
