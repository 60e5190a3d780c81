"""The summary of a function for its callers: which dimensions of its parameters and results are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from distir.ir import Arg, Function
from distir.transform.sharding.classes import Pieces, Place, Settled, Traits

Sides = Sequence[tuple[tuple[tuple[int, ...], int], Pieces]]
"""The dimensions of a parameter or result: path to the leaf, axis, and the classes of which it consists."""

Boundary = Mapping[int, Sides]
"""By number of a parameter or result."""


@dataclass(frozen=True, slots=True)
class BoundarySummary:
    """A function's boundary: the classes of each dimension of its parameters and results."""

    params: Boundary
    results: Boundary
    classes: tuple[Traits, ...]
    conflicts: frozenset[frozenset[int]]
    """Sets of classes, of one value or one op, of which at most one can be split."""


def summary_of(function: Function, settled: Settled) -> BoundarySummary:
    """The summary of a function whose dimensions are analysed."""
    number: dict[int, int] = {}
    by_name: dict[str, list[tuple[Place, Pieces]]] = {}
    for place, pieces in settled.places.items():
        by_name.setdefault(place[0], []).append((place, pieces))

    def boundary(names: Iterable[Arg]) -> Boundary:
        return {
            position: [
                ((path, axis), tuple((number.setdefault(of, len(number)), block) for of, block in pieces))
                for (_, path, axis), pieces in (by_name.get(name, ()) if isinstance(name, str) else ())
            ]
            for position, name in enumerate(names)
        }

    params, results = boundary(p.name for p in function.params), boundary(function.returned)
    seen = (frozenset(number[of] for of in group if of in number) for group in settled.conflicts)
    conflicts = frozenset(group for group in seen if len(group) > 1)
    return BoundarySummary(params, results, tuple(settled.traits[of] for of in number), conflicts)
