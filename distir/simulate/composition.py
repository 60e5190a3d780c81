"""The composition of a memory peak: weights, gradients, optimizer state, activations."""

from __future__ import annotations

from collections.abc import Iterable

from distir.analysis.kinds import KINDS, TEMPORARY, ValueKinds
from distir.simulate.curves import Kinds, Moment, courses
from distir.simulate.descent import Run
from distir.simulate.simulation import Simulation


def compositions(simulation: Simulation) -> dict[int, dict[str, int]]:
    """By physical memory: the bytes of each kind at its peak, which they add up to; kinds that have none are left out.

    Of several moments at the peak the first counts.
    """
    found = _courses(simulation, None, 0)
    return {memory: highest(found[memory]) if memory in found else {} for memory in sorted(simulation.peaks)}


def highest(moments: Iterable[Moment]) -> dict[str, int]:
    """The bytes of each kind in the first of the moments at which most is in use; kinds that have none are left out."""
    _, _, levels = max(moments, key=lambda moment: moment[1])
    return {kind: nbytes for kind, nbytes in zip(KINDS, levels, strict=True) if nbytes}


def curves(simulation: Simulation, tolerance: int | None) -> dict[int, list[Moment]]:
    """By physical memory: the moments, in ticks, from which on something else is in use, and the bytes of each kind.

    With a `tolerance`, in ticks, thinned as `simulate.curves` says. Raises TooManyRuns.
    """
    return _courses(simulation, simulation.timeline().descent.root, tolerance)


def _courses(simulation: Simulation, run: Run | None, tolerance: int | None) -> dict[int, list[Moment]]:
    known = ValueKinds(simulation.module, simulation.function)
    profile = simulation.memory()
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    given = bytes([numbers[known.of_parameter(name)] for name in profile.entry_names])
    base: dict[int, list[int]] = {}
    for (memory, nbytes), kind in zip(profile.entry_sizes, given, strict=True):
        base.setdefault(memory, [0] * len(KINDS))[kind] += nbytes
    kinds = Kinds(len(KINDS), numbers[TEMPORARY], lambda function, name: numbers[known.of(function, name)])
    levels = {memory: tuple(found) for memory, found in base.items()}
    return courses(simulation.body, run, kinds, given, levels, tolerance)
