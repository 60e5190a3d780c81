"""Writes what rules `@Op.pieces` say: pieces of wholes, cut, joined and moved, and ops on them.

The interface is `Pieces` in `ops/pieces.py`; this is its implementation over the algebra of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from distir.analysis.known_ops import lookup
from distir.ir import DTYPES, Attributes, Constant, Dense, Literal, TensorType
from distir.ops import Op, Value, type_of
from distir.prove import moving, own, owned, shares
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.greatest import Over, greatest, greatest_of, greatest_over, inside, maxima
from distir.prove.groups import Groups
from distir.prove.own import OwnPositions, TakenPositions
from distir.prove.pieces import TermPiece, elements, shape_of
from distir.prove.ranks import Number, axes_in
from distir.prove.runs import Runs
from distir.prove.terms import Unproved


class OpsOnPieces(Protocol):
    """The domain, as rules see it: it applies ops to pieces, by their rules or their layouts."""

    @property
    def algebra(self) -> Algebra:
        """The algebra of the terms of pieces."""
        ...

    @property
    def groups(self) -> Groups:
        """The groups of the mesh of devices."""
        ...

    def of_op(
        self,
        op: Op,
        attrs: Attributes,
        vs: tuple[TermPiece | None, ...],
        count: int,
        has_rule: bool = True,
        linear: frozenset[int] = frozenset(),
    ) -> tuple[TermPiece, ...]:
        """The results of an op; `has_rule`: by its own rule, if it has one; `linear`: in these operands, too."""
        ...

    def nothing_of(self, pieces: Sequence[TermPiece], stride: int, reason: str) -> TermPiece:
        """A value of which nothing is known but that devices of a group have these pieces."""
        ...


WIDE = ("Float32", "Float64")
"""Element types that hold each number of those that are narrower."""


class PieceWriter:
    """The interface of rules, `Pieces` of `ops/pieces.py`, for one statement."""

    def __init__(self, domain: OpsOnPieces, results: Sequence[Value]) -> None:
        self._domain, self._algebra, self._results = domain, domain.algebra, results
        self.count = len(results)
        self.shapes = tuple(map(shape_of, results))

    def keywords(self, rule: Callable[..., Any], bound: Attributes) -> dict[str, Any]:
        """The attributes that a rule takes."""
        return dict(bound)

    def __call__(self, op: str, *operands: TermPiece | Dense | Literal | None, **attrs: Constant) -> TermPiece:
        """The result of an op, by its own rule or its layout."""
        values = tuple([self._algebra.of_value(v) if isinstance(v, (Dense, Literal)) else v for v in operands])
        return self._domain.of_op(lookup(op), Attributes(attrs), values, 1)[0]

    def sum(self, *addends: tuple[float, TermPiece]) -> TermPiece:
        """The sum of pieces, each with a factor, which may broadcast."""
        return self._shaped(self._algebra.added(None, addends), addends[0][1])

    def joined(self, pieces: Sequence[TermPiece], axis: int) -> TermPiece:
        """The concatenation along an axis."""
        if len({piece.value for piece in pieces if isinstance(piece.value, (Dense, Literal))}) > 1:
            raise Unproved("constants are joined")
        return self._shaped(moving.joined(self._algebra, None, pieces, axis % len(pieces[0].whole)), pieces[0])

    def cut(self, x: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
        """The places from `start` to `stop` of an axis."""
        return self._shaped(moving.cut(self._algebra, None, x, axis % len(x.whole), start, stop), x)

    def split(self, x: TermPiece, axis: int, count: int) -> list[TermPiece]:
        """So many equal parts along an axis."""
        width = x.shape[axis % len(x.whole)] // count
        return [self.cut(x, axis, k * width, (k + 1) * width) for k in range(count)]

    def shape(self, x: TermPiece) -> tuple[int, ...]:
        """The shape of a piece."""
        return x.shape

    def dtype(self, x: TermPiece) -> Any:
        """The element type of a piece."""
        found = type_of(x.value)
        return found.dtype if isinstance(found, TensorType) else None

    def is_float(self, x: TermPiece) -> bool:
        """Whether the elements are floating-point numbers, which can be divided."""
        dtype = self.dtype(x)
        return dtype is not None and dtype.kind == "float"

    def cast(self, x: TermPiece, to: Any) -> TermPiece:
        """In another element type."""
        if isinstance(x.value, Literal) and self.is_float(x) and getattr(to, "kind", None) == "float":
            return x  # it has the type of what it meets
        return x if self.dtype(x) == to else self("Cast", x, to=to)

    def reshaped(self, x: TermPiece, shape: tuple[int, ...], spelled: Sequence[int] = ()) -> TermPiece:
        """The elements in another shape; `spelled`: as the program says it, with 0 and -1."""
        return moving.reshaped(self._algebra, _typed(x, shape), x, spelled)

    def flattened(self, x: TermPiece, axis: int) -> TermPiece:
        """As a matrix, the dimensions before `axis` and those from it on as one each."""
        axis = axis if axis >= 0 else axis + len(x.whole)
        whole = (_product(x.whole[:axis]), _product(x.whole[axis:]))
        own = (_product(x.shape[:axis]), _product(x.shape[axis:]))
        return moving.reshaped(self._algebra, _typed(x, own), x, whole=whole)

    def transposed(self, x: TermPiece, perm: Sequence[int]) -> TermPiece:
        """The dimensions in another order."""
        return self._shaped(moving.transposed(self._algebra, None, x, tuple(perm)), x)

    def spread(self, x: TermPiece, shape: tuple[int, ...]) -> TermPiece:
        """Broadcast to a shape."""
        return self._shaped(moving.spread(self._algebra, None, x, shape), x)

    def unsqueezed(self, x: TermPiece, axes: Sequence[int]) -> TermPiece:
        """With dimensions of size 1 at `axes` of the result."""
        rank = len(x.whole) + len(axes)
        at = {axis % rank for axis in axes}
        inner, own = iter(x.whole), iter(x.shape)
        whole = tuple([1 if k in at else next(inner) for k in range(rank)])
        shape = tuple([1 if k in at else next(own) for k in range(rank)])
        return moving.reshaped(self._algebra, _typed(x, shape), x, whole=whole)

    def squeezed(self, x: TermPiece, axes: Sequence[int]) -> TermPiece:
        """Without these dimensions of size 1."""
        at = {axis % len(x.whole) for axis in axes}
        whole = tuple([n for k, n in enumerate(x.whole) if k not in at])
        own = tuple([n for k, n in enumerate(x.shape) if k not in at])
        return moving.reshaped(self._algebra, _typed(x, own), x, whole=whole)

    def whole(self, x: TermPiece, axis: int) -> TermPiece:
        """What `x` is a part of, with all of an axis; `x` where it has all of it."""
        axis %= len(x.whole)
        at = (*x.runs[:axis], places.full(x.whole[axis]), *x.runs[axis + 1 :])
        return x if at == x.runs else self._shaped(replace(x, runs=at), x)

    def own(self, indices: TermPiece) -> OwnPositions | None:
        """What indices are that count from where a part begins; None for others."""
        return own.own(self._algebra, indices)

    def taken(self, indices: TermPiece) -> TakenPositions | None:
        """What indices are that count within a part, and are -1 outside of it; None for others."""
        return own.taken(indices)

    def has_rows(self, x: TermPiece, axis: int, part: TakenPositions) -> bool:
        """Whether `x` has along an axis just the part that indices count within."""
        return (x.whole[axis], x.runs[axis]) == (part.size, part.places)

    def zero_first(self, x: TermPiece) -> bool:
        """Whether the first element of a known value is 0."""
        held = elements(x.value) if isinstance(x.value, (Dense, Literal)) else None
        return held is not None and next(iter(held), None) == 0

    def guarded(
        self, x: TermPiece, own_indices: OwnPositions, axes: Sequence[int], *, absorbed: bool = False
    ) -> TermPiece:
        """What equals `x` where indices are in the part; `axes`: theirs in `x`."""
        return own.guarded(self._algebra, x, own_indices, tuple(axes), absorbed)

    def where_own(self, condition: TermPiece, x: TermPiece) -> TermPiece | None:
        """`x` where indices are in a part, and else zero; None for other conditions."""
        return own.where(self._algebra, condition, x)

    def members(self, x: TermPiece, size: int, stride: int) -> list[TermPiece]:
        """What each device of a group has, where `x` is that of any of them."""
        return self._domain.groups.members(x, size, stride)

    def group_sum(self, x: TermPiece, size: int, stride: int) -> TermPiece:
        """The sum over the devices of a group."""
        return self._domain.groups.sum(x, size, stride)

    def addend_of_each(self, x: TermPiece, sum: str, size: int, stride: int) -> TermPiece:
        """Of `x`, that is the sum of what each device of a group has, what a device has; `sum` tells sums apart."""
        return self._domain.groups.addend_of_each(x, sum, size, stride)

    def of_members(self, pieces: Sequence[TermPiece], stride: int) -> TermPiece:
        """What is these pieces on the devices of a group; nothing is known of it where they have no more in common."""
        try:
            return self._domain.groups.of_members(pieces, stride)
        except Unproved as reason:
            return self._domain.nothing_of(pieces, stride, str(reason))

    def constant_of_members(self, values: Sequence[Constant], stride: int) -> TermPiece:
        """A constant of which each device of a group has its own value."""
        if len(set(values)) == 1:
            return self._algebra.of_value(Literal(values[0]))
        return self._domain.groups.constant(self._results[0], values, stride)

    def greatest(self, x: TermPiece, axis: int) -> TermPiece | None:
        """The maximum along an axis of which `x` has a part, or parts' maxima; None for other pieces."""
        found = greatest(self, self._algebra, x, axis % len(x.whole))
        return None if found is None else self._shaped(found, x)

    def several(
        self, op: str, count: int, *operands: TermPiece | Literal | None, **attrs: Constant | None
    ) -> list[TermPiece]:
        """The results of an op, by its own rule or its layout."""
        definition = lookup(op)
        stated = [self._algebra.of_value(v) if isinstance(v, Literal) else v for v in operands]
        while stated and stated[-1] is None:
            stated.pop()
        given = {name: value for name, value in attrs.items() if value is not None}
        return list(self._domain.of_op(definition, Attributes(given), tuple(stated), count))

    def by_layout(self, op: str, count: int, *operands: TermPiece | None, **attrs: Constant | None) -> list[TermPiece]:
        """The results of an op by its layout, as if it had no rule."""
        given = Attributes({name: value for name, value in attrs.items() if value is not None})
        return list(self._domain.of_op(lookup(op), given, operands, count, has_rule=False))

    def linear(self, place: int, op: str, *operands: TermPiece | None, **attrs: Constant | None) -> list[TermPiece]:
        """The one result of an op by its layout, which is linear in the operand at `place`."""
        given = Attributes({name: value for name, value in attrs.items() if value is not None})
        return list(self._domain.of_op(lookup(op), given, operands, 1, False, frozenset((place,))))

    def places(self, x: TermPiece, axis: int) -> Runs:
        """Which places `x` has along an axis, in its order."""
        return x.runs[axis]

    def whole_size(self, x: TermPiece, axis: int) -> int:
        """The size of an axis of what `x` is a part of."""
        return x.whole[axis]

    def has_all(self, x: TermPiece, axis: int) -> bool:
        """Whether `x` has all places of an axis, in their order."""
        return x.runs[axis] == places.full(x.whole[axis])

    def is_all(self, x: TermPiece, axis: int) -> bool:
        """The same in any order."""
        return places.ordered(x.runs[axis]) == places.full(x.whole[axis])

    def up_to(self, x: TermPiece, axis: int, last: TermPiece, last_axis: int) -> tuple[Runs, int]:
        """Which places `x` has of those up to the last one that another value has, and how many these are.

        All places, where that depends on the device.
        """
        own, others = x.runs[axis], last.runs[last_axis]
        if axes_in((own, others)):
            return own, x.whole[axis]
        size = max([stop for _, stop in others], default=0)
        return places.between(places.ordered(own), 0, size), size

    def begins(self, x: TermPiece, axis: int, runs: Sequence[Number] | None) -> bool:
        """Whether the places of `x` are as many equal runs as there are numbers, which begin at these; None: at 0."""
        starts = (0,) if runs is None else tuple(runs)
        width = x.shape[axis] // max(1, len(starts))
        return x.runs[axis] == places.joined([cast("Runs", tuple([(start, start + width) for start in starts]))])

    def placed(self, x: TermPiece, axis: int, like: TermPiece, like_axis: int) -> TermPiece:
        """Of an axis of which `x` has all, the places that `like` has of one of that size."""
        return self.of_places(x, axis, like.runs[like_axis], like.whole[like_axis])

    def of_places(self, x: TermPiece, axis: int, at: Runs, size: int) -> TermPiece:
        """Of an axis of so many places, of which `x` has all, these."""
        if not self.has_all(x, axis) or x.whole[axis] != size:
            raise Unproved("parts of dimensions that do not belong together")
        return self._shaped(replace(x, runs=(*x.runs[:axis], at, *x.runs[axis + 1 :])), x)

    def some(self, x: TermPiece, sum: str, places: Runs, size: int, none_before: int | None = None) -> TermPiece:
        """Of `x`, that is a sum of so many addends, those of some places; `sum` tells an op's sums apart.

        `none_before`: the axis along which an addend is zero at all places behind its own.
        """
        return self._algebra.some(x, sum, places, size, none_before)

    def greatest_over(self, x: TermPiece, over: Sequence[tuple[int, Runs, int]]) -> TermPiece:
        """Of greatest elements `x` along axes of something, those over some places alone, of so many of each."""
        return greatest_over(self._algebra, x, [((0, axis), runs, size) for axis, runs, size in over])

    def greatest_of(self, pieces: Sequence[TermPiece]) -> TermPiece | None:
        """The greatest of values element by element, where it is known; None of others, or of other places."""
        found = greatest_of(self._algebra, pieces)
        return None if found is None else self._shaped(found, pieces[0])

    def maxima(self, x: TermPiece) -> tuple[TermPiece, Over] | None:
        """What `x` would be over all places, and over which it is a maximum; None where it is over all."""
        return maxima(self._algebra, x)

    def over_maxima(self, x: TermPiece, over: Over) -> TermPiece:
        """What `x`, a maximum of maxima, is where they are over some places alone."""
        return greatest_over(self._algebra, x, inside(over))

    def is_same(self, x: TermPiece, other: TermPiece) -> bool:
        """Whether two values are the same piece."""
        return (x.whole, x.runs, x.terms) == (other.whole, other.runs, other.terms)

    def share(self, x: TermPiece, at: Runs, size: int, complete: TermPiece | None) -> TermPiece:
        """What `x` is by some of so many places alone, and by what `complete` has besides."""
        return shares.share(self._algebra, x, at, size, complete)

    def merged(self, *given: tuple[TermPiece, ...]) -> tuple[TermPiece, ...] | None:
        """Shares of the same values, merged; None for others, or if they have places in common."""
        return shares.merged(self._algebra, given)

    def owned_places(self, positions: TermPiece, owners: int, room: int) -> TermPiece:
        """Places among rows by expert as they are with room for each owner of experts."""
        return owned.owned_places(self._algebra, positions, owners, room)

    def of_owned_places(self, places: TermPiece) -> owned.Owned | None:
        """What such places are; None of others."""
        return owned.of_places(places)

    def owners_of(self, x: TermPiece | None) -> owned.Owned | None:
        """What rows with room for each owner are; None of others."""
        return owned.owners_of(self._algebra, x)

    def owners_by(self, counts: TermPiece, rows: int, owners: int) -> owned.Owned | None:
        """What so many rows are of the experts that `counts` are of, which so many owners have; None without room."""
        return owned.owners_by(self._algebra, counts, rows, owners)

    def owned(self, rows: TermPiece, like: owned.Owned) -> TermPiece:
        """Rows without room between owners, as those that `like` has, with zeros between them."""
        return self._shaped(owned.owned(self._algebra, rows, like), rows)

    def before_cast(self, x: TermPiece) -> TermPiece | None:
        """What `x` is a wider copy of; None of others."""
        atom = x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1:] == (1.0, ()) else None
        if atom is None or atom.kind != "Cast":
            return None
        ((name,), own) = atom.details.dtypes, type_of(x.value)
        narrow = DTYPES[name]
        if len(atom.operands[0]) != 1 or not isinstance(own, TensorType):
            return None
        if own.dtype is None or own.dtype.name not in WIDE or narrow.kind != "float" or narrow.bytes >= own.dtype.bytes:
            return None
        ((inner, c),) = atom.operands[0]
        return replace(x, value=TensorType(narrow, own.shape, own.device), terms=((inner, c, ()),))

    def number(self, x: TermPiece) -> float | None:
        """The number that all elements are, where they are one that is known."""
        if not x.terms:
            return 0.0
        atom = x.constant
        if atom is None or atom.kind != "fill":
            return None
        ((_, c, _),) = x.terms
        return float(atom.details) * c

    def ints(self, x: TermPiece | None) -> tuple[int, ...]:
        """The elements of a host value that is known. Raises Unproved where it is not."""
        held = elements(x.value) if x is not None and isinstance(x.value, (Dense, Literal)) else None
        if held is None:
            raise Unproved("an operand that must be known is not")
        return tuple(map(int, held))

    def starts(self, x: TermPiece) -> tuple[Number, ...]:
        """The same of places, which may be others on each device."""
        return self._domain.groups.numbers(x) or self.ints(x)

    @staticmethod
    def _shaped(piece: TermPiece, x: TermPiece) -> TermPiece:
        """The piece with its type, made of `x`."""
        return replace(piece, value=_typed(x, piece.shape))


def _typed(x: TermPiece, shape: tuple[int, ...]) -> TensorType:
    """The type of `x` with another shape."""
    found = type_of(x.value)
    assert isinstance(found, TensorType)
    return TensorType(found.dtype, shape, found.device, found.offloaded)


def _product(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
