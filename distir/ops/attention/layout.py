"""The letters of attention's operands, for sharding: batch, heads, places in a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distir.ir import (
    Dim,
)
from distir.ops.host import Operand
from distir.ops.layout import Exchange, Layout, Letters

if TYPE_CHECKING:
    pass


def lettered(*operands: tuple[Operand | None, Letters]) -> list[Letters]:
    """The letters of operands up to the last that is stated."""
    stated = max((n for n, (operand, _) in enumerate(operands, 1) if operand is not None), default=0)
    return [() if operand is None else letters for operand, letters in operands[:stated]]


def random_letters(random: Sequence[Operand | None]) -> list[tuple[Operand | None, Letters]]:
    """The operands of dropout with their letters."""
    return list(zip(random, ((), ("b",), (None,), (None,), (None,)), strict=False))


def drawing(found: Layout, random: Sequence[Operand | None], start: int) -> Layout:
    """The layout with dropout: where a part begins in the whole must be known. Without a key nothing can be split."""
    key, rows, _ = (*random, None, None, None)[:3]
    if key is None:
        return Layout(
            tuple((None,) * len(own) for own in found.operands), tuple((None,) * len(own) for own in found.results)
        )
    located = frozenset("hq" if rows is not None else "bhq")
    return replace(found, start=start, located=located, contiguous=located)


def by_sequence(length: Operand | None) -> Letters:
    """The letters of the length of a cache: one for all sequences, or one for each."""
    return ("b",) if length is not None and length.shape and len(length.shape) == 1 else ()


SEQUENCE = "s"
"""The letter of places in a sequence, of queries and of keys."""


def _length(x: Operand) -> Dim:
    """The number of queries or keys."""
    return None if x.shape is None else x.shape[2 if len(x.shape) == 4 else 1]


class AttentionLetters:
    """The letters of operands and results: the batch, the heads, the queries unless causal, the values' columns.

    With a `context`, queries and keys of one length have one letter.
    """

    def __init__(self, q: Operand, k: Operand, attrs: Any, columns: str | None) -> None:
        self._query = None if attrs["is_causal"] else "q"
        self._key: str | None = None
        self._context: str = attrs["context"] if _length(q) is not None and _length(q) == _length(k) else ""
        if self._context:
            self._query = self._key = SEQUENCE
        self.rows: Letters = ("b", "h", self._query)
        if len(q.shape or ()) == 4:
            shared = None if k.shape is not None and k.shape[1] == 1 else "h"
            self.q: Letters = ("b", "h", self._query, None)
            self.k: Letters = ("b", shared, self._key, None)
            self.v: Letters = ("b", shared, self._key, columns)
            self.y: Letters = ("b", "h", self._query, columns)
            self.divided: dict[str, tuple[str, ...]] = {}
        else:
            shared = None if attrs["kv_num_heads"] == 1 else "h"
            self.q = self.y = ("b", self._query, "h")
            self.k = self.v = ("b", self._key, shared)
            self.divided = {"h": ("q_num_heads", "kv_num_heads") if shared else ("q_num_heads",)}

    def layout(
        self, operands: Sequence[Letters], results: tuple[Letters, ...], kept: frozenset[int] = frozenset()
    ) -> Layout:
        """The layout of an op with these operands and results, and those of them that only its gradient takes."""
        found = Layout(tuple(operands), results, divided=self.divided)
        if not self._context:
            return found
        if self._context == "a2a":
            return replace(found, sequence=SEQUENCE, exchanged=Exchange(SEQUENCE, "h", "context", kept))
        return replace(found, parted=frozenset({SEQUENCE}), sequence=SEQUENCE)

    def mask(self, mask: Operand | None) -> Letters:
        """Those of a mask, which broadcasts to the scores."""
        shape = () if mask is None else mask.shape or ()
        letters = ("b", "h", self._query, None)[4 - len(shape) :]
        return tuple(None if dim == 1 else letter for letter, dim in zip(letters, shape, strict=True))
