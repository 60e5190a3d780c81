"""Torch forms of the bridged ops that imported convolutional networks and transformers use.

Loaded with the bridged ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from distir.ir import DTYPES, Attributes, Dense
from distir.ops.bridge.resizing import changes, interpolation
from distir.ops.recurrent import as_arguments
from distir.ops.specs import TorchForm
from distir.ops.windows import dimensions, movement, padded, rounded_up

if TYPE_CHECKING:
    from distir.ops.torch_form import Expr, FormResult, Write

FORMS: dict[str, TorchForm] = {}
"""By op."""


def _form(name: str, *, fresh: bool = False) -> Callable[[Callable[..., Any]], None]:
    def declare(form: Callable[..., Any]) -> None:
        FORMS[name] = TorchForm(form, fresh)

    return declare


_UNARY = {
    "Acos": "torch.acos",
    "Acosh": "torch.acosh",
    "Asin": "torch.asin",
    "Asinh": "torch.asinh",
    "Atan": "torch.atan",
    "Atanh": "torch.atanh",
    "BitwiseNot": "torch.bitwise_not",
    "Cosh": "torch.cosh",
    "IsNaN": "torch.isnan",
    "Mish": "F.mish",
    "Selu": "F.selu",
    "Sinh": "torch.sinh",
    "Softsign": "F.softsign",
    "Tan": "torch.tan",
}
_BINARY = {"BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^", "Xor": "^"}


def _unary(name: str, function: str) -> None:
    @_form(name, fresh=True)
    def _(write: Write, x: Expr, **attrs: Any) -> str:
        if name == "Selu" and (round(attrs["alpha"], 5), round(attrs["gamma"], 5)) != (1.67326, 1.0507):
            raise write.refuse("torch's `selu` has `alpha` and `gamma` of its own")
        return f"{function}({x})"


def _binary(name: str, operator: str) -> None:
    @_form(name, fresh=True)
    def _(write: Write, a: Expr, b: Expr) -> str:
        return f"{a} {operator} {b}"


for _name, _function in _UNARY.items():
    _unary(_name, _function)
for _name, _operator in _BINARY.items():
    _binary(_name, _operator)


@_form("IsInf", fresh=True)
def _(write: Write, x: Expr, *, detect_negative: int, detect_positive: int) -> str:
    found = [
        f"({x} == {write.number(sign)})" for sign, wanted in _infinities(detect_negative, detect_positive) if wanted
    ]
    return " | ".join(found) if found else f"torch.zeros_like({x}, dtype=torch.bool)"


def _infinities(negative: int, positive: int) -> list[tuple[float, int]]:
    return [(float("-inf"), negative), (float("inf"), positive)]


@_form("PRelu", fresh=True)
def _(write: Write, x: Expr, slope: Expr) -> str:
    return f"torch.where({x} < 0, {slope} * {x}, {x})"


@_form("ThresholdedRelu", fresh=True)
def _(write: Write, x: Expr, *, alpha: float) -> str:
    return f"F.threshold({x}, {write.number(alpha)}, 0.0)"


@_form("Celu", fresh=True)
def _(write: Write, x: Expr, *, alpha: float) -> str:
    return f"F.celu({x}, {write.number(alpha)})"


@_form("Conv", fresh=True)
def _(write: Write, x: Expr, w: Expr, b: Expr | None = None, *, group: int, **attrs: Any) -> str:
    count = dimensions(write, x, "Conv")
    strides, dilations, pads = movement(x, attrs, w.shape[2:])
    text, padding = padded(write, str(x), pads, 0.0)
    given = ", ".join(map(write.items, (strides, padding, dilations)))
    return f"F.conv{count}d({text}, {w}, {b}, {given}, {group})"


@_form("ConvTranspose", fresh=True)
def _(write: Write, x: Expr, w: Expr, b: Expr | None = None, *, group: int, **attrs: Any) -> str:
    count = dimensions(write, x, "ConvTranspose")
    strides, dilations, pads = movement(x, attrs, w.shape[2:])
    extra = list(attrs.get("output_padding") or [0] * count)
    before, after = pads[:count], pads[count:]
    if attrs.get("output_shape") or attrs.get("auto_pad", "NOTSET") != "NOTSET" or before != after:
        raise write.refuse("torch's transposed convolution has no `output_shape`, `auto_pad` or uneven `pads`")
    given = ", ".join(map(write.items, (strides, before, extra)))
    return f"F.conv_transpose{count}d({x}, {w}, {b}, {given}, {group}, {write.items(dilations)})"


@_form("MaxPool", fresh=True)
def _(write: Write, x: Expr, *, kernel_shape: tuple[int, ...], **attrs: Any) -> FormResult:
    count = dimensions(write, x, "MaxPool")
    strides, dilations, pads = movement(x, attrs, kernel_shape)
    pads = rounded_up(x, write.results[0], pads, strides, dilations, kernel_shape) if attrs.get("ceil_mode") else pads
    if len(write.results) > 1:
        windows = f"{write.items(kernel_shape)}, {write.items(strides)}, {write.items(dilations)}, {write.items(pads)}"
        return write.unpacked(
            f"{write.kernel('max_pool_and_indices')}({x}, {windows}, {bool(attrs.get('storage_order'))})"
        )
    flat = [n for i in reversed(range(count)) for n in (pads[i], pads[count + i])]
    text = f'F.pad({x}, {write.items(flat)}, value=float("-inf"))' if any(pads) else str(x)
    window = f"{write.items(kernel_shape)}, {write.items(strides)}"
    if not any(pads[i] != pads[count + i] or 2 * pads[i] > kernel_shape[i] for i in range(count)):
        return f"F.max_pool{count}d({x}, {window}, {write.items(pads[:count])}, {write.items(dilations)})"
    return f"F.max_pool{count}d({text}, {window}, 0, {write.items(dilations)})"


@_form("AveragePool", fresh=True)
def _(write: Write, x: Expr, *, kernel_shape: tuple[int, ...], count_include_pad: int, **attrs: Any) -> str:
    count = dimensions(write, x, "AveragePool")
    strides, dilations, pads = movement(x, attrs, kernel_shape)
    if attrs.get("ceil_mode") or any(d != 1 for d in dilations):
        raise write.refuse("torch's average pooling counts otherwise with `ceil_mode`, and has no `dilations`")
    if pads[:count] == pads[count:] and all(2 * p <= k for p, k in zip(pads, kernel_shape, strict=False)):
        given = f"{x}, {write.items(kernel_shape)}, {write.items(strides)}, {write.items(pads[:count])}"
        return f"F.avg_pool{count}d({given}, count_include_pad={bool(count_include_pad)})"
    flat = [n for i in reversed(range(count)) for n in (pads[i], pads[count + i])]
    window = f"{write.items(kernel_shape)}, {write.items(strides)}"
    total = f"F.avg_pool{count}d(F.pad({x}, {write.items(flat)}), {window})"
    if count_include_pad:
        return total
    return f"{total} / F.avg_pool{count}d(F.pad(torch.ones_like({x}), {write.items(flat)}), {window})"


@_form("GlobalAveragePool", fresh=True)
def _(write: Write, x: Expr) -> str:
    return f"torch.mean({x}, {write.items(tuple(range(2, x.rank)))}, keepdim=True)"


@_form("GlobalMaxPool", fresh=True)
def _(write: Write, x: Expr) -> str:
    return f"torch.amax({x}, {write.items(tuple(range(2, x.rank)))}, keepdim=True)"


@_form("BatchNormalization", fresh=True)
def _(
    write: Write,
    x: Expr,
    scale: Expr,
    b: Expr,
    mean: Expr,
    var: Expr,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int,
    **_: Any,
) -> FormResult:
    if training_mode:
        given = f"{x}, {scale}, {b}, {mean}, {var}, {write.number(momentum)}, {write.number(epsilon)}"
        return write.unpacked(f"{write.kernel('batch_norm_in_training')}({given})[: {len(write.results)}]")
    return f"F.batch_norm({x}, {mean}, {var}, {scale}, {b}, eps={write.number(epsilon)})"


@_form("InstanceNormalization", fresh=True)
def _(write: Write, input: Expr, scale: Expr, b: Expr, *, epsilon: float) -> str:
    return f"F.instance_norm({input}, weight={scale}, bias={b}, eps={write.number(epsilon)})"


@_form("GroupNormalization", fresh=True)
def _(write: Write, x: Expr, scale: Expr, b: Expr, *, epsilon: float, num_groups: int, **_: Any) -> str:
    return f"F.group_norm({x}, {num_groups}, {scale}, {b}, {write.number(epsilon)})"


@_form("Resize", fresh=True)
def _(
    write: Write,
    x: Expr,
    roi: Expr | None = None,
    scales: Expr | None = None,
    sizes: Expr | None = None,
    **attrs: Any,
) -> str:
    """Along each dimension, a weighted sum of known neighbours."""
    factors = None if scales is None else scales.numbers if scales.value is not None else ()
    after = cast("tuple[int, ...]", write.results[0].shape)
    found = changes(x.shape, after, factors, attrs)
    if found is None or factors == ():
        raise write.refuse("torch resizes whole operands that are stretched, by known sizes or scales")
    text = str(x)
    for axis, factor in found:
        parts: list[str] = []
        for places, weights in interpolation(x.shape[axis], after[axis], factor, Attributes(attrs)):
            index = write.constant(Dense(DTYPES["Int64"], (len(places),), places))
            part = f"{text}.index_select({axis}, {index})"
            shape = (len(weights), *(1,) * (x.rank - axis - 1))
            share = "" if all(w == 1 for w in weights) else f" * {write.constant(Dense(x.dtype, shape, weights))}"
            parts.append(f"{part}{share}")
        text = parts[0] if len(parts) == 1 and "*" not in parts[0] else f"({' + '.join(parts)})"
    return text if found else f"{text}.clone()"


@_form("LRN", fresh=True)
def _(write: Write, x: Expr, *, alpha: float, beta: float, bias: float, size: int) -> str:
    given = f"{write.number(alpha)}, {write.number(beta)}, {write.number(bias)}"
    return write.narrowed(f"{write.kernel('local_response_norm')}({x.wide}, {size}, {given})", x.dtype)


_NETWORKS = {
    "LSTM": (2, ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (1, ("Sigmoid", "Tanh")),
    "RNN": (1, ("Tanh",)),
}
"""ONNX name -> the number of states, and torch's activations."""


def _recurrent(name: str, states: int, usual: tuple[str, ...]) -> None:
    @_form(name, fresh=True)
    def _(
        write: Write,
        x: Expr,
        w: Expr,
        r: Expr,
        b: Expr | None = None,
        lengths: Expr | None = None,
        *others: Expr | None,
        direction: str,
        layout: int,
        **attrs: Any,
    ) -> FormResult:
        _check_network(write, name, attrs, usual, lengths, others[states:])
        initial = as_arguments(*others[:states], *[None] * (states - len(others)))
        found = (
            f"{write.kernel('recurrent')}({name!r}, {as_arguments(x, w, r, b)}, ({initial},), {direction!r}, {layout})"
        )
        count = len(write.results)
        return f"{found}[0]" if count == 1 else write.unpacked(f"{found}[:{count}]")


def _check_network(
    write: Write,
    name: str,
    attrs: dict[str, Any],
    usual: tuple[str, ...],
    lengths: Expr | None,
    peepholes: tuple[Any, ...],
) -> None:
    """Raises Unlowerable for features that torch's networks lack."""
    if lengths is not None or any(operand is not None for operand in peepholes):
        raise write.refuse(f"torch has `{name}` for sequences of equal length, and without peepholes")
    if attrs.get("activations") not in (None, usual, usual * 2):
        raise write.refuse(f"torch has `{name}` with {', '.join(usual)} as activations")
    if attrs.get("clip") is not None or attrs.get("input_forget"):
        raise write.refuse(f"torch has `{name}` without `clip` and `input_forget`")
    if name == "GRU" and not attrs["linear_before_reset"]:
        raise write.refuse("torch has `GRU` with `linear_before_reset = true`")


for _name, (_states, _usual) in _NETWORKS.items():
    _recurrent(_name, _states, _usual)
