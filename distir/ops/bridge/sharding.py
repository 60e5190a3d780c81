"""The `Layout` of a bridged op, from the letters of its family. Does not import onnx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distir.ir import Attributes, Dim, Shape
from distir.ops.bridge.families import FAMILIES
from distir.ops.core import Op
from distir.ops.host import Operand, known_ints
from distir.ops.infer import match_operands
from distir.ops.layout import Layout, Letters
from distir.ops.reduce.axes import split_except
from distir.ops.signature import Broadcast, DimVar, OperandPattern, Segment, TensorPattern

Operands = Sequence[Operand | None]


def layout_of(op: Op, operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """The layout for these operands."""
    if rule := _OWN_RULES.get(op.name):
        return rule(operands, results, attrs)
    signature = match_operands(op, operands, attrs).signature
    given = [_letters(_place(signature.operands, i), o.shape if o else None) for i, o in enumerate(operands)]
    made = [_letters(_place(signature.results, i), shape) for i, shape in enumerate(results)]
    whole = _whole(op.name, operands, attrs)
    shared = {letter for letters in given for letter in letters}
    shared.intersection_update(*made)  # a result without the letter would have to be a sum over it
    split = {letter for letter in (*shared, *FAMILIES[op.name].summed) if letter not in whole}
    return Layout(tuple(_only(split, letters) for letters in given), tuple(_only(split, letters) for letters in made))


def _place(places: Sequence[OperandPattern], index: int) -> OperandPattern:
    return places[min(index, len(places) - 1)]


def _letters(place: OperandPattern, shape: Shape | None) -> Letters:
    """A letter for each dimension; a segment takes the dimensions that are left by the others."""
    if shape is None:
        return ()
    terms = place.pattern.shape if isinstance(place.pattern, TensorPattern) else None
    if terms is None:
        return (None,) * len(shape)
    letters: list[str | None] = []
    for term in terms:
        if isinstance(term, (Segment, Broadcast)):
            length = len(shape) - len(terms) + 1
            dims = shape[len(letters) : len(letters) + length]
            letters += [_spread_letter(term, k, length, dim) for k, dim in enumerate(dims)]
        else:
            letters.append(term.name if isinstance(term, DimVar) and term.axis is None else None)
    return tuple(letters) if len(letters) == len(shape) else (None,) * len(shape)


def _spread_letter(term: Segment | Broadcast, k: int, length: int, dim: Dim) -> str | None:
    if isinstance(term, Segment):
        return f"*{term.name}{k}"
    return None if dim == 1 else f"...{length - k}"


def _only(split: set[str | None] | set[str], letters: Letters) -> Letters:
    return tuple(letter if letter in split else None for letter in letters)


def _whole(name: str, operands: Operands, attrs: Attributes) -> set[str]:
    """The letters that cannot be split for these operands and attributes."""
    match name:
        case "BatchNormalization" if attrs["training_mode"]:
            return {"b", *(f"*s{k}" for k in range(8))}  # the statistics depend on all of them
        case "MatMulInteger" if any(o is not None and o.shape != () for o in operands[2:]):
            return {"m", "n"}  # a zero point for each row or column would have to be split as well
        case "QLinearMatMul" if any(o is not None and o.shape != () for o in (*operands[1:3], *operands[4:])):
            return {"m", "n"}
        case _:
            return set()


def _resize(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """Dimensions that keep their size may be split, if the new shape is computed from factors, or can be restated."""
    x, sizes = operands[0], operands[3] if len(operands) > 3 else None
    assert x is not None
    before, after = x.shape or (), results[0] or ()
    others = ((),) * (len(operands) - 1)
    cropped = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if cropped or len(before) != len(after) or (sizes is not None and "axes" in attrs):
        return Layout(((None,) * len(before), *others), ((None,) * len(after),))
    letters = tuple(
        f"s{k}" if m == n and n is not None else None for k, (m, n) in enumerate(zip(before, after, strict=True))
    )
    return Layout((letters, *others), (letters,), stated=None if sizes is None else 3)


def _reduction(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """Dimensions that are not reduced may be split."""
    data, axes = operands[0], operands[1] if len(operands) > 1 else None
    assert data is not None
    rank, along = len(data.shape or ()), () if axes is None else known_ints(axes)
    everything = not along and (along is None or not attrs["noop_with_empty_axes"])
    gone = range(rank) if everything else [axis % rank for axis in along or ()]
    letters = tuple(None if i in gone else f"s{i}" for i in range(rank))
    remaining = tuple(f"s{i}" if i not in gone else None for i in range(rank) if attrs["keepdims"] or i not in gone)
    if results[0] is None or len(remaining) != len(results[0]):
        return Layout(((None,) * rank, ()), ((None,) * len(results[0] or ()),))
    return Layout((letters, ())[: len(operands)], (remaining,))


def _running(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """All dimensions but the one that is added up or multiplied along, which an operand states."""
    data, axis = operands
    known = None if axis is None else known_ints(axis)
    assert data is not None
    return split_except(known[0] if known else None, data, True, len(results), others=1)


def _convolution(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """Channels in and out may be split; of several groups, whole groups."""
    return _channels(operands, results, attrs, ("m", "c"))


def _transposed_convolution(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """The same, with the other order of the weights' channels."""
    return _channels(operands, results, attrs, ("c", "m"))


def _channels(operands: Operands, results: Sequence[Shape | None], attrs: Attributes, order: tuple[str, str]) -> Layout:
    """The layout of a convolution; `order`: how its weights have the channels of the result and of the operand."""
    x, w, *bias = operands
    groups = attrs["group"]
    taken, made, weights = ("c", "m", order) if groups == 1 else ("g", "g", ("g", None))
    given = [_behind(("b", taken), x), _behind(weights, w), *(_behind((made,), b) for b in bias)]
    found = Layout(tuple(given), (_behind(("b", made), results[0]),), factors=(0, 1))
    if groups == 1:
        # Of a partial sum the bias is to be added once: a part of it on each device.
        return replace(found, averaged=frozenset("c"), scaled=2) if bias and bias[0] else found
    alone = all(shape is not None and shape[1] == groups for shape in (x.shape if x else None, results[0]))
    return replace(found, divided={"g": ("group",)}, contiguous=frozenset() if alone else frozenset("g"))


def _group_normalization(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """By the batch, and by channels, as whole groups."""
    given = [_behind(letters, o) for letters, o in zip((("b", "c"), ("c",), ("c",)), operands, strict=True)]
    made = _behind(("b", "c"), results[0])
    return Layout(tuple(given), (made,), divided={"c": ("num_groups",)}, contiguous=frozenset("c"))


def _behind(first: Letters, of: Operand | Shape | None) -> Letters:
    """The first letters, and none for later dimensions."""
    shape = of if of is None or isinstance(of, tuple) else of.shape
    return () if shape is None else (*first, *(None,) * (len(shape) - len(first)))


def _recurrent(operands: Operands, results: Sequence[Shape | None], attrs: Attributes) -> Layout:
    """The batch may be split; `layout` determines its dimension."""
    first = attrs["layout"] == 1
    batch = ("b", None, None) if first else (None, "b", None)
    outputs = [("b", None, None, None) if first else (None, None, "b", None), batch, batch]
    inputs = [batch, (None,) * 3, (None,) * 3, (None,) * 2, ("b",), batch, batch, (None,) * 2]
    return Layout(
        tuple(() if o is None else letters for o, letters in zip(operands, inputs, strict=False)),
        tuple(outputs[: len(results)]),
    )


_OWN_RULES: dict[str, Callable[[Operands, Sequence[Shape | None], Attributes], Layout]] = {
    "Conv": _convolution,
    "CumProd": _running,
    "ConvTranspose": _transposed_convolution,
    "GroupNormalization": _group_normalization,
    "Resize": _resize,
    "ReduceL1": _reduction,
    "ReduceLogSum": _reduction,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent),
}
