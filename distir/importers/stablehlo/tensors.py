"""Tensor types and constants of MLIR text in our terms."""

from __future__ import annotations

import re
from typing import Any, cast

from distir.importers.stablehlo.text import Bits, Braces, TextPlace, refuse
from distir.ir import DTYPES, Dense, DType, TensorType
from distir.ops import numpy_dtype, to_dense
from distir.ops.numeric import Array, np

ELEMENTS = {
    "i1": "Bool",
    **{f"i{bits}": f"Int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"si{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"UInt{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "f16": "Float16",
    "bf16": "BFloat16",
    "f32": "Float32",
    "f64": "Float64",
    "f8E4M3FN": "Float8E4M3FN",
    "f8E4M3FNUZ": "Float8E4M3FNUZ",
    "f8E5M2": "Float8E5M2",
    "f8E5M2FNUZ": "Float8E5M2FNUZ",
    "f8E8M0FNU": "Float8E8M0",
    "f4E2M1FN": "Float4E2M1",
}
"""Element types by what MLIR calls them."""

LARGEST = 1 << 20
"""Elements of a constant that is read."""


def tensor_type(text: str, device: int, place: TextPlace) -> TensorType:
    """`tensor<2x3xf32>` on a device. Raises ImportRefused for what is no tensor of known sizes."""
    match = re.fullmatch(r"tensor<((?:[\d?]+x)*)([A-Za-z]\w*)(?:,.*)?>", text)
    if match is None:
        advice = "let the function take and give tensors of numbers" if "complex" not in text else "use real parts"
        refuse(f"`{text[:60]}` is no tensor that the language has", place, advice)
    if "?" in match[1]:
        refuse(f"`{text[:60]}` has a size that is left open", place, "export the function for fixed sizes")
    if match[2] not in ELEMENTS:
        refuse(f"the language has no element type `{match[2]}`", place, "convert to another one")
    return TensorType(DTYPES[ELEMENTS[match[2]]], tuple(map(int, match[1].split("x")[:-1])), device)


def constant(given: Any, of: TensorType, place: TextPlace) -> Dense:
    """`dense<…>` as a value of this type; one number serves for all elements. Raises ImportRefused."""
    if not isinstance(given, Braces) or given.name != "dense" or len(given.listed) > 1:
        what = given.name if isinstance(given, Braces) else "nothing"
        advice = "write the file with its constants: `as_text()` leaves none out, `print(large_elements_limit)` does"
        refuse(f"expected `dense<…>`, found `{what}`", place, advice)
    shape = tuple(size for size in of.shape or () if isinstance(size, int))
    count = int(np.prod(shape, dtype=np.int64))
    assert of.dtype is not None
    elements = numpy_dtype(of.dtype)
    content: Any = given.listed[0] if given.listed else []
    try:
        if isinstance(content, str) and content.startswith("0x"):
            values = _of_bits(content, elements, count, of.dtype)
        else:
            flat = _flat(content)
            values = np.array([_element(v, elements) for v in flat]).astype(elements)
        if values.size not in (1, count):
            refuse(f"expected {count} elements, found {values.size}", place)
        whole = values.reshape(shape) if values.size == count else np.full(shape, values.reshape(())[()], elements)
    except (ValueError, TypeError, OverflowError) as error:
        refuse(f"the constant cannot be read as `{of.dtype.name}`: {error}", place)
    return to_dense(whole)


def is_splat(given: Any) -> bool:
    """Whether `dense<…>` says one number for all elements."""
    return isinstance(given, Braces) and len(given.listed) == 1 and not isinstance(given.listed[0], (list, str))


def _flat(content: Any) -> list[Any]:
    if not isinstance(content, list):
        return [content]
    found: list[Any] = []
    pending: list[Any] = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += reversed(cast("list[Any]", item))
        else:
            found.append(item)
    return found


def _element(value: Any, elements: Any) -> Any:
    """A number; `0xFF800000` are the bits of one."""
    if isinstance(value, Bits):
        return np.frombuffer(value.bits.to_bytes(np.dtype(elements).itemsize, "little"), elements)[0]
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"`{value}` is no number")
    return value


def _of_bits(content: str, elements: Any, count: int, dtype: DType) -> Array:
    """`"0x…"`: the elements' bytes one after the other, little-endian; Booleans as bits."""
    data = bytes.fromhex(content[2:])
    if dtype.name == "Bool":
        if len(data) == 1 and count > 8:  # one for all
            return np.array([data[0] != 0])
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count].astype(np.bool_)
    return np.frombuffer(data, elements)
