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
from typing import Any, NamedTuple, cast

from distir.analysis.domains import Mixed, Types
from distir.analysis.interpreter import Domain, algorithm_1
from distir.analysis.known_ops import lookup
from distir.analysis.parameters import parameters
from distir.analysis.replicas import Replicas
from distir.ir import Apply, Arg, Attributes, Call, Dense, Literal, Module, TupleType
from distir.ir.deep import Deep
from distir.ops import Op, Reject, Value, bind, type_of
from distir.ops.devices import Devices, Renaming, canonical_devices, devices_of, renaming
from distir.ops.group import represented
from distir.prove import owned
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.groups import Groups
from distir.prove.history import Frame, MadeBy, PastStatements, Related
from distir.prove.lifting import lift
from distir.prove.pieces import TermPiece, shape_of
from distir.prove.ranks import MeshAxis
from distir.prove.renaming import Formals, NotRenamedError, Renamed, Substitution
from distir.prove.terms import Atom, Unproved
from distir.prove.writer import PieceWriter


class FoundResults(NamedTuple):
    """What an op makes of operands on some devices, as on others."""

    found: tuple[Related, ...]
    devices: Devices
    first: int
    """The first of the atoms that were new then; before `stop`."""
    stop: int


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
    steps: dict[Any, FoundResults] = field(default_factory=dict[Any, "FoundResults"])
    """What ops make of operands; of all versions of a program."""
    made: dict[int, tuple[int, MadeBy]] = field(default_factory=dict[int, "tuple[int, MadeBy]"])
    """Which statements of this version make which atoms: from a number to before another one."""
    mesh: tuple[MeshAxis, ...] = ()
    """The axes of the groups that devices represent."""
    history: PastStatements = field(default_factory=PastStatements)
    """The statements that ran on values themselves, not on formals; of a distributed program."""
    _function: str = ""
    _frames: tuple[Frame, ...] = ()
    renames: bool = True
    """Whether calls that differ in their operands' terms alone are interpreted once."""
    _calls: dict[Any, tuple[Related, ...]] = field(default_factory=dict[Any, "tuple[Related, ...]"])
    _renamings: dict[Any, Substitution] = field(default_factory=dict[Any, Substitution])
    _located: set[str] = field(default_factory=set[str])
    """Functions of which something depends on where their operands' places begin."""

    def __post_init__(self) -> None:
        self.mixed: Types = Mixed(self.module)
        self.algebra.operand = self._operand
        self.groups = Groups(self.algebra, self.mesh)
        self._replicas = Replicas(self.module)

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
        definition, values = lookup(op.op), tuple(map(value_of, vs))
        devices = devices_of(values, definition, op.attrs)
        there = canonical_devices(devices)
        key = op.op, there.attributes(definition, op.attrs), there(values), parts_of(vs), len(op.results), self.mesh
        known = self.steps.get(key)
        if known is None or (known.devices != devices and any(map(_rests_on_nothing, known.found))):
            known = self.steps[key] = self._step(op, vs, devices)
        if known.first < known.stop and known.first not in self.made:
            self.made[known.first] = known.stop, self._here(op, vs)
        found = known.found
        if known.devices != devices:
            found = renamed(found, renaming(known.devices, devices))
        if not (self.renames or self.algebra.sequential):
            self.history.add(self._here(op, vs), found)
        return found

    def _step(self, op: Apply, vs: tuple[Related, ...], devices: Devices) -> FoundResults:
        """The same, found."""
        self.place = self._here(op, vs)
        first = len(self.algebra.terms)
        found = FoundResults(self._applied(op, vs), devices, first, len(self.algebra.terms))
        if self.algebra.sequential:
            for name, piece in zip(op.results, found.found, strict=True):
                if name and isinstance(piece, TermPiece):
                    self.algebra.name(piece, name)
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
        self,
        op: Op,
        attrs: Attributes,
        vs: tuple[TermPiece | None, ...],
        count: int,
        has_rule: bool = True,
        linear: frozenset[int] = frozenset(),
    ) -> tuple[TermPiece, ...]:
        """The same for an op of which no operand is a tuple; `has_rule`: by its own rule, if it has one.

        `linear`: operands in which it is linear, besides those that the op names.
        """
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
            return tuple(lift(self.algebra, op, attrs, vs, results, linear))
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
        """What the function returns, interpreted once for arguments that are equal but for their terms.

        And but for where their places begin, and devices, where nothing in the function depends on these.
        """
        key = call.function, vs
        found = self._calls.get(key)
        if found is None and self.renames and not (self.mesh and any(map(_may_differ, vs))):
            for shifts in (True, False):
                if found is None and not (shifts and call.function in self._located):
                    found = yield self._of_formals(call, vs, shifts)
                    if found is not None:
                        self._calls[key] = found
                    elif shifts:
                        self._located.add(call.function)
        if found is None:
            found = yield self._interpreted(call, vs)
        return found

    def _of_formals(self, call: Call, vs: tuple[Related, ...], shifts: bool) -> Deep[tuple[Related, ...] | None]:
        """What is known of formals, of what they represent; None where that does not tell."""
        devices = () if self._replicas.names_devices(call.function) else devices_of(map(value_of, vs))
        formals = Formals(self.algebra, canonical_devices(devices))
        if shifts:
            formals.shift(vs)
        given = formals.of(vs)
        if given == vs:
            return None
        summary = yield self._interpreted(call, given)
        if any(map(_rests_on_nothing, summary)):
            return None
        key = tuple(formals.forms), tuple(formals.sums)
        substitution = self._renamings.get(key)
        if substitution is None:
            substitution = self._renamings[key] = Substitution(self.algebra, *key)
        try:
            return Renamed(formals, substitution).of(summary)
        except (NotRenamedError, Unproved):
            return None

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

    def constant(self, arg: Arg) -> Related:
        """A literal, or an operand that is left out."""
        assert isinstance(arg, Literal)
        return self.algebra.of_value(arg)


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
    if isinstance(v, tuple):
        return tuple(map(value_of, cast("tuple[Related, ...]", v)))
    return None if v is None else v.value


def parts_of(v: Related) -> Any:
    """What a value is, whatever its type and device."""
    if isinstance(v, tuple):
        return tuple(map(parts_of, cast("tuple[Related, ...]", v)))
    return None if v is None else (v.whole, v.runs, v.terms)


def renamed(v: Related, devices: Renaming) -> Related:
    """The same on other devices."""
    if isinstance(v, tuple):
        return tuple([renamed(item, devices) for item in cast("tuple[Related, ...]", v)])
    return None if v is None else TermPiece(devices(v.value), v.whole, v.runs, v.terms)


def valued(v: Related, value: Value) -> Related:
    """The same piece of a value whose type is known better."""
    if isinstance(v, tuple):
        items = value.items if isinstance(value, TupleType) else value
        assert isinstance(items, tuple)
        return tuple(map(valued, cast("tuple[Related, ...]", v), items))
    if v is None or v.value is value:
        return v
    return TermPiece(value, v.whole, v.runs, v.terms)
