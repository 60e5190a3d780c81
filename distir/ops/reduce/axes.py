"""Which dimensions may be split beside an axis."""

from __future__ import annotations

from distir.ops.host import Operand
from distir.ops.layout import Layout


def split_except(axis: object, data: Operand, keeps: bool, results: int, others: int = 0) -> Layout:
    """All dimensions except `axis` may be split; none if it is unknown."""
    rank = len(data.shape or ())
    along = axis % rank if isinstance(axis, int) and rank else None
    letters = tuple(None if along in (None, i) else f"s{i}" for i in range(rank))
    remaining = letters if keeps else tuple(letter for i, letter in enumerate(letters) if i != along)
    return Layout((letters, *((None,),) * others), (remaining,) * results)
