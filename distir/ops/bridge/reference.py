"""The values of a bridged op's results: ONNX's reference implementation, or numpy where it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, cast

from distir.diagnostics.codes import types as codes
from distir.ir import Attributes, DType, TensorType
from distir.ops.bridge.inference import infer_results
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
    if name == "ConvTranspose" and attrs.get("group", 1) != 1:
        return [_grouped_transpose(operands, attrs)]
    if name == "MaxPool" and operands[0] is not None:
        return _max_pool(operands[0], attrs)
    present = tuple(None if operand is None else dtype_of(operand) for operand in operands)
    given = list(operands)
    while given and given[-1] is None:
        given.pop()
    return _implementation(name, attrs, present, count)(*given)


def _grouped_transpose(operands: Sequence[Array | None], attrs: Attributes) -> Array:
    """Group by group: ONNX's implementation supports groups only for a batch of 1 (1.23)."""
    x, w, *rest = operands
    assert x is not None
    assert w is not None
    groups = int(cast(Any, attrs["group"]))
    alone = Attributes({**attrs, "group": 1})
    pairs = zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True)
    parts = [_computed("ConvTranspose", (data, weights), alone, 1)[0] for data, weights in pairs]
    whole = np.concatenate(parts, 1)
    bias = rest[0] if rest else None
    return whole if bias is None else whole + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _max_pool(x: Array, attrs: Attributes) -> list[Array]:
    (found,) = infer_results("MaxPool", (TensorType(dtype_of(x), x.shape),), attrs, 1)
    assert isinstance(found, TensorType)
    assert found.shape is not None
    return pooled_with_indices(x, tuple(size for size in found.shape if isinstance(size, int)), attrs)


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
    "GlobalLpPool": _global_lp_pool,
    "GroupNormalization": _group_normalization,
    "MaxRoiPool": _max_roi_pool,
    "Multinomial": _multinomial,
}
"""Ops without an implementation in ONNX, or with one whose results differ."""
