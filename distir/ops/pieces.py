"""The interface of `pieces` rules: what an op makes of pieces of values, for proofs (`distir.prove`).

Most ops need none: their layout says it (`@Op.sharding`, or the letters of the signature). A rule is for those that
move elements between devices or dimensions, or are a sum of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from distir.ir import Constant, DType, Literal

Piece = Any
"""The relation of a distributed value to values of the sequential program."""


class PositionsOfPart(Protocol):
    """Indices counted within a part of a dimension, with one number for those outside of the part."""

    @property
    def positions(self) -> Piece:
        """The indices in the whole dimension."""
        ...

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The part, as ranges of indices: each has a first one, and ends before another."""
        ...

    @property
    def count(self) -> int:
        """The size of the part."""
        ...

    @property
    def size(self) -> int:
        """The size of the dimension."""
        ...


class PiecesOfOwners(Protocol):
    """Rows sorted by expert, or where tokens are among them, with room behind those of each owner of experts."""

    @property
    def plain(self) -> Piece:
        """The same without room between owners: all rows, whichever are here."""
        ...

    @property
    def rows(self) -> int:
        """The number of rows without room, for all owners together."""
        ...

    @property
    def owners(self) -> int:
        """The number of owners."""
        ...

    @property
    def room(self) -> int:
        """The number of rows of each owner, its room included."""
        ...

    @property
    def has_all(self) -> bool:
        """Whether the rows of all owners are here."""
        ...

    def agrees(self, other: Any) -> bool:
        """Whether they are the rows of the same owners, in the same places."""
        ...

    def has_experts(self, counts: Piece, owners: int) -> bool:
        """Whether counts are those of the experts whose rows are here, which so many owners have."""
        ...


class Pieces(Protocol):
    """The interface for rules `@Op.pieces`. Methods raise, with the reason, if a relation is unknown."""

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
        """`count` equal parts along an axis."""
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

    def spread(self, x: Piece, shape: tuple[int, ...]) -> Piece:
        """Broadcast to a shape."""
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

    def whole(self, x: Piece, axis: int) -> Piece:
        """The value of which `x` is a part along an axis; `x` itself if it has the whole axis."""
        ...

    def own(self, indices: Piece) -> PositionsOfPart | None:
        """What indices are that count from where a part begins (`Parts.own`); None for others."""
        ...

    def taken(self, indices: Piece) -> PositionsOfPart | None:
        """What indices are that count within a part, and are -1 outside of it; None for others."""
        ...

    def has_rows(self, x: Piece, axis: int, part: PositionsOfPart) -> bool:
        """Whether `x` has along an axis just the part that indices count within."""
        ...

    def zero_first(self, x: Piece) -> bool:
        """Whether the first element of a known value is 0."""
        ...

    def guarded(self, x: Piece, own: PositionsOfPart, axes: Sequence[int], *, absorbed: bool = False) -> Piece:
        """What equals `x` where indices are in the part, of which nothing is said elsewhere; `axes`: theirs in `x`.

        `absorbed`: where they are not, `x` is zero.
        """
        ...

    def where_own(self, condition: Piece, x: Piece) -> Piece | None:
        """`x` where indices are in a part, and else zero; None for other conditions."""
        ...

    def members(self, x: Piece, size: int, stride: int) -> list[Piece]:
        """What each device of a group has, so many devices so far apart, where `x` is that of any of them."""
        ...

    def group_sum(self, x: Piece, size: int, stride: int) -> Piece:
        """The sum over the devices of a group."""
        ...

    def addend_of_each(self, x: Piece, sum: str, size: int, stride: int) -> Piece:
        """Of `x`, that is the sum of what each device of a group has, what a device has; `sum` tells sums apart."""
        ...

    def of_members(self, pieces: Sequence[Piece], stride: int) -> Piece:
        """What is these pieces on the devices of a group; nothing is known of it where they have no more in common."""
        ...

    def constant_of_members(self, values: Sequence[Constant], stride: int) -> Piece:
        """A constant of which each device of a group has its own value."""
        ...

    def greatest(self, x: Piece, axis: int) -> Piece | None:
        """The maximum along an axis of which `x` has a part, or parts' maxima; None for other pieces."""
        ...

    def several(self, op: str, count: int, *operands: Piece | Literal | None, **attrs: Constant | None) -> list[Piece]:
        """The results of an op, by its own rule or its layout; without what is None."""
        ...

    def by_layout(self, op: str, count: int, *operands: Piece | None, **attrs: Constant | None) -> list[Piece]:
        """The results of an op by its layout, as if it had no rule; without what is None."""
        ...

    def linear(self, place: int, op: str, *operands: Piece | None, **attrs: Constant | None) -> list[Piece]:
        """The one result of an op by its layout, which is linear in the operand at `place`.

        For ops of which partitioning is not to know it, as it would add up their results instead.
        """
        ...

    def places(self, x: Piece, axis: int) -> tuple[tuple[int, int], ...]:
        """Which places `x` has along an axis, in its order: from a first one to before a last one."""
        ...

    def whole_size(self, x: Piece, axis: int) -> int:
        """The size of an axis of what `x` is a part of."""
        ...

    def has_all(self, x: Piece, axis: int) -> bool:
        """Whether `x` has all places of an axis, in their order."""
        ...

    def is_all(self, x: Piece, axis: int) -> bool:
        """The same in any order."""
        ...

    def up_to(self, x: Piece, axis: int, last: Piece, last_axis: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Which places `x` has of those up to the last one that another value has, and how many these are.

        All places, where that depends on the device.
        """
        ...

    def begins(self, x: Piece, axis: int, runs: Sequence[Any] | None) -> bool:
        """Whether the places of `x` are as many equal runs as there are numbers, which begin at these; None: at 0."""
        ...

    def placed(self, x: Piece, axis: int, like: Piece, like_axis: int) -> Piece:
        """Of an axis of which `x` has all, the places that `like` has of one of that size."""
        ...

    def of_places(self, x: Piece, axis: int, places: Sequence[tuple[int, int]], size: int) -> Piece:
        """Of an axis of so many places, of which `x` has all, these."""
        ...

    def some(
        self, x: Piece, sum: str, places: Sequence[tuple[int, int]], size: int, none_before: int | None = None
    ) -> Piece:
        """Of `x`, that is a sum of so many addends, those of some places; `sum` tells an op's sums apart.

        `none_before`: the axis along which an addend is zero at all places behind its own.
        """
        ...

    def greatest_over(self, x: Piece, over: Sequence[tuple[int, Sequence[tuple[int, int]], int]]) -> Piece:
        """Of greatest elements `x` along axes of something, those over some places alone, of so many of each."""
        ...

    def greatest_of(self, pieces: Sequence[Piece]) -> Piece | None:
        """The greatest of values element by element, where it is known; None of others, or of other places."""
        ...

    def maxima(self, x: Piece) -> tuple[Piece, Any] | None:
        """What `x` would be over all places, and over which it is a maximum; None where it is over all."""
        ...

    def over_maxima(self, x: Piece, over: Any) -> Piece:
        """What `x`, a maximum of maxima, is where they are over some places alone (`maxima`)."""
        ...

    def is_same(self, x: Piece, other: Piece) -> bool:
        """Whether two values are the same piece."""
        ...

    def share(self, x: Piece, places: Sequence[tuple[int, int]], size: int, complete: Piece | None) -> Piece:
        """What `x` is by some of so many places alone, and by what `complete` has besides. Only `merged` knows more."""
        ...

    def merged(self, *shares: tuple[Piece, ...]) -> tuple[Piece, ...] | None:
        """Shares of the same values, merged; None for others, or if they have places in common."""
        ...

    def owned_places(self, places: Piece, owners: int, room: int) -> Piece:
        """Places among rows by expert as they are with room for each owner of experts."""
        ...

    def of_owned_places(self, places: Piece) -> PiecesOfOwners | None:
        """What such places are; None of others."""
        ...

    def owners_of(self, x: Piece | None) -> PiecesOfOwners | None:
        """What rows with room for each owner are; None of others."""
        ...

    def owners_by(self, counts: Piece, rows: int, owners: int) -> PiecesOfOwners | None:
        """What so many rows are of the experts that `counts` are of, which so many owners have; None without room."""
        ...

    def owned(self, rows: Piece, like: PiecesOfOwners) -> Piece:
        """Rows without room between owners, as those that `like` has, with zeros between them."""
        ...

    def before_cast(self, x: Piece) -> Piece | None:
        """What `x` is a wider copy of; None of others."""
        ...

    def number(self, x: Piece) -> float | None:
        """The number that all elements are, where they are one that is known."""
        ...

    def ints(self, x: Piece | None) -> tuple[int, ...]:
        """The elements of a host value that is known. Raises where it is not."""
        ...

    def starts(self, x: Piece) -> tuple[Any, ...]:
        """The same of places, which may be others on each device of a group."""
        ...
