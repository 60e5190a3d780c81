"""Which microbatch of which replica some rows of a batch are: words for what pieces are, which no proof rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.ir import Function
from distir.prove import runs as places
from distir.prove.domain import Related
from distir.prove.pieces import TermPiece
from distir.prove.runs import Runs


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


@dataclass(frozen=True, slots=True)
class Batches:
    """The rows of the batch that devices are given: of replicas, by the dimension and its size."""

    given: tuple[tuple[int, int, tuple[Runs, ...]], ...] = ()

    def of(self, axis: int, size: int, runs: Runs) -> Microbatch | None:
        """What rows of a dimension are of the batch; None where they are no equal part of what a device is given."""
        for own, whole, parts in self.given:
            if (own, whole) != (axis, size) or not runs:
                continue
            for k, part in enumerate(parts):
                count, rest = divmod(places.length(part), places.length(runs))
                width = places.length(runs)
                for j in range(0 if rest else count):
                    if places.taken(part, j * width, (j + 1) * width) == runs:
                        return Microbatch(k + 1, len(parts), j + 1, count)
        return None

    def of_addends(self, size: int, runs: Runs) -> Microbatch | None:
        """The same of addends of a sum over the batch."""
        for axis, whole, _ in self.given:
            if whole == size and (found := self.of(axis, size, runs)) is not None:
                return found
        return None

    def of_piece(self, piece: TermPiece) -> Microbatch | None:
        """Which part of the batch a value is of, or sums over."""
        for axis, (size, runs) in enumerate(zip(piece.whole, piece.runs, strict=True)):
            if runs != places.full(size) and (found := self.of(axis, size, runs)) is not None:
                return found
        return None


def batches(main: Function, given: Sequence[Related]) -> Batches:
    """The parts of the batch among the parameters of a program that say which dimension is the batch."""
    found: dict[tuple[int, int], dict[Runs, None]] = {}
    for param, piece in zip(main.params, given, strict=False):
        axis = param.roles.get("batch")
        if isinstance(piece, TermPiece) and isinstance(axis, int) and axis < len(piece.whole):
            found.setdefault((axis, piece.whole[axis]), {})[piece.runs[axis]] = None
    made: list[tuple[int, int, tuple[Runs, ...]]] = []
    for (axis, size), own in found.items():
        parts = [runs for runs in own if runs and (len(own) == 1 or runs != places.full(size))]
        made.append((axis, size, tuple(sorted(parts))))
    return Batches(tuple(made))
