"""Pieces in words, for people: what a value is of the values that the sequential program names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import Addends, Term, TermPiece
from distir.prove.terms import MOVEMENTS, Atom, Form, OpDetails, Shape, scaled_out

MOST = 3
"""How many terms of a sum are named."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Says what pieces are. `names` holds the sequential program's names by what they stand for."""

    algebra: Algebra

    def of(self, piece: TermPiece, devices: Sequence[int] = ()) -> str:
        """A piece: its places, its addends, and of what. `devices`: those that have the addends of a partial sum."""
        parts = [
            f"{_DIMENSIONS[k] if k < len(_DIMENSIONS) else f'places of dimension {k}:'} {places.shown(own)}"
            for k, (own, size) in enumerate(zip(piece.runs, piece.whole, strict=True))
            if own != places.full(size)
        ]
        where = f"{', '.join(parts)} of " if parts else ""
        if not piece.is_partial:
            return where + self.form(piece.form, piece.whole)
        groups: dict[Addends, list[Term]] = {}
        for term in piece.terms:
            groups.setdefault(term[2], []).append(term)
        if len(groups) > 1:
            said = [self.of(replace(piece, terms=tuple(group))) for group in list(groups.values())[:MOST]]
            return " plus ".join(said) + (f" and {len(groups) - MOST} more" if len(groups) > MOST else "")
        addends = {number: at for _, _, own in piece.terms for number, at in own}
        sums = [f"{places.shown(at)} of {self.algebra.sizes[number]}" for number, at in sorted(addends.items())]
        whole = self.form(piece.form, piece.whole)
        over = f" over devices {', '.join(map(str, devices))}" if devices else ""
        return f"a partial sum of {where}{whole}{over} ({', '.join(sums[:MOST])} addends)"

    def form(self, form: Form, shape: Shape) -> str:
        """A whole value."""
        if not form:
            return "zeros"
        name = self.algebra.names_of.get((shape, form))
        if name is not None:
            return f"`%{name}`"
        if len(form) == 1 and form[0][0].kind == "fill":
            return f"{float(form[0][0].details) * form[0][1]:g}"
        whole, c = scaled_out(form)
        multiple = self.algebra.multiples_of.get((shape, whole))
        if multiple is not None and multiple[1]:
            return f"{c / multiple[1]:g} times `%{multiple[0]}`"
        terms = [(f"{c:g} times " if c != 1.0 else "") + self.atom(atom) for atom, c in form[:MOST]]
        more = f" and {len(form) - MOST} more" if len(form) > MOST else ""
        return terms[0] if len(form) == 1 else f"the sum of {', '.join(terms)}{more}"

    def atom(self, atom: Atom) -> str:
        """A value that is no sum."""
        name = self.algebra.names_of.get((atom.shape, ((atom, 1.0),)))
        if name is not None:
            return f"`%{name}`"
        if atom.kind in MOVEMENTS and atom.operands[0]:
            return self.atom(atom.operands[0][0][0])
        if atom.kind == "fill":
            return f"{float(atom.details):g}"
        if atom.origin is not None and atom.origin.statement.results and not atom.origin.sequential:
            return f"`%{atom.origin.statement.results[0]}`"
        return f"a `{atom.kind}`"

    def strange(self, atom: Atom) -> str | None:
        """What the sequential program has instead of an op that it has not; None of what is no op."""
        if atom.kind in MOVEMENTS or atom.kind in ("guarded", "greatest", "constant", "fill"):
            return None
        best: tuple[tuple[int, int], Atom] | None = None
        for other in self.algebra.terms.of_kind(atom.kind):
            if other.origin is None or not other.origin.sequential or len(other.operands) != len(atom.operands):
                continue
            pairs = list(zip(atom.operands, other.operands, strict=True))
            same = sum(a == b for a, b in pairs) + (other.shape == atom.shape) + (other.details == atom.details)
            atoms = sum(len({x for x, _ in a} & {x for x, _ in b}) for a, b in pairs)
            if best is None or (same, atoms) > best[0]:
                best = (same, atoms), other
        if best is None:
            return f"the sequential program has no `{atom.kind}`"
        other = best[1]
        given = [self._operand(atom, i) for i in range(len(atom.operands)) if atom.operands[i] != other.operands[i]]
        due = [self._operand(other, i) for i in range(len(atom.operands)) if atom.operands[i] != other.operands[i]]
        if not given:
            return f"`{atom.kind}` has other attributes or sizes than in the sequential program"
        found, wanted = " and ".join(given), " and ".join(due)
        return f"`{atom.kind}` is given {found}, where the sequential program gives it {wanted}"

    def _operand(self, atom: Atom, index: int) -> str:
        shapes = atom.details.shapes if isinstance(atom.details, OpDetails) else ()
        shape = shapes[index] if index < len(shapes) else None
        return self.form(atom.operands[index], shape or atom.shape)


_DIMENSIONS = ("rows", "columns")
