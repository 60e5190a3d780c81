"""Rules for operations that pick elements by indices, or write them: `gather`, `scatter`, slices at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.importers.stablehlo.ranges import bounds, clamped, range_of
from distir.importers.stablehlo.shapes import plain_region
from distir.importers.stablehlo.text import MlirOperation, refuse
from distir.importers.stablehlo.translating import StableHlo, rule
from distir.ir import DTYPES, Dense, DType
from distir.ops.numeric import Array, np

BOOL, INT32 = DTYPES["Bool"], DTYPES["Int32"]

COMBINED = {"add": "add", "maximum": "max", "minimum": "min", "multiply": "mul", "second": "none"}
"""How written elements are combined with those that are there, by the operation of the region."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Dimension numbers of a `gather` or `scatter`, called alike for both.

    `window`: dimensions of the slices, in what is gathered or written. `dropped`: dimensions of the operand that these
    lack. `batch`: dimensions that both have. `index_batch`: those, in the indices. `of`: the dimension of the operand
    that each component of an index counts along. `vector`: the dimension of the indices that has these components.
    """

    window: list[int]
    dropped: list[int]
    batch: list[int]
    index_batch: list[int]
    of: list[int]
    vector: int


def _numbers(operation: MlirOperation) -> _Numbers:
    if "dimension_numbers" in operation.attributes:
        named = operation.attributes["dimension_numbers"].named
        names = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
        of, vector = named.get("start_index_map", []), named.get("index_vector_dim", 0)
        return _listed(named, names, of, vector)
    named = operation.attributes["scatter_dimension_numbers"].named
    names = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims")
    of, vector = named.get("scatter_dims_to_operand_dims", []), named.get("index_vector_dim", 0)
    return _listed(named, names, of, vector)


def _listed(named: dict[str, Any], names: Sequence[str], of: list[int], vector: int) -> _Numbers:
    window, dropped, batch, index_batch = (named.get(name, []) for name in names)
    return _Numbers(window, dropped, batch, index_batch, of, vector)


@rule("gather")
def _gather(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    data, indices = operands
    numbers, sizes = _numbers(operation), operation.attribute("slice_sizes")
    shape = into.shape(data)
    whole = all(size == n for axis, (size, n) in enumerate(zip(sizes, shape, strict=True)) if axis not in numbers.of)
    single = all(sizes[axis] == 1 for axis in numbers.of)
    batched, places = _over_batch(into, numbers, indices, shape)
    own = [n if axis in batched.batch else size for axis, (size, n) in enumerate(zip(sizes, shape, strict=True))]
    rest = list(range(len(batched.batch), len(shape)))
    in_order = batched.batch == list(range(len(batched.batch))) and batched.window == rest
    if in_order and (axis := _window_axis(batched, own, shape)) is not None:
        places = _window_places(into, places, batched, axis, own[axis], len(shape), shape[axis] - own[axis])
        return into.apply("GatherElements", data, into.expanded(places, own), axis=axis)
    if not (whole or numbers.batch) or not single or sorted(numbers.of) != sorted(numbers.dropped):
        refuse("a gather of slices that are neither whole nor single elements has no op here", operation.place)
    if numbers.batch:
        return _by_elements(into, operation, data, indices, numbers)
    if len(numbers.of) == 1:
        (axis,) = numbers.of
        places = _in_range(into, _components(into, indices, numbers), shape[axis])
        made = into.apply("Gather", data, places, axis=axis)
        count = len(into.shape(places))
        return _laid(into, made, count, axis, numbers.window)
    if numbers.of != list(range(len(numbers.of))) or numbers.vector != len(into.shape(indices)) - 1:
        refuse("a gather by indices that do not count along the first dimensions has no op here", operation.place)
    made = into.apply("GatherND", data, _all_in_range(into, indices, shape))
    return _laid(into, made, len(into.shape(indices)) - 1, 0, numbers.window)


def _laid(into: StableHlo, made: str, count: int, at: int, window: Sequence[int]) -> str:
    """What was gathered, whose `count` dimensions of the indices begin at `at`, with those of slices at `window`."""
    rank = len(into.shape(made))
    slices = [axis for axis in range(rank) if not at <= axis < at + count]
    places = dict(zip(window, slices, strict=True))
    rest = iter(range(at, at + count))
    return into.transposed(made, [places[axis] if axis in places else next(rest) for axis in range(rank)])


def _components(into: StableHlo, indices: str, numbers: _Numbers) -> str:
    """Indices of one component, without the dimension for it."""
    shape = into.shape(indices)
    if numbers.vector == len(shape):
        return indices
    return into.reshaped(indices, [*shape[: numbers.vector], *shape[numbers.vector + 1 :]])


def _counted_from_zero(into: StableHlo, indices: str, size: int) -> str:
    """Indices as they were before `size` was added to negative ones: an op of ours counts these from the end itself."""
    maker = into.makers.get(indices)
    if maker is None or maker.op != "Where":
        return indices
    condition, shifted, plain = (into.makers.get(str(arg)) for arg in (*maker.args[:2], ""))
    source = str(maker.args[2])
    if condition is None or shifted is None or plain is not None:
        return indices
    below = condition.op == "Less" and condition.args[0] == source and into.number(str(condition.args[1])) == 0
    added = shifted.op == "Add" and source in shifted.args
    by = [into.number(str(arg)) for arg in shifted.args if arg != source]
    return source if below and added and by == [size] else indices


def _in_range(into: StableHlo, indices: str, size: int) -> str:
    """Indices as a gather takes them: those behind the end are the last one, those before the front the first one."""
    plain = _counted_from_zero(into, indices, size)
    return clamped(into, plain, 0 if plain == indices else -size, size - 1)


def _all_in_range(into: StableHlo, indices: str, shape: Sequence[int]) -> str:
    """The same of indices of several components, which are along the last dimension."""
    count = into.shape(indices)[-1]
    dtype = into.dtype(indices)
    low, high = range_of(into, indices)
    if low < 0:
        indices = into.apply("Max", indices, into.known_value(Dense(dtype, (), (0,))))
    if high > min(shape[:count]) - 1:
        most = tuple(min(size - 1, high) for size in shape[:count])
        indices = into.apply("Min", indices, into.known_value(Dense(dtype, (count,), most)))
    return indices


def _by_elements(into: StableHlo, operation: MlirOperation, data: str, indices: str, numbers: _Numbers) -> str:
    """`take_along_axis`: all dimensions but one go along with those of the indices."""
    shape, axis = into.shape(data), numbers.of[0]
    places = _in_range(into, _along(into, operation, data, indices, numbers), shape[axis])
    if into.shape(places)[axis] != 1 or not shape:
        return into.apply("GatherElements", data, places, axis=axis)
    made = into.apply("GatherElements", data, places, axis=axis)
    extra = len(into.shape(indices)) - 1 - len(numbers.batch)
    return made if extra else into.reshaped(made, [n for a, n in enumerate(into.shape(made)) if a != axis])


def _along(into: StableHlo, operation: MlirOperation, data: str, indices: str, numbers: _Numbers) -> str:
    """Indices with the dimensions of the operand, for ops that take one for each element."""
    rank = len(into.shape(data))
    shape = into.shape(indices)
    others = [axis for axis in range(rank) if axis not in numbers.of]
    extra = [a for a in range(len(shape)) if a not in (*numbers.index_batch, numbers.vector)]
    plain = len(numbers.of) == 1 and others == numbers.batch and not numbers.window and len(extra) <= 1
    if not plain or numbers.index_batch != [a for a in range(len(shape)) if a in numbers.index_batch]:
        refuse(f"`{operation.name}` along these dimensions has no op here", operation.place)
    (axis,) = numbers.of
    places = _components(into, indices, numbers)
    left = [a for a in range(len(shape)) if a != numbers.vector]  # what the dimensions of `places` were
    if not extra:
        sizes = [shape[a] for a in numbers.index_batch]
        places = into.reshaped(places, [*sizes[:axis], 1, *sizes[axis:]])
    else:
        order = [left.index(a) for a in numbers.index_batch]
        order.insert(axis, left.index(extra[0]))
        places = into.transposed(places, order)
    return places


@rule("scatter")
def _scatter(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    if len(operands) != 3:
        refuse("a scatter of several operands has no op here", operation.place)
    data, indices, updates = operands
    numbers = _numbers(operation)
    applied = plain_region(operation.regions[0]) if operation.regions else []
    region = applied[0].rpartition(".")[2] if applied else ""
    if region not in COMBINED:
        refuse("a scatter by another function than a sum, a product or an extreme", operation.place)
    reduction = COMBINED[region]
    shape, rank = into.shape(data), len(into.shape(data))
    numbers, indices = _over_batch(into, numbers, indices, shape)
    sizes = _window_sizes(numbers, into.shape(updates), rank)
    if region == "second" and (axis := _window_axis(numbers, sizes, shape)) is not None:
        places = _window_places(into, indices, numbers, axis, sizes[axis], rank)
        return into.apply(
            "ScatterElements", data, into.expanded(places, sizes), into.reshaped(updates, sizes), axis=axis
        )
    if sorted(numbers.of) != sorted(numbers.dropped):
        refuse("a scatter of slices that are no single elements along an index has no op here", operation.place)
    if numbers.batch:
        axis = numbers.of[0]
        places = _along(into, operation, data, indices, numbers)
        plain = _counted_from_zero(into, places, shape[axis])
        given, one = into.shape(places), (*into.shape(places), 1)
        parts = into.reshaped(plain, one), into.reshaped(updates, given), [shape[axis]], plain != places
        places, updates = _written_in_range(into, *parts, reduction)
        places = into.reshaped(places, given)
        return into.apply("ScatterElements", data, places, updates, axis=axis, reduction=reduction)
    if numbers.vector != len(into.shape(indices)):
        order = [a for a in range(len(into.shape(indices))) if a != numbers.vector]
        indices = into.transposed(indices, [*order, numbers.vector])
    else:
        indices = into.reshaped(indices, [*into.shape(indices), 1])
    from_end = False
    if len(numbers.of) == 1:
        plain = into.reshaped(indices, into.shape(indices)[:-1])
        counted = _counted_from_zero(into, plain, shape[numbers.of[0]])
        from_end = counted != plain
        indices = into.reshaped(counted, into.shape(indices)) if from_end else indices
    rest = [axis for axis in range(rank) if axis not in numbers.of]
    if [into.shape(updates)[a] for a in numbers.window] != [shape[a] for a in rest]:
        refuse("a scatter of parts of slices has no op here", operation.place)
    written = [a for a in range(len(into.shape(updates))) if a not in numbers.window]
    updates = into.transposed(updates, [*written, *numbers.window])
    order = [*numbers.of, *rest]
    sizes = [shape[axis] for axis in numbers.of]
    indices, updates = _written_in_range(into, indices, updates, sizes, from_end, reduction)
    made = into.apply("ScatterND", into.transposed(data, order), indices, updates, reduction=reduction)
    return into.transposed(made, sorted(range(rank), key=order.__getitem__))


def _over_batch(into: StableHlo, numbers: _Numbers, indices: str, shape: Sequence[int]) -> tuple[_Numbers, str]:
    """The same where indices count along a batch, which earlier versions of jax wrote as a component of theirs."""
    given = into.shape(indices)
    if len(given) != 2 or numbers.vector != 1 or len(numbers.dropped) != 1 or len(numbers.of) < 2:
        return numbers, indices
    (axis,) = numbers.dropped
    component = numbers.of.index(axis) if axis in numbers.of else 0
    counted = _column(into, indices, component)
    if component != 0 or given[0] != shape[axis] or not _counts(counted, given[0]):
        return numbers, indices
    rest = into.sliced(indices, [0, 1], list(given))
    return replace(numbers, dropped=[], batch=[axis], index_batch=[0], of=numbers.of[1:]), rest


def _counts(column: Array | None, count: int) -> bool:
    """Whether a column is known, and counts rows."""
    return column is not None and np.array_equal(np.broadcast_to(column, (count,)), np.arange(count))


def _column(into: StableHlo, name: str, column: int) -> Array | None:
    """A column of a value that is known although others are not."""
    known, maker = into.array(name), into.makers.get(name)
    if known is not None:
        return np.broadcast_to(known, into.shape(name))[:, column] if known.ndim == 2 else None
    if maker is None:
        return None
    args = [str(arg) for arg in maker.args]
    if maker.op in ("Max", "Min"):
        first, second = (_known_column(into, arg, column) for arg in args)
        apply = np.maximum if maker.op == "Max" else np.minimum
        return None if first is None or second is None else apply(first, second)
    if maker.op == "Concat" and maker.attrs.get("axis") in (1, -1):
        for arg in args:
            if column < (width := into.shape(arg)[1]):
                return _column(into, arg, column)
            column -= width
    return None


def _known_column(into: StableHlo, name: str, column: int) -> Array | None:
    """The same of what broadcasts to it."""
    known = into.array(name)
    if known is None or known.ndim > 1:
        return _column(into, name, column)
    return known if known.ndim == 0 else known[column if known.size > 1 else 0]


def _window_sizes(numbers: _Numbers, shape: Sequence[int], rank: int) -> list[int]:
    """The shape of a written window in the operand's dimensions, with all of its batch."""
    window = iter([shape[axis] for axis in numbers.window])
    batch = iter([size for axis, size in enumerate(shape) if axis not in numbers.window])
    return [
        next(batch) if axis in numbers.batch else 1 if axis in numbers.dropped else next(window) for axis in range(rank)
    ]


def _window_axis(numbers: _Numbers, sizes: Sequence[int], shape: Sequence[int]) -> int | None:
    """The only dimension along which a window for each of a batch is a part: as where a cache is written.

    None for other windows. Dimensions that it has all of are at 0, wherever indices say.
    """
    parts = [axis for axis in numbers.of if sizes[axis] != shape[axis]]
    batched = all(sizes[axis] == shape[axis] for axis in numbers.batch)
    plain = not numbers.dropped and numbers.index_batch == list(range(len(numbers.index_batch)))
    return parts[0] if len(parts) == 1 and plain and batched and numbers.vector == len(numbers.index_batch) else None


def _window_places(
    into: StableHlo, indices: str, numbers: _Numbers, axis: int, size: int, rank: int, most: int | None = None
) -> str:
    """Where along a dimension the elements of each window are; of one that is read, which begins at `most` at most."""
    component = numbers.of.index(axis)
    shape = into.shape(indices)
    ends = [*shape[:-1], component + 1]
    begin = into.reshaped(into.sliced(indices, [*(0 for _ in shape[:-1]), component], ends), shape[:-1])
    begin = begin if most is None else clamped(into, begin, 0, most)
    order = sorted(range(len(numbers.batch)), key=numbers.batch.__getitem__)
    sizes = dict(zip(sorted(numbers.batch), (shape[:-1][n] for n in order), strict=True))
    begin = into.reshaped(into.transposed(begin, order), [sizes.get(a, 1) for a in range(rank)])
    row = into.apply("Cast", into.known_value(np.arange(size)), to=into.dtype(indices))
    return into.apply("Add", begin, into.reshaped(row, [size if a == axis else 1 for a in range(rank)]))


def _written_in_range(
    into: StableHlo, indices: str, updates: str, sizes: Sequence[int], from_end: bool, reduction: str
) -> tuple[str, str]:
    """Indices and what is written at them, where what is written out of range changes nothing.

    `sizes`: of the dimensions that the components of an index count along, which lie along the last dimension of
    `indices`; `from_end`: negative ones count from there. Where elements are replaced, nothing that is written changes
    nothing: an index out of range is then an error when the program runs.
    """
    low, high = range_of(into, indices)
    least = [-size if from_end else 0 for size in sizes]
    if reduction == "none" or (low >= max(least) and high < min(sizes)):
        return indices, updates
    dtype, shape = into.dtype(indices), into.shape(indices)
    ends = [[max(n, low) for n in least], [min(size - 1, high) for size in sizes]]
    floor, ceiling = (into.known_value(Dense(dtype, (len(end),), tuple(end))) for end in ends)
    inside = into.apply(
        "And", into.apply("GreaterOrEqual", indices, floor), into.apply("LessOrEqual", indices, ceiling)
    )
    indices = into.apply("Min", into.apply("Max", indices, floor), ceiling)
    if len(sizes) > 1:
        each = into.apply("ReduceMin", into.apply("Cast", inside, to=INT32), into.ints([len(shape) - 1]))
        inside = into.apply("Cast", each, to=BOOL)
    window = len(into.shape(updates)) - len(shape) + 1
    inside = into.reshaped(inside, [*shape[:-1], *(1,) * window])
    of = into.dtype(updates)
    neutral = into.known_value(Dense(of, (), (_neutral(reduction, of),)))
    return indices, into.apply("Where", inside, updates, neutral)


def _neutral(reduction: str, dtype: DType) -> float | int:
    """What changes nothing."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    least, most = (-math.inf, math.inf) if dtype.kind == "float" else bounds(dtype)
    return least if reduction == "max" else most


@rule("dynamic_slice")
def _dynamic_slice(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    data, *starts = operands
    sizes = operation.attribute("sizes", "slice_sizes")
    known = [into.number(start) for start in starts]
    if known and known[0] is not None and sizes[0] == 1 and into.parted(data, sizes[1:]):
        parts = into.stacks[data]
        return into.reshaped(parts[min(max(known[0], 0), len(parts) - 1)], sizes)
    data = into.stacked(data)
    shape = into.shape(data)
    begin = [0 if at is None else min(max(at, 0), n - s) for at, n, s in zip(known, shape, sizes, strict=True)]
    end = [n if at is None else b + s for at, b, s, n in zip(known, begin, sizes, shape, strict=True)]
    made = into.sliced(data, begin, end)
    for axis, (start, at) in enumerate(zip(starts, known, strict=True)):
        if at is None and sizes[axis] != shape[axis]:
            made = into.apply("Gather", made, _places(into, start, sizes[axis], shape[axis]), axis=axis)
    return made


def _places(into: StableHlo, start: str, size: int, whole: int) -> str:
    """Where a slice of this size lies: as far in front as it fits."""
    dtype = into.dtype(start)
    least, most = (into.known_value(Dense(dtype, (), (n,))) for n in (0, whole - size))
    begin = into.apply("Min", into.apply("Max", start, least), most)
    row = into.known_value(np.arange(size))
    return into.apply("Add", into.apply("Cast", row, to=dtype), into.reshaped(begin, (1,)))


@rule("dynamic_update_slice")
def _dynamic_update_slice(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    data, updates, *starts = operands
    updates = into.stacked(updates)
    known, sizes = [into.number(start) for start in starts], into.shape(updates)
    parts = _rows(into, data) if sizes and sizes[0] == 1 and None not in known and not any(known[1:]) else None
    if parts is not None and known[0] is not None and sizes[1:] == into.shape(parts[0]):
        at = min(max(known[0], 0), len(parts) - 1)
        name = into.builder.fresh(into.hint)
        into.stacks[name] = (*parts[:at], into.reshaped(updates, sizes[1:]), *parts[at + 1 :])
        return name
    data = into.stacked(data)
    shape = into.shape(data)
    partial = [axis for axis, (n, s) in enumerate(zip(shape, sizes, strict=True)) if n != s]
    if not partial:
        return updates
    if len(partial) > 1:
        refuse("a slice is written that is a part along several dimensions", operation.place, "write along one by one")
    (axis,) = partial
    start = known[axis]
    if start is None:
        places = _places(into, starts[axis], sizes[axis], shape[axis])
        places = into.reshaped(places, [n if a == axis else 1 for a, n in enumerate(sizes)])
        return into.apply("ScatterElements", data, into.expanded(places, sizes), updates, axis=axis)
    at = min(max(start, 0), shape[axis] - sizes[axis])
    rows = [updates]
    if at:
        rows.insert(0, into.sliced(data, [0] * len(shape), [at if a == axis else n for a, n in enumerate(shape)]))
    if at + sizes[axis] < shape[axis]:
        begin = [at + sizes[axis] if a == axis else 0 for a in range(len(shape))]
        rows.append(into.sliced(data, begin, shape))
    return into.apply("Concat", *rows, axis=axis)


def _rows(into: StableHlo, name: str) -> tuple[str, ...] | None:
    """What a value is a stack of: of rows, or of one number."""
    if name in into.stacks:
        return into.stacks[name]
    shape, maker = into.shape(name), into.makers.get(name)
    source = str(maker.args[0]) if maker is not None and maker.op == "Expand" else name
    known = into.array(source)
    if known is None or known.size == 0 or bool(np.any(known.reshape(-1) != known.reshape(-1)[0])) or not shape:
        return None
    one = into.known_value(Dense(into.dtype(name), (), (known.reshape(-1)[0].item(),)))
    return (into.expanded(one, shape[1:]),) * shape[0]
