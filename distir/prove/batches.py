"""Which microbatch of which replica some rows of a batch are: words for what pieces are, which no proof rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distir.ir import Function
from distir.prove import runs as places
from distir.prove.history import Related
from distir.prove.pieces import TermPiece
from distir.prove.runs import Runs
from distir.prove.terms import Atom


@dataclass(frozen=True, slots=True)
class Microbatch:
    """Which part of the batch: of how many replicas which one, and of how many microbatches of it; from 1."""

    replica: int
    replicas: int
    number: int
    count: int

    def __str__(self) -> str:
        replica = f"replica {self.replica}" if self.replicas > 1 else ""
        own = f"microbatch {self.number}" if self.count > 1 else ""
        return ", ".join(filter(None, (replica, own)))


@dataclass
class Batches:
    """The rows of the batch that devices are given: of replicas, by the dimension and its size."""

    given: tuple[tuple[int, int, tuple[Runs, ...]], ...] = ()
    inputs: frozenset[Atom] = frozenset()
    """The parameters that have a batch."""
    _depends: dict[Atom, bool] = field(default_factory=dict[Atom, bool])

    def of(self, axis: int, size: int, runs: Runs) -> Microbatch | None:
        """What rows of a dimension are of the batch; None where they are no equal part of what a device is given.

        The dimension may have others behind it, as tokens of sequences.
        """
        runs = places.of_first(runs)
        for own, whole, parts in self.given:
            rows = batch_rows(runs, size, whole) if axis == own else None
            for k, part in enumerate(parts if rows else ()):
                width = places.length(rows or ())
                count, rest = divmod(places.length(part), width)
                for j in range(0 if rest else count):
                    if places.taken(part, j * width, (j + 1) * width) == rows:
                        return Microbatch(k + 1, len(parts), j + 1, count)
        return None

    def of_addends(self, size: int, runs: Runs) -> Microbatch | None:
        """The same of addends of a sum over the batch."""
        return next((found for axis, _, _ in self.given if (found := self.of(axis, size, runs)) is not None), None)

    def of_piece(self, piece: TermPiece) -> Microbatch | None:
        """Which part of the batch a value is of; None of what no input leads to."""
        if not any(self.leads_to(atom) for atom, _, _ in piece.terms):
            return None
        for axis, (size, runs) in enumerate(zip(piece.whole, piece.runs, strict=True)):
            if runs != places.full(size) and (found := self.of(axis, size, runs)) is not None:
                return found
        return None

    def leads_to(self, atom: Atom) -> bool:
        """Whether an atom is made of an input."""
        stack = [atom]
        while stack:
            top = stack[-1]
            if top in self._depends:
                stack.pop()
                continue
            inner = [a for form in top.operands for a, _ in form]
            new = [a for a in inner if a not in self._depends]
            if top in self.inputs or not new:
                self._depends[stack.pop()] = top in self.inputs or any(self._depends[a] for a in inner)
            else:
                stack += new
        return self._depends[atom]


def batch_rows(runs: Runs, size: int, whole: int) -> Runs | None:
    """The rows of a batch of `whole` that places of a dimension of `size` are, which has others behind the batch."""
    inner, rest = divmod(size, whole)
    if rest or any(start % inner or stop % inner for start, stop in runs):
        return None
    return tuple([(start // inner, stop // inner) for start, stop in runs])


def batches(main: Function, given: Sequence[Related]) -> Batches:
    """The parts of the batch among the parameters of a program that say which dimension is the batch."""
    found: dict[tuple[int, int], dict[Runs, None]] = {}
    inputs: set[Atom] = set()
    for param, piece in zip(main.params, given, strict=False):
        axis = param.roles.get("batch")
        if isinstance(piece, TermPiece) and isinstance(axis, int) and axis < len(piece.whole):
            found.setdefault((axis, piece.whole[axis]), {})[places.of_first(piece.runs[axis])] = None
            inputs.update(atom for atom, _, _ in piece.terms)
    made: list[tuple[int, int, tuple[Runs, ...]]] = []
    for (axis, size), own in found.items():
        parts = [runs for runs in own if runs and (len(own) == 1 or runs != places.full(size))]
        made.append((axis, size, tuple(sorted(parts))))
    return Batches(tuple(made), frozenset(inputs))
