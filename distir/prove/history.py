"""What statements made of which operands, in the order in which they ran: where a value became what it is.

For words alone: no proof rests on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from distir.ir import Apply, Call, Return, Statement, types
from distir.ops import type_of
from distir.prove import runs as places
from distir.prove.pieces import TermPiece
from distir.prove.terms import Atom, Form, Shape

SUMS = frozenset(("MPIAllreduce", "MPIReduce", "MPIReduceScatter", "GroupAllreduce", "GroupReduceScatter"))
"""The collectives that add up."""


Related = Any
"""A piece, a tuple of values, or None."""

Frame = tuple[str, Call, tuple[Related, ...]]
"""A call: the function that it is in, the statement, and its operands."""


@dataclass(frozen=True, slots=True, eq=False)
class MadeBy:
    """The statement that makes a value, in which function, and of which program."""

    function: str
    statement: Apply
    sequential: bool
    given: tuple[Related, ...] = ()
    """Its operands."""
    calls: tuple[Frame, ...] = ()
    """The calls that lead to it, the outermost first."""


@dataclass
class PastStatements:
    """Statements with their operands and results, each once for each call that is interpreted."""

    entries: list[tuple[MadeBy, tuple[Any, ...]]] = field(default_factory=list["tuple[MadeBy, tuple[Any, ...]]"])

    def add(self, made: MadeBy, results: tuple[Any, ...]) -> None:
        """One more statement has run."""
        self.entries.append((made, results))

    def inputs(self, atoms: frozenset[Atom]) -> Iterator[TermPiece]:
        """The parts of these atoms alone that statements give."""
        return (piece for atom in atoms for piece in self._alone.get(atom, ()))

    def dimensions(self, number: int, size: int) -> list[tuple[TermPiece, int]]:
        """Along which dimensions of which operands a partial sum of `size` addends was first made."""
        made = self._partial.get(number)
        return [
            (piece, axis)
            for piece in pieces(() if made is None else made.given)
            for axis, (whole, runs) in enumerate(zip(piece.whole, piece.runs, strict=True))
            if whole == size and runs != places.full(size)
        ]

    def sum_of(self, values: Any) -> tuple[MadeBy, str] | None:
        """The first collective that adds up the partial sums among values, and its result on their device."""
        parts = [(atom, own, device_of(x)) for x in pieces(values) for atom, _, own in x.terms if own]
        return next((self._totals[part] for part in parts if part in self._totals), None)

    def disordering(self, values: Any) -> tuple[MadeBy, str] | None:
        """The statement that first joined places in another order, of values that have them so, and its result."""
        seen: set[TermPiece] = set()
        found, given = None, values
        while (piece := next((x for x in pieces(given) if _is_disordered(x)), None)) and piece not in seen:
            seen.add(piece)
            if piece not in self._first:
                break
            found = self._first[piece]
            given = found[0].given
        return found

    @cached_property
    def _first(self) -> dict[TermPiece, tuple[MadeBy, str]]:
        """The first statement that made each value, and its result."""
        found: dict[TermPiece, tuple[MadeBy, str]] = {}
        for made, results in self.entries:
            for name, result in zip(made.statement.results, results, strict=False):
                for piece in pieces(result):
                    found.setdefault(piece, (made, name))
        return found

    @cached_property
    def _alone(self) -> dict[Atom, dict[TermPiece, None]]:
        """The values that are parts of one atom."""
        found: dict[Atom, dict[TermPiece, None]] = {}
        for _, results in self.entries:
            for piece in pieces(results):
                if len(piece.terms) == 1:
                    found.setdefault(piece.terms[0][0], {})[piece] = None
        return found

    @cached_property
    def _partial(self) -> dict[int, MadeBy]:
        """The first statement that made a partial sum, by the sum's number."""
        found: dict[int, MadeBy] = {}
        for made, results in self.entries:
            for piece in pieces(results):
                for number in [number for _, _, addends in piece.terms for number, _ in addends]:
                    found.setdefault(number, made)
        return found

    @cached_property
    def _totals(self) -> dict[Any, tuple[MadeBy, str]]:
        """The first collective that adds up a part of a sum, and its result, by the part and its device."""
        found: dict[Any, tuple[MadeBy, str]] = {}
        for made, _ in self.entries:
            if made.statement.op in SUMS:
                for given, result in zip(made.given, made.statement.results, strict=False):
                    for piece in pieces(given):
                        for atom, _, own in piece.terms:
                            found.setdefault((atom, own, device_of(piece)), (made, result))
        return found

    @cached_property
    def _whole(self) -> dict[tuple[Shape, Form], MadeBy]:
        """The first statement that made a value of which no addends are missing."""
        found: dict[tuple[Shape, Form], MadeBy] = {}
        for made, results in self.entries:
            for piece in pieces(results):
                if not piece.is_partial:
                    found.setdefault((piece.whole, piece.form), made)
        return found

    def made(self, shape: Shape, form: Form) -> MadeBy | None:
        """The first statement that made a value, or a part of it."""
        return self._whole.get((shape, form))

    def counted(self, atom: Atom, times: float) -> MadeBy | None:
        """The first statement whose result has an atom so many times, and none of whose operands has."""
        for made, results in self.entries:
            if any(_times(piece, atom) == times for piece in pieces(results)):
                return None if any(_times(piece, atom) == times for piece in pieces(made.given)) else made
        return None


def pieces(v: Any) -> Iterator[TermPiece]:
    """The pieces that values consist of."""
    if isinstance(v, tuple):
        for item in cast("tuple[Any, ...]", v):
            yield from pieces(item)
    elif isinstance(v, TermPiece):
        yield v


def of_first(v: Any) -> Any:
    """What the device has that is written down, and may represent others."""
    if isinstance(v, tuple):
        return tuple(map(of_first, cast("tuple[Any, ...]", v)))
    if v is None:
        return None
    terms = tuple([(atom, c, places.of_first(addends)) for atom, c, addends in v.terms])
    return replace(v, runs=places.of_first(v.runs), terms=terms)


def device_of(piece: TermPiece) -> int | None:
    """The device that a value is on; None of one that is on none, or on any."""
    device = types.device_of(type_of(piece.value))
    return device if isinstance(device, int) else None


def is_used(body: Sequence[Statement], name: str) -> bool:
    """Whether a statement of a body takes a value."""
    return any(isinstance(s, (Apply, Call, Return)) and name in s.args for s in body)


def _is_disordered(piece: TermPiece) -> bool:
    """Whether a value has places before ones that the whole has them behind."""
    return any(list(runs) != sorted(runs) for runs in places.of_first(piece.runs))


def _times(piece: TermPiece, atom: Atom) -> float:
    return sum(c for own, c, addends in piece.terms if own is atom and not addends)
