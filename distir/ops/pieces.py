"""The interface of `pieces` rules: what an op makes of pieces of values, for proofs (`distir.prove`).

Most ops need none: their layout says it (`@Op.sharding`, or the letters of the signature). A rule is for those that
move elements between devices or dimensions, or are a sum of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from distir.ir import Constant, DType

Piece = Any
"""What a value of the distributed program is of values of the sequential one."""


class Pieces(Protocol):
    """What `pieces` rules are written with. Raises where nothing can be said, with the reason."""

    count: int
    """The number of the statement's results."""
    shapes: Sequence[tuple[int, ...]]
    """The results' shapes."""

    def __call__(self, op: str, *operands: Piece | None, **attrs: Constant) -> Piece:
        """The result of an op, by its own rule or its layout."""
        ...

    def sum(self, *addends: tuple[float, Piece]) -> Piece:
        """The sum of pieces, each with a factor, which may broadcast."""
        ...

    def joined(self, pieces: Sequence[Piece], axis: int) -> Piece:
        """The concatenation along an axis."""
        ...

    def cut(self, x: Piece, axis: int, start: int, stop: int) -> Piece:
        """The places from `start` to `stop` of an axis."""
        ...

    def split(self, x: Piece, axis: int, count: int) -> list[Piece]:
        """So many equal parts along an axis."""
        ...

    def shape(self, x: Piece) -> tuple[int, ...]:
        """The shape of a piece."""
        ...

    def reshaped(self, x: Piece, shape: tuple[int, ...], spelled: Sequence[int] = ()) -> Piece:
        """The elements in another shape; `spelled`: as the program says it, with 0 and -1."""
        ...

    def transposed(self, x: Piece, perm: Sequence[int]) -> Piece:
        """The dimensions in another order."""
        ...

    def unsqueezed(self, x: Piece, axes: Sequence[int]) -> Piece:
        """With dimensions of size 1 at `axes` of the result."""
        ...

    def squeezed(self, x: Piece, axes: Sequence[int]) -> Piece:
        """Without these dimensions of size 1."""
        ...

    def flattened(self, x: Piece, axis: int) -> Piece:
        """As a matrix, the dimensions before `axis` and those from it on as one each."""
        ...

    def cast(self, x: Piece, to: DType | None) -> Piece:
        """In another element type."""
        ...

    def dtype(self, x: Piece) -> DType | None:
        """The element type of a piece."""
        ...

    def is_float(self, x: Piece) -> bool:
        """Whether the elements are floating-point numbers, which can be divided."""
        ...

    def number(self, x: Piece) -> float | None:
        """The number that all elements are, where they are one that is known."""
        ...

    def ints(self, x: Piece | None) -> tuple[int, ...]:
        """The elements of a host value that is known. Raises where it is not."""
        ...
