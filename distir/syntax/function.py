"""A function in a text: what it is, and where it and its statements stand. Data only."""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ir import Function


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSyntax:
    """A function and where it stands. Offsets are those of the whole text.

    `span` is from `func` to after the body's `}`, `head` up to before its `{`, `name` that of `@name` (empty where it
    is missing). `comments` are those from `func` to `}`.
    """

    function: Function
    span: Span
    head: Span
    name: Span
    starts: array[int]
    ends: array[int]
    comments: tuple[tuple[int, int], ...]

    def statement(self, index: int) -> Span:
        """The span of statement `index` of the body."""
        return Span(self.starts[index], self.ends[index])

    def statement_at(self, offset: int) -> int | None:
        """The number of the statement at an offset; at an end it still counts."""
        index = bisect.bisect_right(self.starts, offset) - 1
        return index if index >= 0 and offset <= self.ends[index] else None
