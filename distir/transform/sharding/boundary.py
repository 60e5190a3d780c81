"""What a caller sees of a function: which dimensions of its parameters and results belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from distir.ir import Arg, Function
from distir.ops.layout import Blocks
from distir.transform.sharding.classes import Place, Settled, Traits

Sides = Sequence[tuple[tuple[tuple[int, ...], int], int, Blocks]]
"""The dimensions of a parameter or result: the way to the leaf and the axis, the class, and its blocks in it."""

Boundary = Mapping[int, Sides]
"""By number of a parameter or result."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A function's boundary: the class of each dimension of its parameters and results, and its blocks in it."""

    params: Boundary
    results: Boundary
    classes: tuple[Traits, ...]
    conflicts: frozenset[frozenset[int]]
    """Classes that cannot be split both: a value has both, or an op."""

    @property
    def makes_no_dimension(self) -> bool:
        """Whether every dimension of the results is one with some of the parameters, and none consists of blocks."""
        given = {of for rows in self.params.values() for _, of, _ in rows}
        return all(of in given and not blocks for rows in self.results.values() for _, of, blocks in rows)


def summary_of(function: Function, settled: Settled) -> Summary:
    """The boundary of a function whose dimensions are known."""
    number: dict[int, int] = {}
    by_name: dict[str, list[tuple[Place, int, Blocks]]] = {}
    for place, (of, blocks) in settled.places.items():
        by_name.setdefault(place[0], []).append((place, of, blocks))

    def boundary(names: Iterable[Arg]) -> Boundary:
        return {
            position: [
                ((path, axis), number.setdefault(of, len(number)), blocks)
                for (_, path, axis), of, blocks in (by_name.get(name, ()) if isinstance(name, str) else ())
            ]
            for position, name in enumerate(names)
        }

    params, results = boundary(p.name for p in function.params), boundary(function.returned)
    conflicts = frozenset(
        frozenset(number[of] for of in pair) for pair in settled.conflicts if all(of in number for of in pair)
    )
    return Summary(params, results, tuple(settled.traits[of] for of in number), conflicts)
