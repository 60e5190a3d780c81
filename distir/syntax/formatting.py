"""The formatter: canonical text with the comments kept."""

from __future__ import annotations

from distir.syntax.core import Syntax
from distir.syntax.printing import print_module


def format(syntax: Syntax) -> str:  # noqa: A001 (as in the API)
    return print_module(syntax.module)
