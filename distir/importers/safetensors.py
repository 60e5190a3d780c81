"""Weights written beside a program, as a safetensors file, one tensor at a time.

Format: 8 bytes little-endian length of the header; the header in JSON, `{name: {dtype, shape, data_offsets}}`; the
bytes (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import IO, Any

from distir.importers.core import ImportRefused, Weight

DTYPE_NAMES = {
    "Bool": "BOOL",
    "BFloat16": "BF16",
    "Float8E4M3FN": "F8_E4M3",
    "Float8E4M3FNUZ": "F8_E4M3FNUZ",
    "Float8E5M2": "F8_E5M2",
    "Float8E8M0": "F8_E8M0",
    "Float8E5M2FNUZ": "F8_E5M2FNUZ",
    **{f"Int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""From our names of element types to the format's. `distir run` reads by the same table."""

MARK = "distir"
"""The `__metadata__` entry `format` of the files that are written here."""


def write(file: IO[bytes], weights: Mapping[str, Weight]) -> None:
    """Write all weights. No more than one is in memory at a time. Raises ImportRefused where one cannot be read."""
    header: dict[str, Any] = {"__metadata__": {"format": MARK}}
    end = 0
    for name, weight in weights.items():
        start, end = end, end + math.prod(weight.shape) * weight.dtype.bytes
        if weight.dtype.name not in DTYPE_NAMES:
            raise ImportRefused(f"`{name}` has {weight.dtype} elements, which a safetensors file cannot hold")
        header[name] = {
            "dtype": DTYPE_NAMES[weight.dtype.name],
            "shape": list(weight.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for weight in weights.values():
        file.write(_bytes(weight))


def is_ours(path: str) -> bool:
    """Whether a file was written here, or is not there: so it may be replaced."""
    if not os.path.exists(path):
        return True
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, os.path.getsize(path))))
        return header["__metadata__"]["format"] == MARK
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _bytes(weight: Weight) -> Any:
    import numpy as np

    array = np.ascontiguousarray(weight.load())
    if array.nbytes != math.prod(weight.shape) * weight.dtype.bytes:
        raise ImportRefused(f"expected {weight.dtype} elements of the shape {weight.shape}, found {array.shape}")
    if sys.byteorder == "big":
        array = array.byteswap()
    return array.reshape(-1).view(np.uint8).data
