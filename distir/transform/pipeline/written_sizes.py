"""Replaces literal sizes of the batch by symbolic ones.

`Reshape(%x, [8, 3])` holds for a batch of 8 alone. Batch dimensions are followed through the program from the
parameters that have one; in heads of functions they become unknown, and in operands that state a shape they are
computed from another value (`Shape`). The program's meaning does not change. Independent of microbatches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from distir.analysis import Analysis, Instance
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Attributes,
    Call,
    Dense,
    Dim,
    Function,
    Literal,
    Module,
    Statement,
    TensorType,
    TupleType,
    Type,
)
from distir.ir.builder import namer
from distir.ops import OPS, Value, type_of
from distir.ops.splitting import layout
from distir.transform.sharding.batch import Places, batch_places
from distir.transform.sharding.classes import Place


def sizes_from_values(analysis: Analysis, entry: Function, batch: Mapping[str, int]) -> Module:
    """The module without literal batch sizes; the same module if there are none.

    `batch` gives the parameters of the entry function that have the batch, and along which axis.
    """
    found = batch_places(analysis, entry, batch)
    functions: list[Function] = []
    for function in analysis.module:
        places = found.places.get(function.name, {})
        functions.append(_freed(analysis, function, found.instances.get(function.name, ()), places, function == entry))
    changed = any(new is not old for new, old in zip(functions, analysis.module, strict=True))
    return Module(functions) if changed else analysis.module


def _freed(
    analysis: Analysis, function: Function, instances: Sequence[Instance], places: Places, is_entry: bool
) -> Function:
    """The function without literal batch sizes; the same one if there are none."""
    params = (
        function.params
        if is_entry
        else tuple(replace(p, type=_opened(p.type, p.name, places)) for p in function.params)
    )
    result_types = function.result_types
    if result_types is not None and not is_entry:
        returned = zip(result_types, function.returned, strict=True)
        result_types = tuple(_opened(t, arg, places) if isinstance(arg, str) else t for t, arg in returned)
    fresh = namer(function).fresh
    body: list[Statement] = []
    for statement in function.body:
        if isinstance(statement, (Apply, Call)) and statement.claims and not is_entry:
            pairs = zip(statement.claims, statement.results, strict=True)
            statement = replace(statement, claims=tuple(c and _opened(c, name, places) for c, name in pairs))
        if isinstance(statement, Apply) and instances:
            statement, asked = _asking(analysis, function, body, statement, instances[0], places, fresh)
            body += asked
        body.append(statement)
    same = len(body) == len(function.body) and all(a is b or a == b for a, b in zip(body, function.body, strict=True))
    if same and params == function.params and result_types == function.result_types:
        return function
    return replace(function, params=params, body=tuple(body), result_types=result_types)


def _opened(type: Type, name: str, places: Places, path: tuple[int, ...] = ()) -> Type:
    """The type of a value with literal batch sizes unknown."""
    if isinstance(type, TupleType):
        return TupleType(tuple(_opened(item, name, places, (*path, k)) for k, item in enumerate(type.items)))
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    dims = enumerate(type.shape)
    shape = tuple(None if isinstance(dim, int) and (name, path, axis) in places else dim for axis, dim in dims)
    return TensorType(type.dtype, shape, type.device, type.offloaded)


def _asking(
    analysis: Analysis,
    function: Function,
    before: Sequence[Statement],
    statement: Apply,
    instance: Instance,
    places: Places,
    fresh: Callable[[str], str],
) -> tuple[Apply, list[Statement]]:
    """The statement with batch sizes in its stated shape computed from values, and the statements that compute them."""
    operand, sizes, axes = _stated(analysis, statement, instance, places)
    asked: list[Statement] = []
    parts: list[Arg] = []
    start = 0
    for axis in axes:
        found = _source(function, before, instance, places, sizes[axis])
        if found is not None:
            name = _ask(asked, *found, sizes[axis], fresh)
            parts += [Literal(sizes[start:axis]), name] if axis > start else [name]
            start = axis + 1
    if not parts:
        return statement, []
    parts += [Literal(sizes[start:])] if start < len(sizes) else []
    shape = fresh("sizes")
    asked.append(Apply((shape,), "Concat", tuple(parts), Attributes({"axis": 0})))
    args = tuple(shape if i == operand else arg for i, arg in enumerate(statement.args))
    return replace(statement, args=args), asked


def _stated(
    analysis: Analysis, statement: Apply, instance: Instance, places: Places
) -> tuple[int, tuple[int, ...], list[int]]:
    """The operand that states a shape, its sizes, and which of them are the batch's."""
    nothing = 0, (), list[int]()
    vs = instance.state(statement.args)
    name = statement.results[0] if statement.results else DISCARD
    shape = _shape(instance.state.get(name))
    if not any((name, (), axis) in places for axis in range(len(shape))):
        return nothing
    if any(isinstance(type_of(v), TupleType) for v in vs):
        return nothing
    ws = [type_of(w) for w in analysis.domain.answer(statement, vs)]
    found = layout(OPS[statement.op], vs, ws, statement.attrs)
    if found is None or found.stated is None:
        return nothing
    sizes = _integers(vs[found.stated])
    if len(sizes) != len(shape):
        return nothing
    axes = [k for k, size in enumerate(sizes) if size > 0 and size == shape[k] and (name, (), k) in places]
    return found.stated, sizes, axes


def _shape(value: Value) -> Sequence[Dim]:
    found = None if value is None else type_of(value)
    return (found.shape or ()) if isinstance(found, TensorType) else ()


def _integers(value: Value) -> tuple[int, ...]:
    written = value.value if isinstance(value, Literal) else value.values if isinstance(value, Dense) else ()
    if isinstance(written, Dense):
        written = written.values
    items = written if isinstance(written, tuple) else ()
    return tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool))


def _source(
    function: Function,
    before: Sequence[Statement],
    instance: Instance,
    places: Places,
    size: int,
) -> tuple[Place, int] | None:
    """A batch dimension, and its size, of a value defined before a statement.

    Preferably of that size, and of a parameter. Others are a multiple or a fraction of it, as numbers of rows are.
    """
    params = {p.name for p in function.params}
    made = params | {n for s in before if isinstance(s, (Apply, Call)) for n in s.results}
    best: tuple[tuple[bool, bool], Place, int] | None = None
    for place in places:
        name, path, axis = place
        shape = _shape(instance.state.get(name)) if name in made and not path else ()
        there = shape[axis] if axis < len(shape) else None
        if isinstance(there, int) and there and (size % there == 0 or there % size == 0):
            rank = (there == size, name in params)
            if best is None or rank > best[0]:
                best = rank, place, there
    return best and best[1:]


def _ask(asked: list[Statement], source: Place, there: int, size: int, fresh: Callable[[str], str]) -> str:
    """Append statements that compute `size` from a dimension of size `there`; returns the name of the result."""
    name, _, axis = source
    found = fresh("size")
    asked.append(Apply((found,), "Shape", (name,), Attributes({"start": axis, "end": axis + 1})))
    if there == size:
        return found
    op, factor = ("Mul", size // there) if size > there else ("Div", there // size)
    scaled = fresh("size")
    asked.append(Apply((scaled,), op, (found, Literal(factor))))
    return scaled
