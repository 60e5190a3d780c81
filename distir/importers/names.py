"""Readable names from the names that frameworks give: `/m/h.0/attn/Add_output_0` is `m.h.0.attn.Add`.

Uniqueness is the builder's care.
"""

from __future__ import annotations

import re

from distir.ir import SymbolicDim, dims

LONGEST = 120
"""Characters of a name that are kept, its last ones."""


def value_name(name: str) -> str:
    """A name that the language can spell: a scope's parts joined by dots."""
    name = name.rpartition("::")[2] or name
    name = re.sub(r"_output_0$", "", name.strip("/")).replace("/", ".")
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return name[-LONGEST:] or "v"


def word(name: str) -> str:
    """The name of an op or an attribute as the language can spell it."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() and plain not in _KEYWORDS else f"X{plain}"


_KEYWORDS = ("func", "return", "Tensor", "Tuple", "host", "inf", "nan", "true", "false", "dense", "external")


def dimension(name: str) -> SymbolicDim:
    """The named dimension for a symbol of the model; one that is an expression gets a name of its own."""
    return dims.named(dimension_name(name))


def dimension_name(name: str) -> str:
    """The name as a dimension may be called: letters, digits and `_`, no keyword."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "n"
    return plain if plain[0].isalpha() and plain not in _KEYWORDS else f"n{plain}"
