"""Matrix products and contractions in torch."""

from __future__ import annotations

from distir.lower.forms import Operand, Write, number, torch_form
from distir.ops.equation import parse_equation


@torch_form("MatMul", fresh=True)
def _(write: Write, a: Operand, b: Operand) -> str:
    return f"torch.matmul({a}, {b})"


@torch_form("Gemm", fresh=True)
def _(
    write: Write,
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    *,
    alpha: float,
    beta: float,
    transA: bool,  # noqa: N803 - ONNX's name
    transB: bool,  # noqa: N803
) -> str:
    left, right = f"{a}.t()" if transA else str(a), f"{b}.t()" if transB else str(b)
    if not a.floating:
        alpha, beta = int(alpha), int(beta)
    scale = "" if alpha == 1 else f"{number(alpha)} * "
    if c is None:
        return f"{scale}torch.mm({left}, {right})"
    factors = ("" if beta == 1 else f", beta={number(beta)}") + ("" if alpha == 1 else f", alpha={number(alpha)}")
    return f"torch.addmm({c.tensor}, {left}, {right}{factors})"


@torch_form("Einsum", fresh=True)
def _(write: Write, *inputs: Operand, equation: str) -> str:
    if len(inputs) == 1:  # a diagonal, or a rearrangement, would be a view
        return f"torch.einsum({str(parse_equation(equation))!r}, {inputs[0].tensor}).clone()"
    return f"torch.einsum({str(parse_equation(equation))!r}, {', '.join(x.tensor for x in inputs)})"
