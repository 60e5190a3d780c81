"""Lookups in a table of which each device has some rows: the positions that are in a device's part.

Vocabulary parallelism takes from positions `i` the place where the device's part begins, keeps those that lie in the
part (`here`), looks up with 0 in place of the others, and then puts zeros there. So a value is the sum over all rows v
of the table of itself where `i` is v, and zero elsewhere; a device has the addends of its rows.

`guarded(x)` is an atom for something that equals `x` where `here` is true, and of which nothing is said elsewhere.

Rows of experts are taken out of all rows in the same way, with -1 in place of the others (`taken`), which is left out.
The part may be several runs then, counted one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from distir.prove import runs
from distir.prove.algebra import Algebra
from distir.prove.pieces import Addends, Term, TermPiece
from distir.prove.ranks import RANK, Number, rank
from distir.prove.runs import Runs
from distir.prove.terms import Atom, Form, Terms


@dataclass(frozen=True, slots=True)
class TakenPositions:
    """Positions counted within a part of a dimension, with one number for all outside of it."""

    positions: TermPiece
    """The positions in the whole dimension."""
    places: Runs
    """The part."""
    size: int
    """Of the dimension."""

    @property
    def count(self) -> int:
        """The size of the part."""
        return runs.length(self.places)


@dataclass(frozen=True, slots=True)
class OwnPositions(TakenPositions):
    """Positions counted from where a part begins, and 0 for those outside of it."""

    here: TermPiece
    """Which of them are in the part."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Positions counted within a part, run after run, and 0 for those outside of it."""

    positions: Atom
    places: Runs
    size: int
    guards: list[Atom]
    """What says of each run which positions are in it."""


@dataclass(frozen=True, slots=True)
class _Range:
    """What says whether positions are in a part."""

    remainder: Atom
    """The positions, from 0 up."""
    first: Number
    count: int
    size: int


def run(first: Number, count: int) -> Runs:
    """So many places from the first one."""
    return cast("Runs", ((first, first + count),))


def own(algebra: Algebra, x: TermPiece) -> OwnPositions | None:
    """The positions from which `x` is computed, if `Parts.own` wrote it; else None."""
    atom = _single(x)
    if atom is None:
        return None
    found = _counted(atom.operands[0][0][0] if atom.kind == "reshape" else atom)
    if found is None or len(found.guards) > 1:
        return None
    terms, (guard,) = algebra.terms, found.guards
    return OwnPositions(
        replace(x, terms=((terms.reshaped(found.positions, atom.shape), 1.0, ()),)),
        found.places,
        found.size,
        replace(x, value=None, terms=((terms.reshaped(guard, atom.shape), 1.0, ()),)),
    )


def taken(x: TermPiece) -> TakenPositions | None:
    """What `x` says of positions, if it is -1 for those outside of a part, and for those that are -1; else None.

    Ops of experts write so which of all rows a device has: `Where(And(here, positions >= 0), own, -1)`. Of positions
    that count within a part themselves, it is a part of that part.
    """
    atom = _single(x)
    if atom is None or atom.kind != "Where" or _filled(atom.operands[2]) != -1:
        return None
    condition, inner = _only(atom.operands[0]), _only(atom.operands[1])
    found = None if inner is None or inner.shape != atom.shape else _counted(inner)
    if found is None or condition is None or condition.kind != "And":
        return None
    here, known = _only(condition.operands[0]), _only(condition.operands[1])
    if here is None or known is None or _any_of(here) != found.guards or known.kind != "GreaterOrEqual":
        return None
    if known.operands != (((found.positions, 1.0),), ()):
        return None
    positions = replace(x, terms=((found.positions, 1.0, ()),))
    outer = taken(positions)
    if outer is None:
        return TakenPositions(positions, found.places, found.size)
    if outer.count != found.size:
        return None
    return replace(outer, places=runs.joined([runs.taken(outer.places, *own) for own in found.places]))


def guarded(
    algebra: Algebra, x: TermPiece, found: OwnPositions, axes: tuple[int, ...], absorbed: bool = False
) -> TermPiece:
    """An atom that equals `x` at positions in the part; `axes`: those of `x` that have the positions.

    `absorbed`: `x` is zero where they are not.
    """
    here = _single(found.here)
    assert here is not None
    shape = [1] * len(x.whole)
    for axis, size in zip(axes, here.shape, strict=True):
        shape[axis] = size
    terms = algebra.terms
    guard = terms.spread(terms.reshaped(here, tuple(shape)), x.whole)
    made = [(guard_of(terms, atom, guard, absorbed), c, addends) for atom, c, addends in x.terms]
    return replace(x, terms=algebra.totalled(made))


def guard_of(terms: Terms, atom: Atom, guard: Atom, absorbed: bool) -> Atom:
    """The atom of something that equals another one where `guard` is true."""
    return terms.atom("guarded", atom.shape, (((atom, 1.0),), ((guard, 1.0),)), absorbed)


def where(algebra: Algebra, condition: TermPiece, x: TermPiece) -> TermPiece | None:
    """`x` where a condition says that positions are in a part, and zero elsewhere; None for other conditions."""
    atom = _single(condition)
    if atom is None:
        return None
    base = atom.operands[0][0][0] if atom.kind == "reshape" else atom
    found = _range(base)
    if found is None or base.shape != found.remainder.shape:
        return None
    aligned = algebra.added(None, [(1.0, x), (0.0, condition)])  # raises where they are of different places
    terms = algebra.terms
    guard = terms.spread(atom, aligned.whole)
    remainder = terms.spread(terms.reshaped(found.remainder, atom.shape), aligned.whole)
    at = run(found.first, found.count)
    made: list[Term] = []
    for inner, c, addends in aligned.terms:
        if inner.kind == "guarded":
            value, stated = inner.operands[0][0][0], inner.operands[1][0][0]
            if stated is not guard:
                return None
            if inner.details:
                made.append((value, c, addends))
                continue
        else:
            value = inner
        number = algebra.sum_number(("where", value, remainder, found.size), found.size)
        made.append((value, c, _added(addends, number, at)))
    return replace(aligned, terms=algebra.totalled(made))


def _added(addends: Addends, number: int, at: Runs) -> Addends:
    return tuple(sorted((*addends, (number, at))))


def _single(x: TermPiece) -> Atom | None:
    """The atom that a piece is of, with all addends."""
    if len(x.terms) != 1 or x.terms[0][1] != 1.0 or x.terms[0][2]:
        return None
    return x.terms[0][0]


def _only(form: Form) -> Atom | None:
    return form[0][0] if len(form) == 1 and form[0][1] == 1.0 else None


def _counted(atom: Atom) -> _Counted | None:
    """What `Where(in the last run, p - its first + those before, … Where(in the first run, p - its first, 0))` says."""
    found: list[tuple[Atom, _Range, Form]] = []
    rest: Form = ((atom, 1.0),)
    while rest:
        inner = _only(rest)
        if inner is None or inner.kind != "Where" or inner.shape != atom.shape:
            return None
        condition, counted, rest = inner.operands
        guard = _only(condition)
        known = None if guard is None else _range(guard)
        if guard is None or known is None or guard.shape != atom.shape:
            return None
        found.insert(0, (guard, known, counted))
    if not found:
        return None
    remainder, size = found[0][1].remainder, found[0][1].size
    before, parts = 0, list[Runs]()
    for _, known, counted in found:
        own = _counted_from(counted, remainder)
        if (known.remainder, known.size) != (remainder, size) or own is None or own != known.first - before:
            return None
        parts.append(run(known.first, known.count))
        before += known.count
    given = _only(remainder.operands[0])
    if given is None or not given.shape == remainder.shape == atom.shape or runs.union(parts) is None:
        return None
    return _Counted(given, runs.joined(parts), size, [guard for guard, _, _ in found])


def _any_of(condition: Atom) -> list[Atom]:
    """The conditions of which one must hold."""
    if condition.kind != "Or":
        return [condition]
    every = [_only(form) for form in condition.operands]
    return [inner for one in every if one is not None for inner in _any_of(one)] if None not in every else [condition]


def _range(guard: Atom) -> _Range | None:
    """What `And(GreaterOrEqual(p - first, 0), Less(p - first, count))` says, with `p = Mod(i, size)`."""
    if guard.kind != "And" or len(guard.operands) != 2:
        return None
    low, high = _only(guard.operands[0]), _only(guard.operands[1])
    if low is None or high is None or (low.kind, high.kind) != ("GreaterOrEqual", "Less"):
        return None
    counted, count = low.operands[0], _filled(high.operands[1])
    if low.operands[1] or high.operands[0] != counted or count is None or not counted:
        return None
    remainder = next((atom for atom, _ in counted if atom.kind == "Mod"), None)
    first = None if remainder is None else _counted_from(counted, remainder)
    if remainder is None or first is None:
        return None
    size = _filled(remainder.operands[1])
    if size is None or first < 0 or first + round(count) > round(size):
        return None
    if remainder.details.attributes.get("fmod") is not False:
        return None
    return _Range(remainder, first, round(count), round(size))


def _counted_from(counted: Form, remainder: Atom) -> Number | None:
    """The number that is subtracted from positions; None of any other combination."""
    if dict(counted).get(remainder) != 1.0:
        return None
    return _first(tuple([(atom, c) for atom, c in counted if atom is not remainder]))


def _filled(form: Form) -> float | None:
    """The number that a combination is everywhere."""
    if len(form) != 1 or form[0][0].kind != "fill":
        return None
    return float(form[0][0].details) * form[0][1]


def _first(rest: Form) -> Number | None:
    """The number whose negative a combination is everywhere, which may depend on the device; None of others."""
    found: Number = 0
    for atom, c in rest:
        inner = atom.operands[0][0][0] if atom.kind == "spread" else atom
        number = float(inner.details) * c if inner.kind == "fill" else c
        if inner.kind not in ("fill", RANK) or not number.is_integer():
            return None
        found = found - (round(number) if inner.kind == "fill" else round(number) * rank(inner.details))
    return found
