"""The loops of an op: over its elements, over rows that it reduces, or of another kind.

As in the scheduler of torch.compile (`torch/_inductor/scheduler.py`). Most follows from signatures: an op of one shape
throughout is pointwise, one that names a dimension by `axis` and keeps its shape goes by rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from distir.ir import Dim, TensorType
from distir.ops.core import Op
from distir.ops.signature import DimVar, TensorPattern
from distir.ops.views import VIEWS

Kind = Literal["pointwise", "move", "view", "rows", "reduction", "product"]
"""`move`: indices change; `view`: not even a copy; `rows`: full results from sums over rows; `reduction`: the sums;
`product`: a matrix product, which only a kernel with an epilogue holds."""

FAMILIES = frozenset(
    {"elementwise", "activation", "gradient", "norm", "optimizer", "select", "loss", "reduce", "dropout", "scaling"}
)
MOVES = frozenset(
    {"Transpose", "Expand", "Slice", "Split", "GroupPart", "GroupParts", "Shard", "Concat", "Pad", "Tile"}
)
SHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", *VIEWS.values()})
PRODUCTS = frozenset({"MatMul", "Gemm", "Einsum", "RaggedMatMulGrad", "ScaledMatMul", "ScaledRaggedMatMulGrad"})
LOSSES = frozenset({"MSELoss", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"})
POINTWISE = frozenset({"RotaryEmbedding", "MSELossGrad", "Trilu", "Dropout", "DropoutGrad", "OneHot"})
KEEP_PLACES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Views whose elements are in the order of their operand's."""

NORMS = ("LayerNormalization", "RMSNormalization")
FROM_AXIS_ON = frozenset((*NORMS, *(f"{op}Grad" for op in NORMS)))
"""Ops whose rows are along all dimensions from `axis` on."""

SUMS = frozenset({"ReduceTo", "SquaredNorm"})
SCANS = frozenset({"CumSum", "TopK", "ArgMax", "ArgMin", "ScatterElements"})
"""Ops that no loop over independent elements or rows computes."""


@lru_cache(maxsize=1 << 10)
def kind_of(op: Op) -> Kind | None:
    """The kind of an op in a fused kernel; None if it cannot be fused."""
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


def rows_of(op: Op) -> int:
    """The operand whose rows a reduction goes over."""
    return 1 if op.name == "SoftmaxCrossEntropyLossGrad" else 0


def place_by_place(op: Op, size: Dim, of: TensorType | None, result: TensorType) -> bool:
    """Whether a loop over elements or rows needs an element of an operand only where it has come to it.

    `size`: how many elements the operand has; `of`: the type of the one in `rows_of`, None if that is no tensor;
    `result`: of the first result.
    """
    kind = "view" if op.name in KEEP_PLACES else kind_of(op)
    if size is None or op.name == "RotaryEmbedding":  # it rotates pairs that are not adjacent
        return False
    if kind in ("rows", "reduction"):
        return of is not None and size == of.elements
    return size == result.elements and (kind == "pointwise" or op.name in KEEP_PLACES)


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
