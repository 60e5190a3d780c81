"""Products over merged dimensions, as exporters write them, over the dimensions that were merged.

Exporters know matrix products of three dimensions only: they merge batch and heads before one and part them behind it.
A batch that is merged with heads can be split along neither of the two. So what acts on the last dimensions alone is
written for the tensor before it was merged; the merging, a view, goes behind it, and ends where another one parts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distir.importers.translation import Translation
from distir.ir import DTYPES, Apply, Attributes, Dense, Shape, TensorType, dims
from distir.ops import OPS, type_of
from distir.ops.signature import Broadcast, TensorPattern


@dataclass(frozen=True, slots=True)
class Merged:
    """A tensor whose first dimension is `lead` merged: `source` is what it was before, with the dimensions `rest`."""

    source: str
    lead: Shape
    rest: tuple[int, ...]


def unmerged(into: Translation, statement: Apply) -> Apply:
    """The statement on what its operands were before their first dimensions were merged, then merging the result.

    What is needed before the last statement is appended. The statement itself where it needs them merged.
    """
    if statement.op == "Reshape":
        return _of_the_source(into, statement)
    args = [str(arg) for arg in statement.args]
    found = [_merged(into, arg) for arg in args]
    leads = [operand.lead for operand in found if operand is not None]
    rule = _RULES.get(statement.op, _elementwise if broadcasts(statement.op) else None)
    if not leads or rule is None or any(dims.product(lead) != dims.product(leads[0]) for lead in leads):
        return statement
    lead = min(leads, key=len)
    others = [_shape(into, arg) if operand is None else None for arg, operand in zip(args, found, strict=True)]
    attrs = rule(statement, found, others, len(lead))
    if attrs is None:
        return statement
    if sum(not isinstance(size, int) for size in lead) > 1:
        return statement
    sources = tuple(
        arg if operand is None else _with_lead(into, operand, lead) for arg, operand in zip(args, found, strict=True)
    )
    given = into.builder.fresh(f"{args[0]}.{statement.op.lower()}")
    into.compute(Apply((given,), statement.op, sources, attrs))
    shape = _shape(into, given)
    rest = [size for size in shape[len(lead) :] if isinstance(size, int)] if shape is not None else []
    if shape is None or len(rest) < len(shape) - len(lead):
        return statement  # what was appended is needed by nothing, and left out
    return Apply(statement.results, "Reshape", (given, _sizes(into, given, (-1, *rest))))


def _with_lead(into: Translation, operand: Merged, lead: Shape) -> str:
    """The tensor before its first dimensions were merged, with others of as many elements in their place."""
    if operand.lead == lead:
        return operand.source
    given = into.builder.fresh(f"{operand.source}.parted")
    sizes = tuple(size if isinstance(size, int) else -1 for size in lead)
    into.append(Apply((given,), "Reshape", (operand.source, _sizes(into, given, (*sizes, *operand.rest)))))
    return given


def _sizes(into: Translation, reshaped: str, sizes: tuple[int, ...]) -> str:
    given = into.builder.fresh(f"{reshaped}.shape")
    into.values[given] = Dense(DTYPES["Int64"], (len(sizes),), sizes)
    return given


def _of_the_source(into: Translation, statement: Apply) -> Apply:
    """A `Reshape` of what was merged, as one of the tensor before that."""
    found, sizes = _merged(into, str(statement.args[0])), into.values.get(str(statement.args[1]))
    if found is None or not isinstance(sizes, Dense) or 0 in sizes.values:
        return statement
    return Apply(statement.results, "Reshape", (found.source, statement.args[1]), statement.attrs)


def _merged(into: Translation, name: str) -> Merged | None:
    """What a value was before its first dimensions were merged, where it is a `Reshape` that merges them."""
    maker = into.makers.get(name)
    if maker is None or maker.op != "Reshape":
        return None
    source = str(maker.args[0])
    before, after = _shape(into, source), _shape(into, name)
    if before is None or after is None or not 1 < len(after) < len(before):
        return None
    lead, rest = before[: len(before) - len(after) + 1], after[1:]
    sizes = tuple(size for size in rest if isinstance(size, int) and size > 0)
    if None in lead or rest != before[len(lead) :] or len(sizes) < len(rest) or after[0] != dims.product(lead):
        return None
    return Merged(source, lead, sizes)


Rule = Callable[[Apply, "Sequence[Merged | None]", "Sequence[Shape | None]", int], "Attributes | None"]
"""The attributes of a statement on what its operands were, of which so many dimensions were merged, or None.

Of operands that are not merged the shapes are given.
"""


def _product(
    statement: Apply, operands: Sequence[Merged | None], others: Sequence[Shape | None], count: int
) -> Attributes | None:
    """Both factors are batches of matrices, or the second one is a matrix."""
    left, right = operands
    if left is None or len(left.rest) != 2:
        return None
    batched = right is not None and len(right.rest) == 2
    return statement.attrs if batched or (right is None and len(others[1] or ()) == 2) else None


def _transposed(
    statement: Apply, operands: Sequence[Merged | None], others: Sequence[Shape | None], count: int
) -> Attributes | None:
    """The merged dimension stays where it is."""
    order = statement.attrs.get("perm")
    if not isinstance(order, tuple) or order[:1] != (0,):
        return None
    behind = [axis + count - 1 for axis in order[1:] if isinstance(axis, int)]
    return Attributes({"perm": (*range(count), *behind)})


def _along_the_last(
    statement: Apply, operands: Sequence[Merged | None], others: Sequence[Shape | None], count: int
) -> Attributes | None:
    (operand,) = operands
    last = operand is not None and statement.attrs.get("axis", -1) in (-1, len(operand.rest))
    return Attributes({"axis": -1}) if last else None


def _elementwise(
    statement: Apply, operands: Sequence[Merged | None], others: Sequence[Shape | None], count: int
) -> Attributes | None:
    """Operands that are not merged are broadcast along the merged dimension."""
    rank = max(1 + len(operand.rest) for operand in operands if operand is not None)
    if any(operand is not None and len(operand.rest) + 1 != rank for operand in operands):
        return None
    for operand, shape in zip(operands, others, strict=True):
        if operand is None and (shape is None or len(shape) > rank or (len(shape) == rank and shape[0] != 1)):
            return None
    return statement.attrs


def broadcasts(name: str) -> bool:
    """Whether an op has operands and one result that broadcast, as its signature says."""
    op = OPS.get(name)
    if op is None or len(op.signatures) != 1 or len(op.signatures[0].results) != 1:
        return False
    places = [*op.signatures[0].operands, *op.signatures[0].results]
    return all(isinstance(p.pattern, TensorPattern) and _is_broadcast(p.pattern) for p in places)


def _is_broadcast(pattern: TensorPattern) -> bool:
    return pattern.shape is not None and len(pattern.shape) == 1 and isinstance(pattern.shape[0], Broadcast)


_RULES: dict[str, Rule] = {
    "MatMul": _product,
    "Transpose": _transposed,
    **dict.fromkeys(("Softmax", "LogSoftmax"), _along_the_last),
}


def _shape(into: Translation, name: str) -> Shape | None:
    stated = type_of(into.values.get(name))
    return stated.shape if isinstance(stated, TensorType) else None
