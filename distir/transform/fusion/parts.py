"""What an op is to a fused kernel: the elements that it computes, and the rows over which it reduces.

As in the scheduler of torch.compile (`torch/_inductor/scheduler.py`), loops are fused that run over the same elements;
a reduction has rows besides, of which each is one loop. Most follows from signatures: an op of one shape throughout is
pointwise, one that names a dimension by `axis` and keeps its shape goes by rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from distir.ir import HOST, Apply, Dim, TensorType, Type, dims
from distir.ops import OPS, Op, bind
from distir.ops.signature import DimVar, TensorPattern
from distir.ops.views import VIEWS

Kind = Literal["pointwise", "move", "view", "rows", "reduction", "product"]
"""`move`: indices change; `view`: not even a copy; `rows`: full results from sums over rows; `reduction`: the sums;
`product`: a matrix product, which only a kernel with an epilogue holds."""

FAMILIES = frozenset(
    {"elementwise", "activation", "gradient", "norm", "optimizer", "select", "loss", "reduce", "dropout", "scaling"}
)
MOVES = frozenset({"Transpose", "Expand", "Slice", "Split", "Concat", "Pad", "Tile"})
SHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", *VIEWS.values()})
PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum"})
LOSSES = frozenset({"MSELoss", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"})
POINTWISE = frozenset({"RotaryEmbedding", "MSELossGrad", "Trilu", "Dropout", "DropoutGrad"})
SUMS = frozenset({"ReduceTo", "SquaredNorm"})
SCANS = frozenset({"CumSum", "TopK", "ArgMax", "ArgMin", "ScatterElements"})
"""What no loop over independent elements or rows computes."""


@dataclass(frozen=True, slots=True)
class Part:
    """What an op brings into a kernel. `rows`: how many there are; None without a reduction.

    `inner`: rows are contiguous, so that values of all of a row may follow from its sums.
    """

    kind: Kind
    elements: Dim
    rows: Dim | None = None
    inner: bool = True


@lru_cache(maxsize=1 << 10)
def kind_of(op: Op) -> Kind | None:
    """What an op may be to a kernel; None for one that is a kernel of its own."""
    if op.communication is not None or op.name in SCANS:
        return None
    if op.name in PRODUCTS:
        return "product"
    if op.name in SHAPES:
        return "view"
    if op.name in MOVES:
        return "move"
    if op.name in POINTWISE:
        return "pointwise"
    if op.family not in FAMILIES or op.view or op.bytes is not None or op.flops is None:
        return None
    if op.name in LOSSES or op.family == "reduce" or op.name in SUMS:
        return "reduction"
    if op.name == "SoftmaxCrossEntropyLossGrad":
        return "rows"
    return _by_signature(op)


def _by_signature(op: Op) -> Kind | None:
    (signature, *others) = op.signatures
    patterns = [place.pattern for place in (*signature.operands, *signature.results)]
    tensors = [p for p in patterns if isinstance(p, TensorPattern) and p.device != "host"]
    made = signature.results[0].pattern if signature.results else None
    if others or not tensors or not isinstance(made, TensorPattern) or made.device == "host":
        return None
    shapes = [p.shape for p in tensors]
    first, result = shapes[0], made.shape
    if first is None or result is None:
        return None
    by_axis = [d.name for d in first if isinstance(d, DimVar) and d.axis is not None]
    if by_axis:
        plain = tuple(DimVar(d.name) if isinstance(d, DimVar) else d for d in first)
        kept = tuple(DimVar(d.name) if isinstance(d, DimVar) else d for d in result)
        return "rows" if plain == kept and op.family != "select" else None
    return "pointwise" if all(shape in (first, ()) for shape in shapes) else None


def part_of(statement: Apply, operands: Sequence[Type | None], results: Sequence[Type]) -> Part | None:
    """What a statement brings into a kernel for operands and results of these types; None if it is none."""
    op = OPS.get(statement.op)
    kind = kind_of(op) if op is not None else None
    made = [t for t in results if isinstance(t, TensorType)]
    if op is None or kind is None or not made or len(made) < len(results) or made[0].device == HOST:
        return None
    size = made[0].elements
    if size is None:
        return None
    if kind in ("pointwise", "move", "view", "product"):
        return Part(kind, size)
    scores = operands[1] if statement.op == "SoftmaxCrossEntropyLossGrad" else operands[0]
    if not isinstance(scores, TensorType) or scores.shape is None or scores.elements is None:
        return None
    whole, shape = scores.elements, scores.shape
    if kind == "reduction" and statement.op not in LOSSES:
        return Part(kind, whole, size, inner=_is_inner(shape, made[0].shape or ()))
    if statement.op == "MSELoss":
        return Part(kind, whole, size)
    axis = 1
    if "axis" in op.attributes:
        stated = bind(op, statement.attrs).get("axis")
        axis = (stated if isinstance(stated, int) else -1) % len(shape)
    trailing = op.family == "norm" or "Normalization" in op.name
    rows = dims.product(shape[:axis] if trailing else (*shape[:axis], *shape[axis + 1 :]))
    return None if rows is None else Part(kind, whole, rows, inner=trailing or axis == len(shape) - 1)


def _is_inner(shape: Sequence[Dim | None], result: Sequence[Dim | None]) -> bool:
    """Whether the last dimensions are the ones that are summed over."""
    kept = list(result)
    while kept and kept[-1] == 1:
        kept.pop()
    return list(shape[: len(kept)]) == kept
