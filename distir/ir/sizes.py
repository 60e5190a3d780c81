"""Functions with named dimensions replaced by sizes."""

from __future__ import annotations

from collections.abc import Mapping

from distir.ir import types
from distir.ir.core import Function
from distir.ir.rewrite import with_types
from distir.ir.types import Dim


def with_sizes(function: Function, sizes: Mapping[str, Dim]) -> Function:
    """The function with named dimensions replaced in its type annotations."""
    return with_types(function, lambda stated: types.substitute(stated, sizes))
