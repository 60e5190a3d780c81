"""Ops of PyTorch that are written otherwise than by its exporter: as what can be split over devices."""

from __future__ import annotations

import copy
import functools
import importlib
import math
from collections.abc import Callable, Iterable
from typing import Any

from distir.importers.core import ImportRefused
from distir.importers.symbolic import NAME

LAST = (1 << 63) - 1
"""The end of a slice that goes to the end."""


def translations() -> dict[Any, Callable[..., Any]]:
    """By op of PyTorch, the function that writes it in ONNX; the exporter's own ones serve for the others."""
    aten: Any = importlib.import_module("torch").ops.aten
    return {
        aten.slice_scatter.default: _slice_scatter,
        aten.rms_norm.default: _rms_norm,
        aten._is_all_true.default: _is_all_true,
        aten.scaled_dot_product_attention.default: _attention,
        aten.as_strided.default: _as_strided,
        aten.softmax.int: _softmax,
        aten.log_softmax.int: _log_softmax,
        aten.erfinv.default: _erfinv,
    }


def keep_signatures() -> None:
    """Let onnxscript parse the source of each of its 500 translations once, not at each export, a sixth of its time."""
    traced: Any = importlib.import_module("onnxscript.values").TracedOnnxFunction
    parsed = traced.__dict__.get("function_ir")
    if isinstance(parsed, property) and parsed.fget is not None:
        kept = functools.cached_property(parsed.fget)
        kept.__set_name__(traced, "function_ir")
        traced.function_ir = kept


@functools.cache
def keep_translations() -> None:
    """Let PyTorch's exporter list its translations, with their signatures, once: a sixth of each export."""
    registry: Any = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
    listed = functools.cache(registry.from_torchlib)

    def from_torchlib(*opset: int, **named: int) -> Any:
        found = listed(*opset, **named)
        own = copy.copy(found)  # to which an export adds translations of its own
        own.functions = {target: [*known] for target, known in found.functions.items()}
        return own

    registry.from_torchlib = staticmethod(from_torchlib)


def with_complex_ops(program: Any) -> Any:
    """An exported program whose ops of complex numbers are those that the exporter has translations for."""
    torch: Any = importlib.import_module("torch")
    aten = torch.ops.aten
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.target is aten.unsqueeze.default and isinstance(value, torch.Tensor) and value.is_complex():
            x, dim = node.args
            node.target, node.args = aten.stack.default, ([x], dim)
    return program


def _slice_scatter(
    self: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A part of `self` along `dim` replaced by `src`: what is before, `src`, what is behind."""
    op: Any = importlib.import_module("onnxscript").opset23
    size = self.shape[dim]
    if step == 1 and not start and (end is None or end == LAST):
        return src
    if step != 1 or not isinstance(size, int):
        own = importlib.import_module("onnxscript.function_libs.torch_lib.ops.core")
        return own.aten_slice_scatter(self, src, dim, start, end, step)
    first, last = (min(max(at + size if at < 0 else at, 0), size) for at in (start or 0, size if end is None else end))
    parts = [src]
    if first > 0:
        parts.insert(0, op.Slice(self, [0], [first], [dim]))
    if last < size:
        parts.append(op.Slice(self, [last], [LAST], [dim]))
    return src if len(parts) == 1 else op.Concat(*parts, axis=dim)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of tensors of rank 4, or without heads of rank 3; one head of keys and values may serve all queries."""
    op: Any = importlib.import_module("onnxscript").opset23
    rank = len(query.shape)
    shared = key.shape[1] == 1 or query.shape[1] == key.shape[1]
    if rank not in (3, 4) or not (rank == 3 or enable_gqa or shared):
        if dropout_p:
            raise ImportRefused(
                f"attention with dropout of tensors of rank {rank}", "give tensors of rank 3 or 4, with as many heads"
            )
        own = importlib.import_module("torch.onnx._internal.exporter._torchlib.ops.nn")
        return own.aten_scaled_dot_product_attention_23(
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        )
    if rank == 3:
        query, key, value = (op.Unsqueeze(tensor, [1]) for tensor in (query, key, value))
        if attn_mask is not None and len(attn_mask.shape) == 3:
            attn_mask = op.Unsqueeze(attn_mask, [1])
    attrs: dict[str, Any] = {"is_causal": int(is_causal)}
    if scale is not None:
        attrs["scale"] = float(scale)
    found = op.Attention(query, key, value, attn_mask, **attrs)[0]
    if dropout_p:  # which the op of ONNX lacks
        node = found.producer()
        node.domain, node.version = NAME, 1
        node.resize_outputs(1)
        node.attributes.add(importlib.import_module("onnx_ir").AttrFloat32("dropout", float(dropout_p)))
    return op.Squeeze(found, [1]) if rank == 3 else found


def _as_strided(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A view with other sizes, where it is no more than that, as pooling to one place leaves behind."""
    op: Any = importlib.import_module("onnxscript").opset23
    whole, expected = [*self.shape], 1
    plain = not storage_offset and len([n for n in size if not isinstance(n, int)]) <= 1
    for n, step in zip(reversed(size), reversed(stride), strict=True):
        plain = plain and (n == 1 or (isinstance(step, int) and step == expected))
        expected = expected * n if isinstance(n, int) and isinstance(expected, int) else None
    open_sizes = [n for n in whole if not isinstance(n, int)]
    same = len(open_sizes) <= 1 and _known_product(whole) == _known_product(size)
    if plain and same and bool(open_sizes) == any(not isinstance(n, int) for n in size):
        return op.Reshape(self, [n if isinstance(n, int) else -1 for n in size])
    own = importlib.import_module("onnxscript.function_libs.torch_lib.ops.core")
    return own.aten_as_strided(self, size, stride, storage_offset or 0)


def _known_product(sizes: Iterable[Any]) -> int:
    return math.prod(n for n in sizes if isinstance(n, int))


def _softmax(self: Any, dim: int, dtype: int | None = None) -> Any:
    """In the elements that are asked for: the exporter's own is rounded to those of `self` first."""
    op: Any = importlib.import_module("onnxscript").opset23
    return op.Softmax(_cast(self, dtype), axis=dim)


def _log_softmax(self: Any, dim: int, dtype: int | None = None) -> Any:
    op: Any = importlib.import_module("onnxscript").opset23
    return op.LogSoftmax(_cast(self, dtype), axis=dim)


def _erfinv(self: Any) -> Any:
    """The inverse of the error function: by two polynomials (Giles, "Approximating the erfinv function", 2010)."""
    op: Any = importlib.import_module("onnxscript").opset23

    def number(value: float) -> Any:
        return op.CastLike(op.Constant(value_float=value), self)

    def polynomial(x: Any, coefficients: Iterable[float]) -> Any:
        first, *others = coefficients
        found = number(first)
        for each in others:
            found = op.Add(op.Mul(found, x), number(each))
        return found

    w = op.Neg(op.Log(op.Mul(op.Sub(number(1.0), self), op.Add(number(1.0), self))))
    middle = polynomial(op.Sub(w, number(2.5)), ERFINV_MIDDLE)
    tails = polynomial(op.Sub(op.Sqrt(op.Max(w, number(5.0))), number(3.0)), ERFINV_TAILS)
    found = op.Mul(op.Where(op.Less(w, number(5.0)), middle, tails), self)
    return op.Where(op.Equal(op.Abs(self), number(1.0)), op.Mul(number(math.inf), self), found)


ERFINV_MIDDLE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
"""Of what the inverse of the error function is divided by its operand x, where -log(1 - x²) is less than 5."""

ERFINV_TAILS = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""The same nearer to -1 and 1."""


def _cast(value: Any, dtype: int | None) -> Any:
    op: Any = importlib.import_module("onnxscript").opset23
    return value if dtype is None or dtype == -1 else op.Cast(value, to=dtype)


def _is_all_true(self: Any) -> Any:
    """What assertions ask for, which the exporter has no words for."""
    op: Any = importlib.import_module("onnxscript").opset23
    int64 = 7
    least = op.ReduceMin(op.Cast(op.Reshape(self, [-1]), to=int64), [0], keepdims=0)
    return op.Equal(least, op.Constant(value_int=1))


def _rms_norm(self: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """`x / sqrt(mean(x * x) + eps) * weight`; without weights a scale of ones, of the shape that is normalised."""
    import numpy as np

    op: Any = importlib.import_module("onnxscript").opset23
    torch: Any = importlib.import_module("torch")
    if eps is None:
        names = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
        eps = torch.finfo(getattr(torch, names[str(self.dtype.name)])).eps
    if weight is None:
        ones = op.Constant(value=_tensor(np.ones([int(n) for n in normalized_shape], np.float32)))
        weight = op.CastLike(ones, self)
    return op.RMSNormalization(self, weight, axis=-len(normalized_shape), epsilon=eps)


def _tensor(array: Any) -> Any:
    return importlib.import_module("onnx_ir").tensor(array)
