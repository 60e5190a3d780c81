"""Calls that differ in their operands' terms, where their places begin, or devices: one is interpreted, others follow.

A function is interpreted on *formals*, which represent any values: what holds of its results holds for all of them. Of
other operands, with the same places of the same shapes, the results are those with the operands' terms in the formals'
place. So equal layers are interpreted once, in either program; and as places begin at a rank that may be any
(`shifting.py`), and devices are canonical ones, so are microbatches, replicas, and stages of equal layers.

Movements, constants and positions that a device has stay as they are: rules look at them. What is put in a formal's
place is made anew by the constructors that make terms in the first place, so that it is the same atom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from distir.ir.errors import DistirError
from distir.ops.devices import Renaming
from distir.prove import runs as places
from distir.prove.algebra import Algebra
from distir.prove.own import guard_of
from distir.prove.owned import PLACES, atom_of_rows
from distir.prove.pieces import Addends, Term, TermPiece, Through, in_order
from distir.prove.ranks import MeshAxis, Number
from distir.prove.runs import Runs
from distir.prove.shifting import Cells, Shift, cells, depends_on_call, shifts
from distir.prove.terms import MOVEMENTS, Atom, Form, Movement, OpDetails, Shape, Unproved, combined, factor, scaled_out

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


class NotRenamedError(DistirError):
    """What was found of formals is of another kind for these terms; it must be found for themselves."""


@dataclass
class Formals:
    """What a call's operands are of formals, and what these represent."""

    algebra: Algebra
    devices: Renaming
    """To those that the operands have instead of their own."""
    forms: list[Form] = field(default_factory=list[Form])
    """What each formal represents."""
    sums: list[int] = field(default_factory=list[int])
    """The same for sums."""
    cells: dict[int, Cells] = field(default_factory=dict[int, Cells])
    """By sum, those that stand for its addends."""
    ranks: Mapping[MeshAxis, Number] = field(default_factory=dict[MeshAxis, Number])
    """Where places begin."""
    _shifts: Mapping[int, Shift] = field(default_factory=dict[int, Shift])
    _made: dict[Form, Form] = field(default_factory=dict[Form, Form])
    _terms: dict[tuple[Term, ...], tuple[Term, ...]] = field(
        default_factory=dict["tuple[Term, ...]", "tuple[Term, ...]"]
    )
    _sums: dict[int, int] = field(default_factory=dict[int, int])
    _runs: dict[tuple[Shape, tuple[Runs, ...]], tuple[Runs, ...]] = field(
        default_factory=dict["tuple[Shape, tuple[Runs, ...]]", "tuple[Runs, ...]"]
    )

    def shift(self, vs: Sequence[Any]) -> None:
        """Operands may have their places anywhere. Where that cannot be said of these, they stay where they are."""
        found: dict[int, dict[Runs, None]] = {}
        addends: dict[int, dict[Runs, None]] = {}
        pieces = list(pieces_of(vs))
        for whole, all_runs in dict.fromkeys([(piece.whole, piece.runs) for piece in pieces]):
            for size, runs in zip(whole, all_runs, strict=True):
                if runs != places.full(size):
                    found.setdefault(size, {})[runs] = None
        for terms in dict.fromkeys([piece.terms for piece in pieces]):
            for atom, _, own in terms:
                if atom.axes and depends_on_call(atom):
                    return
                for number, runs in own:
                    addends.setdefault(number, {})[runs] = None
        each = {number: cells(self.algebra.sizes[number], tuple(sets)) for number, sets in addends.items()}
        if any(own is None and depends_on_call(tuple(addends[number])) for number, own in each.items()):
            return
        try:
            self._shifts, self.ranks = shifts(found)
        except Unproved:
            return
        self.cells = {number: own for number, own in each.items() if own is not None}

    def of(self, v: Any) -> Any:
        """An operand, of formals."""
        if isinstance(v, tuple):
            return tuple(map(self.of, cast("tuple[Any, ...]", v)))
        return None if v is None else self._piece(v)

    def _piece(self, piece: TermPiece) -> TermPiece:
        found = self._terms.get(piece.terms)
        if found is None:
            found = self._terms[piece.terms] = self._of_formals(piece.terms)
        runs = piece.runs
        if self._shifts:
            runs = self._runs.get((piece.whole, runs))
            if runs is None:
                runs = self._runs[piece.whole, piece.runs] = tuple(map(self._shifted, piece.whole, piece.runs))
        return TermPiece(self.devices(piece.value), piece.whole, runs, found)

    def _shifted(self, size: int, runs: Runs) -> Runs:
        by = self._shifts.get(size)
        return runs if by is None or runs == places.full(size) else places.shifted(runs, by)

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
        return tuple(sorted([self._over(number, at) for number, at in addends])) if addends else addends

    def _over(self, number: int, at: Runs) -> tuple[int, Runs]:
        own = self.cells.get(number)
        found = self._sums.get(number)
        if found is None:
            size = self.algebra.sizes[number] if own is None else own.count
            self.sums.append(number)
            found = self._sums[number] = self.algebra.sum_number(("formal", len(self.sums) - 1, size), size)
        return found, at if own is None else own.inside[at]


@dataclass
class Substitution:
    """Terms in the place of formals."""

    algebra: Algebra
    forms: Sequence[Form]
    sums: Sequence[int]
    _made: dict[Atom, Form] = field(default_factory=dict[Atom, Form])
    _numbers: dict[int, int] = field(default_factory=dict[int, int])

    def form(self, atom: Atom) -> Form:
        """What an atom of formals is of the terms."""
        if atom.axes and depends_on_call(atom):
            raise NotRenamedError
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

    def number(self, number: int) -> int:
        """The sum that one over formals is."""
        found = self._numbers.get(number)
        if found is None:
            name = self.algebra.names[number]
            if not isinstance(name, Through) and name[0] == "formal":
                found = self.sums[int(name[1])]
            else:
                named = self._named(name)
                of = named.number if isinstance(named, Through) else number  # a formal sum has cells, no addends
                found = self.algebra.sum_number(named, self.algebra.sizes[of])
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
            return replace(name, operands=tuple(own), number=self.number(name.number))
        if depends_on_call(tuple([part for part in name if not isinstance(part, Atom)])):
            raise NotRenamedError
        return tuple([self._single(part) if isinstance(part, Atom) else part for part in name])

    def _single(self, atom: Atom) -> Atom:
        form = self.form(atom)
        if len(form) != 1:
            raise NotRenamedError
        return form[0][0]


@dataclass
class Renamed:
    """Results of a call, of what was found of formals."""

    formals: Formals
    substitution: Substitution
    _terms: dict[tuple[Term, ...], tuple[Term, ...]] = field(
        default_factory=dict["tuple[Term, ...]", "tuple[Term, ...]"]
    )
    _cells: dict[int, Cells | None] = field(default_factory=dict[int, "Cells | None"])
    _runs: dict[Runs, Runs] = field(default_factory=dict[Runs, Runs])
    _all_runs: dict[tuple[Runs, ...], tuple[Runs, ...]] = field(
        default_factory=dict["tuple[Runs, ...]", "tuple[Runs, ...]"]
    )

    def of(self, v: Any) -> Any:
        """A result. Raises NotRenamedError, and Unproved, where what was found does not say what it is."""
        if isinstance(v, tuple):
            return tuple(map(self.of, cast("tuple[Any, ...]", v)))
        if v is None:
            return None
        piece: TermPiece = v
        found = self._terms.get(piece.terms)
        if found is None:
            terms = [
                (atom, c * d, self._addends(addends))
                for formal, c, addends in piece.terms
                for atom, d in self.substitution.form(formal)
            ]
            found = self._terms[piece.terms] = self.substitution.algebra.totalled(terms)
        runs = self._all_runs.get(piece.runs)
        if runs is None:
            runs = self._all_runs[piece.runs] = tuple(map(self._begun, piece.runs))
        return TermPiece(self.formals.devices.back(piece.value), piece.whole, runs, found)

    def _addends(self, addends: Addends) -> Addends:
        return tuple(sorted([self._over(number, at) for number, at in addends])) if addends else addends

    def _over(self, number: int, at: Runs) -> tuple[int, Runs]:
        own = self._cells_of(number)
        return self.substitution.number(number), self._begun(at) if own is None else own.of(at)

    def _cells_of(self, number: int) -> Cells | None:
        """What a sum has in the place of its addends, if it has."""
        if number not in self._cells:
            name = self.formals.algebra.names[number]
            if isinstance(name, Through):
                found = self._cells_of(name.number)
            else:
                found = self.formals.cells.get(self.formals.sums[int(name[1])]) if name[0] == "formal" else None
            self._cells[number] = found
        return self._cells[number]

    def _begun(self, runs: Runs) -> Runs:
        """Places that begin where the call's do."""
        if not self.formals.ranks:
            return runs
        found = self._runs.get(runs)
        if found is None:
            found = self._runs[runs] = places.of_device(runs, self.formals.ranks)
        return found


def pieces_of(v: Any) -> Iterator[TermPiece]:
    """The pieces that a value consists of."""
    if isinstance(v, tuple):
        for item in cast("tuple[Any, ...]", v):
            yield from pieces_of(item)
    elif v is not None:
        yield v


def is_float(dtype: str | None) -> bool:
    """Whether elements of this type are floating-point numbers."""
    return dtype is not None and "Float" in dtype
