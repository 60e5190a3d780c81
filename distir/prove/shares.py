"""Shares: what a value is by some places of a dimension alone, which an op merges, as attention over some keys.

Rules of ops make and merge them; what they are is the ops' matter. A share is an atom of its own, of the value over all
places, `complete` with what is there besides the places, as the sink of a softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import TermPiece
from distir.prove.runs import Runs
from distir.prove.terms import Atom, OpDetails, Unproved


def share(algebra: Algebra, x: TermPiece, at: Runs, size: int, complete: TermPiece | None) -> TermPiece:
    """The share of `x` by these places. Raises Unproved for a sum of several values."""
    forms = (_only(x), *(() if complete is None else (_only(complete),)))
    atom = algebra.terms.atom("share", x.whole, tuple([((a, 1.0),) for a in forms]), (places.ordered(at), size))
    return replace(x, terms=((atom, 1.0, ()),))


def merged(algebra: Algebra, shares: Sequence[tuple[TermPiece, ...]]) -> tuple[TermPiece, ...] | None:
    """Shares of the results of one op by different places; None where they are not.

    What is merged with the share of no places stays what it is.
    """
    some = [own for own in shares if not all(map(_is_of_none, own))]
    first = shares[0]
    if any((x.whole, x.runs) != (y.whole, y.runs) for own in shares for x, y in zip(own, first, strict=True)):
        return None
    if len(some) <= 1:
        return (some or shares)[0]
    shares = some
    found: list[TermPiece] = []
    rests: set[object] = set()
    for own in zip(*shares, strict=True):
        first = own[0]
        if any((x.whole, x.runs) != (first.whole, first.runs) or len(x.terms) != 1 for x in own):
            return None
        atoms = [x.terms[0][0] for x in own]
        if any(atom.kind != "share" or x.terms[0][1:] != (1.0, ()) for atom, x in zip(atoms, own, strict=True)):
            return None
        base = atoms[0].operands[0][0][0]
        if not isinstance(base.details, OpDetails):
            return None  # of no op that is known
        wholes = {atom.operands[1][0][0] for atom in atoms if len(atom.operands) > 1}
        sizes = {atom.details[1] for atom in atoms}
        met = places.union([atom.details[0] for atom in atoms])
        complete = sum(len(atom.operands) > 1 for atom in atoms)
        if any(atom.operands[0][0][0] is not base for atom in atoms) or len(sizes) != 1 or met is None or complete > 1:
            return None
        (size,) = sizes
        # Results of one op: all but which of them it is.
        rests.add((base.kind, base.operands, replace(base.details, result=0), met, complete))
        if met == places.full(size):
            made = next(iter(wholes), base)
        else:
            forms = (base, *wholes)
            made = algebra.terms.atom("share", first.whole, tuple([((a, 1.0),) for a in forms]), (met, size))
        found.append(replace(first, terms=((made, 1.0, ()),)))
    return tuple(found) if len(rests) == 1 else None


def _is_of_none(x: TermPiece) -> bool:
    """Whether it is the share of no places, and of nothing besides."""
    atom = x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1:] == (1.0, ()) else None
    return atom is not None and atom.kind == "share" and not atom.details[0] and len(atom.operands) == 1


def _only(x: TermPiece) -> Atom:
    if len(x.terms) != 1 or x.terms[0][1:] != (1.0, ()):
        raise Unproved("it is a sum of several values, of which there are no parts by places")
    return x.terms[0][0]
