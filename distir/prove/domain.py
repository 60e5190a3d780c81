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
from distir.ir import Apply, Arg, Attributes, Call, Constant, Dense, Literal, Module, TensorType, TupleType
from distir.ir.deep import Deep
from distir.ops import Op, Reject, Value, bind, type_of
from distir.prove import own
from distir.prove import runs as places
from distir.prove.greatest import greatest
from distir.prove.lifting import lift
from distir.prove.own import OwnPositions
from distir.prove.pieces import Algebra, TermPiece, Unproved, elements, shape_of
from distir.prove.terms import Atom

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
    _function: str = ""
    _frames: tuple[Frame, ...] = ()
    _calls: dict[Any, tuple[Related, ...]] = field(default_factory=dict[Any, "tuple[Related, ...]"])

    def __post_init__(self) -> None:
        self.mixed: Types = Mixed(self.module)
        self.algebra.operand = self._operand

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
        key = (op.op, op.attrs, vs, len(op.results))
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

    def of_op(self, op: Op, attrs: Attributes, vs: tuple[TermPiece | None, ...], count: int) -> tuple[TermPiece, ...]:
        """The same for an op of which no operand is a tuple."""
        values = tuple([None if v is None else v.value for v in vs])
        results = self.mixed.most_precise(Apply(("",) * count, op.name, (), attrs), values)
        if all(isinstance(w, (Dense, Literal)) for w in results):
            return tuple(map(self.algebra.of_value, results))
        try:
            rule = op.rule("pieces")
            if rule is not None:
                writer = PieceWriter(self, results)
                found = rule(writer, *vs, **writer.keywords(rule, bind(op, attrs)))
                if found is not NotImplemented:
                    return tuple([valued(piece, w) for piece, w in zip(found, results, strict=True)])
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

    def called(self, call: Call, vs: tuple[Related, ...]) -> Deep[Sequence[Related]]:
        """What the function returns, interpreted once for equal arguments."""
        key = call.function, vs
        found = self._calls.get(key)
        if found is None:
            function = self.module.functions[call.function]
            args, _ = parameters(function, tuple(map(value_of, vs)))
            given = tuple(map(valued, vs, args))
            with self.inside(call.function, call, vs):
                final = yield algorithm_1(function, given, self)
            found = self._calls[key] = final.returned
        return found

    def constant(self, arg: Arg) -> Related:
        """A literal, or an operand that is left out."""
        assert isinstance(arg, Literal)
        return self.algebra.of_value(arg)


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
        return self._shaped(self._algebra.joined(None, pieces, axis % len(pieces[0].whole)), pieces[0])

    def cut(self, x: TermPiece, axis: int, start: int, stop: int) -> TermPiece:
        """The places from `start` to `stop` of an axis."""
        return self._shaped(self._algebra.cut(None, x, axis % len(x.whole), start, stop), x)

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
        return x if self.dtype(x) == to else self("Cast", x, to=to)

    def reshaped(self, x: TermPiece, shape: tuple[int, ...], spelled: Sequence[int] = ()) -> TermPiece:
        """The elements in another shape; `spelled`: as the program says it, with 0 and -1."""
        return self._algebra.reshaped(_typed(x, shape), x, spelled)

    def flattened(self, x: TermPiece, axis: int) -> TermPiece:
        """As a matrix, the dimensions before `axis` and those from it on as one each."""
        axis = axis if axis >= 0 else axis + len(x.whole)
        whole = (_product(x.whole[:axis]), _product(x.whole[axis:]))
        own = (_product(x.shape[:axis]), _product(x.shape[axis:]))
        return self._algebra.reshaped(_typed(x, own), x, whole=whole)

    def transposed(self, x: TermPiece, perm: Sequence[int]) -> TermPiece:
        """The dimensions in another order."""
        return self._shaped(self._algebra.transposed(None, x, tuple(perm)), x)

    def spread(self, x: TermPiece, shape: tuple[int, ...]) -> TermPiece:
        """Broadcast to a shape."""
        return self._shaped(self._algebra.spread(None, x, shape), x)

    def unsqueezed(self, x: TermPiece, axes: Sequence[int]) -> TermPiece:
        """With dimensions of size 1 at `axes` of the result."""
        rank = len(x.whole) + len(axes)
        at = {axis % rank for axis in axes}
        inner, own = iter(x.whole), iter(x.shape)
        whole = tuple([1 if k in at else next(inner) for k in range(rank)])
        shape = tuple([1 if k in at else next(own) for k in range(rank)])
        return self._algebra.reshaped(_typed(x, shape), x, whole=whole)

    def squeezed(self, x: TermPiece, axes: Sequence[int]) -> TermPiece:
        """Without these dimensions of size 1."""
        at = {axis % len(x.whole) for axis in axes}
        whole = tuple([n for k, n in enumerate(x.whole) if k not in at])
        own = tuple([n for k, n in enumerate(x.shape) if k not in at])
        return self._algebra.reshaped(_typed(x, own), x, whole=whole)

    def whole(self, x: TermPiece, axis: int) -> TermPiece:
        """What `x` is a part of, with all of an axis; `x` where it has all of it."""
        axis %= len(x.whole)
        at = (*x.runs[:axis], places.full(x.whole[axis]), *x.runs[axis + 1 :])
        return x if at == x.runs else self._shaped(replace(x, runs=at), x)

    def own(self, indices: TermPiece) -> OwnPositions | None:
        """What indices are that count from where a part begins; None for others."""
        return own.own(self._algebra, indices)

    def has_rows(self, x: TermPiece, axis: int, own_indices: OwnPositions) -> bool:
        """Whether `x` has along an axis just the part that indices count from the beginning of."""
        return (x.whole[axis], x.runs[axis]) == (own_indices.size, own_indices.runs)

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

    def greatest(self, x: TermPiece, axis: int) -> TermPiece | None:
        """The maximum along an axis of which `x` has a part, or parts' maxima; None for other pieces."""
        return greatest(self, self._algebra, x, axis % len(x.whole))

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

    @staticmethod
    def _shaped(piece: TermPiece, x: TermPiece) -> TermPiece:
        """The piece with its type, made of `x`."""
        return replace(piece, value=_typed(x, piece.shape))


def _typed(x: TermPiece, shape: tuple[int, ...]) -> TensorType:
    """The type of `x` with another shape."""
    found = type_of(x.value)
    assert isinstance(found, TensorType)
    return TensorType(found.dtype, shape, found.device)


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
