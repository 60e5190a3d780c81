"""`prove`: both programs in the domain of relations, and whether the results are the same terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distir.analysis.interpreter import interpret
from distir.analysis.parameters import parameters
from distir.ir import Function, Module, TensorType, TupleType, Type, types
from distir.prove import runs as places
from distir.prove.domain import Place, Related, Relations, _valued
from distir.prove.pieces import Algebra, Piece, shape_of
from distir.prove.terms import Atom, Terms


class ProveError(ValueError):
    """Two programs that cannot be compared: their parameters or results do not belong together."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A result that is not proved, and the first statement that it rests on of which nothing can be said."""

    result: str
    expected: str
    found: str
    place: Place | None
    reason: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What proving found."""

    failures: tuple[Failure, ...]
    results: int

    @property
    def proved(self) -> bool:
        """Whether all results are those of the sequential program."""
        return not self.failures


def prove(distributed: Module, sequential: Module, sizes: Mapping[str, int] | None = None) -> Proof:
    """Whether the distributed program computes what the sequential one does."""
    entry = sequential.entry()
    main = distributed.entry(entry.name if entry else None) or distributed.entry()
    assert entry is not None and main is not None
    domain: list[Relations] = []
    terms = Terms(lambda: domain[-1].place if domain else None)
    algebra = Algebra(terms)
    domain.append(Relations(sequential, algebra))
    given = [_parameter(algebra, p.name, types.substitute(p.type, sizes or {})) for p in entry.params]
    expected = _run(domain[-1], entry, given)
    algebra.sequential = False
    domain.append(Relations(distributed, algebra))
    found = list(given)
    for name in (f"{main.name}.scatter", main.name, f"{main.name}.gather"):
        function = distributed.functions.get(name)
        if function is not None:
            if len(found) != len(function.params):
                raise ProveError(f"`@{name}` expected {len(function.params)} parameters, found {len(found)} values")
            found = list(_run(domain[-1], function, found))
    if len(found) != len(expected):
        raise ProveError(f"expected {len(expected)} results, found {len(found)}")
    failures = [
        _failure(f"result {i + 1}", e, f) for i, (a, b) in enumerate(zip(expected, found)) for e, f in _leaves(a, b) if not _same(e, f)
    ]
    return Proof(tuple(failures), len(expected))


def _run(domain: Relations, function: Function, given: Sequence[Related]) -> tuple[Related, ...]:
    from distir.prove.domain import value_of
    domain._function = function.name
    args, _ = parameters(function, tuple(map(value_of, given)))
    return interpret(function, tuple(map(_valued, given, args)), domain).returned


def _parameter(algebra: Algebra, name: str, type: Type) -> Related:
    if isinstance(type, TupleType):
        return tuple(_parameter(algebra, f"{name}.{k}", t) for k, t in enumerate(type.items))
    shape = shape_of(type)
    atom = algebra.terms.atom("parameter", shape, details=name)
    return Piece(type, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),))


def _leaves(a: Related, b: Related) -> Iterator[tuple[Piece, Piece]]:
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            yield from _leaves(x, y)
    else:
        yield a, b


def _same(a: Piece, b: Piece) -> bool:
    return a.whole == b.whole and b.has_all_places and a.terms == b.terms


def _failure(name: str, expected: Piece, found: Piece) -> Failure:
    first = _first_unknown(found)
    if first is not None:
        return Failure(name, str(expected.terms), str(found.terms), first.origin, first.reason or "")
    known = _closure(expected)
    odd = sorted(a for a in _closure(found) if a not in known)
    return Failure(name, str(expected), str(found), odd[0].origin if odd else None, f"no such value in the sequential program: {odd[0]} {odd[0].operands} {odd[0].details}" if odd else "other combination")


def _closure(piece: Piece) -> set[Atom]:
    seen: set[Atom] = set()
    stack = [atom for atom, _, _ in piece.terms]
    while stack:
        atom = stack.pop()
        if atom not in seen:
            seen.add(atom)
            stack += [a for form in atom.operands for a, _ in form]
            if atom.kind == "unknown":
                stack += [a for v in atom.details[2] if v is not None for a, _, _ in v[3]]
    return seen


def _first_unknown(piece: Piece) -> Atom | None:
    return min((a for a in _closure(piece) if a.kind == "unknown"), default=None)
