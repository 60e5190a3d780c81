"""Gradients in torch: its own backward functions where it has them, so that a step costs what autograd's does."""

from __future__ import annotations

from distir.lower.forms import Operand, Unpacked, Write, dtype_name, items, narrowed, number, torch_form


@torch_form("ReluGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand) -> str:
    if not dy.floating or dy.value is not None:
        return f"torch.where({x} > 0, {dy.tensor}, 0)"
    return f"aten.threshold_backward({dy}, {x}, 0)"


@torch_form("LeakyReluGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, alpha: float) -> str:
    return narrowed(f"torch.where({x} < 0, {number(alpha)} * {dy.wide}, {dy.wide})", dy.dtype)


@torch_form("EluGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, alpha: float) -> str:
    slope = f"torch.where({x} < 0, {number(alpha)} * torch.exp(torch.clamp({x.wide}, max=0)), 1.0)"
    return narrowed(f"{dy.wide} * {slope}", dy.dtype)


@torch_form("SigmoidGrad", fresh=True)
def _(write: Write, dy: Operand, y: Operand) -> str:
    return f"aten.sigmoid_backward({dy.tensor}, {y})"


@torch_form("TanhGrad", fresh=True)
def _(write: Write, dy: Operand, y: Operand) -> str:
    return f"aten.tanh_backward({dy.tensor}, {y})"


@torch_form("GeluGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, approximate: str) -> str:
    return f"aten.gelu_backward({dy.tensor}, {x}, approximate={approximate!r})"


@torch_form("SwishGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, alpha: float) -> str:
    if alpha == 1:
        return f"aten.silu_backward({dy.tensor}, {x})"
    return f"{write.kernel('swish_gradient')}({dy}, {x}, {number(alpha)})"


@torch_form("SoftmaxGrad", fresh=True)
def _(write: Write, dy: Operand, y: Operand, *, axis: int) -> str:
    if dy.narrow or not y.rank:
        return f"{write.kernel('softmax_gradient')}({dy}, {y}, {axis})"
    return f"aten._softmax_backward_data({dy}, {y}, {axis}, {dtype_name(y.dtype)})"


@torch_form("LogSoftmaxGrad", fresh=True)
def _(write: Write, dy: Operand, y: Operand, *, axis: int) -> str:
    if dy.narrow or not y.rank:
        return f"{write.kernel('log_softmax_gradient')}({dy}, {y}, {axis})"
    return f"aten._log_softmax_backward_data({dy}, {y}, {axis}, {dtype_name(y.dtype)})"


@torch_form("LayerNormalizationGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, scale: Operand, *, axis: int, epsilon: float) -> Unpacked:
    shape = items(x.shape[axis % x.rank :])
    return Unpacked(f"{write.kernel('layer_norm_gradient')}({dy}, {x}, {scale}, {shape}, {number(epsilon)})")


@torch_form("RMSNormalizationGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, scale: Operand, *, axis: int, epsilon: float) -> Unpacked:
    return Unpacked(f"{write.kernel('rms_norm_gradient')}({dy}, {x}, {scale}, {axis % x.rank}, {number(epsilon)})")


@torch_form("GatherGrad", fresh=True)
def _(write: Write, dy: Operand, indices: Operand, shape: Operand, *, axis: int) -> str:
    sizes = write.results[0].shape or ()
    return f"{write.kernel('gather_gradient')}({dy}, {indices.tensor}, {items(sizes)}, {axis % len(sizes)})"


@torch_form("ReduceTo")
def _(write: Write, x: Operand, shape: Operand) -> str:
    sizes = write.results[0].shape or ()
    kept = "" if x.floating else f".to({dtype_name(x.dtype)})"
    return f"{x.tensor}.sum_to_size({items(sizes)}){kept}"
