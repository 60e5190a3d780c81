"""Whether values are what is due, and what to say where they are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from distir.diagnostics import Diagnostic, Note
from distir.diagnostics.codes import proofs as codes
from distir.ir import Apply, Call, DType, Function, Meshes, Module, Part, Return, Site, TensorType
from distir.ir.errors import DistirError
from distir.ops import type_of
from distir.prove import reasons
from distir.prove.algebra import Algebra
from distir.prove.batches import Batches
from distir.prove.domain import FoundResults, Relations
from distir.prove.history import Frame, MadeBy, Related, is_used, of_first, pieces
from distir.prove.lifting import AGAIN, MISSING, PARTIAL
from distir.prove.pieces import TermPiece
from distir.prove.terms import Atom, Form, Shape, scaled_out
from distir.prove.words import Wording, number

MOST = 5
"""How many results are listed that rest on a statement."""


class ProveError(DistirError, ValueError):
    """Two programs that cannot be compared: their parameters or results do not belong together."""


NO_MESH = Meshes()


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
    noted: tuple[MadeBy, str] | None = None
    """Another statement that tells why, and what to say of it."""


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
    meshes: Meshes = NO_MESH
    """That of the distributed program, whose types then say what each device holds of a result."""
    any_size: bool = False
    """Whether this is so for all sizes of named dimensions."""

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

    @cached_property
    def words(self) -> Wording:
        """Says what pieces are of the sequential program."""
        return Wording(self.algebra)

    @property
    def partial_sums(self) -> reasons.MissingAddends:
        """Says which parts of sums values of the last program are."""
        return reasons.MissingAddends(self.algebra, self.batches, self.domains[-1].history)

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the results."""
        names = (arg if isinstance(arg, str) else f"result {i}" for i, arg in enumerate(self.entry.returned, 1))
        return tuple(names)


def _site(module: Module, failure: Failure) -> Site:
    """What is marked: the statement, a call that leads to it, or what is returned."""
    place = failure.place
    if failure.call is not None:
        return _statement(module, failure.call[0], failure.call[1])
    if place is None:
        entry = module.entry()
        assert entry is not None
        gather = entry if failure.is_copy else module.functions.get(f"{entry.name}.gather", entry)
        last, returned = gather, failure.returned
        if gather is not entry and returned is not None:
            taken = {param.name: number for number, param in enumerate(gather.params)}
            passed = taken.get(str(gather.returned[returned]))
            last, returned = (gather, returned) if passed is None else (entry, passed)
        index = len(last.body) - 1 if last.body and isinstance(last.body[-1], Return) else None
        return Site(last.name, index, None if returned is None or index is None else Part("operand", returned))
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
    if failures[0].noted is not None:
        made, said = failures[0].noted
        yield Note(said, _statement(module, made.function, made.statement))
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
    words, domain = against.words, against.domains[-1]
    in_place = _in_place(found.form, wanted.form)
    new = sorted(atom for atom in _reached(a for a, _, _ in found.terms) if atom.origin and not atom.origin.sequential)
    for atom in new:
        if atom.kind == "unknown":
            return _blamed(against, name, domain.maker(atom), atom.reason or "nothing is known of it")
        if words.contradicts(atom):
            reached = _reached([atom])
            first = next((a for a in new if a in reached and words.is_other(a)), atom)
            return _contradicting(against, name, first, in_place.get(first))
    same = {atom for atom, _, _ in wanted.terms} == {atom for atom, _, _ in found.terms}
    if not same:
        for atom in new:
            if (reason := words.strange(atom, in_place.get(atom))) is not None:
                return _blamed(against, name, domain.maker(atom), reason)
    first = of_first(found)
    said = against.partial_sums.counted(first) or _multiple(words, wanted, found)
    over = "" if said else against.partial_sums.over(first)
    total = _total(domain, found) if over else None
    said = said or words.of(found) + (f"{over}: {MISSING}" if over else "")
    return Failure(name, None, f"expected {words.of(wanted)}, found {said}", returned=returned, noted=total)


def _multiple(words: Wording, wanted: TermPiece, found: TermPiece) -> str | None:
    """What is found in terms of what is due, where it is so many times that; None for others."""
    (whole, c), (due, d) = scaled_out(found.form), scaled_out(wanted.form)
    if found.is_partial or not d or (found.whole, found.runs, whole) != (wanted.whole, wanted.runs, due):
        return None
    return f"{number(c / d)} times {words.of(wanted)}" if c != d else None


def _blamed(against: Reference, name: str, made: MadeBy | None, reason: str) -> Failure:
    """The failure of a statement; where its operands are to blame, in terms of microbatches, replicas and factors."""
    if made is None:
        return Failure(name, None, reason)
    calls = tuple([(function, call, of_first(given)) for function, call, given in made.calls])
    first = replace(made, given=of_first(made.given), calls=calls)
    mixed = reasons.of_microbatches(against.batches, first)
    if mixed is not None:
        return Failure(name, made, *mixed)
    partial = against.partial_sums
    counted = partial.of_addends(first) if reason.endswith((MISSING, AGAIN)) else None
    if counted is None and reason.endswith(MISSING):
        operand = next((piece for piece in pieces(first.given) if piece.is_partial), None)
        said = "" if operand is None else partial.over(operand)
        total = _total(against.domains[-1], made.given)
        return Failure(name, made, reason.replace(PARTIAL, PARTIAL + said), noted=total)
    return Failure(name, made, counted or reason, noted=_disordered(against.domains[-1], made.given))


def _total(domain: Relations, values: Related) -> tuple[MadeBy, str] | None:
    """The collective that adds up partial sums among values."""
    found = domain.history.sum_of(values)
    if found is None:
        return None
    made, result = found
    unused = "" if is_used(domain.module.functions[made.function].body, result) else ", and nothing uses it"
    return made, f"`%{result}` is this sum{unused}"


def _disordered(domain: Relations, values: Related) -> tuple[MadeBy, str] | None:
    """The statement that joined places in another order than the whole has them in, which values among these have."""
    found = domain.history.disordering(values)
    return None if found is None else (found[0], f"`%{found[1]}` has places in another order than the whole value")


def _contradicting(against: Reference, name: str, atom: Atom, in_place: Atom | None) -> Failure:
    """The failure of an op on other operands than the sequential program gives it, or of what made these.

    `in_place`: the op that is in its place in what is due.
    """
    domain, reason = against.domains[-1], against.words.strange(atom, in_place) or ""
    used, other = domain.maker(atom), against.words.alike(atom, in_place)
    pairs = zip(atom.operands, other.operands, strict=True) if used is not None and other is not None else ()
    index = next((i for i, (given, due) in enumerate(pairs) if given != due), None)
    if used is None or other is None or index is None:
        return _blamed(against, name, used, reason)
    given, due = atom.operands[index], other.operands[index]
    made, said = _grown(against, given, due) or _made(against, given, due, against.words.shape_of(atom, index))
    if made is not None and made.calls != used.calls:
        return Failure(name, made, said)
    if scaled_out(given)[0] == scaled_out(due)[0]:
        said = reasons.of_factors(domain.module.functions[used.function], used.statement)
    return _blamed(against, name, used, f"{reason}; {said}" if said else reason)


def _made(against: Reference, given: Form, due: Form, shape: Shape) -> tuple[MadeBy | None, str]:
    """The statement that made a value which the sequential program does not have, and what to say of it."""
    words = against.words
    made = against.domains[-1].history.made(shape, given) if words.name(given, shape) is None else None
    if made is None:
        return None, ""
    return made, f"`%{made.statement.results[0]}` is {words.form(given, shape)}, and {words.form(due, shape)} is due"


def _grown(against: Reference, given: Form, due: Form) -> tuple[MadeBy, str] | None:
    """The statement that counts an addend of a sum more often than is due, and what to say of it."""
    wanted = dict(due)
    for atom, times in given:
        most = wanted.get(atom, 0.0)
        made = against.domains[-1].history.counted(atom, times) if 0 < most < times else None
        if made is not None:
            value = against.words.form(((atom, 1.0),), atom.shape)
            said = f"`%{made.statement.results[0]}` counts {value} {times / most:g} times, and it is due once"
            return made, said + reasons.of_sum(made.statement, times / most)
    return None


def _in_place(found: Form, due: Form) -> dict[Atom, Atom]:
    """What a value is made of, with what is in the same place of the value that is due: ops of one kind."""
    pairs: dict[Atom, Atom] = {}
    stack = [(found, due)]
    while stack:
        for (atom, _), (other, _) in zip(*stack.pop(), strict=False):
            if atom not in pairs and atom is not other and atom.kind == other.kind:
                pairs[atom] = other
                stack += zip(atom.operands, other.operands, strict=False)
    return pairs


def _reached(atoms: Iterable[Atom]) -> set[Atom]:
    """All atoms that these are made of, and these."""
    seen: set[Atom] = set()
    stack = list(atoms)
    while stack:
        atom = stack.pop()
        if atom not in seen:
            seen.add(atom)
            stack += [inner for form in atom.operands for inner, _ in form]
    return seen
