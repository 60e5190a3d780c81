"""What readers take of a file, at most: one set of limits, whatever the format.

How long a file may be, its kind says (`reading.FileKind`). These limits are for what a short file can ask for: what is
nested, what refers to what, and numbers of things that are then made. Beyond them, a reader says which one, and where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from distir.ir import dims

NESTED = 100
"""How deep brackets, tables, regions, calls and references of variables may be nested."""

TERMS = dims.MOST_TERMS
"""Of a dimension, and names that are multiplied in one term."""

SETTINGS = 100_000
"""Settings of a configuration, aliases and merged mappings written out."""

WORDS = 100_000
"""Words of a command line or of an array of a shell script, variables written out."""

DIGITS = 4000
"""Of a whole number: Python writes none with more than 4,300."""

CHARACTERS = 1_000_000
"""Of a word of a command line, variables written out."""

NODES = 4096
"""Nodes of a machine."""

DEVICES = 65_536
"""Devices of a machine, of a node, or of a group."""

MESH = 4096
"""Devices of a mesh for which a program is written out."""

LAYERS = 4096
"""Of a model."""

STEPS = 1024
"""Steps of a loop that is written out."""

CALLS = 1 << 16
"""Of one counted call, and names that a range means."""

RESULTS = 1 << 16
"""Results of an op, leaves of a tuple."""

ELEMENTS = 1 << 24
"""Of a constant that the text writes as one value."""

ROWS = 1_000_000
"""Of a table of figures, and stages and microbatches of a schedule."""

HEADER = 100_000_000
"""Bytes of a header that names tensors."""


def has_long_number(value: object) -> bool:
    """Whether a whole number among nested lists and tables has too many digits to be shown."""
    if isinstance(value, Mapping):
        return any(map(has_long_number, cast("Mapping[object, object]", value).values()))
    if isinstance(value, list):
        return any(map(has_long_number, cast("list[object]", value)))
    return isinstance(value, int) and value.bit_length() > DIGITS * 3.3


def meant(length: int) -> int:
    """How many names and statements the ranges and counted statements of a text of so many characters may mean."""
    return 150_000 + 16 * length


def written_out(length: int) -> int:
    """How many ops the calls and loops of a text of so many characters may be written out as."""
    return min(200_000, 10_000 + length)
