"""The safetensors file format: a header in JSON, then the tensors' bytes.

Format: 8 bytes little-endian length of the header; the header, `{name: {dtype, shape, data_offsets}}`; the bytes, with
offsets from the header's end (https://huggingface.co/docs/safetensors). Reading it here, and not with the package of
that name, needs nothing installed and gives BFloat16 and the 8-bit floats, for which numpy has no types of its own.
Knows no arrays: `distir.ops.numeric` makes them of bytes. Nothing in such a file is ever executed.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, cast

from distir.files import limits
from distir.files.reading import Named, mapped
from distir.ir import DTYPES, DType
from distir.ir.errors import DistirError

SPELLED = {
    "Bool": "BOOL",
    "BFloat16": "BF16",
    "Float8E4M3FN": "F8_E4M3",
    "Float8E4M3FNUZ": "F8_E4M3FNUZ",
    "Float8E5M2": "F8_E5M2",
    "Float8E5M2FNUZ": "F8_E5M2FNUZ",
    "Float8E8M0": "F8_E8M0",
    **{f"Int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""The format's names of our element types."""


class FormatError(DistirError, ValueError):
    """A file that is not in the format, or an element type that the format lacks; the text names it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file. `load` gives its elements' bytes, little-endian and in row-major order."""

    dtype: DType
    shape: tuple[int, ...]
    load: Callable[[], memoryview]

    @property
    def nbytes(self) -> int:
        """How many bytes its elements take."""
        return math.prod(self.shape) * self.dtype.bytes


def read(path: Named) -> dict[str, Tensor]:
    """The tensors of a file by name, their bytes read as they are used. Raises FormatError, OSError."""
    whole = mapped(path)
    header, data = _header(whole)
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    return {name: _tensor(name, entry, data) for name, entry in entries.items()}


def metadata(path: Named) -> Mapping[str, Any]:
    """The header of a file. Raises FormatError, OSError."""
    found = _header(mapped(path))[0].get("__metadata__")
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def write(file: IO[bytes], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors, one at a time. Raises FormatError for what the format cannot hold, OSError."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        if tensor.dtype.name not in SPELLED:
            raise FormatError(f"`{name}` has {tensor.dtype} elements, which a safetensors file cannot hold")
        header[name] = {
            "dtype": SPELLED[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name, tensor in tensors.items():
        data = tensor.load()
        if data.nbytes != tensor.nbytes:
            raise FormatError(f"`{name}` expected {tensor.nbytes} bytes of data, found {data.nbytes}")
        file.write(data)


_DTYPES = {theirs: DTYPES[ours] for ours, theirs in SPELLED.items()}


def _header(whole: memoryview) -> tuple[dict[str, object], memoryview]:
    length = int.from_bytes(whole[:8], "little")
    if len(whole) < 8 or length > min(len(whole) - 8, limits.HEADER):
        raise FormatError("the header is cut off")
    try:
        header: Any = json.loads(bytes(whole[8 : 8 + length]))
    except (ValueError, RecursionError):
        raise FormatError("the header is not JSON") from None
    if not isinstance(header, dict):
        raise FormatError("the header is no table of tensors")
    return cast("dict[str, object]", header), whole[8 + length :]


def _tensor(name: str, found: object, data: memoryview) -> Tensor:
    try:
        described = cast("Mapping[str, Any]", found)
        dtype = _DTYPES[described["dtype"]]
        shape = tuple(map(operator.index, described["shape"]))
        start, end = map(operator.index, described["data_offsets"])
    except KeyError as error:
        raise FormatError(f"`{name}` has an unknown element type, or lacks {error}") from None
    except (TypeError, ValueError):
        raise FormatError(f"`{name}` is not described as the format asks") from None
    tensor = Tensor(dtype, shape, lambda: data[start:end])
    if any(n < 0 for n in (*shape, start, end)) or end - start != tensor.nbytes or end > len(data):
        raise FormatError(f"the bytes of `{name}` do not fit its shape or the file")
    return tensor
