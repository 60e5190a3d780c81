"""Matrix products, and the general contraction `Einsum`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters, ascii_uppercase
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Arg, Dim, DimensionError, Part, Shape, TensorType, types
from distir.ops.core import op
from distir.ops.equation import Equation, Labels, parse_equation
from distir.ops.host import Operand
from distir.ops.layout import Layout, Letters
from distir.ops.numeric import Array, np
from distir.ops.precision import wide
from distir.ops.resources import MatrixProduct
from distir.ops.unify import Reject, broadcast

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


def _product(*, shapes: Sequence[Sequence[int]], k: int, elements: int, **_: Any) -> MatrixProduct:
    """Leading dimensions are rows where all multiply one matrix."""
    a, b = shapes
    m, n = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    if math.prod(b[:-2]) == 1:
        return MatrixProduct(elements // n, n, k)
    return MatrixProduct(m, n, k, elements // (m * n))


@op(
    "Tensor[t:number, (..., m, k), d], Tensor[t:number, (..., k, n), d] -> Tensor[t, (..., m, n), d]",
    "Tensor[t:number, (k,), d], Tensor[t:number, (..., k, n), d] -> Tensor[t, (..., n), d]",
    "Tensor[t:number, (..., m, k), d], Tensor[t:number, (k,), d] -> Tensor[t, (..., m), d]",
    "Tensor[t:number, (k,), d], Tensor[t:number, (k,), d] -> Tensor[t, (), d]",
    flops=lambda k, elements, **_: 2 * k * elements,
    contraction=_product,
    linear=("a", "b"),
)
def MatMul(a: Array, b: Array) -> Array:
    """Matrix product over the last two dimensions; leading dimensions broadcast. ONNX `MatMul`.

    %c = MatMul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
    %c = MatMul(%a: Tensor[Float32, (5, 2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
    """
    return np.matmul(wide(a), wide(b)).astype(a.dtype, copy=False)


@MatMul.grad
def _(g: Backward) -> Gradients:
    a, b = g.definite(0), g.definite(1)
    # A vector is a matrix of one row (left) or one column (right).
    left = g("Unsqueeze", a, (0,)) if g.rank(a) == 1 else a
    right = g("Unsqueeze", b, (1,)) if g.rank(b) == 1 else b
    dy: Any = g.dy
    if g.rank(b) == 1:
        dy = g("Unsqueeze", dy, (-1,))
    if g.rank(a) == 1:
        dy = g("Unsqueeze", dy, (-2,))
    da, db = _weighted(g, left, right, dy) if g.rank(right) == 2 else _batched(g, left, right, dy)
    return [
        g("Squeeze", da, (0,)) if g.rank(a) == 1 and da is not None else da,
        g("Squeeze", db, (1,)) if g.rank(b) == 1 and db is not None else db,
    ]


def _weighted(g: Backward, a: Arg, w: Arg, dy: Arg) -> tuple[Arg | None, Arg | None]:
    """The gradients of the product with a matrix `w`, which flattens the leading dimensions of `a`."""
    rank = g.rank(a)
    rows = a if rank == 2 else g("Flatten", a, axis=rank - 1)
    drows = dy if rank == 2 else g("Flatten", dy, axis=rank - 1)
    da = g.reshape_like(g("Gemm", drows, w, transB=True), a) if g.wants(0) else None
    dw = g("Gemm", rows, drows, transA=True) if g.wants(1) else None
    return da, dw


def _batched(g: Backward, a: Arg, b: Arg, dy: Arg) -> tuple[Arg | None, Arg | None]:
    whole = g.shape(dy)
    da = db = None
    if g.wants(0):
        da = _over_batch(g, whole, (dy, b), ("mn", "kn", "mk"), a) or g.sum_to(g("MatMul", dy, g.transposed(b)), a)
    if g.wants(1):
        db = _over_batch(g, whole, (a, dy), ("mk", "mn", "kn"), b) or g.sum_to(g("MatMul", g.transposed(a), dy), b)
    return da, db


def _over_batch(
    g: Backward, whole: Shape | None, factors: tuple[Arg, Arg], matrices: tuple[str, str, str], like: Arg
) -> str | None:
    """The gradient of matrices that were broadcast: one contraction, over the batch and a dimension of the matrices.

    The gradients of all examples are in no memory. None where nothing was broadcast, or where it is not known what was.
    """
    shapes = [g.shape(value) for value in (*factors, like)]
    known = [shape for shape in shapes if shape is not None and None not in shape]
    if whole is None or len(known) < len(shapes):
        return None
    *given, kept = (_batch_labels(shape[:-2], whole[:-2]) for shape in known)
    if len(kept) == len(whole) - 2 or any(len(a) != len(b) - 2 for a, b in zip(given, known, strict=False)):
        return None
    left, right, result = (a + b for a, b in zip((*given, kept), matrices, strict=True))
    return cast(str, g.reshape_like(g("Einsum", *factors, equation=f"{left},{right}->{result}"), like))


def _batch_labels(batch: Shape, whole: Shape) -> str:
    """Labels of the dimensions of an operand that are those of the result, counted from the last."""
    first = len(whole) - len(batch)
    pairs = zip(batch, whole[first:], ascii_uppercase[first:], strict=False)
    return "".join(label for dim, result, label in pairs if dim == result)


MatMul.torch("torch.matmul({a}, {b})", fresh=True)


def _gemm_product(*, p: int, q: int, elements: int, transA: bool, **_: Any) -> MatrixProduct:
    rows, terms = (q, p) if transA else (p, q)
    return MatrixProduct(rows, elements // rows, terms)


@op(
    "Tensor[t:number, (p, q), d], Tensor[t:number, (r, s), d], Optional[Tensor[t:number, (...), d]] -> Tensor[t, _, d]",
    flops=lambda p, q, elements, transA, **_: 2 * (p if transA else q) * elements,
    contraction=_gemm_product,
    inplace={0: 2},
    linear=("a", "b"),
    addends=("c",),
)
def Gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Array:
    """`alpha * a' @ b' + beta * c`, where a prime is a transposition if `transA` or `transB` is set. ONNX `Gemm`.

    %y = Gemm(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1], %c: Tensor[Float32, (4,), 1])
    %y = Gemm[transB = true](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (4, 3), 1])
    """
    product = np.matmul(wide(a.T if transA else a), wide(b.T if transB else b))
    scaled = product if alpha == 1 else alpha * product
    whole = scaled if c is None else scaled + (wide(c) if beta == 1 else beta * wide(c))
    return whole.astype(a.dtype, copy=False)


@Gemm.pieces
def _(
    p: Pieces,
    a: Piece,
    b: Piece,
    c: Piece | None = None,
    *,
    alpha: float,
    beta: float,
    transA: bool,
    transB: bool,
) -> list[Piece]:
    first, second = p.transposed(a, (1, 0)) if transA else a, p.transposed(b, (1, 0)) if transB else b
    return [p.sum((alpha, p("MatMul", first, second)), *(() if c is None else ((beta, c),)))]


@Gemm.shapes
def _(a: TensorType, b: TensorType, c: TensorType | None = None, **attrs: Any) -> Shape:
    (p, q), (r, s) = a.shape or (None, None), b.shape or (None, None)
    (m, k), (k_b, n) = (q, p) if attrs["transA"] else (p, q), (s, r) if attrs["transB"] else (r, s)
    if k is not None and k_b is not None and k != k_b:
        note = (Part("operand", 0), f"`k` is {k} here")
        message = f"`Gemm` operands disagree on dimension `k`: expected {k}, found {k_b}"
        raise Reject(codes.SHAPE_MISMATCH, message, "b", (note,))
    if c is not None and c.shape is not None:
        try:
            fits = broadcast(c.shape, (m, n)) == (m, n) or None in (m, n, *c.shape)
        except DimensionError:
            fits = False
        if not fits:
            message = f"`Gemm` expected a bias that broadcasts to {types.show_shape((m, n))}"
            raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(c.shape)}", "c")
    return (m, n)


@Gemm.sharding
def _(a: TensorType, b: TensorType, c: TensorType | None = None, *, results: tuple[Shape, ...], **attrs: Any) -> Layout:
    first, second = ("k", "m") if attrs["transA"] else ("m", "k"), ("n", "k") if attrs["transB"] else ("k", "n")
    operands: list[Letters] = [first, second]
    if c is not None:
        letters = zip(("m", "n")[2 - len(c.shape or ()) :], c.shape or (), strict=True)
        operands.append(tuple(None if dim == 1 else letter for letter, dim in letters))
    # With partial products, each device adds its share of the bias.
    bias = {"k": ("beta",)} if c is not None else {}
    return Layout(tuple(operands), (("m", "n"),), factors=(0, 1), divided=bias)


@Gemm.grad
def _(g: Backward) -> Gradients:
    a, b, c = g.x
    flip_a, flip_b = g.attrs["transA"], g.attrs["transB"]
    factor = {} if g.attrs["alpha"] == 1 else {"alpha": g.attrs["alpha"]}
    da = db = dc = None
    if g.wants(0):
        # da' = dy @ b'.T; it is transposed if `a` is.
        da = _gemm(g, b, g.dy, flip_b, True, factor) if flip_a else _gemm(g, g.dy, b, False, not flip_b, factor)
    if g.wants(1):
        db = _gemm(g, g.dy, a, True, flip_a, factor) if flip_b else _gemm(g, a, g.dy, not flip_a, False, factor)
    if g.wants(2):
        scaled = g.dy if g.attrs["beta"] == 1 else g("Mul", g.dy, g.attrs["beta"])
        dc = g.sum_to(scaled, c)
    return [da, db, dc]


def _gemm(g: Backward, a: Arg, b: Arg, flip_a: object, flip_b: object, factor: dict[str, Any]) -> str:
    flips = {name: True for name, flip in (("transA", flip_a), ("transB", flip_b)) if flip}
    return g("Gemm", a, b, **factor, **flips)


@Gemm.torch(fresh=True)
def _(
    write: Write,
    a: Expr,
    b: Expr,
    c: Expr | None = None,
    *,
    alpha: float,
    beta: float,
    transA: bool,
    transB: bool,
) -> str:
    left, right = f"{a}.t()" if transA else str(a), f"{b}.t()" if transB else str(b)
    if not a.floating:
        alpha, beta = int(alpha), int(beta)
    scale = "" if alpha == 1 else f"{write.number(alpha)} * "
    if c is None:
        return f"{scale}torch.mm({left}, {right})"
    factors = ("" if beta == 1 else f", beta={write.number(beta)}") + (
        "" if alpha == 1 else f", alpha={write.number(alpha)}"
    )
    return f"torch.addmm({c.tensor}, {left}, {right}{factors})"


def _einsum_flops(*, equation: str, shapes: Sequence[Sequence[int]], N: int, **_: Any) -> int:
    """At each point of the index space, one multiplication per operand after the first, and one addition."""
    parsed = parse_equation(equation)
    sizes, leading = _einsum_sizes(parsed, shapes)
    points = math.prod(cast("list[int]", [*sizes.values(), *(leading or ())]))
    summed = any(label not in parsed.result for label in sizes)
    return (N - 1 + summed) * points


def _einsum_product(*, equation: str, shapes: Sequence[Sequence[int]], **_: Any) -> MatrixProduct | None:
    """Of two operands without diagonals, that are summed over what both have; None for other equations."""
    parsed = parse_equation(equation)
    if len(shapes) != 2 or any(len(set(labels)) < len(labels) for labels in parsed.operands):
        return None
    sizes, leading = cast("tuple[dict[str, int], tuple[int, ...]]", _einsum_sizes(parsed, shapes))
    sizes = {**sizes, "...": math.prod(leading)}
    a, b, kept = (set(labels) for labels in (*parsed.operands, parsed.result))
    summed = (a | b) - kept
    if not summed or not summed <= a & b:
        return None
    m, n, k, batch = (math.prod(sizes[one] for one in those) for those in (a - b, b - a, summed, a & b & kept))
    return MatrixProduct(m, n, k, batch)


@op(
    "*Tensor[t:number, _, d] -> Tensor[t, _, d]",
    flops=_einsum_flops,
    contraction=_einsum_product,
    linear=("inputs",),
)
def Einsum(*inputs: Array, equation: str) -> Array:
    """The products of the operands' elements, summed over all labels that are not in the result. ONNX `Einsum`.

    `equation` labels the operands' dimensions, and after `->` the result's (without it: the labels that occur once, in
    the order of the alphabet). A label twice in one operand is its diagonal; `...` are dimensions that broadcast.

    %c = Einsum[equation = "bij,bjk->bik"](%a: Tensor[Float32, (5, 2, 3), 1], %b: Tensor[Float32, (5, 3, 4), 1])
    %t = Einsum[equation = "ii"](%a: Tensor[Float32, (3, 3), 1])
    """
    product: Array = np.einsum(str(parse_equation(equation)), *map(wide, inputs), optimize=len(inputs) > 2)
    return np.array(product).astype(inputs[0].dtype)


@Einsum.shapes
def _(*inputs: Operand, equation: str) -> Shape | None:
    try:
        parsed = parse_equation(equation)
    except ValueError as error:
        raise Reject(codes.BAD_VALUE, f"`Einsum` expected an equation, found {error}", "equation") from None
    if len(parsed.operands) != len(inputs):
        message = f"`Einsum` expected {len(parsed.operands)} operands for `{equation}`, found {len(inputs)}"
        raise Reject(name_codes.OPERAND_COUNT, message, "equation")
    sizes, leading = _einsum_sizes(parsed, [o.shape for o in inputs])
    shape: list[Dim] = []
    for label in parsed.result:
        if label != "...":
            shape.append(sizes[label])
        elif leading is None:
            return None
        else:
            shape += leading
    return tuple(shape)


@Einsum.sharding
def _(*inputs: Operand, results: Sequence[Shape | None], equation: str) -> Layout:
    parsed = parse_equation(equation)
    operands = [_lettered(labels, x.shape) for labels, x in zip(parsed.operands, inputs, strict=True)]
    return Layout(tuple(operands), (_lettered(parsed.result, results[0]),))


@Einsum.grad
def _(g: Backward) -> Gradients:
    """The gradient of an operand is a contraction of the result's gradient with the other operands."""
    parsed = parse_equation(cast(str, g.attrs["equation"]))
    if any("..." in labels for labels in parsed.operands):
        parsed = _spelled_out(g, parsed)
    return [_contracted(g, parsed, i) if g.wants(i) else None for i in range(len(g.x))]


def _spelled_out(g: Backward, parsed: Equation) -> Equation:
    """The equation with letters for `...`. Raises NotDifferentiable where its dimensions differ between operands."""
    around = [len(labels) - 1 for labels in parsed.operands]
    shapes = [g.known_shape(x) if "..." in labels else () for x, labels in zip(g.x, parsed.operands, strict=True)]
    spread = [
        shape[labels.index("...") : len(shape) - n + labels.index("...")]
        for shape, labels, n in zip(shapes, parsed.operands, around, strict=True)
        if "..." in labels
    ]
    if any(dims != spread[0] for dims in spread):
        raise g.refuse("`Einsum` has a gradient only where the dimensions `...` of its operands agree")
    free = [letter for letter in ascii_letters if letter not in str(parsed)]
    letters = tuple(free[: len(spread[0])])

    def spell(labels: Labels) -> Labels:
        return tuple(letter for label in labels for letter in (letters if label == "..." else (label,)))

    return Equation(tuple(map(spell, parsed.operands)), spell(parsed.result))


def _contracted(g: Backward, parsed: Equation, index: int) -> Arg:
    x, labels = g.x[index], parsed.operands[index]
    if len(set(labels)) < len(labels):
        raise g.refuse("`Einsum` has no gradient for an operand of which it takes a diagonal")
    others = [i for i in range(len(g.x)) if i != index]
    terms = (parsed.result, *(parsed.operands[i] for i in others))
    kept = tuple(label for label in labels if any(label in term for term in terms))
    dx = g("Einsum", g.dy, *(g.x[i] for i in others), equation=str(Equation(terms, kept)))
    summed = tuple(i for i, label in enumerate(labels) if label not in kept)
    if summed:  # a label of this operand alone: the gradient is broadcast along it
        dx = g("Expand", g("Unsqueeze", dx, summed), g.shape_of(x))
    return g.sum_to(dx, x)


@Einsum.torch(fresh=True)
def _(write: Write, *inputs: Expr, equation: str) -> str:
    if len(inputs) == 1:  # a diagonal, or a rearrangement, would be a view
        return f"torch.einsum({str(parse_equation(equation))!r}, {inputs[0].tensor}).clone()"
    return f"torch.einsum({str(parse_equation(equation))!r}, {', '.join(x.tensor for x in inputs)})"


def _einsum_sizes(equation: Equation, shapes: Sequence[Sequence[Dim] | None]) -> tuple[dict[str, Dim], Shape | None]:
    """The size of each label, and the shape of `...` (None: unknown). Raises Reject where operands disagree."""
    sizes: dict[str, Dim] = {}
    leading: Shape | None = ()
    for i, (labels, shape) in enumerate(zip(equation.operands, shapes, strict=True)):
        own, spread = _operand_sizes(labels, shape, i)
        for label, size in own.items():
            sizes[label] = _fitting(label, (sizes.get(label, 1),), (size,), i)[0]
        leading = None if leading is None or spread is None else _fitting("...", leading, spread, i)
    return sizes, leading


def _operand_sizes(labels: Labels, shape: Sequence[Dim] | None, index: int) -> tuple[dict[str, Dim], Shape | None]:
    """The sizes of the labels of one operand, and the shape of its `...`. Raises Reject for a label with two sizes."""
    letters = [label for label in labels if label != "..."]
    spreads = len(letters) < len(labels)
    if shape is None:
        return dict.fromkeys(letters), None if spreads else ()
    if len(shape) < len(letters) or (not spreads and len(shape) > len(letters)):
        message = f"`Einsum` expected rank {'at least ' * spreads}{len(letters)} for `{''.join(labels)}`"
        raise Reject(codes.RANK_MISMATCH, f"{message}, found rank {len(shape)}", Part("operand", index))
    before = labels.index("...") if spreads else len(letters)
    after = before + len(shape) - len(letters)
    sizes: dict[str, Dim] = {}
    for label, size in zip(letters, (*shape[:before], *shape[after:]), strict=True):
        known = sizes.setdefault(label, size)
        if None not in (known, size) and known != size:
            message = f"`Einsum` expected one size for `{label}`, found {known} and {size}"
            raise Reject(codes.SHAPE_MISMATCH, message, Part("operand", index))
        sizes[label] = size if known is None else known
    return sizes, tuple(shape[before:after])


def _fitting(label: str, known: Shape, found: Shape, operand: int) -> Shape:
    try:
        return broadcast(known, found)
    except DimensionError as error:
        message = f"`Einsum` operands disagree on `{label}`: {error}"
        raise Reject(codes.SHAPE_MISMATCH, message, Part("operand", operand)) from None


def _lettered(labels: Labels, shape: Shape | None) -> Letters:
    """A letter for each dimension, those of `...` counted from the last; None for size 1, which may be broadcast."""
    spread = len(shape or ()) - len(labels) + 1
    letters: list[str] = []
    for label in labels:
        letters += [f"...{spread - k}" for k in range(spread)] if label == "..." else [label]
    return tuple(None if dim == 1 else letter for letter, dim in zip(letters, shape or (), strict=False))
