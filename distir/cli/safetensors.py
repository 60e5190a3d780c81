"""The safetensors file format, read lazily: a header in JSON, then the tensors' bytes.

Format: 8 bytes little-endian length of the header; the header, `{name: {dtype, shape, data_offsets}}`; the bytes, with
offsets from the header's end (https://huggingface.co/docs/safetensors). Reading it here, and not with the package of
that name, needs nothing installed and gives BFloat16 and the 8-bit floats, for which numpy has no types of its own.
"""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from distir.cli.endings import Refused, reason
from distir.importers.safetensors import DTYPE_NAMES
from distir.ir import DTYPES, DType

LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit."""

_DTYPES = {theirs: DTYPES[ours] for ours, theirs in DTYPE_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor in a file. `start`: its first byte, from the file's beginning."""

    dtype: DType
    shape: tuple[int, ...]
    start: int


def read_header(path: str) -> dict[str, Entry]:
    """The tensors of a file by name. Raises Refused for a file that cannot be read or is not in the format."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, LARGEST_HEADER):
                raise _broken(path, "the header is cut off")
            header = json.loads(file.read(length))
    except OSError as error:
        raise Refused(f"cannot read `{path}`: {reason(error)}") from None
    except (ValueError, RecursionError):
        raise _broken(path, "the header is not JSON") from None
    if not isinstance(header, dict):
        raise _broken(path, "the header is no table of tensors")
    return {
        name: _entry(path, name, found, 8 + length, size)
        for name, found in cast("dict[str, object]", header).items()
        if name != "__metadata__"
    }


def load(path: str, entry: Entry) -> Any:
    """A tensor's array, mapped from the file: bytes are read as they are used. Raises Refused."""
    import numpy as np

    from distir.ops import numpy_dtype

    dtype = numpy_dtype(entry.dtype).newbyteorder("<")
    if math.prod(entry.shape) == 0:
        return np.empty(entry.shape, dtype)
    try:
        return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=entry.start, shape=entry.shape))
    except (OSError, ValueError) as error:
        raise Refused(f"cannot read `{path}`: {error}") from None


def _entry(path: str, name: str, found: object, base: int, size: int) -> Entry:
    try:
        described = cast("Mapping[str, Any]", found)
        dtype = _DTYPES[described["dtype"]]
        shape = tuple(map(operator.index, described["shape"]))
        start, end = map(operator.index, described["data_offsets"])
    except KeyError as error:
        raise _broken(path, f"`{name}` has an unknown element type, or lacks {error}") from None
    except (TypeError, ValueError):
        raise _broken(path, f"`{name}` is not described as the format asks") from None
    if any(n < 0 for n in (*shape, start, end)) or end - start != math.prod(shape) * dtype.bytes or base + end > size:
        raise _broken(path, f"the bytes of `{name}` do not fit its shape or the file")
    return Entry(dtype, shape, base + start)


def _broken(path: str, why: str) -> Refused:
    return Refused(f"`{path}` is no safetensors file: {why}")
