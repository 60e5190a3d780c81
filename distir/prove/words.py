"""Pieces in words, for people: what a value is of the values that the sequential program names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from distir.ir import Constant, Literal
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.pieces import Addends, Term, TermPiece
from distir.prove.terms import MOVEMENTS, Atom, Form, OpDetails, Shape, scaled_out
from distir.syntax import print_literal

FLOATS = ("Float", "BFloat")

NOTHING = "nothing"

MOST = 3
"""How many terms of a sum are named."""


def number(c: float) -> str:
    """A factor, with as many digits as tell it from 1."""
    return f"{c:g}" if c == 1.0 or f"{c:g}" != "1" else f"{c:.12g}"


@dataclass
class Wording:
    """Says what pieces are."""

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
            return self._joined(piece) or where + self.form(piece.form, piece.whole)
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

    def _joined(self, piece: TermPiece) -> str | None:
        """What was joined along a dimension, one after the other; None of other values."""
        axes = {int(atom.details[0]) if atom.kind == "padded" else None for atom, _, _ in piece.terms}
        if len(piece.terms) < 2 or len(axes) > 1 or (axis := axes.pop()) is None:
            return None
        said: list[str] = []
        for atom, c, _ in sorted(piece.terms, key=lambda term: term[0].details[1]):
            inner, start = atom.operands[0][0][0], int(atom.details[1])
            own = places.between(piece.runs[axis], start, start + inner.shape[axis])
            runs = (*piece.runs[:axis], places.shifted(own, -start), *piece.runs[axis + 1 :])
            said.append(self.of(TermPiece(None, inner.shape, runs, ((inner, c, ()),))))
        return ", then ".join(said)

    def name(self, form: Form, shape: Shape) -> str | None:
        """The sequential program's name of a whole value; None of one that it does not have."""
        return self.algebra.names_of.get((shape, form))

    def form(self, form: Form, shape: Shape) -> str:
        """A whole value."""
        if not form:
            return "zeros"
        name = self.name(form, shape)
        if name is not None:
            return f"`%{name}`"
        if len(form) == 1 and form[0][0].kind == "fill":
            return f"{float(form[0][0].details) * form[0][1]:g}"
        whole, c = scaled_out(form)
        multiple = self.algebra.multiples_of.get((shape, whole))
        if multiple is not None and multiple[1]:
            return f"{number(c / multiple[1])} times `%{multiple[0]}`"
        terms = [(f"{number(c)} times " if c != 1.0 else "") + self.atom(atom) for atom, c in form[:MOST]]
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

    def alike(self, atom: Atom, due: Atom | None = None) -> Atom | None:
        """The op of the sequential program that is most like one which it does not have; None where it has none.

        `due`: which it is, where others are as like.
        """
        best: tuple[tuple[bool, bool, int, int, bool], Atom] | None = None
        for other in self.algebra.terms:
            if other.kind != atom.kind or other.origin is None or not other.origin.sequential:
                continue
            pairs = list(zip(atom.operands, other.operands, strict=False))
            same = sum(a == b for a, b in pairs) + (other.shape == atom.shape)
            alike = other.details == atom.details
            atoms = sum(len({x for x, _ in a} & {x for x, _ in b}) for a, b in pairs)
            key = (len(other.operands) == len(atom.operands), alike, same, atoms, other is due)
            if best is None or key > best[0]:
                best = key, other
        return None if best is None else best[1]

    def contradicts(self, atom: Atom) -> bool:
        """Whether an op has other operands than the sequential program gives it, of the same shapes.

        A right program has other ops than the sequential one, but not the same ones on other values.
        """
        return (atom.kind, atom.shape, atom.details) in self._operands_of and not self._is_given(atom)

    def _is_given(self, atom: Atom) -> bool:
        """Whether the sequential program gives an op these operands, or sums of which they are addends."""
        return any(
            all(
                a == b or (i in atom.linear and _is_addend(a, b))
                for i, (a, b) in enumerate(zip(atom.operands, own, strict=True))
            )
            for own in self._operands_of.get((atom.kind, atom.shape, atom.details), ())
        )

    @cached_property
    def _operands_of(self) -> dict[Any, list[tuple[Form, ...]]]:
        """What the sequential program gives to each op."""
        found: dict[Any, list[tuple[Form, ...]]] = {}
        for atom in self.algebra.terms:
            if atom.origin is not None and atom.origin.sequential and isinstance(atom.details, OpDetails):
                found.setdefault((atom.kind, atom.shape, atom.details), []).append(atom.operands)
        return found

    def is_other(self, atom: Atom) -> bool:
        """Whether it is another op on values of the sequential program, which has none such; not a condition."""
        if not isinstance(atom.details, OpDetails) or not all(n and n.startswith(FLOATS) for n in atom.details.dtypes):
            return False
        inner = [a for form in atom.operands for a, _ in form]
        return all(a.origin is None or a.origin.sequential for a in inner) and not self._is_given(atom)

    def strange(self, atom: Atom, due: Atom | None = None) -> str | None:
        """What the sequential program has instead of an op that it does not have; None of what is no op.

        `due`: which of its ops that is, where others are as like.
        """
        if atom.kind in MOVEMENTS or atom.kind in ("guarded", "greatest", "constant", "fill"):
            return None
        if self._is_given(atom):
            return None
        other = self.alike(atom, due)
        if other is None:
            return f"the sequential program has no `{atom.kind}`"
        pairs = enumerate(zip_longest(atom.operands, other.operands, fillvalue=()))
        differing = [i for i, (own, its) in pairs if own != its]
        given = [self._operand(atom, i) for i in differing]
        wanted = " and ".join(self._operand(other, i) or NOTHING for i in differing)
        if not differing:
            return self._of_details(atom, other)
        if not any(given):
            return f"`{atom.kind}` is not given {wanted}, which the sequential program gives it"
        found = " and ".join(said or NOTHING for said in given)
        return f"`{atom.kind}` is given {found}, where the sequential program gives it {wanted}"

    def _of_details(self, atom: Atom, other: Atom) -> str:
        """What to say of an op that is given the same as another one and differs from it all the same."""
        if isinstance(own := atom.details, OpDetails) and isinstance(its := other.details, OpDetails):
            found, due = attributes(own.attributes, its.attributes), attributes(its.attributes, own.attributes)
        else:
            found = due = ""
        if found and due:
            return f"`{atom.kind}` has {found}, and in the sequential program {due}"
        return f"`{atom.kind}` has other attributes or sizes than in the sequential program"

    def _operand(self, atom: Atom, index: int) -> str | None:
        """An operand; None where it is left out."""
        shapes = atom.details.shapes if isinstance(atom.details, OpDetails) else ()
        if index >= len(atom.operands) or (shapes and shapes[index] is None):
            return None
        return self.form(atom.operands[index], self.shape_of(atom, index))

    def shape_of(self, atom: Atom, index: int) -> Shape:
        """The whole shape of an op's operand."""
        shapes = atom.details.shapes if isinstance(atom.details, OpDetails) else ()
        return (shapes[index] if index < len(shapes) else None) or atom.shape


def attributes(of: Mapping[str, Constant], other: Mapping[str, Constant]) -> str:
    """The attributes of an op that another one has otherwise."""
    apart = (name for name, value in of.items() if name not in other or Literal(value) != Literal(other[name]))
    return ", ".join(f"`{name} = {print_literal(of[name])}`" for name in apart)


def _is_addend(form: Form, due: Form) -> bool:
    """Whether a combination is some of the terms of another one, or a multiple of these."""
    own = {atom for atom, _ in form}
    return scaled_out(form)[0] == scaled_out(tuple([(atom, c) for atom, c in due if atom in own]))[0]


_DIMENSIONS = ("rows", "columns")
