"""Calls that differ in their operands' terms alone: one is interpreted, the others follow by renaming.

A function is interpreted on *formals*, which represent any values: what holds of its results holds for all of them. Of
other operands, with the same places of the same shapes, the results are those with the operands' terms in the formals'
place. So equal layers are interpreted once, in either program, and where only that differs, so are microbatches.

Movements, constants and positions that a device has stay as they are: rules look at them. What is put in a formal's
place is made anew by the constructors that make terms in the first place, so that it is the same atom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from distir.prove.algebra import Algebra
from distir.prove.own import guard_of
from distir.prove.owned import PLACES, atom_of_rows
from distir.prove.pieces import Addends, Term, TermPiece, Through, in_order
from distir.prove.terms import MOVEMENTS, Atom, Form, Movement, OpDetails, combined, factor, scaled_out

KEPT = MOVEMENTS | {
    "guarded",
    "greatest",
    "share",
    "owned",
    PLACES,
    "Dispatch",
    "Where",
    "And",
    "GreaterOrEqual",
    "Less",
    "Mod",
}
"""Kinds of atoms whose operands have formals instead, as rules look at them."""

SEEN = frozenset({"spread", "fill", "padded"})
"""Kinds of atoms that rules look for in sums."""

CONSTANT = frozenset({"fill", "constant", "external", "rank"})
"""Kinds that stay as they are."""


class NotRenamedError(Exception):
    """What was found of formals is of another kind for these terms; it must be found for themselves."""


@dataclass
class Formals:
    """Formals in the place of the terms of a call's operands, and what they represent."""

    algebra: Algebra
    forms: list[Form] = field(default_factory=list[Form])
    """What each formal represents."""
    sums: list[int] = field(default_factory=list[int])
    """The same for sums."""
    _made: dict[Form, Form] = field(default_factory=dict[Form, Form])
    _terms: dict[tuple[Term, ...], tuple[Term, ...]] = field(
        default_factory=dict["tuple[Term, ...]", "tuple[Term, ...]"]
    )
    _sums: dict[int, int] = field(default_factory=dict[int, int])

    def of(self, v: Any) -> Any:
        """An operand, of formals."""
        if isinstance(v, tuple):
            return tuple(map(self.of, cast("tuple[Any, ...]", v)))
        return None if v is None else self._piece(v)

    def _piece(self, piece: TermPiece) -> TermPiece:
        found = self._terms.get(piece.terms)
        if found is None:
            found = self._terms[piece.terms] = self._of_formals(piece.terms)
        return TermPiece(piece.value, piece.whole, piece.runs, found)

    def _of_formals(self, given: tuple[Term, ...]) -> tuple[Term, ...]:
        whole = tuple([(atom, c) for atom, c, addends in given if not addends])
        terms: list[Term] = [(atom, c, ()) for atom, c in self._form(whole)]
        if len(whole) < len(given):
            terms += [
                (formal, c * d, self._addends(addends))
                for atom, c, addends in given
                if addends
                for formal, d in self._form(((atom, 1.0),))
            ]
            return in_order(terms)
        return tuple(terms)

    def _form(self, form: Form) -> Form:
        found = self._made.get(form)
        if found is None:
            found = self._made[form] = self._formal(form)
        return found

    def _formal(self, form: Form) -> Form:
        terms = self.algebra.terms
        if len(form) == 1:
            ((atom, c),) = form
            if atom.kind in CONSTANT:
                return form
            if atom.kind in KEPT and atom.operands:
                made = terms.atom(
                    atom.kind, atom.shape, tuple(map(self._form, atom.operands)), atom.details, atom.linear
                )
                return ((made, c),)
            if c != 1.0:
                return tuple([(formal, c) for formal, _ in self._form(((atom, 1.0),))])
        elif all(atom.kind in SEEN for atom, _ in form):
            return combined([(formal, d) for part in form for formal, d in self._form((part,))])
        self.forms.append(form)
        return ((terms.formal(len(self.forms) - 1, form[0][0].shape), 1.0),)

    def _addends(self, addends: Addends) -> Addends:
        return tuple(sorted([(self._sum(number), at) for number, at in addends])) if addends else addends

    def _sum(self, number: int) -> int:
        found = self._sums.get(number)
        if found is None:
            self.sums.append(number)
            name = "formal", len(self.sums) - 1, self.algebra.sizes[number]
            found = self._sums[number] = self.algebra.sum_number(name, self.algebra.sizes[number])
        return found


@dataclass
class Substitution:
    """Terms in the place of formals."""

    algebra: Algebra
    forms: Sequence[Form]
    sums: Sequence[int]
    _made: dict[Atom, Form] = field(default_factory=dict[Atom, Form])
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _terms: dict[tuple[Term, ...], tuple[Term, ...]] = field(
        default_factory=dict["tuple[Term, ...]", "tuple[Term, ...]"]
    )
    _pieces: dict[int, tuple[TermPiece, TermPiece]] = field(default_factory=dict[int, tuple[TermPiece, TermPiece]])

    def of(self, v: Any) -> Any:
        """A result, of the terms."""
        if isinstance(v, tuple):
            return tuple(map(self.of, cast("tuple[Any, ...]", v)))
        if v is None:
            return None
        found = self._pieces.get(id(v))
        if found is None:
            found = self._pieces[id(v)] = v, self._piece(v)
        return found[1]

    def _piece(self, piece: TermPiece) -> TermPiece:
        found = self._terms.get(piece.terms)
        if found is None:
            terms = [
                (atom, c * d, self._addends(addends))
                for formal, c, addends in piece.terms
                for atom, d in self.form(formal)
            ]
            found = self._terms[piece.terms] = self.algebra.totalled(terms)
        return TermPiece(piece.value, piece.whole, piece.runs, found)

    def form(self, atom: Atom) -> Form:
        """What an atom of formals is of the terms."""
        found = self._made.get(atom)
        if found is None:
            stack = [atom]
            while stack:  # operands first: Python's stack is not as deep as programs are long
                last = stack[-1]
                missing = [a for form in last.operands for a, _ in form if a not in self._made] if last.is_open else []
                if missing:
                    stack += missing
                else:
                    stack.pop()
                    self._made[last] = self._renamed(last)
            found = self._made[atom]
        return found

    def _renamed(self, atom: Atom) -> Form:
        """The same, where that of the operands is known."""
        terms = self.algebra.terms
        if not atom.is_open:
            return ((atom, 1.0),)
        if atom.kind == "formal":
            return self.forms[int(atom.details)]
        operands = list(map(self._combined, atom.operands))
        if atom.kind in MOVEMENTS:
            movement = Movement(atom.kind, atom.shape, atom.details)
            return combined([(made, c) for a, c in operands[0] if (made := terms.moved(movement, a)) is not None])
        operands = [terms.factored(form) for form in operands]
        if atom.kind == "guarded":
            if len(operands[1]) != 1:
                raise NotRenamedError
            ((guard, _),) = operands[1]
            return combined([(guard_of(terms, a, guard, atom.details), c) for a, c in operands[0]])
        if atom.kind == "owned":
            ((dispatch, _),) = operands[1]
            return combined([(atom_of_rows(terms, a, dispatch, *atom.details), c) for a, c in operands[0]])
        if atom.kind in ("greatest", "share") and any(len(form) != 1 or form[0][1] != 1.0 for form in operands):
            raise NotRenamedError
        scale = 1.0
        details = atom.details
        if isinstance(details, OpDetails):
            for i in atom.linear:
                if not operands[i] and atom.operands[i]:
                    return ()
                if len(operands) > 1 and is_float(details.dtypes[i]):
                    operands[i], c = scaled_out(operands[i])
                    scale *= c
        return ((terms.atom(atom.kind, atom.shape, tuple(operands), details, atom.linear), factor(scale)),)

    def _combined(self, form: Form) -> Form:
        return combined([(a, c * d) for inner, c in form for a, d in self.form(inner)])

    def _addends(self, addends: Addends) -> Addends:
        return tuple(sorted([(self._number(number), at) for number, at in addends])) if addends else addends

    def _number(self, number: int) -> int:
        """The sum that one over formals is."""
        found = self._numbers.get(number)
        if found is None:
            name = self.algebra.names[number]
            if not isinstance(name, Through) and name[0] == "formal":
                found = self.sums[int(name[1])]
            else:
                found = self.algebra.sum_number(self._named(name), self.algebra.sizes[number])
            self._numbers[number] = found
        return found

    def _named(self, name: Any) -> Any:
        """A sum's name, of the terms."""
        if isinstance(name, Through):
            own: list[Form] = []
            for i, form in enumerate(name.operands):
                made = self.algebra.terms.factored(self._combined(form))
                is_scaled = i in name.linear and i != name.operand and is_float(name.details.dtypes[i])
                own.append(scaled_out(made)[0] if is_scaled and len(name.operands) > 1 else made)
            return replace(name, operands=tuple(own), number=self._number(name.number))
        return tuple([self._single(part) if isinstance(part, Atom) else part for part in name])

    def _single(self, atom: Atom) -> Atom:
        form = self.form(atom)
        if len(form) != 1:
            raise NotRenamedError
        return form[0][0]


def is_float(dtype: str | None) -> bool:
    """Whether elements of this type are floating-point numbers."""
    return dtype is not None and "Float" in dtype
