"""Distributions of the slow-down of devices and links in one step.

A factor holds for a whole step: a device that throttles, a card with errors. It depends only on the seed, the source
and the number of the draw, so different programs are compared on the same draws of the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from distir.cost import Hardware
from distir.cost.hardware import DeviceLink
from distir.diagnostics import suggestion
from distir.ir.errors import DistirError
from distir.ops.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Places = NDArray[np.intp]

DRAWS = 10_000
"""The default number of steps drawn."""

TARGETS = ("devices", "nodes", "links")
"""The targets that may be late, besides the names of levels, for their links."""

EXAMPLE = "write for example `devices=lognormal:0.05`, `nodes=slow:0.01:1.5` or `links=exponential:0.1`"


class SpreadError(DistirError, ValueError):
    """A specification of lateness is invalid. `help` says how to write it."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.help = message, help


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of factors, from 0 on. `parameters`: by name, the least and the most that each may be."""

    name: str
    meaning: str
    parameters: Mapping[str, tuple[float, float]]
    sample: Callable[..., Any]
    """Draws factors, from a numpy generator, a count, and the parameters."""


DISTRIBUTIONS: dict[str, Distribution] = {}
"""By name."""


def distribution(name: str, meaning: str, **parameters: tuple[float, float]) -> Callable[[Callable[..., Any]], Any]:
    """Declare a distribution."""

    def declare(sample: Callable[..., Any]) -> Callable[..., Any]:
        DISTRIBUTIONS[name] = Distribution(name, meaning, parameters, sample)
        return sample

    return declare


@distribution("lognormal", "e to the power of a normal number with this standard deviation; median 1", sigma=(0, 3))
def _lognormal(generator: np.random.Generator, count: int, sigma: float) -> Vector:
    return generator.lognormal(0.0, sigma, count)


@distribution("exponential", "1 and an exponential number with this mean", mean=(0, 100))
def _exponential(generator: np.random.Generator, count: int, mean: float) -> Vector:
    return 1.0 + generator.exponential(mean, count)


@distribution(
    "slow", "with this probability so many times as long, otherwise 1", probability=(0, 1), factor=(0.01, 1e4)
)
def _slow(generator: np.random.Generator, count: int, probability: float, factor: float) -> Vector:
    return np.where(generator.random(count) < probability, factor, 1.0)


@dataclass(frozen=True, slots=True)
class Lateness:
    """Everything of one kind is late by a distribution, each by a factor of its own.

    `target`: `devices`, `nodes` (all devices of one alike), `links` (of each device and level), or a level's name.
    """

    target: str
    distribution: str
    parameters: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.target}={':'.join([self.distribution, *(f'{p:g}' for p in self.parameters)])}"


def parse(text: str) -> Lateness:
    """Parse `devices=slow:0.01:1.5`: a target, a distribution and its parameters. Raises SpreadError."""
    target, equals, said = text.partition("=")
    name, *numbers = said.split(":")
    if not equals or not target:
        raise SpreadError(f"expected what is late, and by how much, found `{text}`", EXAMPLE)
    found = DISTRIBUTIONS.get(name)
    if found is None:
        known = suggestion(name, sorted(DISTRIBUTIONS)) or f"there are {', '.join(DISTRIBUTIONS)}"
        raise SpreadError(f"there is no distribution `{name}` in `{text}`", known)
    if len(numbers) != len(found.parameters):
        wanted = ":".join([name, *(parameter.upper() for parameter in found.parameters)])
        raise SpreadError(f"expected `{target}={wanted}`, found `{text}`", f"{name}: {found.meaning}")
    values: list[float] = []
    for number, (parameter, (least, most)) in zip(numbers, found.parameters.items(), strict=True):
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            message = f"expected a {parameter} from {least:g} to {most:g}, found `{number}` in `{text}`"
            raise SpreadError(message, f"{name}: {found.meaning}")
        values.append(value)
    return Lateness(target, name, tuple(values))


@dataclass(frozen=True, slots=True, order=True)
class LateSource:
    """Something that may be late by itself: a device's computing, that of a node, or a device's link of one level.

    `position`: on the machine, of a node the first of its devices; `level`: its place among the machine's levels.
    """

    what: Literal["device", "node", "link"]
    position: int
    level: int = -1


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of lateness in a machine, each with its distributions, each of these with its number."""

    hardware: Hardware
    late: Mapping[LateSource, tuple[tuple[int, Lateness], ...]]

    def of_device(self, position: int) -> list[LateSource]:
        """The sources on which a device's computation depends."""
        own = LateSource("device", position), LateSource("node", self.hardware.node(position).start)
        return [source for source in own if source in self.late]

    def of_link(self, link: DeviceLink) -> list[LateSource]:
        """The sources on which transfers over a link depend."""
        source = LateSource("link", *link)
        return [source] if source in self.late else []

    def drawn(self, seed: int) -> Drawing:
        """The draws of a seed."""
        return Drawing(self, seed)

    def label(self, source: LateSource, numbers: Mapping[int, int]) -> str:
        """A source in words; `numbers`: by position, what the program calls a device."""
        if source.what == "node":
            devices = self.hardware.node(source.position)
            used = [numbers[at] for at in devices if at in numbers]
            return f"node of devices {used[0]} to {used[-1]}" if len(used) > 1 else f"node of device {used[0]}"
        device = f"device {numbers[source.position]}"
        return device if source.what == "device" else f"{self.hardware.levels[source.level].name} of {device}"


def sources(
    hardware: Hardware, lateness: Sequence[Lateness], positions: Iterable[int], links: Iterable[DeviceLink]
) -> Sources:
    """The sources of lateness among the devices and links that a program uses. Raises SpreadError for unknown ones."""
    levels = [level.name for level in hardware.levels]
    for one in lateness:
        if one.target not in (*TARGETS, *levels):
            known = [*TARGETS, *levels]
            message = f"`{hardware.name}` has no `{one.target}` to be late: expected {', '.join(known)}"
            raise SpreadError(message, suggestion(one.target, known))
    used = sorted(positions)
    found: dict[LateSource, tuple[tuple[int, Lateness], ...]] = {}

    def add(source: LateSource, *names: str) -> None:
        own = tuple([(at, one) for at, one in enumerate(lateness) if one.target in names])
        if own:
            found[source] = own

    for position in used:
        add(LateSource("device", position), "devices")
    for first in dict.fromkeys(hardware.node(position).start for position in used):
        add(LateSource("node", first), "nodes")
    for position, level in sorted(links):
        add(LateSource("link", position, level), "links", levels[level])
    return Sources(hardware, found)


_CODES = {"device": 1, "node": 2, "link": 3}


class Drawing:
    """The factors of all sources, draw by draw: each call of `next` continues where the last one ended."""

    def __init__(self, of: Sources, seed: int) -> None:
        self._of = of
        self._seed = seed
        self._generators: dict[tuple[LateSource, int], np.random.Generator] = {}

    def next(self, count: int) -> dict[LateSource, Vector]:
        """The next factors, by source."""
        found: dict[LateSource, Vector] = {}
        for source, distributions in self._of.late.items():
            factor = np.ones(count)
            for place, lateness in distributions:
                key = source, place
                if key not in self._generators:
                    entropy = self._seed, _CODES[source.what], source.position, source.level + 1, place
                    self._generators[key] = np.random.default_rng(entropy)
                sample = DISTRIBUTIONS[lateness.distribution].sample
                factor = factor * cast("Vector", sample(self._generators[key], count, *lateness.parameters))
            found[source] = factor
        return found
