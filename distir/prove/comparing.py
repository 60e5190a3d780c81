"""Whether values are what is due, and what to say where they are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.codes import proofs as codes
from distir.ir import Apply, Call, DType, Function, Module, Part, Return, Site, TensorType
from distir.ops import type_of
from distir.prove import reasons
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.batches import Batches
from distir.prove.domain import FoundResults, Frame, MadeBy, Related, Relations
from distir.prove.pieces import TermPiece
from distir.prove.terms import Atom, scaled_out
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
    call: Frame | None = None
    """The call that leads to that statement and is to blame, if it is not the statement itself."""
    returned: int | None = None
    """Which of the values that the distributed program returns it is, where none of its statements is to blame."""
    is_copy: bool = False
    """Whether that counts what the entry function returns, not what is gathered of it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What proving found."""

    results: tuple[str, ...]
    """The names of the sequential program's results."""
    failures: tuple[Failure, ...]
    laws: tuple[str, ...]
    """Laws of real numbers that were used, which floating-point numbers obey up to rounding."""
    copies: int = 0
    """How many values that devices hold were compared besides: copies of results, and parts."""
    unclaimed: tuple[str, ...] = ()
    """Values of the distributed program that nothing relates to a result, so nothing is claimed of them."""

    @property
    def proved(self) -> bool:
        """Whether all results are those of the sequential program, on each device."""
        return not self.failures

    def diagnostics(self, distributed: Module) -> list[Diagnostic]:
        """The statements that are not proved, each once, with the results that rest on it."""
        resting: dict[tuple[Site, str], list[Failure]] = {}
        for failure in self.failures:
            resting.setdefault((_site(distributed, failure), failure.reason), []).append(failure)
        return [
            Diagnostic(codes.NOT_PROVED, site, f"not proved: {reason}", tuple(_notes(distributed, site, failures)))
            for (site, reason), failures in resting.items()
        ]


@dataclass
class Reference:
    """The sequential program, interpreted once; distributed ones are compared with it, one after another."""

    entry: Function
    algebra: Algebra
    given: tuple[TermPiece, ...]
    """Its parameters."""
    expected: tuple[Related, ...]
    """Its results."""
    domains: list[Relations]
    """The domain that interprets now is the last one."""
    steps: dict[Any, FoundResults] = field(default_factory=dict[Any, FoundResults])
    """What ops of distributed programs make of operands: one version of a program after another costs what changed."""
    batches: Batches = field(default_factory=Batches)
    """The rows of the batch that the devices of the distributed program are given."""

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        names = (arg if isinstance(arg, str) else f"result {i}" for i, arg in enumerate(self.entry.returned, 1))
        return tuple(names)


def _site(module: Module, failure: Failure) -> Site:
    """What is marked: the statement, a call that leads to it, or what is returned."""
    place = failure.place
    if place is None:
        entry = module.entry()
        assert entry is not None
        last = entry if failure.is_copy else module.functions.get(f"{entry.name}.gather", entry)
        index = len(last.body) - 1 if last.body and isinstance(last.body[-1], Return) else None
        part = None if failure.returned is None or index is None else Part("operand", failure.returned)
        return Site(last.name, index, part)
    if failure.call is not None:
        return _statement(module, failure.call[0], failure.call[1])
    called = Counter(s.function for f in module for s in f.body if isinstance(s, Call))
    for function, call, _ in place.calls:
        if called[call.function] > 1:  # the function is right for other calls, or would be marked for all
            return _statement(module, function, call)
    return _statement(module, place.function, place.statement)


def _notes(module: Module, site: Site, failures: Sequence[Failure]) -> Iterator[Note]:
    """Of what is marked: the statement inside, if it is a call, and the results that rest on it."""
    place = failures[0].place
    if place is not None and site.function != place.function:
        inner = _statement(module, place.function, place.statement)
        yield Note(f"it leads to this statement of `@{place.function}`", inner)
    yield Note(_results(list(dict.fromkeys(failure.result for failure in failures))))


def _statement(module: Module, function: str, statement: Apply | Call) -> Site:
    body = module.functions[function].body
    return Site(function, next((i for i, s in enumerate(body) if s is statement), None))


def _results(names: Sequence[str]) -> str:
    listed = ", ".join(f"`%{name}`" for name in names[:MOST])
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"of the sequential program, {listed}{more} rest{'s' * (len(names) == 1)} on it"


def leaves(a: Related, b: Related) -> Iterator[tuple[TermPiece, TermPiece | None]]:
    """Pairs of what two values consist of; None where the second one has no such part."""
    if isinstance(a, tuple):
        items, others = cast("tuple[Related, ...]", a), cast("tuple[Related, ...]", b if isinstance(b, tuple) else ())
        if len(others) != len(items):
            others = (None,) * len(items)
        for x, y in zip(items, others, strict=True):
            yield from leaves(x, y)
    else:
        yield a, b if isinstance(b, TermPiece) else None


def is_same(wanted: TermPiece, found: TermPiece | None) -> bool:
    """Whether a value is just this piece."""
    return (
        found is not None
        and _dtype(found) == _dtype(wanted)
        and (found.whole, found.runs, found.terms) == (wanted.whole, wanted.runs, wanted.terms)
    )


def _dtype(piece: TermPiece) -> DType | None:
    found = type_of(piece.value)
    return found.dtype if isinstance(found, TensorType) else None


def failure(against: Reference, name: str, returned: int, wanted: TermPiece, found: TermPiece | None) -> Failure:
    """What to say of a value that is not the piece that is due of a result."""
    if found is None:
        return Failure(name, None, "there is a tuple of other parts in its place", returned=returned)
    words, domain = Wording(against.algebra), against.domains[-1]
    new = sorted(atom for atom in _reached(found) if atom.origin is not None and not atom.origin.sequential)
    for atom in new:
        if atom.kind == "unknown":
            return _blamed(against, name, domain.maker(atom), atom.reason or "nothing is known of it")
    same = {atom for atom, _, _ in wanted.terms} == {atom for atom, _, _ in found.terms}
    if not same:
        for atom in new:
            if (reason := words.strange(atom)) is not None:
                return _blamed(against, name, domain.maker(atom), reason)
    counted = reasons.counted(against.algebra, against.batches, of_first(found))
    reason = f"expected {words.of(wanted)}, found {counted or _multiple(words, wanted, found) or words.of(found)}"
    return Failure(name, None, reason, returned=returned)


def _multiple(words: Wording, wanted: TermPiece, found: TermPiece) -> str | None:
    """What is found in terms of what is due, where it is so many times that; None for others."""
    (whole, c), (due, d) = scaled_out(found.form), scaled_out(wanted.form)
    if found.is_partial or not d or (found.whole, found.runs, whole) != (wanted.whole, wanted.runs, due):
        return None
    return f"{c / d:g} times {words.of(wanted)}" if c != d else None


def _blamed(against: Reference, name: str, made: MadeBy | None, reason: str) -> Failure:
    """The failure of a statement; where its operands are to blame, in terms of microbatches, replicas and factors."""
    if made is None:
        return Failure(name, None, reason)
    calls = tuple([(function, call, of_first(given)) for function, call, given in made.calls])
    first = replace(made, given=of_first(made.given), calls=calls)
    mixed = reasons.of_microbatches(against.batches, first)
    if mixed is not None:
        return Failure(name, made, *mixed)
    counted = reasons.of_addends(against.algebra, against.batches, first)
    function = against.domains[-1].module.functions[made.function]
    scaled = reasons.of_factors(function, made.statement) if " times `%" in reason else None
    return Failure(name, made, counted or "; ".join(filter(None, (reason, scaled))))


def of_first(v: Related) -> Related:
    """What the device has that is written down, and may represent others."""
    if isinstance(v, tuple):
        return tuple(map(of_first, cast("tuple[Related, ...]", v)))
    if v is None:
        return None
    terms = tuple([(atom, c, places.of_first(addends)) for atom, c, addends in v.terms])
    return replace(v, runs=places.of_first(v.runs), terms=terms)


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
