"""Comparison, logic, and choosing by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distir.ops.core import op
from distir.ops.numeric import Array, np
from distir.ops.specs import BOOLEAN_RESULTS

if TYPE_CHECKING:
    from distir.ops.backward import Backward, Gradients
    from distir.ops.pieces import Piece, Pieces
    from distir.ops.torch_form import Expr, Write


@op("Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[Bool, (...), d]", flops=1, non_differentiable=BOOLEAN_RESULTS)
def Equal(a: Array, b: Array) -> Array:
    """Whether `a == b`. ONNX `Equal`.

    %c = Equal(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
    """
    return a == b


Equal.torch("{a} == {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Less(a: Array, b: Array) -> Array:
    """Whether `a < b`. ONNX `Less`.

    %c = Less(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a < b


Less.torch("{a} < {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def LessOrEqual(a: Array, b: Array) -> Array:
    """Whether `a <= b`. ONNX `LessOrEqual`.

    %c = LessOrEqual(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
    """
    return a <= b


LessOrEqual.torch("{a} <= {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Greater(a: Array, b: Array) -> Array:
    """Whether `a > b`. ONNX `Greater`.

    %c = Greater(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a > b


Greater.torch("{a} > {b}", fresh=True)


@op(
    "Tensor[t:number, (...), d], Tensor[t:number, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def GreaterOrEqual(a: Array, b: Array) -> Array:
    """Whether `a >= b`. ONNX `GreaterOrEqual`.

    %c = GreaterOrEqual(%a: Tensor[Float32, (2, 3), 1], 0.0)
    """
    return a >= b


GreaterOrEqual.torch("{a} >= {b}", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def And(a: Array, b: Array) -> Array:
    """The logical conjunction of Booleans. ONNX `And`.

    %c = And(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a & b


And.torch("{a} & {b}", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[Bool, (...), d] -> Tensor[Bool, (...), d]",
    flops=1,
    non_differentiable=BOOLEAN_RESULTS,
)
def Or(a: Array, b: Array) -> Array:
    """The logical disjunction of Booleans. ONNX `Or`.

    %c = Or(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
    """
    return a | b


Or.torch("{a} | {b}", fresh=True)


@op("Tensor[Bool, s, d] -> Tensor[Bool, s, d]", flops=1, non_differentiable=BOOLEAN_RESULTS)
def Not(x: Array) -> Array:
    """The logical negation of Booleans. ONNX `Not`.

    %y = Not(%x: Tensor[Bool, (2, 3), 1])
    """
    return ~x


Not.torch("torch.logical_not({x})", fresh=True)


@op(
    "Tensor[Bool, (...), d], Tensor[t, (...), d], Tensor[t, (...), d] -> Tensor[t, (...), d]",
    flops=1,
    linear=("x", "y"),
    addends=("x", "y"),
)
def Where(condition: Array, x: Array, y: Array) -> Array:
    """`x` where the condition is true, else `y`. ONNX `Where`.

    %z = Where(%c: Tensor[Bool, (3, 3), 1], %x: Tensor[Float32, (2, 3, 3), 1], -inf)
    """
    return np.where(condition, x, y)


@Where.pieces
def _(p: Pieces, condition: Piece, x: Piece, y: Piece) -> Any:
    own = p.where_own(condition, x) if p.is_float(x) and p.number(y) == 0 else None
    return NotImplemented if own is None else [own]


@Where.grad
def _(g: Backward) -> Gradients:
    condition, x, y = g.x
    return [None, g.sum_to(g("Where", condition, g.dy, 0.0), x), g.sum_to(g("Where", condition, 0.0, g.dy), y)]


@Where.torch(fresh=True)
def _(write: Write, condition: Expr, x: Expr, y: Expr) -> str:
    numbers = x.value is not None and y.value is not None
    return f"torch.where({condition.tensor}, {x.tensor if numbers else x}, {y.tensor if numbers else y})"
