"""Rules for operations that move elements, sum over them, or multiply matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from distir.importers.stablehlo.elementwise import into_sizes
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import MlirOperation, MlirWord, Region, first_list, refuse
from distir.importers.stablehlo.translating import DEVICE, StableHlo, rule
from distir.ir import TensorType
from distir.ops.numeric import np

REDUCTIONS = {
    "add": ("ReduceSum", "Add", 0.0),
    "maximum": ("ReduceMax", "Max", -np.inf),
    "minimum": ("ReduceMin", "Min", np.inf),
    "multiply": ("ReduceProd", "Mul", 1.0),
    "or": ("ReduceMax", "Or", 0.0),
    "and": ("ReduceMin", "And", 1.0),
}
"""By what a reduction applies: the op, what combines two of its results, and what changes nothing."""


APPLIED = frozenset(f"{dialect}.{name}" for dialect in ("stablehlo", "mhlo") for name in REDUCTIONS)

PASSED = frozenset(("sharding_constraint", "optimization_barrier"))
"""Operations in a region that give what they are given."""


def _shape(operation: MlirOperation) -> list[int]:
    """The shape that an operation of one result states."""
    return into_sizes(tensor_type(operation.types[1][0], DEVICE, operation.place).shape)


@rule("reshape", "dynamic_reshape")
def _reshape(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.reshaped(operands[0], _shape(operation))


@rule("transpose")
def _transpose(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return into.transposed(operands[0], operation.attribute("dims", "permutation"))


@rule("broadcast_in_dim", "dynamic_broadcast_in_dim")
def _broadcast_in_dim(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    x = operands[0]
    places, shape = operation.attribute("dims", "broadcast_dimensions"), _shape(operation)
    if not places:
        return into.expanded(x, shape) if into.shape(x) == () else into.expanded(into.reshaped(x, ()), shape)
    x = into.transposed(x, sorted(range(len(places)), key=places.__getitem__))
    sizes = dict(zip(sorted(places), into.shape(x), strict=True))
    return into.expanded(into.reshaped(x, [sizes.get(axis, 1) for axis in range(len(shape))]), shape)


@rule("slice")
def _slice(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    if "start_indices" in operation.attributes:
        starts, limits, strides = (operation.attribute(n) for n in ("start_indices", "limit_indices", "strides"))
    else:
        cuts: list[Any] = first_list(operation.words)
        starts, limits = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
        strides = [cut[2] if len(cut) > 2 else 1 for cut in cuts]
    return into.sliced(operands[0], starts, limits, strides)


@rule("reverse")
def _reverse(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    return reversed_along(into, operands[0], operation.attribute("dims", "dimensions"))


def reversed_along(into: StableHlo, x: str, axes: Sequence[int]) -> str:
    """A value with its elements in the opposite order along some dimensions."""
    if not axes:
        return x
    begin, end, step = ([n] * len(axes) for n in (-1, -(1 << 31), -1))
    return into.apply("Slice", x, into.ints(begin), into.ints(end), into.ints(axes), into.ints(step))


@rule("pad")
def _pad(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    low, high, interior = (
        operation.attribute(name, f"{more}")
        for name, more in (("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding"))
    )
    x, value = operands
    for axis, between in enumerate(interior):
        if between and into.shape(x)[axis]:
            x = _padded_between(into, x, value, axis, between)
    return x if not any((*low, *high)) else into.apply("Pad", x, into.ints([*low, *high]), value)


def _padded_between(into: StableHlo, x: str, value: str, axis: int, between: int) -> str:
    """A value with so many elements behind each along an axis, but for the last."""
    shape = into.shape(x)
    column = into.reshaped(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    behind = [between if at == axis + 1 else 0 for at in range(len(shape) + 1)]
    wide = into.apply("Pad", column, into.ints([0] * len(behind) + behind), value)
    sizes = [size * (between + 1) if at == axis else size for at, size in enumerate(shape)]
    ends = [size - between if at == axis else size for at, size in enumerate(sizes)]
    return into.sliced(into.reshaped(wide, sizes), [0] * len(shape), ends)


@rule("concatenate")
def _concatenate(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    axis = operation.attribute("dim", "dimension")
    if len(operands) == 1:
        return operands[0]
    rows = [_row(into, name) for name in operands]
    if axis == 0 and all(rows):
        name = into.builder.fresh(into.hint)
        into.stacks[name] = tuple(filter(None, rows))
        return name
    return into.apply("Concat", *operands, axis=axis)


def _row(into: StableHlo, name: str) -> str | None:
    """What a value was before it got a first dimension of 1."""
    maker = into.makers.get(name)
    added = maker is not None and maker.op == "Unsqueeze" and into.array(str(maker.args[1])) is not None
    if maker is None or not added or into.shape(name)[1:] != into.shape(str(maker.args[0])):
        return None
    return str(maker.args[0])


@rule("reduce")
def _reduce(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str | Sequence[str]:
    axes = sorted(operation.attribute("dimensions"))
    if len(operands) == 2:
        x, start = operands
        return _reduced(into, operation, x, start, axes, _applied(operation, REDUCTIONS))
    if operation.bound:  # `(%x init: %a), (%y init: %b)` lists them in turns
        operands = [*operands[::2], *operands[1::2]]
    count = len(operands) // 2
    applied = [name.rpartition(".")[2] for name in plain_region(operation.regions[0], _bound(operation))]
    if applied and all(name in REDUCTIONS for name in applied):
        pairs = zip(operands[:count], operands[count:], applied, strict=True)
        return [_reduced(into, operation, x, start, axes, name) for x, start, name in pairs]
    if count == 2:
        return _arg_extreme(into, operation, operands, axes)
    return refuse("a reduction of several operands has no op here", operation.place)


def _reduced(into: StableHlo, operation: MlirOperation, x: str, start: str, axes: list[int], applied: str) -> str:
    """A reduction of one operand."""
    op, combined, neutral = REDUCTIONS[applied]
    made, shape = x, [n for axis, n in enumerate(into.shape(x)) if axis not in axes]
    ones = into.ones(x)
    if ones and not any(axis in ones for axis in axes):
        x = into.reshaped(x, [n for axis, n in enumerate(into.shape(x)) if axis not in ones])
        axes = [axis - sum(one < axis for one in ones) for axis in axes]
    if axes and math.prod(into.shape(x)):
        made = into.apply(op, x, into.ints(axes))
        made = into.reshaped(into.apply("Squeeze", made, into.ints(axes)), shape)
    elif axes:
        refuse("a reduction of no elements", operation.place)
    known = into.array(start)
    return made if known is not None and _is_neutral(known, neutral) else into.apply(combined, made, start)


def _is_neutral(known: Any, neutral: float) -> bool:
    if known.dtype.kind in "iu" and math.isinf(neutral):
        limits = np.iinfo(known.dtype)
        return bool(known == (limits.min if neutral < 0 else limits.max))
    return bool(known == neutral)


def _applied(operation: MlirOperation, known: Any) -> str:
    """The name of the operation that a reduction applies to two elements."""
    name = next((w.text for w in operation.words if isinstance(w, MlirWord) and w.text in APPLIED), "")
    if not name and operation.regions:
        (name,) = plain_region(operation.regions[0], _bound(operation)) or ("",)
    found = name.rpartition(".")[2]
    if found not in known:
        refuse(f"`{operation.name}` by another function than a sum, a product or an extreme", operation.place)
    return found


def _bound(operation: MlirOperation) -> list[str]:
    """The parameters of `reducer(%a: …, %b: …) (%c: …, %d: …)`: the first of each pair, then the second ones."""
    names = [name for name, _ in operation.bound]
    return [*names[::2], *names[1::2]]


def plain_region(block: Region, bound: Sequence[str] = ()) -> list[str]:
    """The operations that a region of pairs of parameters applies to each of these; none where it does else.

    `second` where it gives the second of a pair. `bound`: its parameters, where they stand before it.
    """
    names = [*bound] or [name for name, _ in block.params]
    if not block.operations or len(names) != 2 * len(block.operations[-1].operands):
        return []
    *inner, last = block.operations
    makers = {name: operation for operation in inner for name in operation.results}
    found: list[str] = []
    for first, second, given in zip(names[: len(names) // 2], names[len(names) // 2 :], last.operands, strict=True):
        while given in makers and makers[given].name.rpartition(".")[2] in PASSED:
            (given,) = makers[given].operands
        if given == second:
            found.append("second")
        elif given in makers and sorted(makers[given].operands) == sorted((first, second)):
            found.append(makers[given].name)
        else:
            return []
    return found


def _arg_extreme(
    into: StableHlo, operation: MlirOperation, operands: Sequence[str], axes: Sequence[int]
) -> Sequence[str]:
    """`argmax`, as jax writes it: a reduction of elements and their places."""
    x, places = (name for name in operands if into.shape(name))
    inside = [inner for block in operation.regions for inner in block.operations]
    first = [word.text for inner in inside if inner.name.endswith("compare") for word in inner.words]
    op = {"GT": "Max", "GE": "Max", "LT": "Min", "LE": "Min"}.get(str(first[0]) if first else "")
    known = into.array(_source(into, places))
    count = into.shape(x)[axes[0]]
    row = np.arange(count).reshape([count if axis == axes[0] else 1 for axis in range(len(into.shape(x)))])
    counted = known is not None and known.ndim == row.ndim and bool(np.all(known == row))
    if op is None or len(axes) != 1 or not counted:
        refuse("a reduction of several operands has no op here, but `argmax` and `argmin`", operation.place)
    index = into.apply("Cast", into.apply(f"Arg{op}", x, axis=axes[0], keepdims=False), to=into.dtype(places))
    return into.apply("Squeeze", into.apply(f"Reduce{op}", x, into.ints(axes)), into.ints(axes)), index


def _source(into: StableHlo, name: str) -> str:
    maker = into.makers.get(name)
    return str(maker.args[0]) if maker is not None and maker.op == "Expand" else name


@rule("top_k")
def _top_k(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> Sequence[str]:
    values, places = into.several("TopK", 2, operands[0], into.ints([operation.attribute("k")]))
    dtype = tensor_type(operation.types[1][1], DEVICE, operation.place).dtype
    assert dtype is not None
    return values, into.apply("Cast", places, to=dtype)


@rule("dot_general", "dot")
def _dot_general(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """A product of matrices where that is all, else with dimensions brought together before and parted behind."""
    of = tensor_type(operation.types[1][0], DEVICE, operation.place)
    batch, contracting = _dimensions(into, operation, operands)
    if batch[0] and (written := _einsum(into, operands, batch, contracting, of)):
        return written
    left, right = operands = [_without_ones(into, x, (batch[i], contracting[i])) for i, x in enumerate(operands)]
    last = [len(into.shape(x)) - 1 for x in operands]
    if len(contracting[0]) == 1 and contracting[0] != last[:1] and contracting[1] == last[1:]:  # as values by weights
        made = _product(into, (right, left), batch[::-1], contracting[::-1], of)
        count, columns = len(batch[0]), len(into.shape(right)) - len(batch[1]) - 1
        rank = len(into.shape(made))
        order = [*range(count), *range(count + columns, rank), *range(count, count + columns)]
        return into.reshaped(into.transposed(made, order), into_sizes(of.shape))
    return into.reshaped(_product(into, (left, right), batch, contracting, of), into_sizes(of.shape))


def _einsum(
    into: StableHlo,
    operands: Sequence[str],
    batch: Sequence[list[int]],
    contracting: Sequence[list[int]],
    of: TensorType,
) -> str | None:
    """A product for each of a batch, of more than matrices: as queries by groups of heads times their keys.

    None where it is one of matrices.
    """
    ranks = [len(into.shape(x)) for x in operands]
    places = [{axis: ("batch", i) for i, axis in enumerate(batch[side])} for side in (0, 1)]
    for side in (0, 1):
        places[side] |= {axis: ("summed", i) for i, axis in enumerate(contracting[side])}
    own = [
        [axis for axis in range(rank) if axis not in places[i] and into.shape(x)[axis] != 1]
        for i, (x, rank) in enumerate(zip(operands, ranks, strict=True))
    ]
    if max(map(len, own)) < 2:
        return None
    operands = _of_elements(into, operands, of)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    shared = {place: next(letters) for place in places[0].values()}
    labels = [
        [shared[places[i][axis]] if axis in places[i] else next(letters) for axis in range(rank)]
        for i, rank in enumerate(ranks)
    ]
    result = [shared["batch", i] for i in range(len(batch[0]))]
    result += [label for term in labels for label in term if label not in shared.values()]
    left, right = ("".join(term) for term in labels)
    return into.apply("Einsum", *operands, equation=f"{left},{right}->{''.join(result)}")


def _product(
    into: StableHlo,
    operands: tuple[str, str],
    batch: Sequence[list[int]],
    contracting: Sequence[list[int]],
    of: TensorType,
) -> str:
    """The sums of products, with the dimensions of the batch, then those of the first operand, and of the second."""
    sides = [
        [axis for axis in range(len(into.shape(x))) if axis not in (*batch[i], *contracting[i])]
        for i, x in enumerate(operands)
    ]
    lead = [into.shape(operands[0])[axis] for axis in batch[0]]
    rows, columns = ([into.shape(x)[a] for a in axes] for x, axes in zip(operands, sides, strict=True))
    left, right = _of_elements(into, operands, of)
    inner = math.prod(into.shape(left)[axis] for axis in contracting[0])
    plain = not batch[0] and len(contracting[0]) == 1 and contracting[0][0] == len(into.shape(left)) - 1
    right = into.transposed(right, [*batch[1], *contracting[1], *sides[1]])
    if not (len(contracting[1]) == 1 and len(columns) == 1):
        right = into.reshaped(right, [*lead, inner, math.prod(columns)])
    if plain and rows:  # the rows may have any number of dimensions then
        made = into.apply("MatMul", left, right)
    else:
        left = into.transposed(left, [*batch[0], *sides[0], *contracting[0]])
        if not (len(contracting[0]) == 1 and len(rows) == 1):
            left = into.reshaped(left, [*lead, math.prod(rows), inner])
        made = into.apply("MatMul", left, right)
    return into.reshaped(made, [*lead, *rows, *columns])


def _of_elements(into: StableHlo, operands: Sequence[str], of: TensorType) -> Sequence[str]:
    """Operands of a product, converted to its elements where they are of others."""
    assert of.dtype is not None
    if {into.dtype(x).name for x in operands} == {of.dtype.name}:
        return operands
    return [into.apply("Cast", x, to=of.dtype) for x in operands]


def _without_ones(into: StableHlo, name: str, numbers: Sequence[list[int]]) -> str:
    """An operand without dimensions of 1 that stay as they are; `numbers` of the others are counted anew."""
    shape = into.shape(name)
    ones = [axis for axis, size in enumerate(shape) if size == 1 and not any(axis in listed for listed in numbers)]
    for listed in numbers:
        listed[:] = [axis - sum(one < axis for one in ones) for axis in listed]
    return into.reshaped(name, [size for axis, size in enumerate(shape) if axis not in ones]) if ones else name


def _dimensions(
    into: StableHlo, operation: MlirOperation, operands: Sequence[str]
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """The batch dimensions and those that are summed over, of both operands; lists of the caller's own."""
    if operation.name.endswith(".dot"):
        return ([], []), ([len(into.shape(operands[0])) - 1], [0])
    numbers = operation.attribute("dot_dimension_numbers")
    if numbers is None:
        none: tuple[list[int], list[int]] = ([], [])
        batch, contracting = (operation.attribute(f"{kind}_dims") or none for kind in ("batching", "contracting"))
        return ([*batch[0]], [*batch[1]]), ([*contracting[0]], [*contracting[1]])
    named = numbers.named
    batch, contracting = (
        ([*named.get(f"lhs_{kind}_dimensions", [])], [*named.get(f"rhs_{kind}_dimensions", [])])
        for kind in ("batching", "contracting")
    )
    return batch, contracting
