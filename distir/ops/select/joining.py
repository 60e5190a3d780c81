"""Splitting along an axis, and concatenating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import Dim, Literal, Shape, dims
from distir.ops.core import op
from distir.ops.host import MOST_ENTRIES, Operand, known_ints, length
from distir.ops.layout import Layout, Letters, elementwise
from distir.ops.numeric import Array, np
from distir.ops.select.indices import Results
from distir.ops.unify import Reject, normal_axis

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Unpacked, Write


@op(
    "Tensor[t, (*a, n@axis, *b), d], Optional[Tensor[Int64, (r,), host]] -> *Tensor[t, (*a, _, *b), d]",
    flops=0,
    aliases={"dim": "axis", "num_splits": "num_outputs"},
    linear="jointly",
)
def Split(
    input: Array,
    split: Array | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    stride: int | None = None,
    count: int,
) -> list[Array]:
    """`input` cut along `axis` into parts of the sizes `split`, or into `num_outputs` parts of equal size.

    The last part is smaller if the size is not divisible. With neither, there is a part for each result. ONNX `Split`.

    With `stride`, on a device that represents a group of `num_outputs`, so far apart, the parts are counted from the
    device's own: the first result is the second part on the second device, and so on around (`GroupAllgather`).

    %a, %b = Split[axis = 0, num_outputs = 2](%x: Tensor[Float32, (4, 3), 1])
    %a, %b = Split[axis = 1](%x: Tensor[Float32, (4, 3), 1], [1, 2])
    %a, %b = Split(%x: Tensor[Float32, (3, 2), 1])
    """
    sizes = cast("list[int]", _parts(input.shape[axis], num_outputs or count) if split is None else split.tolist())
    return np.split(input, np.cumsum(sizes[:-1], dtype=np.int64), axis=axis)


@Split.pieces
def _(
    p: Pieces, input: Piece, split: Piece | None = None, *, axis: int, stride: int | None = None, **_: Any
) -> list[Piece]:
    if stride:
        count = len(p.shapes)
        parts = [p.split(member, axis, count) for member in p.members(input, count, stride)]
        return [p.of_members([own[(rank + k) % count] for rank, own in enumerate(parts)], stride) for k in range(count)]
    ends = list(accumulate(shape[axis] for shape in p.shapes))
    return [p.cut(input, axis, start, end) for start, end in pairwise([0, *ends])]


@Split.shapes
def _(
    input: Operand,
    split: Operand | None = None,
    *,
    axis: int,
    num_outputs: int | None = None,
    stride: int | None = None,
    count: int,
) -> list[Shape | None]:
    if split is not None and num_outputs is not None:
        message = "`Split` expected either the sizes `split` or `num_outputs`, found both"
        raise Reject(codes.BAD_VALUE, message, "num_outputs")
    if num_outputs is not None and num_outputs < 1:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at least 1 part, found {num_outputs}", "num_outputs")
    shape = input.shape
    at = None if shape is None else normal_axis(axis, len(shape), "Split", "axis")
    dim = None if shape is None or at is None else shape[at]
    sizes = _parts(dim, num_outputs or count) if split is None else _stated_parts(dim, split, count)
    if stride is not None and (stride < 1 or len(set(sizes)) > 1):
        message = (
            f"expected 1 or more for `stride`, found {stride}" if stride < 1 else "expected equal parts with `stride`"
        )
        raise Reject(codes.BAD_VALUE, f"`Split` {message}", "stride")
    if shape is None or at is None:
        return [None] * len(sizes)
    return [(*shape[:at], size, *shape[at + 1 :]) for size in sizes]


@Split.sharding
def _(input: Operand, split: Operand | None = None, *, results: Results, axis: int, **_: Any) -> Layout:
    letters, cut = _along_axis(input.shape, axis)
    blocks = tuple(None if shape is None else shape[cut] for shape in results)
    sizes = {} if split is None or not letters else {f"s{cut}": (1,)}
    operands = (letters,) if split is None else (letters, ())
    found = Layout(operands, (letters,) * len(results), operand_blocks={(0, cut): blocks}, divided_operands=sizes)
    return replace(found, apart=letters[cut] if letters else None)


@Split.grad
def _(g: Backward) -> Gradients:
    if g.attrs.get("stride"):
        raise g.refuse("it represents a whole group of devices, whose gradients may differ")
    parts = [g.dy_or_zeros(i) for i in range(len(g.dys))]
    return [g("Concat", *parts, axis=g.attrs["axis"]), None]


@Split.torch
def _(
    write: Write,
    input: Expr,
    split: Expr | None = None,
    *,
    axis: int,
    num_outputs: int | None = None,
    stride: int | None = None,
) -> Unpacked:
    if stride:
        raise write.refuse("it represents a group of devices; transform without `representative=true`")
    sizes = [(r.shape or ())[axis] for r in write.results]
    return write.unpacked(f"torch.split({input}, {list(sizes)}, {axis})")


@op(
    "*Tensor[t, (*a, n_i@axis, *b), d] -> Tensor[t, (*a, sum(n_i), *b), d]",
    flops=0,
    aliases={"dim": "axis"},
    linear="jointly",
)
def Concat(*inputs: Array, axis: int) -> Array:
    """The operands one after the other along `axis`. ONNX `Concat`.

    %y = Concat[axis = 0](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (4, 3), 1])
    """
    return np.concatenate(inputs, axis=axis)


@Concat.pieces
def _(p: Pieces, *inputs: Piece, axis: int) -> Any:
    return [p.joined(inputs, axis)]


@Concat.sharding
def _(*inputs: Operand, results: Results, axis: int) -> Layout:
    letters, joined = _along_axis(results[0], axis)
    blocks = tuple(None if x.shape is None else x.shape[joined] for x in inputs)
    found = Layout((letters,) * len(inputs), (letters,), result_blocks={(0, joined): blocks})
    return replace(found, apart=letters[joined] if letters else None)


@Concat.grad
def _(g: Backward) -> Gradients:
    axis = cast(int, g.attrs["axis"])
    if len(g.x) == 1:
        return [g.dy]
    first = normal_axis(axis, g.rank(g.x[0]), "Concat", "axis")
    sizes = [g.known_shape(x)[first] for x in g.x]
    if None not in sizes and all(size == sizes[0] for size in sizes):
        return g.several("Split", len(g.x), g.dy, axis=axis, num_outputs=len(g.x))
    if all(isinstance(size, int) for size in sizes):
        return g.several("Split", len(g.x), g.dy, Literal(tuple(cast("list[int]", sizes))), axis=axis)
    lengths = [g("Shape", x, start=first, end=first + 1) for x in g.x]
    return g.several("Split", len(g.x), g.dy, g("Concat", *lengths, axis=0), axis=axis)


@Concat.torch(fresh=True)
def _(write: Write, *inputs: Expr, axis: int) -> str:
    return f"torch.cat({write.items([x.tensor for x in inputs])}, {axis})"


def _parts(dim: Dim, count: int) -> Sequence[Dim]:
    """The sizes of `count` equal parts; of an integer the last one may be smaller. Raises Reject were it negative."""
    if count < 1:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at least 1 part, found {count}", "num_outputs")
    if count > MOST_ENTRIES:
        raise Reject(codes.BAD_VALUE, f"`Split` expected at most {MOST_ENTRIES} parts, found {count}", "num_outputs")
    if not isinstance(dim, int):
        return [dims.divide(dim, count)] * count
    size = -(-dim // count)
    last = dim - size * (count - 1)
    if last < 0:
        message = f"`Split` cannot cut a dimension of {dim} into {count} parts of {size}"
        raise Reject(codes.INDIVISIBLE, message, "input", help="give the sizes as `split`")
    return [size] * (count - 1) + [last]


def _stated_parts(dim: Dim, split: Operand, count: int) -> Sequence[Dim]:
    sizes = known_ints(split)
    if sizes is None:
        stated = length(split)
        return [None] * (stated if isinstance(stated, int) else count)
    if any(size < 0 for size in sizes):
        raise Reject(codes.BAD_VALUE, f"`Split` expected sizes from 0, found {list(sizes)}", "split")
    if not sizes:
        raise Reject(codes.BAD_VALUE, "`Split` expected 1 size at least, found none", "split")
    if isinstance(dim, int) and sum(sizes) != dim:
        message = f"`Split` expected sizes that add up to {dim}, found {list(sizes)}, which add up to {sum(sizes)}"
        raise Reject(codes.BAD_VALUE, message, "split")
    return sizes


def _along_axis(shape: Shape | None, axis: int) -> tuple[Letters, int]:
    (letters,) = elementwise([shape])
    return letters, axis % max(len(letters), 1)
