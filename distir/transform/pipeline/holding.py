"""Estimates the memory of the pieces of a program, for stages that fit.

From the storages of the sequential program: weights, gradients and optimizer state throughout, and for each microbatch
in flight the activations that the backward pass uses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from distir.analysis import analysed
from distir.cost import Hardware
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, Constant, names, types
from distir.simulate.bodies import Bodies
from distir.simulate.body import use_of_memory
from distir.simulate.effects import Effects
from distir.simulate.leaves import NO_STORAGE
from distir.simulate.simulation import BindError, arguments, cannot, place
from distir.simulate.storage import StorageMap, Unplanned
from distir.transform.pipeline.balance import Cuttable
from distir.transform.pipeline.microbatches import is_sum
from distir.transform.pipeline.reading import Phase, Reading
from distir.transform.steps import StepError

Cost = Callable[[int], float]


def pieces(
    reading: Reading,
    forward: Sequence[int],
    anchors: Mapping[int, int],
    begins: Sequence[int],
    seconds: Sequence[float],
    machine: Hardware,
    bind: Mapping[str, Constant],
    replicas: int,
    shards: int,
) -> list[Cuttable]:
    """The pieces of the forward pass that begin at `begins`, each with its part of the backward pass.

    `anchors`: by statement of the backward pass, its place in `forward`; `seconds`, by place. The batch is split over
    `replicas`, all values evenly over `shards`. Raises StepError if a size is unknown, ProgramError if the program
    cannot be simulated.
    """
    found = _Storages(reading, machine, bind, shards)
    share = 1 / (reading.count * replicas)
    piece_of = {i: bisect_right(begins, p) - 1 for p, i in enumerate(forward)}
    piece_of |= {i: bisect_right(begins, p) - 1 for i, p in anchors.items()}
    made = {r for i in forward for r in reading.statements[i][0].results}
    throughout: list[dict[object, float]] = [{} for _ in begins]
    in_flight: list[dict[object, float]] = [{} for _ in begins]
    working = [0.0 for _ in begins]
    sources, state = _sources(reading), _state(reading)
    updated: set[str] = set()
    """The weights whose state is already counted: that of a weight in several pieces belongs to the first."""
    for i, piece in sorted(piece_of.items(), key=lambda of: of[1]):
        statement = reading.statements[i][0]
        whole = [n for n in names(statement.args) if reading.is_whole(n) and not reading.is_host(n)]
        terms = [r for r in statement.results if r != DISCARD and is_sum(reading.values[r].shares)]
        used = {s for n in (*whole, *terms) for s in sources.get(n, (n,))}
        throughout[piece] |= found.sizes([*used, *(s for n in used - updated for s in state.get(n, ()))])
        updated |= used
        if i in anchors:
            kept = found.sizes(n for n in names(statement.args) if n in made)
            in_flight[piece] |= {storage: share * size for storage, size in kept.items()}
            own = sum(found.sizes(terms).values())
            rise = found.rise(statement.results)
            working[piece] = max(working[piece], min(rise, own) + share * max(rise - own, 0.0))
    times = [sum(seconds[a:b]) for a, b in pairwise([*begins, len(forward)])]
    return [Cuttable(*of) for of in zip(times, throughout, in_flight, working, strict=True)]


def _sources(reading: Reading) -> dict[str, set[str]]:
    """By value that all microbatches share: itself, and the values from which it is computed."""
    given = {p.name for p in reading.entry.params if p.name not in reading.batch and not reading.is_host(p.name)}
    sources: dict[str, set[str]] = {name: {name} for name in given}
    for statement, phase in reading.statements:
        if phase is Phase.BEFORE:
            used = set[str]().union(*(sources.get(n, set()) for n in names(statement.args)))
            sources.update((r, used | {r}) for r in statement.results)
    return sources


def _state(reading: Reading) -> dict[str, set[str]]:
    """By weight: the parameters that are updated with it."""
    sources = _sources(reading)
    used = {n for s, phase in reading.statements if phase is Phase.MICROBATCH for n in names(s.args)}
    weights = set[str]().union(*(sources.get(name, ()) for name in used))
    given = {p.name for p in reading.entry.params if p.name in sources}
    state: dict[str, set[str]] = {}
    for statement, phase in reading.statements:
        if phase is Phase.AFTER:
            taken = given.intersection(names(statement.args))
            for name in taken & weights:
                state.setdefault(name, set()).update(taken - weights)
    return state


class _Storages:
    """The storages of the sequential program; values that share memory share them."""

    def __init__(self, reading: Reading, machine: Hardware, bind: Mapping[str, Constant], shards: int) -> None:
        analysis, entry = analysed(reading.module), reading.module.entry()
        assert entry is not None
        unknown = sorted(frozenset[str]().union(*(types.dim_names(p.type) for p in entry.params)) - {*bind})
        if unknown:
            raise StepError(f"stages are cut by memory for known sizes: state `bind={unknown[0]}=64`, or so")
        try:
            instance = analysis.domain.entered(entry, arguments(entry, bind))
            effects = Effects(analysis.domain, machine, place(analysis.domain, instance, machine))
            bodies = Bodies(StorageMap(analysis.domain, effects))
            self._body = bodies.entry(instance)
            self._found = bodies.storages.of(instance)
        except BindError as error:
            raise StepError(str(error)) from None
        except Unplanned as unplanned:
            raise ProgramError([cannot(unplanned)]) from None
        self._shards = shards
        self._makers = {r: i for i, s in enumerate(entry.body) for r in getattr(s, "results", ())}

    def sizes(self, values: Iterable[str]) -> dict[object, float]:
        """The bytes of the storages of some values."""
        places = self._found.places
        storages = {s for name in values for s in places.get(name, ()) if s != NO_STORAGE}
        return {s: self._found.sizes[s][1] / self._shards for s in storages}

    def rise(self, results: Sequence[str]) -> float:
        """The greatest increase of memory, in bytes, while the statement with these results runs."""
        index = next((self._makers[r] for r in results if r != DISCARD and r in self._makers), None)
        if index is None:
            return 0.0
        used = use_of_memory(self._body, index, index + 1)
        return max((peak for _, peak in used.values()), default=0) / self._shards
