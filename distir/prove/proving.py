"""`prove`: both programs in the domain of relations, and whether their results are the same terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from distir.analysis.interpreter import interpret
from distir.analysis.parameters import parameters
from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.codes import proofs as codes
from distir.ir import DType, Function, Module, Site, TensorType, TupleType, Type, types
from distir.ops import Reject, type_of
from distir.ops.group import REPRESENTATIVE_OPS
from distir.prove import runs as places
from distir.prove.domain import MadeBy, Related, Relations, value_of, valued
from distir.prove.pieces import Algebra, TermPiece, Unproved, shape_of
from distir.prove.terms import Atom, Terms
from distir.prove.words import Wording

MOST = 5
"""How many results are listed that rest on a statement."""


class ProveError(ValueError):
    """Two programs that cannot be compared: their parameters or results do not belong together."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A result of the sequential program of which it is not proved that the distributed one gives it."""

    result: str
    """Its name in the sequential program."""
    place: MadeBy | None
    """The first statement that it rests on of which nothing, or something else, is known."""
    reason: str
    """What is known of that statement, and what was expected."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What proving found."""

    results: tuple[str, ...]
    """The names of the sequential program's results."""
    failures: tuple[Failure, ...]
    laws: tuple[str, ...]
    """Laws of real numbers that were used, which floating-point numbers obey up to rounding."""

    @property
    def proved(self) -> bool:
        """Whether all results are those of the sequential program."""
        return not self.failures

    def diagnostics(self, distributed: Module) -> list[Diagnostic]:
        """The statements that are not proved, each once, with the results that rest on it."""
        resting: dict[tuple[MadeBy | None, str], list[str]] = {}
        for failure in self.failures:
            resting.setdefault((failure.place, failure.reason), []).append(failure.result)
        return [
            Diagnostic(
                codes.NOT_PROVED,
                _site(distributed, place),
                f"not proved: {reason}",
                (Note(_results(list(dict.fromkeys(names)))),),
            )
            for (place, reason), names in resting.items()
        ]


def prove(distributed: Module, sequential: Module, sizes: Mapping[str, int] | None = None) -> Proof:
    """Whether `gather(main(scatter(x))) = sequential(x)`, for all values, at the programs' own sizes.

    `sizes` are those of named dimensions. Both programs must check. A program without `@main.scatter` takes the
    parameters of the sequential one, and without `@main.gather` gives its results. What is not proved is not
    necessarily wrong. Raises ProveError where parameters or results do not belong together, or a size is not known.
    """
    entry, main = sequential.entry(), distributed.entry()
    if entry is None or main is None:
        raise ProveError("there is no function to compare")
    _refuse_representatives(distributed)
    found = _proof(distributed, sequential, sizes or {}, True)
    # What failed is looked for in the calls themselves: it may hold for their operands, and not for all.
    return found if found.proved else _proof(distributed, sequential, sizes or {}, False)


def _proof(distributed: Module, sequential: Module, sizes: Mapping[str, int], renames: bool) -> Proof:
    """The same; `renames`: calls that differ in their operands' terms alone are interpreted once."""
    entry, main = sequential.entry(), distributed.entry()
    assert entry is not None
    assert main is not None
    places_now: list[Relations] = []
    terms = Terms(lambda: places_now[-1].place if places_now else None)
    algebra = Algebra(terms)
    try:
        given = [_parameter(algebra, p.name, types.substitute(p.type, sizes)) for p in entry.params]
    except Unproved as reason:
        raise ProveError(f"{reason}; give its dimensions sizes with `--bind`") from None
    places_now.append(Relations(sequential, algebra, renames=renames))
    expected = _run(places_now[-1], entry, given)
    algebra.sequential = False
    places_now.append(Relations(distributed, algebra, renames=renames))
    found = tuple(given)
    if f"{main.name}.scatter" not in distributed.functions and len(found) == len(main.params):
        found = tuple([_on_device(piece, p.type) for piece, p in zip(found, main.params, strict=True)])
    for name in (f"{main.name}.scatter", main.name, f"{main.name}.gather"):
        function = distributed.functions.get(name)
        if function is not None:
            found = _run(places_now[-1], function, found)
    if len(found) != len(expected):
        message = f"expected {len(expected)} results, as `@{entry.name}` has, found {len(found)}"
        raise ProveError(f"{message}; is `@{main.name}.gather` missing?")
    names = _result_names(entry)
    words = Wording(algebra)
    failures = [
        _failure(words, name, wanted, piece)
        for name, a, b in zip(names, expected, found, strict=True)
        for wanted, piece in _leaves(a, b)
        if not _is(wanted, piece)
    ]
    return Proof(names, tuple(failures), tuple(algebra.laws))


def _site(module: Module, place: MadeBy | None) -> Site:
    """Where a statement stands; the entry function without one."""
    if place is None:
        entry = module.entry()
        return Site(entry.name if entry is not None else "")
    body = module.functions[place.function].body
    return Site(place.function, next((i for i, s in enumerate(body) if s is place.statement), None))


def _results(names: Sequence[str]) -> str:
    listed = ", ".join(f"`%{name}`" for name in names[:MOST])
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"of the sequential program, {listed}{more} rest{'s' * (len(names) == 1)} on it"


def _refuse_representatives(module: Module) -> None:
    for function in module:
        for statement in function.body:
            if getattr(statement, "op", None) in REPRESENTATIVE_OPS:
                raise ProveError("one device represents others, whose parts are not there; leave out `representative`")


def _run(domain: Relations, function: Function, given: Sequence[Related]) -> tuple[Related, ...]:
    """What a function returns. Raises ProveError."""
    if len(given) != len(function.params):
        message = f"`@{function.name}` expected {len(function.params)} parameters, found {len(given)} values for them"
        raise ProveError(f"{message}; is `@{function.name}.scatter` missing?")
    try:
        args, _ = parameters(function, tuple(map(value_of, given)))
        with domain.inside(function.name):
            return interpret(function, tuple(map(valued, given, args)), domain).returned
    except Reject as reject:
        raise ProveError(reject.message) from None
    except Unproved as reason:
        raise ProveError(str(reason)) from None


def _parameter(algebra: Algebra, name: str, type: Type) -> Related:
    """A parameter of the sequential program."""
    if isinstance(type, TupleType):
        return tuple(_parameter(algebra, f"{name}.{k}", item) for k, item in enumerate(type.items))
    shape = shape_of(type)
    atom = algebra.terms.atom("parameter", shape, details=name)
    piece = TermPiece(type, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),))
    algebra.name(piece, name)
    return piece


def _on_device(v: Related, type: Type) -> Related:
    """A parameter of the sequential program as one of a program without `@main.scatter`: on the device it states."""
    if isinstance(v, tuple):
        items = cast("tuple[Related, ...]", v)
        stated = type.items if isinstance(type, TupleType) and len(type.items) == len(items) else (type,) * len(items)
        return tuple(map(_on_device, items, stated))
    own = v.value
    if not (isinstance(own, TensorType) and isinstance(type, TensorType)):
        return v
    return valued(v, TensorType(own.dtype, own.shape, own.device if type.device is None else type.device))


def _result_names(function: Function) -> tuple[str, ...]:
    names = (arg if isinstance(arg, str) else f"result {i}" for i, arg in enumerate(function.returned, 1))
    return tuple(names)


def _leaves(a: Related, b: Related) -> Iterator[tuple[TermPiece, TermPiece | None]]:
    """Pairs of what two values consist of; None where the second one has no such part."""
    if isinstance(a, tuple):
        items, others = cast("tuple[Related, ...]", a), cast("tuple[Related, ...]", b if isinstance(b, tuple) else ())
        if len(others) != len(items):
            others = (None,) * len(items)
        for x, y in zip(items, others, strict=True):
            yield from _leaves(x, y)
    else:
        yield a, b if isinstance(b, TermPiece) else None


def _is(wanted: TermPiece, found: TermPiece | None) -> bool:
    """Whether a value is all of another one."""
    return (
        found is not None
        and _dtype(found) == _dtype(wanted)
        and found.whole == wanted.whole
        and found.has_all_places
        and found.terms == wanted.terms
    )


def _dtype(piece: TermPiece) -> DType | None:
    found = type_of(piece.value)
    return found.dtype if isinstance(found, TensorType) else None


def _failure(words: Wording, name: str, wanted: TermPiece, found: TermPiece | None) -> Failure:
    if found is None:
        return Failure(name, None, "there is a tuple of other parts in its place")
    new = sorted(atom for atom in _reached(found) if atom.origin is not None and not atom.origin.sequential)
    for atom in new:
        if atom.kind == "unknown":
            return Failure(name, atom.origin, atom.reason or "nothing is known of it")
    same = {atom for atom, _, _ in wanted.terms} == {atom for atom, _, _ in found.terms}
    if not same:
        for atom in new:
            if (reason := words.strange(atom)) is not None:
                return Failure(name, atom.origin, reason)
    return Failure(name, None, f"expected {words.of(wanted)}, found {words.of(found)}")


def _reached(piece: TermPiece) -> Iterable[Atom]:
    """All atoms that a piece is made of."""
    seen: set[Atom] = set()
    stack = [atom for atom, _, _ in piece.terms]
    while stack:
        atom = stack.pop()
        if atom not in seen:
            seen.add(atom)
            stack += [inner for form in atom.operands for inner, _ in form]
    return seen
