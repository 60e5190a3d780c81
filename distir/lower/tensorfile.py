"""Arrays in safetensors files: the constants, inputs and results of lowered programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distir.files import safetensors
from distir.files.safetensors import Tensor


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write numpy arrays. Raises OSError, and FormatError for an element type that the format lacks."""
    from distir.ops import dtype_of
    from distir.ops.numeric import to_bytes

    with path.open("wb") as file:
        safetensors.write(
            file,
            {
                name: Tensor(dtype_of(array), tuple(array.shape), lambda array=array: to_bytes(array))
                for name, array in arrays.items()
            },
        )


def read(path: Path) -> dict[str, Any]:
    """The tensors of a file written by this module or by a lowered program. Raises OSError, FormatError."""
    from distir.ops.numeric import from_bytes

    return {name: from_bytes(t.load(), t.dtype, t.shape) for name, t in safetensors.read(path).items()}
