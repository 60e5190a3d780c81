"""The ops that only ONNX defines, as far as imported convolutional networks and transformers use them, in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from distir.ir import DTYPES, Attributes, Dense, TensorType
from distir.lower.forms import (
    Operand,
    Unlowerable,
    Unpacked,
    Write,
    Written,
    items,
    known_numbers,
    narrowed,
    number,
    torch_form,
)

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
    @torch_form(name, fresh=True)
    def _(write: Write, x: Operand, **attrs: Any) -> str:
        if name == "Selu" and (round(attrs["alpha"], 5), round(attrs["gamma"], 5)) != (1.67326, 1.0507):
            raise Unlowerable("torch's `selu` has `alpha` and `gamma` of its own")
        return f"{function}({x})"


def _binary(name: str, operator: str) -> None:
    @torch_form(name, fresh=True)
    def _(write: Write, a: Operand, b: Operand) -> str:
        return f"{a} {operator} {b}"


for _name, _function in _UNARY.items():
    _unary(_name, _function)
for _name, _operator in _BINARY.items():
    _binary(_name, _operator)


@torch_form("IsInf", fresh=True)
def _(write: Write, x: Operand, *, detect_negative: int, detect_positive: int) -> str:
    found = [f"({x} == {number(sign)})" for sign, wanted in _infinities(detect_negative, detect_positive) if wanted]
    return " | ".join(found) if found else f"torch.zeros_like({x}, dtype=torch.bool)"


def _infinities(negative: int, positive: int) -> list[tuple[float, int]]:
    return [(float("-inf"), negative), (float("inf"), positive)]


@torch_form("PRelu", fresh=True)
def _(write: Write, x: Operand, slope: Operand) -> str:
    return f"torch.where({x} < 0, {slope} * {x}, {x})"


@torch_form("ThresholdedRelu", fresh=True)
def _(write: Write, x: Operand, *, alpha: float) -> str:
    return f"F.threshold({x}, {number(alpha)}, 0.0)"


@torch_form("Celu", fresh=True)
def _(write: Write, x: Operand, *, alpha: float) -> str:
    return f"F.celu({x}, {number(alpha)})"


@torch_form("Dropout")
def _(write: Write, data: Operand, ratio: Operand | None = None, training_mode: Operand | None = None, **_: Any) -> Any:
    if training_mode is not None and training_mode.scalar("whether it is a training step"):
        raise Unlowerable("`Dropout` in training draws random numbers, which no two implementations share")
    kept = data.tensor
    return kept if len(write.results) == 1 else [kept, f"torch.ones_like({data}, dtype=torch.bool)"]


def _window(x: Operand, attrs: dict[str, Any], kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and paddings of a sliding window. Paddings: before and after each dimension, in order."""
    count = x.rank - 2
    strides = list(attrs.get("strides") or [1] * count)
    dilations = list(attrs.get("dilations") or [1] * count)
    pads = list(attrs.get("pads") or [0] * 2 * count)
    mode = attrs.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        for i, size in enumerate(x.shape[2:]):
            reach = (kernel[i] - 1) * dilations[i] + 1
            total = max((-(-size // strides[i]) - 1) * strides[i] + reach - size, 0)
            less, more = total // 2, total - total // 2
            pads[i], pads[count + i] = (less, more) if mode == "SAME_UPPER" else (more, less)
    elif mode == "VALID":
        pads = [0] * 2 * count
    return strides, dilations, pads


def _padded(x: str, pads: Sequence[int], filling: float) -> tuple[str, list[int]]:
    """The operand, padded where torch's window cannot pad it itself, and the paddings left to the window."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, list(pads[:half])
    flat = [n for i in reversed(range(half)) for n in (pads[i], pads[half + i])]
    return f"F.pad({x}, {items(flat)}, value={number(filling)})", [0] * half


def _dimensions(x: Operand, name: str) -> int:
    if x.rank not in (3, 4, 5):
        raise Unlowerable(f"torch has `{name}` for 1, 2 and 3 dimensions, found {x.rank - 2}")
    return x.rank - 2


@torch_form("Conv", fresh=True)
def _(write: Write, x: Operand, w: Operand, b: Operand | None = None, *, group: int, **attrs: Any) -> str:
    count = _dimensions(x, "Conv")
    strides, dilations, pads = _window(x, attrs, w.shape[2:])
    text, padding = _padded(str(x), pads, 0.0)
    return f"F.conv{count}d({text}, {w}, {b}, {items(strides)}, {items(padding)}, {items(dilations)}, {group})"


@torch_form("ConvTranspose", fresh=True)
def _(write: Write, x: Operand, w: Operand, b: Operand | None = None, *, group: int, **attrs: Any) -> str:
    count = _dimensions(x, "ConvTranspose")
    strides, dilations, pads = _window(x, attrs, w.shape[2:])
    extra = list(attrs.get("output_padding") or [0] * count)
    before, after = pads[:count], pads[count:]
    if attrs.get("output_shape") or attrs.get("auto_pad", "NOTSET") != "NOTSET" or before != after:
        raise Unlowerable("torch's transposed convolution has no `output_shape`, `auto_pad` or uneven `pads`")
    given = f"{x}, {w}, {b}, {items(strides)}, {items(before)}, {items(extra)}, {group}, {items(dilations)}"
    return f"F.conv_transpose{count}d({given})"


@torch_form("MaxPool", fresh=True)
def _(write: Write, x: Operand, *, kernel_shape: tuple[int, ...], **attrs: Any) -> Written:
    count = _dimensions(x, "MaxPool")
    strides, dilations, pads = _window(x, attrs, kernel_shape)
    pads = _rounded_up(x, write.results[0], pads, strides, dilations, kernel_shape) if attrs.get("ceil_mode") else pads
    if len(write.results) > 1:
        windows = f"{items(kernel_shape)}, {items(strides)}, {items(dilations)}, {items(pads)}"
        return Unpacked(f"{write.kernel('max_pool_and_places')}({x}, {windows}, {bool(attrs.get('storage_order'))})")
    flat = [n for i in reversed(range(count)) for n in (pads[i], pads[count + i])]
    text = f'F.pad({x}, {items(flat)}, value=float("-inf"))' if any(pads) else str(x)
    if not any(pads[i] != pads[count + i] or 2 * pads[i] > kernel_shape[i] for i in range(count)):
        padding = items(pads[:count])
        return f"F.max_pool{count}d({x}, {items(kernel_shape)}, {items(strides)}, {padding}, {items(dilations)})"
    return f"F.max_pool{count}d({text}, {items(kernel_shape)}, {items(strides)}, 0, {items(dilations)})"


def _rounded_up(
    x: Operand, y: TensorType, pads: list[int], strides: list[int], dilations: list[int], kernel: Sequence[int]
) -> list[int]:
    """Paddings with what the last window needs where sizes are rounded up: the result's shape says how many."""
    count = x.rank - 2
    more = list(pads)
    for i, size in enumerate((y.shape or ())[2:]):
        assert isinstance(size, int)
        reach = (kernel[i] - 1) * dilations[i] + 1
        more[count + i] = max((size - 1) * strides[i] + reach - x.shape[2 + i] - pads[i], pads[count + i])
    return more


@torch_form("MaxPoolGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, kernel_shape: tuple[int, ...], **attrs: Any) -> str:
    _dimensions(x, "MaxPoolGrad")
    strides, dilations, pads = _window(x, attrs, kernel_shape)
    pads = _rounded_up(x, dy.type, pads, strides, dilations, kernel_shape) if attrs.get("ceil_mode") else pads
    windows = f"{items(kernel_shape)}, {items(strides)}, {items(dilations)}, {items(pads)}"
    return f"{write.kernel('max_pool_gradient')}({dy}, {x}, {windows})"


@torch_form("ConvWeightGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, *, kernel_shape: tuple[int, ...], group: int, **attrs: Any) -> str:
    _dimensions(x, "ConvWeightGrad")
    strides, dilations, pads = _window(x, attrs, kernel_shape)
    shape = items((dy.shape[1], x.shape[1] // group, *kernel_shape))
    text, padding = _padded(str(x), pads, 0.0)
    given = f"{items(strides)}, {items(padding)}, {items(dilations)}, {group}"
    return f"{write.kernel('conv_weight_gradient')}({dy}, {text}, {shape}, {given})"


@torch_form("AveragePool", fresh=True)
def _(write: Write, x: Operand, *, kernel_shape: tuple[int, ...], count_include_pad: int, **attrs: Any) -> str:
    count = _dimensions(x, "AveragePool")
    strides, dilations, pads = _window(x, attrs, kernel_shape)
    if attrs.get("ceil_mode") or any(d != 1 for d in dilations):
        raise Unlowerable("torch's average pooling counts otherwise with `ceil_mode`, and has no `dilations`")
    if pads[:count] == pads[count:] and all(2 * p <= k for p, k in zip(pads, kernel_shape, strict=False)):
        given = f"{x}, {items(kernel_shape)}, {items(strides)}, {items(pads[:count])}"
        return f"F.avg_pool{count}d({given}, count_include_pad={bool(count_include_pad)})"
    flat = [n for i in reversed(range(count)) for n in (pads[i], pads[count + i])]
    window = f"{items(kernel_shape)}, {items(strides)}"
    total = f"F.avg_pool{count}d(F.pad({x}, {items(flat)}), {window})"
    if count_include_pad:
        return total
    return f"{total} / F.avg_pool{count}d(F.pad(torch.ones_like({x}), {items(flat)}), {window})"


@torch_form("GlobalAveragePool", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"torch.mean({x}, {items(tuple(range(2, x.rank)))}, keepdim=True)"


@torch_form("GlobalMaxPool", fresh=True)
def _(write: Write, x: Operand) -> str:
    return f"torch.amax({x}, {items(tuple(range(2, x.rank)))}, keepdim=True)"


@torch_form("BatchNormalization", fresh=True)
def _(
    write: Write,
    x: Operand,
    scale: Operand,
    b: Operand,
    mean: Operand,
    var: Operand,
    *,
    epsilon: float,
    training_mode: int,
    **_: Any,
) -> str:
    if training_mode or len(write.results) > 1:
        raise Unlowerable("`BatchNormalization` in training mode has no torch form; use it with fixed statistics")
    given = f"{x}, {mean}, {var}, {scale}, {b}"
    return f"F.batch_norm({given}, eps={number(epsilon)})"


@torch_form("InstanceNormalization", fresh=True)
def _(write: Write, input: Operand, scale: Operand, b: Operand, *, epsilon: float) -> str:
    return f"F.instance_norm({input}, weight={scale}, bias={b}, eps={number(epsilon)})"


@torch_form("GroupNormalization", fresh=True)
def _(write: Write, x: Operand, scale: Operand, b: Operand, *, epsilon: float, num_groups: int, **_: Any) -> str:
    return f"F.group_norm({x}, {num_groups}, {scale}, {b}, {number(epsilon)})"


@torch_form("GroupNormalizationGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, scale: Operand, *, num_groups: int, epsilon: float) -> Unpacked:
    return Unpacked(f"{write.kernel('group_norm_gradient')}({dy}, {x}, {scale}, {num_groups}, {number(epsilon)})")


@torch_form("BatchNormalizationGrad", fresh=True)
def _(write: Write, dy: Operand, x: Operand, scale: Operand, *, epsilon: float) -> Unpacked:
    return Unpacked(f"{write.kernel('batch_norm_gradient')}({dy}, {x}, {scale}, {number(epsilon)})")


@torch_form("Resize", fresh=True)
def _(
    write: Write,
    x: Operand,
    roi: Operand | None = None,
    scales: Operand | None = None,
    sizes: Operand | None = None,
    **attrs: Any,
) -> str:
    """Along each dimension a weighted sum of neighbours, which are known."""
    from distir.ops.bridge.resizing import changes, interpolation

    factors = None if scales is None else known_numbers(scales.value) if scales.value is not None else ()
    after = cast("tuple[int, ...]", write.results[0].shape)
    found = changes(x.shape, after, factors, attrs)
    if found is None or factors == ():
        raise Unlowerable("torch resizes whole operands that are stretched, by what is known beforehand")
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


@torch_form("LRN", fresh=True)
def _(write: Write, x: Operand, *, alpha: float, beta: float, bias: float, size: int) -> str:
    given = f"{number(alpha)}, {number(beta)}, {number(bias)}"
    return narrowed(f"{write.kernel('local_response_norm')}({x.wide}, {size}, {given})", x.dtype)
