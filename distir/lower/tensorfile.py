"""Tensors in safetensors files: how lowered programs get constants and inputs, and give results.

Format: 8 bytes little-endian length of the header; the header in JSON, `{name: {dtype, shape, data_offsets}}`; the
bytes (https://huggingface.co/docs/safetensors). Nothing in such a file is ever executed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distir.ir import DTYPES

SPELLED = {
    "Bool": "BOOL",
    "BFloat16": "BF16",
    "Float8E4M3FN": "F8_E4M3",
    "Float8E4M3FNUZ": "F8_E4M3FNUZ",
    "Float8E5M2": "F8_E5M2",
    "Float8E5M2FNUZ": "F8_E5M2FNUZ",
    **{f"Int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"F{bits}" for bits in (16, 32, 64)},
}
"""The format's names of our element types."""


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write numpy arrays. Raises OSError, and KeyError for an element type that the format lacks."""
    import numpy as np

    from distir.ops import dtype_of

    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        spelled = SPELLED[dtype_of(array).name]
        header[name] = {"dtype": spelled, "shape": list(array.shape), "data_offsets": [start, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for array in arrays.values():
            plain = np.ascontiguousarray(array)
            if sys.byteorder == "big":
                plain = plain.byteswap()
            file.write(plain.reshape(-1).view(np.uint8).data)


def read(path: Path) -> dict[str, Any]:
    """All tensors of a file that this module, or a lowered program, has written. Raises OSError."""
    import numpy as np

    from distir.ops import numpy_dtype

    ours = {theirs: DTYPES[name] for name, theirs in SPELLED.items()}
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    found: dict[str, Any] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = numpy_dtype(ours[entry["dtype"]])
        found[name] = np.frombuffer(data[start:end], np.uint8).view(dtype).reshape(entry["shape"])
    return found
