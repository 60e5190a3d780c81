"""Tuples, which are Python's."""

from __future__ import annotations

from distir.lower.forms import Operand, Unpacked, Write, items, torch_form


@torch_form("MakeTuple")
def _(write: Write, *parts: Operand) -> str:
    return items([part.tensor for part in parts])


@torch_form("UnpackTuple")
def _(write: Write, tuple: Operand) -> Unpacked:
    return Unpacked(str(tuple))
