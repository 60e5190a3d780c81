"""The values of a bridged op's results: ONNX's reference implementation, or numpy where it has none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import Attributes, DType, TensorType
from distir.ops.bridge.inference import infer_results
from distir.ops.bridge.recurrences import recurrent
from distir.ops.bridge.schema import OPSET, attribute_specs, element_type, make_node
from distir.ops.numeric import Array, dtype_of, np, numpy_dtype
from distir.ops.precision import mean, wide
from distir.ops.unify import Reject
from distir.ops.windows import pooled_with_indices


def run_reference(name: str, operands: Sequence[Array | None], attrs: Attributes, count: int) -> list[Array]:
    """The results. Raises Reject where ONNX's implementation fails, and TypeError for symbolic operands."""
    if any(operand is not None and operand.dtype == object for operand in operands):
        raise TypeError(f"`{name}` computes with numbers")
    try:
        outcome = _computed(name, operands, attrs, count)
    except Exception as error:  # any error of the implementation is an error in the program
        said = str(error.__cause__ or error).strip().split("\n")[0]
        found = ", ".join("_" if o is None else f"{dtype_of(o)}{list(o.shape)}" for o in operands)
        raise Reject(codes.BAD_VALUE, f"`{name}` cannot be computed of {found}: {said}") from None
    return [np.asarray(result) for result in outcome[:count]]


def _computed(name: str, operands: Sequence[Array | None], attrs: Attributes, count: int) -> Sequence[Any]:
    if own := _OWN.get(name):
        return [own(*operands, **attrs)]
    if name in _RECURRENT:
        x, w, r, *others = operands
        assert x is not None
        assert w is not None
        assert r is not None
        return recurrent(name, _RECURRENT[name], x, w, r, *others, **cast("dict[str, Any]", attrs))
    if name in _OF_SHAPE:
        return _OF_SHAPE[name](_result_shape(name, operands, attrs), *operands, **attrs)
    present = tuple(None if operand is None else dtype_of(operand) for operand in operands)
    given = list(operands)
    while given and given[-1] is None:
        given.pop()
    return _implementation(name, attrs, present, count)(*given)


def _result_shape(name: str, operands: Sequence[Array | None], attrs: Attributes) -> tuple[int, ...]:
    given = [None if o is None else TensorType(dtype_of(o), o.shape) for o in operands]
    (found,) = infer_results(name, given, attrs, 1)
    assert isinstance(found, TensorType)
    return tuple(size for size in found.shape or () if isinstance(size, int))


@lru_cache(maxsize=1024)
def _implementation(
    name: str, attrs: Attributes, present: tuple[DType | None, ...], count: int
) -> Callable[..., tuple[Any, ...]]:
    """ONNX's implementation with its attributes set. `present`: the operands' element types, None if omitted."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.ops._op_list import load_op

    names = [f"o{i}" if dtype is not None else "" for i, dtype in enumerate(present)]
    while names and not names[-1]:
        names.pop()
    if name in _SEEDED and attrs.get("seed") is None:
        attrs = Attributes({**attrs, "seed": _SEEDED[name]})
    spelled = Attributes({n: v for n, v in attrs.items() if v != _defaults(name).get(n)})
    node = make_node(name, spelled, names, count)
    described = [helper.make_tensor_type_proto(element_type(d), None) for d in present if d is not None]
    implementation = load_op("", name, OPSET, node=node, input_types=described, evaluator_cls=ReferenceEvaluator)
    settings: dict[str, Any] = {
        "verbose": 0,
        "log": lambda *_: None,
        "new_ops": None,
        "opsets": {"": OPSET},
        "evaluator_cls": ReferenceEvaluator,
        "existing_functions": {},
    }
    return implementation(node, settings).run


@cache
def _defaults(name: str) -> dict[str, Any]:
    """The attributes for which ONNX has defaults; some implementations do not accept the newest attributes."""
    return {spec.name: spec.default for spec in attribute_specs(name)}


_SEEDED: dict[str, float | int] = {
    "Bernoulli": 0.0,
    "RandomNormal": 0.0,
    "RandomNormalLike": 0.0,
    "RandomUniform": 0.0,
    "RandomUniformLike": 0.0,
}
"""The default seed: the reference executor is deterministic."""


def _max_pool(shape: tuple[int, ...], x: Array, **attrs: Any) -> list[Array]:
    return pooled_with_indices(x, shape, attrs)


def _transposed_convolution(
    shape: tuple[int, ...], x: Array, w: Array, bias: Array | None = None, *, group: int = 1, **attrs: Any
) -> list[Array]:
    """ONNX's implementation takes no groups for several examples, and no `output_shape` without `auto_pad` (1.23)."""
    kernel, count = w.shape[2:], x.ndim - 2
    strides, dilations, more = (
        tuple(attrs.get(key) or usual)
        for key, usual in (("strides", (1,)), ("dilations", (1,)), ("output_padding", (0,)))
    )
    strides, dilations, more = (given * count if len(given) == 1 else given for given in (strides, dilations, more))
    covered = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    parts = wide(x).reshape(x.shape[0], group, -1, math.prod(x.shape[2:]))
    weights = wide(w).reshape(group, -1, *w.shape[1:])
    whole = np.zeros((x.shape[0], group * w.shape[1], *covered), parts.dtype)
    for offsets in itertools.product(*map(range, kernel)):
        made = np.swapaxes(weights[(..., *offsets)], 1, 2) @ parts
        at = [
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(offsets, dilations, x.shape[2:], strides, strict=True)
        ]
        whole[(slice(None), slice(None), *at)] += made.reshape(*whole.shape[:2], *x.shape[2:])
    before = _padding_before(shape[2:], [c + m for c, m in zip(covered, more, strict=True)], attrs)
    result = np.zeros(shape, whole.dtype)
    ends = [min(size, c - b) for size, c, b in zip(shape[2:], covered, before, strict=True)]
    inside = [slice(max(-b, 0), max(e, 0)) for b, e in zip(before, ends, strict=True)]
    source = [slice(max(b, 0), max(b, 0) + i.stop - i.start) for b, i in zip(before, inside, strict=True)]
    result[(..., *inside)] = whole[(..., *source)]
    if bias is not None:
        result = result + wide(bias).reshape(-1, *(1,) * count)
    return [result.astype(x.dtype, copy=False)]


def _padding_before(results: Sequence[int], covered: Sequence[int], attrs: Mapping[str, Any]) -> Sequence[int]:
    """What a transposed convolution cuts off before each dimension of what its windows cover."""
    auto = attrs.get("auto_pad") or "NOTSET"
    if auto == "VALID":
        return [0] * len(results)
    if auto == "NOTSET" and not attrs.get("output_shape"):
        return list(attrs.get("pads") or (0,) * 2 * len(results))[: len(results)]
    totals = [c - size for c, size in zip(covered, results, strict=True)]
    return [total // 2 if auto == "SAME_UPPER" else total - total // 2 for total in totals]


def _global_max_pool(x: Array) -> Array:
    """ONNX's implementation is right for two spatial dimensions alone (1.23)."""
    return np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _global_lp_pool(x: Array, *, p: int) -> Array:
    axes = tuple(range(2, x.ndim))
    return np.power(np.sum(np.power(np.abs(x), p), axis=axes, keepdims=True), 1 / p).astype(x.dtype)


def _group_normalization(
    x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    """In Float32 or wider, like built-in norms; ONNX's implementation converts Float64 to Float32 (1.23)."""
    groups = wide(x).reshape(x.shape[0], num_groups, -1)
    centred = groups - mean(groups, (2,))
    normalised = (centred / np.sqrt(mean(centred**2, (2,)) + epsilon)).reshape(x.shape).astype(x.dtype, copy=False)
    channels = (-1, *(1,) * (x.ndim - 2))
    return normalised * scale.reshape(channels) + bias.reshape(channels)


def _local_response_norm(x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """ONNX's implementation has four dimensions alone, and sums for as many channels as there are examples (1.23)."""
    squares = wide(x) ** 2
    before = (size - 1) // 2
    windows = [squares[:, max(c - before, 0) : c + size - before].sum(1) for c in range(x.shape[1])]
    return (wide(x) / (bias + alpha / size * np.stack(windows, 1)) ** beta).astype(x.dtype, copy=False)


def _mean_variance_normalization(x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    """ONNX's implementation has Float32 alone (1.23)."""
    centred = wide(x) - mean(wide(x), axes)
    return (centred / (np.sqrt(mean(centred**2, axes)) + 1e-9)).astype(x.dtype, copy=False)


def _affine_grid(theta: Array, size: Array, *, align_corners: int = 0) -> Array:
    """ONNX's implementation gives Float32 whatever it is given (1.23)."""
    sizes = [int(n) for n in size[2:]]
    shares = [1.0 if align_corners else 1 - 1 / n for n in sizes]
    along = [np.linspace(-share, share, n) if n > 1 else np.zeros(1) for n, share in zip(sizes, shares, strict=True)]
    places = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(sizes)], -1)
    grid = places.reshape(1, -1, len(sizes) + 1) @ np.swapaxes(wide(theta), 1, 2)
    return grid.reshape(theta.shape[0], *sizes, len(sizes)).astype(theta.dtype, copy=False)


def _multinomial(x: Array, *, dtype: DType | None = None, sample_size: int = 1, seed: float | None = None) -> Array:
    """Samples of classes from their unnormalised log probabilities."""
    generator = np.random.default_rng(int(abs(seed or 0)))
    chances = np.exp(x.astype(np.float64) - np.max(x, axis=1, keepdims=True))
    bounds = np.cumsum(chances / np.sum(chances, axis=1, keepdims=True), axis=1)
    drawn = generator.random((x.shape[0], sample_size))
    samples = np.sum(drawn[:, :, None] >= bounds[:, None, :-1], axis=2)
    return samples.astype(np.int32 if dtype is None else numpy_dtype(dtype))


def _max_roi_pool(x: Array, rois: Array, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0) -> Array:
    """The greatest element of each bin of each region (Girshick, arXiv:1504.08083)."""
    height, width = x.shape[2:]
    result = np.zeros((rois.shape[0], x.shape[1], *pooled_shape), x.dtype)
    for r, (batch, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (round(corner * spatial_scale) for corner in corners)
        rows = _bins(top, bottom, pooled_shape[0], height)
        columns = _bins(left, right, pooled_shape[1], width)
        for i, (y0, y1) in enumerate(rows):
            for j, (x0, x1) in enumerate(columns):
                window = x[int(batch), :, y0:y1, x0:x1]
                if window.size:
                    result[r, :, i, j] = np.max(window, axis=(1, 2))
    return result


def _bins(first: int, last: int, number: int, limit: int) -> list[tuple[int, int]]:
    """The start and end of each of `number` bins from `first` to `last`, both inclusive."""
    size = max(last - first + 1, 1) / number
    edges = [(first + int(np.floor(i * size)), first + int(np.ceil((i + 1) * size))) for i in range(number)]
    return [(min(max(a, 0), limit), min(max(b, 0), limit)) for a, b in edges]


_OWN: dict[str, Callable[..., Array]] = {
    "AffineGrid": _affine_grid,
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_max_pool,
    "GroupNormalization": _group_normalization,
    "LRN": _local_response_norm,
    "MaxRoiPool": _max_roi_pool,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "Multinomial": _multinomial,
}
"""Ops without an implementation in ONNX, or with one whose results differ."""

_RECURRENT = {"GRU": 1, "LSTM": 2, "RNN": 1}
"""Networks, and how many states each has."""

_OF_SHAPE: dict[str, Callable[..., list[Array]]] = {"ConvTranspose": _transposed_convolution, "MaxPool": _max_pool}
"""Such ops whose results' shape depends on their attributes: the functions take it first."""
