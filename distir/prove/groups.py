"""What the devices of a group have, where one of them represents all (`ops/group.py`).

The piece of a representative is that of the device of any ranks. Of given ranks it is what that device has; so a
collective is interpreted as if all devices of its group were written down, and what it gives to each must again be one
piece of any rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from distir.ir import Constant
from distir.ops import Value
from distir.prove import runs as places
from distir.prove.algebra import SUMS, Algebra
from distir.prove.pieces import Addends, Term, TermPiece, shape_of
from distir.prove.ranks import RANK, MeshAxis, Number, RankedPlace, axes_in, axes_of, fitted, ranks
from distir.prove.ranks import at as at_ranks
from distir.prove.runs import Runs
from distir.prove.terms import MOVEMENTS, Atom, Unproved

OF_PLACES = MOVEMENTS | {"greatest", "share"}
"""Kinds of atoms that depend on ranks by the places in their details alone."""

RANKED = "ranked"
"""The kind of an atom that is a list of whole numbers of each device's own."""


class Groups:
    """The devices of groups of a mesh, and pieces of them."""

    def __init__(self, algebra: Algebra, mesh: tuple[MeshAxis, ...]) -> None:
        self.algebra, self.mesh = algebra, mesh

    def members(self, x: TermPiece, size: int, stride: int) -> list[TermPiece]:
        """What each device of a group has. Raises Unproved where that is not known."""
        return [self._of(x, dict(own)) for own in self._ranks(size, stride)]

    def sum(self, x: TermPiece, size: int, stride: int) -> TermPiece:
        """The sum over the devices of a group. Raises Unproved where it is not known what each of them has."""
        axes = self._axes(size, stride)
        if not axes_in(x.runs).isdisjoint(axes):
            raise Unproved("the devices of the group have other places, of which the sum is no part of anything")
        found: list[Term] = []
        for atom, c, addends in x.terms:
            own = [number for number, runs in addends if not axes_in(runs).isdisjoint(axes)]
            if atom.is_unknown or not atom.axes.isdisjoint(axes) or len(own) > 1:
                return self._one_by_one(x, size, stride)
            if not own:
                found.append((atom, c * size, addends))
                continue
            met = _together(dict(addends)[own[0]], axes)
            if met is None:
                return self._one_by_one(x, size, stride)
            self.algebra.laws[SUMS] = None
            found.append((atom, c, tuple([(n, met if n == own[0] else runs) for n, runs in addends])))
        return replace(x, terms=self.algebra.totalled(found))

    def _one_by_one(self, x: TermPiece, size: int, stride: int) -> TermPiece:
        return self.algebra.added(x.value, [(1.0, member) for member in self.members(x, size, stride)])

    def of_members(self, pieces: Sequence[TermPiece], stride: int) -> TermPiece:
        """What has these pieces on the devices of a group. Raises Unproved where no one piece does."""
        first, axes = pieces[0], self._axes(len(pieces), stride)
        heads = {(x.whole, tuple([(atom, c) for atom, c, _ in x.terms])) for x in pieces}
        if len(heads) > 1:
            raise Unproved("the devices of the group have parts of different values")
        runs = tuple([places.fitted(column, axes) for column in zip(*[x.runs for x in pieces], strict=True)])
        terms = [
            (atom, c, _addends([x.terms[k][2] for x in pieces], axes)) for k, (atom, c, _) in enumerate(first.terms)
        ]
        return replace(first, runs=runs, terms=self.algebra.totalled(terms))

    def addend_of_each(self, x: TermPiece, name: str, size: int, stride: int) -> TermPiece:
        """Of `x`, that is a sum over the devices of a group, the addend of a device."""
        own = fitted([((rank, rank + 1),) for rank in range(size)], self._axes(size, stride))
        return self.algebra.some(x, f"{name} {stride}", own, size)

    def constant(self, value: Value, values: Sequence[Constant], stride: int) -> TermPiece:
        """A whole number, or a list of such, of each device's own.

        Raises Unproved for other constants, and for a number that is no multiple of the rank, and a number besides.
        """
        number, terms = fitted(values, self._axes(len(values), stride)), self.algebra.terms
        if isinstance(number, tuple):
            shape = shape_of(value)
            atom = terms.atom(RANKED, shape, details=number)
            return TermPiece(value, shape, tuple(map(places.full, shape)), ((atom, 1.0, ()),))
        base, steps = (number.base, number.steps) if isinstance(number, RankedPlace) else (number, ())
        parts: list[Term] = [(terms.fill(1.0, ()), float(base), ())]
        for axis, step in steps:
            if not isinstance(step, int):
                raise Unproved("each device has another constant")
            parts.append((terms.atom(RANK, (), details=axis), float(step), ()))
        return TermPiece(value, (), (), self.algebra.totalled(parts))

    @staticmethod
    def numbers(x: TermPiece) -> tuple[Number, ...] | None:
        """The elements of a list of each device's own; None of other values."""
        atom = x.terms[0][0] if len(x.terms) == 1 and x.terms[0][1:] == (1.0, ()) else None
        return atom.details if atom is not None and atom.kind == RANKED and x.has_all_places else None

    def _axes(self, size: int, stride: int) -> tuple[MeshAxis, ...]:
        found = axes_of(self.mesh, size, stride)
        if prod(axis.size for axis in found) != size:
            raise Unproved(f"{size} devices, {stride} apart, are no group of the mesh")
        return found

    def _ranks(self, size: int, stride: int) -> Iterator[dict[MeshAxis, int]]:
        return iter(ranks(self._axes(size, stride)))

    def _of(self, x: TermPiece, own: dict[MeshAxis, int]) -> TermPiece:
        terms = [
            (self._atom(atom, own), c, tuple([(n, places.of_device(at, own)) for n, at in addends]))
            for atom, c, addends in x.terms
        ]
        runs = tuple([places.of_device(at, own) for at in x.runs])
        return replace(x, runs=runs, terms=self.algebra.totalled(terms))

    def _atom(self, atom: Atom, own: dict[MeshAxis, int]) -> Atom:
        """What it is on a device. Raises Unproved where that is not known."""
        if atom.is_unknown:
            raise Unproved(atom.reason or "nothing is known of what the other devices of the group have")
        if atom.axes.isdisjoint(own):
            return atom
        if atom.kind not in OF_PLACES:
            raise Unproved(f"`{atom.kind}` is given another value on each device of the group")
        operands = tuple([tuple([(self._atom(a, own), c) for a, c in form]) for form in atom.operands])
        return self.algebra.terms.atom(atom.kind, atom.shape, operands, _details(atom, own), atom.linear)


def axes_of_atom(kind: str, details: object) -> frozenset[MeshAxis]:
    """The axes that an atom depends on by what distinguishes it."""
    return frozenset([details]) if kind == RANK and isinstance(details, MeshAxis) else axes_in(details)


def _details(atom: Atom, own: Mapping[MeshAxis, int]) -> Any:
    """What distinguishes an atom of such a kind, on a device."""
    match atom.kind:
        case "greatest":
            return tuple([(dimension, places.of_device(at, own), size) for dimension, at, size in atom.details])
        case "share":
            at, size = atom.details
            return places.of_device(at, own), size
        case _:
            return at_ranks(atom.details, own)


def _addends(each: Sequence[Addends], axes: Sequence[MeshAxis]) -> Addends:
    """The addends that devices of a group have of one term, for all of them."""
    numbers = {tuple([number for number, _ in addends]) for addends in each}
    if len(numbers) > 1:
        raise Unproved("the devices of the group have addends of different sums")
    columns = [[at for _, at in column] for column in zip(*each, strict=True)]
    return tuple([(number, places.fitted(column, axes)) for number, column in zip(*numbers, columns, strict=True)])


@lru_cache(maxsize=1 << 10)  # those of all gradients are the same
def _together(runs: Runs, axes: tuple[MeshAxis, ...]) -> Runs | None:
    """The places that devices of all ranks have; None where they have some in common."""
    return places.union([places.of_device(runs, own) for own in ranks(axes)])
