"""Steps on a machine whose devices and links are slow at random: quantiles, and what each source of lateness costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from distir.analysis.size import refuse_beyond
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import simulation as codes
from distir.ir import Part, Site
from distir.ops.numeric import np
from distir.simulate.simulation import Simulation
from distir.simulate.spread.clocks import Factors, latencies
from distir.simulate.spread.lateness import DRAWS, Lateness, LateSource, Sources, SpreadError, parse, sources
from distir.simulate.spread.track import Track, Tracks

if TYPE_CHECKING:
    from distir.simulate.spread.lateness import Places, Vector

    Late = tuple[LateSource, Places]
    """A source, and the draws in which it is late."""

MOST_STEPS = 5_000_000
"""The most steps that are simulated over all draws: minutes."""

LATER = 1.1
"""By what factor a source alone is late, to see what that costs."""

MOST_ON_TIME = 128
"""The number of sources, those with the greatest cost alone, whose cost in the draws is computed."""

AT_ONCE = 1 << 13
"""The most draws of several sources that are simulated together: their times fit into a core's cache."""

MOST_NUMBERS = 1 << 23
"""The most factors and times in memory at once."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one source's lateness, in seconds per step.

    `alone_s`: by how much a step takes longer if it alone is 10 % late. `drawn_s`: by how much the mean step of the
    draws would be shorter if it were never late, and all else as it is; None where that is not worked out.
    """

    source: str
    alone_s: float
    drawn_s: float | None


@dataclass(frozen=True)
class Spread:
    """Draws of a step. `seconds`: of each; `plain_s`: where nothing is late. The same seed gives the same draws."""

    plain_s: float
    seconds: Vector
    lateness: tuple[Lateness, ...]
    seed: int
    _track: Track = field(repr=False)
    _sources: Sources = field(repr=False)
    _numbers: Mapping[int, int] = field(repr=False)
    """By position, what the program calls a device."""

    @property
    def draws(self) -> int:
        """How many there are."""
        return len(self.seconds)

    @property
    def mean_s(self) -> float:
        """The mean step, in seconds."""
        return float(np.mean(self.seconds))

    def quantile(self, share: float) -> float:
        """The quantile of step times, in seconds: 0.5 for the median. Raises ValueError outside of 0 to 1."""
        return float(np.quantile(self.seconds, share))

    def factors(self) -> dict[LateSource, Vector]:
        """By source: how many times as long it takes, in each of the draws."""
        return self._sources.drawn(self.seed).next(self.draws)

    def late(self, draw: int) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
        """The arguments of `Hardware.slowed` for one draw: the factors of positions, and of links."""
        drawn = {source: factors[draw] for source, factors in self.factors().items()}
        devices = {
            position: float(np.prod([drawn[source] for source in self._sources.of_device(position)]))
            for position in self._numbers
        }
        links = {(s.position, s.level): float(factor) for s, factor in drawn.items() if s.what == "link"}
        return devices, links

    @cached_property
    def costs(self) -> tuple[Costs, ...]:
        """The costs of the sources' lateness, the greatest in the draws first."""
        known = list(self._sources.late)
        alone = self._alone(known)
        order = sorted(range(len(known)), key=lambda at: -alone[at])
        chosen = order[:MOST_ON_TIME]
        drawn = self._on_time([known[at] for at in chosen])
        named = [(self._sources.label(known[at], self._numbers), float(alone[at])) for at in order]
        found = [Costs(*one, drawn[place] if place < len(chosen) else None) for place, one in enumerate(named)]
        return tuple(sorted(found, key=lambda c: (-1.0 if c.drawn_s is None else c.drawn_s, c.alone_s), reverse=True))

    def _alone(self, known: Sequence[LateSource]) -> Vector:
        """By source: by how many seconds a step takes longer where it is 10 % late, and nothing else is late."""
        found: list[Vector] = []
        each = _at_once(len(known), self._track)
        for first in range(0, len(known), each):
            some = known[first : first + each]
            factors = {source: np.where(np.arange(len(some)) == at, LATER, 1.0) for at, source in enumerate(some)}
            found.append(_seconds(self._track, Factors(self._sources, factors), len(some)))
        return self.plain_s * (np.concatenate(found) / self._summed_s - 1) if found else np.zeros(0)

    @cached_property
    def _summed_s(self) -> float:
        return _plain(self._track, self._sources)

    def _on_time(self, chosen: Sequence[LateSource]) -> list[float]:
        """By source: what the first of the draws would take less, in the mean, if it were not late."""
        if not chosen:
            return []
        count = max(1, min(self.draws, 10 * self.draws // len(chosen), _at_once(len(self._sources.late), self._track)))
        factors = self._sources.drawn(self.seed).next(count)
        late = [(source, np.flatnonzero(factors[source] > 1.0)) for source in chosen]
        found: list[float] = []
        for some in _together(late, min(_at_once(len(self._sources.late), self._track), AT_ONCE)):
            total = sum(len(draws) for _, draws in some)
            prompt = {of: np.concatenate([_prompt(factors, of, own, draws) for own, draws in some]) for of in factors}
            seconds = _seconds(self._track, Factors(self._sources, prompt), total)
            shorter = self.plain_s * (seconds / self._summed_s)
            ends = np.cumsum([len(draws) for _, draws in some])
            for (_, draws), without in zip(some, np.split(shorter, ends[:-1]), strict=True):
                found.append(float(np.sum(self.seconds[draws] - without)) / count)
        return found


def _prompt(factors: Mapping[LateSource, Vector], of: LateSource, own: LateSource, draws: Places) -> Vector:
    """The factors of a source in some draws, in which `own` is not late."""
    return np.minimum(factors[of][draws], 1.0) if of == own else factors[of][draws]


def _together(late: Sequence[Late], most: int) -> Iterator[list[Late]]:
    """Sources with the draws in which they are late, in groups of `most` draws at most, or of a single source."""
    some: list[Late] = []
    held = 0
    for source, draws in late:
        if some and held + len(draws) > most:
            yield some
            some, held = [], 0
        some.append((source, draws))
        held += len(draws)
    if some:
        yield some


def spread(simulation: Simulation, lateness: Sequence[str | Lateness], draws: int = DRAWS, seed: int = 0) -> Spread:
    """Draw steps of a simulated program on devices and links that are late by chance.

    `lateness`: what is late, and by how much (`lateness.parse`). Raises SpreadError (a ValueError) for what the machine
    lacks, and for fewer draws than one; ProgramError where devices of the program represent others, which may be late
    one by one, and for programs of too many steps.
    """
    if draws < 1 or seed < 0:
        raise SpreadError(f"expected draws from 1 and a seed from 0, found {draws} and {seed}")
    stated = tuple([parse(one) if isinstance(one, str) else one for one in lateness])
    effects = simulation.effects
    if effects.represented:
        message = "a device of the program represents several, and each of them may be late by itself"
        site = Site(simulation.function.name, None, Part("name"))
        hint = "simulate the whole program, as `dtp` writes it without `representative=true`"
        raise ProgramError([Diagnostic(codes.REPRESENTED_LATENESS, site, message, help=hint)])
    tracks = Tracks(effects)
    track = tracks.of(simulation.body)
    refuse_beyond(
        track.length, MOST_STEPS, simulation.function.name, "draws are simulated of", of="steps of devices and groups"
    )
    numbers = {position: device for device, position in effects.place.items()}
    links = {link for timing in tracks.timings.values() for link in timing.links}
    found = sources(effects.hardware, stated, numbers, links)
    drawing = found.drawn(seed)
    parts: list[Vector] = []
    left, each = draws, _at_once(len(found.late), track)
    while left:
        count = min(left, each)
        parts.append(_seconds(track, Factors(found, drawing.next(count)), count))
        left -= count
    plain, seconds = simulation.latency_s, np.concatenate(parts)
    relative = seconds / _plain(track, found) if plain else np.ones(draws)
    return Spread(plain, plain * relative, stated, seed, track, found, numbers)


def _plain(track: Track, found: Sources) -> float:
    """The step where nothing is late, as the draws are summed up: they relate to it, so that its rounding cancels."""
    return float(_seconds(track, Factors(found, {}), 1)[0]) or 1.0


def _seconds(track: Track, factors: Factors, count: int) -> Vector:
    return np.broadcast_to(np.asarray(latencies(track, factors), dtype=np.float64), (count,))


def _at_once(late: int, track: Track) -> int:
    """How many draws are done at a time."""
    return max(16, MOST_NUMBERS // (1 + late + 3 * len(track.devices)))
