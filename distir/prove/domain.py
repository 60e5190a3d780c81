"""The domain of relations: one more domain for Algorithm 1.

A value is a piece of terms, or a tuple of values; None is an operand that is left out. Types and known values come from
the mixed domain, statement by statement. Where no rule applies a result is an atom of its own, `unknown`, with the
reason: it equals nothing of the sequential program, so that no proof rests on it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from distir.analysis.domains import Mixed, Types
from distir.analysis.interpreter import Domain, algorithm_1
from distir.analysis.known_ops import lookup
from distir.analysis.parameters import parameters
from distir.ir import DTYPES, Apply, Arg, Attributes, Call, Constant, Dense, Literal, Module, TensorType, TupleType
from distir.ir.deep import Deep
from distir.ops import Op, Reject, Value, bind, type_of
from distir.ops.group import represented
from distir.prove import moving, own, owned, shares
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.greatest import Over, greatest, greatest_of, greatest_over, inside, maxima
from distir.prove.groups import Groups
from distir.prove.lifting import lift
from distir.prove.own import OwnPositions, TakenPositions
from distir.prove.pieces import TermPiece, elements, shape_of
from distir.prove.ranks import MeshAxis, Number, axes_in
from distir.prove.renaming import Formals, NotRenamedError, Substitution
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Unproved

Related = Any
"""A piece, a tuple of values, or None."""


Frame = tuple[str, Call, tuple[Related, ...]]
"""A call: the function that it is in, the statement, and its operands."""


@dataclass(frozen=True, slots=True, eq=False)
class MadeBy:
    """The statement that makes a value, in which function, and of which program."""

    function: str
    statement: Apply
    sequential: bool
    given: tuple[Related, ...] = ()
    """Its operands."""
    calls: tuple[Frame, ...] = ()
    """The calls that lead to it, the outermost first."""


Step = tuple[tuple[Related, ...], int, int]
"""The results of an op, and which atoms were new then: from a number to before another one."""


@dataclass
class Relations(Domain):
    """What values are of the terms of the sequential program."""

    module: Module
    algebra: Algebra
    unknown: Any = None
    place: MadeBy | None = None
    """The statement that is being interpreted."""
    pause: Callable[[], None] = lambda: None
    """Called at each statement; may raise to give up."""
    steps: dict[Any, Step] = field(default_factory=dict[Any, "Step"])
    """What ops make of operands; of all versions of a program."""
    made: dict[int, tuple[int, MadeBy]] = field(default_factory=dict[int, "tuple[int, MadeBy]"])
    """Which statements of this version make which atoms: from a number to before another one."""
    mesh: tuple[MeshAxis, ...] = ()
    """The axes of the groups that devices represent."""
    _function: str = ""
    _frames: tuple[Frame, ...] = ()
    renames: bool = True
    """Whether calls that differ in their operands' terms alone are interpreted once."""
    _calls: dict[Any, tuple[Related, ...]] = field(default_factory=dict[Any, "tuple[Related, ...]"])
    _renamings: dict[Any, Substitution] = field(default_factory=dict[Any, Substitution])

    def __post_init__(self) -> None:
        self.mixed: Types = Mixed(self.module)
        self.algebra.operand = self._operand
        self.groups = Groups(self.algebra, self.mesh)

    def _operand(self, op: Op, index: int) -> str:
        """What the statement calls an operand of its op; that of another op, in a rule, has the op's name for it."""
        statement = self.place.statement if self.place is not None else None
        if statement is not None and statement.op != op.name and len(statement.args) == 1:
            index = 0  # of an op that its rule writes: there is no other operand
        elif statement is None or statement.op != op.name or index >= len(statement.args):
            return op.operand_name(index)
        arg = statement.args[index]
        return f"%{arg}" if isinstance(arg, str) else op.operand_name(index)

    @contextmanager
    def inside(self, function: str, call: Call | None = None, vs: tuple[Related, ...] = ()) -> Generator[None]:
        """While a function's body is interpreted, by a call with these operands or from outside."""
        outer = self._function, self._frames
        if call is not None:
            self._frames = (*self._frames, (self._function, call, vs))
        self._function = function
        try:
            yield
        finally:
            self._function, self._frames = outer

    def maker(self, atom: Atom) -> MadeBy | None:
        """The first statement of this version that makes an atom; None of what is no op's."""
        starts = sorted(self.made)
        at = bisect_right(starts, atom.number) - 1
        stop, made = self.made[starts[at]] if at >= 0 else (0, None)
        return made if atom.number < stop else atom.origin

    def apply(self, op: Apply, vs: tuple[Related, ...]) -> Sequence[Related]:
        """The pieces that an op's results are."""
        self.pause()
        key = (op.op, op.attrs, vs, len(op.results), self.mesh)
        known = self.steps.get(key)
        if known is None:
            self.place = self._here(op, vs)
            first = len(self.algebra.terms)
            known = self.steps[key] = self._applied(op, vs), first, len(self.algebra.terms)
            if self.algebra.sequential:
                for name, piece in zip(op.results, known[0], strict=True):
                    if name and isinstance(piece, TermPiece):
                        self.algebra.name(piece, name)
        found, first, stop = known
        if first < stop and first not in self.made:
            self.made[first] = stop, self._here(op, vs)
        return found

    def _here(self, op: Apply, vs: tuple[Related, ...]) -> MadeBy:
        return MadeBy(self._function, op, self.algebra.sequential, vs, self._frames)

    def _applied(self, op: Apply, vs: tuple[Related, ...]) -> tuple[Related, ...]:
        definition, count = lookup(op.op), len(op.results)
        if op.op == "MakeTuple":
            return (vs,)
        if op.op == "UnpackTuple":
            return tuple(vs[0])
        if op.op == "After":
            return (vs[0],)
        tuples = [cast("tuple[Related, ...]", v) for v in vs if isinstance(v, tuple)]
        if tuples:
            leaves: list[tuple[Related, ...]] = [
                tuple([cast("tuple[Related, ...]", v)[k] if isinstance(v, tuple) else v for v in vs])
                for k in range(len(tuples[0]))
            ]
            made = [self._applied(op, leaf) for leaf in leaves]
            return tuple(tuple([leaf[j] for leaf in made]) for j in range(count))
        return self.of_op(definition, op.attrs, vs, count)

    def of_op(
        self, op: Op, attrs: Attributes, vs: tuple[TermPiece | None, ...], count: int, has_rule: bool = True
    ) -> tuple[TermPiece, ...]:
        """The same for an op of which no operand is a tuple; `has_rule`: by its own rule, if it has one."""
        values = tuple([None if v is None else v.value for v in vs])
        results = self.mixed.most_precise(Apply(("",) * count, op.name, (), attrs), values)
        if op.family == "group" or represented(op.name, attrs) is not None:  # what is known is so of the first device
            results = list(map(type_of, results))
        if all(isinstance(w, (Dense, Literal)) for w in results):
            return tuple(map(self.algebra.of_value, results))
        try:
            rule = op.rule("pieces") if has_rule else None
            if rule is not None:
                writer = PieceWriter(self, results)
                found = rule(writer, *vs, **writer.keywords(rule, bind(op, attrs)))
                if found is not NotImplemented:
                    return tuple([valued(piece, w) for piece, w in zip(found, results, strict=True)])
            by_rows = owned.elementwise(
                self.algebra, op, attrs, vs, results, lambda given: self.of_op(op, attrs, given, count)
            )
            if by_rows is not None:
                return tuple([valued(piece, w) for piece, w in zip(by_rows, results, strict=True)])
            return tuple(lift(self.algebra, op, attrs, vs, results))
        except Unproved as reason:
            return self._unknown(op, attrs, vs, results, str(reason))
        except Reject as reject:  # of an op that a rule wrote
            return self._unknown(op, attrs, vs, results, reject.message)

    def _unknown(
        self, op: Op, attrs: Attributes, vs: tuple[TermPiece | None, ...], results: Sequence[Value], reason: str
    ) -> tuple[TermPiece, ...]:
        """Atoms of which nothing is known but how they were computed."""
        operands = tuple([None if v is None else (type_of(v.value), v.whole, v.runs, v.terms) for v in vs])
        forms = tuple([() if v is None else v.form for v in vs])
        found: list[TermPiece] = []
        for j, w in enumerate(results):
            shape = shape_of(w)
            details = op.name, attrs, operands, j
            atom = self.algebra.terms.atom("unknown", shape, forms, details, reason=reason)
            found.append(TermPiece(w, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),)))
        return tuple(found)

    def nothing_of(self, pieces: Sequence[TermPiece], stride: int, reason: str) -> TermPiece:
        """Something of which nothing is known but that devices of a group have these pieces."""
        first = pieces[0]
        details = "members", tuple([(x.whole, x.runs, x.terms) for x in pieces]), stride
        atom = self.algebra.terms.atom("unknown", first.shape, (), details, reason=reason)
        return replace(first, whole=first.shape, runs=tuple(map(places.full, first.shape)), terms=((atom, 1.0, ()),))

    def called(self, call: Call, vs: tuple[Related, ...]) -> Deep[Sequence[Related]]:
        """What the function returns, interpreted once for arguments that are equal but for their terms."""
        key = call.function, vs
        found = self._calls.get(key)
        if found is None and self.renames and not (self.mesh and any(map(_may_differ, vs))):
            formals = Formals(self.algebra)
            given = formals.of(vs)
            if given != vs:
                summary = yield self._interpreted(call, given)
                if not any(map(_rests_on_nothing, summary)):
                    found = self._renamed(formals, summary)
                    if found is not None:
                        self._calls[key] = found
        if found is None:
            found = yield self._interpreted(call, vs)
        return found

    def _interpreted(self, call: Call, vs: tuple[Related, ...]) -> Deep[tuple[Related, ...]]:
        """What a function returns for these arguments, found once."""
        found = self._calls.get((call.function, vs))
        if found is None:
            function = self.module.functions[call.function]
            args, _ = parameters(function, tuple(map(value_of, vs)))
            given = tuple(map(valued, vs, args))
            with self.inside(call.function, call, vs):
                final = yield algorithm_1(function, given, self)
            found = self._calls[call.function, vs] = final.returned
        return found

    def _renamed(self, formals: Formals, summary: tuple[Related, ...]) -> tuple[Related, ...] | None:
        """What is known of formals, of what they represent."""
        key = tuple(formals.forms), tuple(formals.sums)
        renaming = self._renamings.get(key)
        if renaming is None:
            renaming = self._renamings[key] = Substitution(self.algebra, *key)
        try:
            return tuple(map(renaming.of, summary))
        except NotRenamedError:
            return None

    def constant(self, arg: Arg) -> Related:
        """A literal, or an operand that is left out."""
        assert isinstance(arg, Literal)
        return self.algebra.of_value(arg)


WIDE = ("Float32", "Float64")
"""Element types that hold each number of those that are narrower."""


class PieceWriter:
    """What `pieces` rules are written with (`ops/pieces.py`)."""

    def __init__(self, domain: Relations, results: Sequence[Value]) -> None:
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
    return TensorType(found.dtype, shape, found.device)


def _may_differ(v: Related) -> bool:
    """Whether a value is made of what may be another one on each device, beyond its places."""
    if isinstance(v, tuple):
        return any(map(_may_differ, cast("tuple[Related, ...]", v)))
    return v is not None and any(atom.axes or atom.is_unknown for atom, _, _ in v.terms)


def _rests_on_nothing(v: Related) -> bool:
    """Whether nothing is known of a value, or of what it is made of."""
    if isinstance(v, tuple):
        return any(map(_rests_on_nothing, cast("tuple[Related, ...]", v)))
    return v is not None and any(atom.is_unknown for atom, _, _ in v.terms)


def value_of(v: Related) -> Value:
    """The type of a value, or what is known of it."""
    return tuple(map(value_of, v)) if isinstance(v, tuple) else None if v is None else v.value  # type: ignore[return-value]


def valued(v: Related, value: Value) -> Related:
    """The same piece of a value whose type is known better."""
    if isinstance(v, tuple):
        items = value.items if isinstance(value, TupleType) else value
        return tuple(map(valued, v, items))  # type: ignore[arg-type]
    if v is None or v.value is value:
        return v
    return TermPiece(value, v.whole, v.runs, v.terms)


def _product(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
