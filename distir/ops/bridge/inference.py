"""The types of a bridged op's results, from ONNX's shape inference with all known values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from distir.diagnostics import Code
from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import Attributes, Dense, Dim, Part, Shape, SymbolicDim, TensorType, dims, types
from distir.ops.bridge.operand_checks import check_sizes
from distir.ops.bridge.schema import (
    IR_VERSION,
    OPSET,
    allowed_dtypes,
    dtype_numbered,
    element_type,
    make_node,
    schema_of,
)
from distir.ops.host import Operand, known_dims, known_ints
from distir.ops.numeric import to_array
from distir.ops.unify import Reject

if TYPE_CHECKING:
    import onnx

Results = list[Shape | TensorType | None]

DATA_LIMIT = 1024
"""Known operands with more elements than this are passed to ONNX as types only: no shape depends on them."""


def check_operands(name: str, operands: Sequence[Operand | None], count: int) -> None:
    """Raises Reject for element types that the schema does not allow, and for too many results."""
    outputs = schema_of(name).outputs
    if count > len(outputs):
        message = f"`{name}` gives {len(outputs)} results at most, found {count} names"
        raise Reject(name_codes.RESULT_COUNT, message, Part("result", len(outputs)))
    for i, operand in enumerate(operands):
        if operand is None or operand.dtype is None or operand.dtype in allowed_dtypes(name, i):
            continue
        listed = ", ".join(sorted(d.name for d in allowed_dtypes(name, i)))
        message = f"`{name}` expected elements of {listed}, found {operand.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, Part("operand", i))


def infer_results(name: str, operands: Sequence[Operand | None], attrs: Attributes, count: int) -> Results:
    """The results' element types and shapes, like those of a `shapes` rule. Raises Reject."""
    if any(operand is not None and operand.dtype is None for operand in operands):
        return [None] * count
    anywhere = tuple(TensorType(o.dtype, o.shape) if isinstance(o, TensorType) else o for o in operands)
    return list(_infer(name, anywhere, attrs, count))


@lru_cache(maxsize=8192)
def _infer(name: str, operands: tuple[Operand | None, ...], attrs: Attributes, count: int) -> tuple[Any, ...]:
    check_sizes(name, operands, attrs)
    if name in _OWN_RULES:
        return tuple(_OWN_RULES[name](operands, attrs))
    if any(isinstance(o, Dense) and o.symbolic for o in operands):
        return _infer_symbolic(name, operands, attrs, count)
    import onnx.checker
    import onnx.shape_inference
    from onnx import helper

    names = [f"o{i}" if operand is not None else "" for i, operand in enumerate(operands)]
    symbols: dict[str, SymbolicDim] = {}
    given = {n: _type_proto(o, symbols) for n, o in zip(names, operands, strict=True) if o is not None}
    known = {
        n: _tensor_proto(o)
        for n, o in zip(names, operands, strict=True)
        if isinstance(o, Dense) and len(o.values) <= DATA_LIMIT
    }
    while names and not names[-1]:
        names.pop()
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema_of(name),
            make_node(name, attrs, names, count),
            given,
            known,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
    except onnx.shape_inference.InferenceError as error:
        raise _rejected(name, operands, error, codes.SHAPE_MISMATCH) from None
    except onnx.checker.ValidationError as error:
        raise _rejected(name, operands, error, codes.BAD_VALUE) from None
    results = tuple(_result(found[f"r{i}"], symbols) if f"r{i}" in found else None for i in range(count))
    return _unscaled(operands, attrs, results) if name == "Resize" else results


def _infer_symbolic(
    name: str, operands: tuple[Operand | None, ...], attrs: Attributes, count: int
) -> tuple[TensorType | None, ...]:
    """Inference with symbolic sizes in known operands, which ONNX cannot represent: numbers replace them.

    The inference runs twice, with different numbers. A size of the result that is equal both times is a constant; one
    that equals the number both times is the symbol; any other is unknown.
    """
    values = [v for o in operands if isinstance(o, Dense) for v in o.values]
    names = sorted({v for v in values if isinstance(v, SymbolicDim)}, key=str)
    tries: list[tuple[dict[SymbolicDim, int], tuple[TensorType | None, ...]]] = []
    for first in STAND_INS:
        numbers = {symbol: first + 2 * i for i, symbol in enumerate(names)}
        try:
            tries.append((numbers, _infer(name, tuple(_replaced(o, numbers) for o in operands), attrs, count)))
        except Reject:  # other values of the symbols may be valid
            unknown = (o.type if isinstance(o, Dense) and o.symbolic else o for o in operands)
            return _infer(name, tuple(unknown), attrs, count)
    (numbers, one), (others, two) = tries
    meant: dict[tuple[Dim, Dim], SymbolicDim] = {(numbers[symbol], others[symbol]): symbol for symbol in names}
    return tuple(_named(a, b, meant) for a, b in zip(one, two, strict=True))


STAND_INS = (1_000_003, 2_000_029)
"""Numbers that do not occur as sizes in models, nor do their neighbours."""


def _replaced(operand: Operand | None, numbers: Mapping[SymbolicDim, int]) -> Operand | None:
    if not isinstance(operand, Dense):
        return operand
    values = (numbers[v] if isinstance(v, SymbolicDim) else v for v in operand.values)
    return Dense(operand.dtype, operand.shape, tuple(values))


def _named(
    one: TensorType | None, two: TensorType | None, meant: Mapping[tuple[Dim, Dim], SymbolicDim]
) -> TensorType | None:
    if one is None or two is None or one.shape is None or two.shape is None:
        return one
    pairs = zip(one.shape, two.shape, strict=True)
    return TensorType(one.dtype, tuple(m if m == n else meant.get((m, n)) for m, n in pairs))


def _type_proto(operand: Operand, symbols: dict[str, SymbolicDim]) -> onnx.TypeProto:
    from onnx import helper

    assert operand.dtype is not None
    if operand.shape is None:
        return helper.make_tensor_type_proto(element_type(operand.dtype), None)
    return helper.make_tensor_type_proto(element_type(operand.dtype), [_dim_param(d, symbols) for d in operand.shape])


def _dim_param(dim: Dim, symbols: dict[str, SymbolicDim]) -> int | str | None:
    """A dimension in ONNX; a symbolic expression is a single name there."""
    if not isinstance(dim, SymbolicDim):
        return dim
    symbols[str(dim)] = dim
    return str(dim)


def _tensor_proto(constant: Dense) -> onnx.TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(to_array(constant))


def _result(found: onnx.TypeProto, symbols: dict[str, SymbolicDim]) -> TensorType | None:
    tensor = found.tensor_type
    dtype = dtype_numbered(tensor.elem_type)
    if not tensor.HasField("shape"):
        return None if dtype is None else TensorType(dtype, None)
    return TensorType(dtype, tuple(_dim(d, symbols) for d in tensor.shape.dim))


def _dim(found: Any, symbols: dict[str, SymbolicDim]) -> Dim:
    if found.HasField("dim_value"):
        return int(found.dim_value)
    return symbols.get(found.dim_param)


def _rejected(name: str, operands: Sequence[Operand | None], error: Exception, code: Code) -> Reject:
    """ONNX's error, with the op and its operands, which ONNX omits."""
    said = re.sub(r"\[\w+Error\] |\(op_type:[^)]*\): |\n.*", "", str(error)).strip().rstrip(".")
    given = ", ".join("_" if o is None else f"`{_shown(o)}`" for o in operands)
    return Reject(code, f"`{name}` expected operands that fit together, found {given}: {said[:1].lower()}{said[1:]}")


def _shown(operand: Operand) -> str:
    return str(TensorType(operand.dtype, operand.shape))


def _same_as_input(operands: tuple[Operand | None, ...], attrs: Attributes) -> Results:
    (x, *_) = operands
    assert x is not None
    return [TensorType(x.dtype, x.shape)]


def _group_normalization(operands: tuple[Operand | None, ...], attrs: Attributes) -> Results:
    """ONNX neither infers nor checks this op."""
    x, scale, bias = (o.shape for o in operands if o is not None)
    groups = attrs["num_groups"]
    channels = x[1] if x is not None else None
    assert isinstance(groups, int)
    if isinstance(channels, int) and (groups < 1 or channels % groups):
        message = f"`GroupNormalization` expected a divisor of the {channels} channels, found {groups}"
        raise Reject(codes.BAD_VALUE, message, "num_groups")
    for operand, shape in (("scale", scale), ("bias", bias)):
        length = shape[0] if shape is not None else None
        if None not in (length, channels) and length != channels:
            message = f"`GroupNormalization` expected one element for each of {channels} channels, found {length}"
            raise Reject(codes.SHAPE_MISMATCH, message, operand)
    return _same_as_input(operands, attrs)


def _unscaled(
    operands: tuple[Operand | None, ...], attrs: Attributes, results: tuple[TensorType | None, ...]
) -> tuple[TensorType | None, ...]:
    """`Resize`: an unknown dimension that is scaled by 1 is unchanged, which ONNX does not infer."""
    (y,) = results
    x, _, scales = (*operands, None, None)[:3]
    if y is None or y.shape is None or x is None or x.shape is None or not isinstance(scales, Dense):
        return results
    axes = cast("tuple[int, ...]", attrs.get("axes") or tuple(range(len(x.shape))))
    scaled = {axis % len(x.shape) for axis, factor in zip(axes, scales.values, strict=False) if factor != 1}
    kept = (n if m is None and i not in scaled else m for i, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)))
    return (TensorType(y.dtype, tuple(kept)),)


def _short_time_fourier(operands: tuple[Operand | None, ...], attrs: Attributes) -> Results:
    """`(batch, frames, bins, 2)`: ONNX's own inference counts the bins of one-sided spectra wrongly (1.23)."""
    signal, step, window, length = (*operands, *(None,) * (4 - len(operands)))
    assert signal is not None
    batch, samples = signal.shape[:2] if signal.shape is not None and len(signal.shape) >= 2 else (None, None)
    stated = known_ints(length)
    size: Dim = stated[0] if stated else window.shape[0] if window is not None and window.shape else None
    steps = known_ints(step)
    frames: Dim = None
    if isinstance(size, int) and isinstance(samples, int) and steps:
        if steps[0] < 1 or not 1 <= size <= samples:
            message = f"`STFT` expected frames of at most {samples} samples, found {size} with a step of {steps[0]}"
            raise Reject(codes.BAD_VALUE, message, "frame_step")
        frames = (samples - size) // steps[0] + 1
    bins = (size // 2 + 1 if attrs["onesided"] else size) if isinstance(size, int) else None
    return [TensorType(signal.dtype, (batch, frames, bins, 2))]


def _max_unpool(operands: tuple[Operand | None, ...], attrs: Attributes) -> Results:
    """ONNX's inference ignores `output_shape`."""
    x, _, stated = (*operands, *(None,) * (3 - len(operands)))
    assert x is not None
    if stated is not None:
        sizes = known_dims(stated)
        return [TensorType(x.dtype, sizes if sizes is not None or x.shape is None else (None,) * len(x.shape))]
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    kernel = cast("tuple[int, ...]", attrs["kernel_shape"])
    spatial = len(x.shape) - 2
    strides = cast("tuple[int, ...]", attrs.get("strides") or (1,) * spatial)
    pads = cast("tuple[int, ...]", attrs.get("pads") or (0,) * 2 * spatial)
    if not len(kernel) == len(strides) == len(pads) / 2 == spatial:
        message = f"`MaxUnpool` expected windows of {spatial} dimensions, found {len(kernel)}"
        raise Reject(codes.BAD_VALUE, message, "kernel_shape")
    sizes = zip(x.shape[2:], strides, kernel, pads[:spatial], pads[spatial:], strict=True)
    unpooled = [dims.combine(lambda n, s: (n - 1) * s, n, s) for n, s, *_ in sizes]
    around = [k - before - after for k, before, after in zip(kernel, pads[:spatial], pads[spatial:], strict=True)]
    return [TensorType(x.dtype, (*x.shape[:2], *map(dims.add, unpooled, around)))]


def _prelu(operands: tuple[Operand | None, ...], attrs: Attributes) -> Results:
    """ONNX's inference does not check the shape of the slope."""
    x, slope = operands
    assert x is not None
    assert slope is not None
    if x.shape is not None and slope.shape is not None:
        wider = len(slope.shape) > len(x.shape)
        pairs = zip(reversed(x.shape), reversed(slope.shape), strict=False)
        if wider or any(n not in (1, m, None) and m is not None for m, n in pairs):
            message = f"`PRelu` expected a slope that broadcasts to {types.show_shape(x.shape)}"
            message += f", found {types.show_shape(slope.shape)}"
            raise Reject(codes.SHAPE_MISMATCH, message, "slope")
    return [TensorType(x.dtype, x.shape)]


_OWN_RULES = {
    "GroupNormalization": _group_normalization,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": _same_as_input,
    "PRelu": _prelu,
    "STFT": _short_time_fourier,
}
