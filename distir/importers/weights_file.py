"""Weights written beside a program, as a safetensors file, one tensor at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

from distir.files import safetensors
from distir.files.safetensors import FormatError, Tensor
from distir.importers.core import ImportRefused, Weight
from distir.ops.numeric import to_bytes

MARK = "distir"
"""The `__metadata__` entry `format` of the files that are written here."""


def write(file: IO[bytes], weights: Mapping[str, Weight]) -> None:
    """Write all weights. No more than one is in memory at a time. Raises ImportRefused where one cannot be read."""
    tensors = {name: Tensor(w.dtype, w.shape, lambda w=w: to_bytes(w.load())) for name, w in weights.items()}
    try:
        safetensors.write(file, tensors, {"format": MARK})
    except FormatError as error:
        raise ImportRefused(str(error)) from None


def is_ours(path: str) -> bool:
    """Whether a file was written here, or is not there: so it may be replaced."""
    if not os.path.lexists(path):
        return True
    try:
        return safetensors.metadata(path).get("format") == MARK
    except (OSError, FormatError):
        return False
