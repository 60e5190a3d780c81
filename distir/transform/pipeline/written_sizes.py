"""Replaces literal sizes of the batch by symbolic ones.

`Reshape(%x, [8, 3])` holds for a batch of 8 alone. Batch dimensions are followed through the program from the
parameters that have one; in heads of functions they become unknown, and in operands that state a shape they are
computed from another value (`Shape`). The program's meaning does not change. Independent of microbatches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distir.analysis import Analysis, Instance
from distir.ir import (
    DISCARD,
    Apply,
    Call,
    Dense,
    Dim,
    Function,
    Literal,
    Module,
    TensorType,
    TupleType,
    Type,
    results,
)
from distir.ir.builder import FunctionBuilder, Operand, namer
from distir.ops import OPS, Value, type_of
from distir.ops.splitting import layout
from distir.transform.sharding.batch import Places, batch_places


def sizes_from_values(analysis: Analysis, entry: Function, batch: Mapping[str, int]) -> Module:
    """The module without literal batch sizes; the same module if there are none.

    `batch` gives the parameters of the entry function that have the batch, and along which axis.
    """
    found = batch_places(analysis, entry, batch)
    freed: list[Function] = []
    for function in analysis.module:
        instances, places = found.instances.get(function.name), found.places.get(function.name, {})
        opened = function if function == entry else _opened(function, places)
        freed.append(_asking(analysis, opened, instances[0], places) if instances else opened)
    module = Module(freed)
    return analysis.module if module == analysis.module else module


def _opened(function: Function, places: Places) -> Function:
    """The function with unknown dimensions for the batch's in its head, and in claims."""
    body = [
        replace(s, claims=tuple(c and _open(c, name, places) for c, name in zip(s.claims, s.results, strict=True)))
        if isinstance(s, (Apply, Call)) and s.claims
        else s
        for s in function.body
    ]
    stated = function.result_types and tuple(
        _open(t, arg, places) if isinstance(arg, str) else t
        for t, arg in zip(function.result_types, function.returned, strict=True)
    )
    params = tuple(replace(p, type=_open(p.type, p.name, places)) for p in function.params)
    return replace(function, params=params, body=tuple(body), result_types=stated)


def _open(type: Type, name: str, places: Places, path: tuple[int, ...] = ()) -> Type:
    """The type of a value with literal batch sizes unknown."""
    if isinstance(type, TupleType):
        return TupleType(tuple(_open(item, name, places, (*path, k)) for k, item in enumerate(type.items)))
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    dims = enumerate(type.shape)
    return replace(type, shape=tuple(None if isinstance(n, int) and (name, path, k) in places else n for k, n in dims))


def _asking(analysis: Analysis, function: Function, instance: Instance, places: Places) -> Function:
    """The function with batch sizes in stated shapes computed from values."""
    f, params = namer(function), {p.name for p in function.params}
    for statement in function.body:
        stated = _stated(analysis, statement, instance, places) if isinstance(statement, Apply) else None
        if isinstance(statement, Apply) and stated is not None:
            operand, sizes, axes = stated
            parts, start = list[Operand](), 0
            for axis in axes:
                if (size := _size(f, params, instance, places, sizes[axis])) is not None:
                    parts += [Literal(sizes[start:axis]), size] if axis > start else [size]
                    start = axis + 1
            if parts:
                parts += [Literal(sizes[start:])] if start < len(sizes) else []
                (shape,) = f.apply("Concat", *parts, axis=0, results=("sizes",))
                statement = replace(statement, args=(*statement.args[:operand], shape, *statement.args[operand + 1 :]))
        f.body.append(statement)
    return replace(function, body=tuple(f.body))


def _stated(
    analysis: Analysis, statement: Apply, instance: Instance, places: Places
) -> tuple[int, tuple[int, ...], list[int]] | None:
    """The operand that states a shape with the batch's sizes, all its sizes, and which of them are the batch's."""
    vs = instance.state(statement.args)
    name = statement.results[0] if statement.results else DISCARD
    shape = _shape(instance.state.get(name))
    axes = [axis for axis in range(len(shape)) if (name, (), axis) in places]
    if not axes or any(isinstance(type_of(v), TupleType) for v in vs):
        return None
    ws = [type_of(w) for w in analysis.domain.answer(statement, vs)]
    found = layout(OPS[statement.op], vs, ws, statement.attrs)
    if found is None or found.stated is None:
        return None
    sizes = _integers(vs[found.stated])
    if len(sizes) != len(shape):
        return None
    return found.stated, sizes, [axis for axis in axes if sizes[axis] > 0 and sizes[axis] == shape[axis]]


def _shape(value: Value) -> Sequence[Dim]:
    found = None if value is None else type_of(value)
    return (found.shape or ()) if isinstance(found, TensorType) else ()


def _integers(value: Value) -> tuple[int, ...]:
    written = value.value if isinstance(value, Literal) else value
    items = written.values if isinstance(written, Dense) else written if isinstance(written, tuple) else ()
    return tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool))


def _size(f: FunctionBuilder, params: set[str], instance: Instance, places: Places, size: int) -> str | None:
    """Write statements that compute a size from a batch dimension of a value that is known; the name of the result.

    Preferably from one of that size, and of a parameter. Others are a multiple or a fraction of it, as rows are.
    """
    made, best = params.union(*map(results, f.body)), None
    for name, path, axis in places:
        shape = _shape(instance.state.get(name)) if name in made and not path else ()
        there = shape[axis] if axis < len(shape) else None
        if isinstance(there, int) and there and (size % there == 0 or there % size == 0):
            rank = (there == size, name in params)
            if best is None or rank > best[0]:
                best = rank, name, axis, there
    if best is None:
        return None
    _, name, axis, there = best
    (found,) = f.apply("Shape", name, results=("size",), start=axis, end=axis + 1)
    if there == size:
        return found
    op, factor = ("Mul", size // there) if size > there else ("Div", there // size)
    return f.apply(op, found, factor, results=("size",))[0]
