"""numpy, loaded when an op first runs, so that checking a program does not load it.

Converts element types to numpy's, and constants to arrays and back.
"""

from __future__ import annotations

import importlib
import math
import sys
from typing import TYPE_CHECKING, Any, cast

from distir.ir import DTYPES, Constant, Dense, DType, Scalar, SymbolicDim

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:

    class _Lazy:
        """A module that is imported when it is first used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            value = getattr(importlib.import_module(self._name), attribute)
            setattr(self, attribute, value)
            return value

    np = _Lazy("numpy")
    Array = Any

_EXTENSION_NAMES = {
    "BFloat16": "bfloat16",
    "Float8E4M3FN": "float8_e4m3fn",
    "Float8E4M3FNUZ": "float8_e4m3fnuz",
    "Float8E5M2": "float8_e5m2",
    "Float8E5M2FNUZ": "float8_e5m2fnuz",
    "Float8E8M0": "float8_e8m0fnu",
    "Float4E2M1": "float4_e2m1fn",
    "Int4": "int4",
    "UInt4": "uint4",
    "Int2": "int2",
    "UInt2": "uint2",
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy element type; those that numpy lacks come from ml_dtypes."""
    if extension := _EXTENSION_NAMES.get(dtype.name):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, extension))
    return np.dtype("bool" if dtype.name == "Bool" else dtype.name.lower())


def dtype_of(array: Array) -> DType:
    """The element type of an array. Raises KeyError for one that the language lacks (complex, objects)."""
    name = array.dtype.name
    extension = {numpy: ours for ours, numpy in _EXTENSION_NAMES.items()}.get(name)
    return DTYPES[extension or {"bool": "Bool"}.get(name) or _capitalised(name)]


def to_array(constant: Dense) -> Array:
    """The array of a constant, of its element type and shape; of objects if some values are symbolic."""
    if constant.symbolic:
        return np.array(constant.values, dtype=object).reshape(constant.shape)
    return np.array(constant.values, dtype=numpy_dtype(constant.dtype)).reshape(constant.shape)


def to_dense(array: Array) -> Dense:
    """The constant of an array. Raises ValueError for objects that are no dimensions."""
    if array.dtype == object:
        sizes = cast(list[object], array.reshape(-1).tolist())
        known = tuple(size for size in sizes if isinstance(size, (int, SymbolicDim)))
        if len(known) != len(sizes):
            raise ValueError("a size is unknown")
        return Dense(DTYPES["Int64"], tuple(array.shape), known)
    values = cast(list[Scalar], array.reshape(-1).tolist())
    return Dense(dtype_of(array), tuple(array.shape), tuple(values))


def from_bytes(data: memoryview, dtype: DType, shape: tuple[int, ...], offset: int = 0) -> Array:
    """The array stored in bytes, little-endian and row-major, from `offset` on. Not a copy."""
    if not math.prod(shape):
        return np.zeros(shape, numpy_dtype(dtype))  # numpy refuses an empty buffer
    little = numpy_dtype(dtype).newbyteorder("<")
    return np.frombuffer(data, little, math.prod(shape), offset).reshape(shape)


def to_bytes(array: Array) -> memoryview:
    """The elements of an array as bytes, little-endian and row-major."""
    plain = np.ascontiguousarray(array)
    if sys.byteorder == "big":
        plain = plain.byteswap()
    return memoryview(plain.reshape(-1).view(np.uint8).data)


def dense(value: Constant, dtype: DType | None = None) -> Dense:
    """A number, or nested lists of numbers, as a tensor.

    Default element types: Bool, Int64 or Float32. Raises ValueError for other values, and for ragged lists.
    """
    if isinstance(value, Dense):
        return value
    shape, values = _flatten(value)
    dtype = dtype or _default_dtype(values)
    return Dense(dtype, shape, tuple(_scalar(v, dtype) for v in values))


def _flatten(value: Constant) -> tuple[tuple[int, ...], tuple[Scalar, ...]]:
    if isinstance(value, (bool, int, float)):
        return (), (value,)
    if not isinstance(value, tuple):
        raise ValueError(f"expected a number or a list of numbers, found {value!r}")  # noqa: TRY004
    pieces = [_flatten(item) for item in value]
    shapes = {shape for shape, _ in pieces}
    if len(shapes) > 1:
        raise ValueError("a list of lists of different lengths is no tensor")
    inner = shapes.pop() if shapes else ()
    return (len(pieces), *inner), tuple(v for _, values in pieces for v in values)


def _default_dtype(values: tuple[Scalar, ...]) -> DType:
    if values and all(isinstance(v, bool) for v in values):
        return DTYPES["Bool"]
    return DTYPES["Float32"] if any(isinstance(v, float) for v in values) else DTYPES["Int64"]


def _scalar(value: Scalar, dtype: DType) -> Scalar:
    return float(value) if dtype.kind == "float" else bool(value) if dtype.kind == "bool" else int(value)


def _capitalised(name: str) -> str:
    for ours in DTYPES:
        if ours.lower() == name:
            return ours
    raise KeyError(name)
