"""A piece of advice: how a text changes, what that gains by simulation, and why its results are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from distir.cost.hardware import Fit, worst_fit
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.edits import Edit
from distir.simulate.simulation import Simulation


class AdviceKind(StrEnum):
    """The kind of change."""

    MOVE = "move"
    RECOMPUTE = "recompute"
    STEP = "step"


class Assurance(StrEnum):
    """Why the results are the same. All advice gives a program that checks."""

    ORDER = "order"
    PROVED = "proved"
    VERIFIED = "verified"
    NOT_COMPARED = "not_compared"

    @property
    def in_words(self) -> str:
        """For people."""
        return _ASSURANCES[self]


_ASSURANCES = {
    Assurance.ORDER: "the same statements in another order that data flow allows",
    Assurance.PROVED: "proved for all values",
    Assurance.VERIFIED: "equal on random inputs",
    Assurance.NOT_COMPARED: "checks; results not compared",
}


@dataclass(frozen=True, slots=True)
class AdviceFigures:
    """The costs of a program.

    `fits`: whether every device has the memory that is simulated; `fit`: the same with the errors of simulated memory.
    """

    latency_s: float
    peak_memory_bytes: int
    """Of the device that needs most."""
    devices: int
    fits: bool
    fit: Fit

    @classmethod
    def of(cls, simulation: Simulation) -> AdviceFigures:
        """Of a simulated program."""
        uses = simulation.devices.values()
        peak = max((use.peak_memory_bytes for use in uses), default=0)
        fits, fit = all(use.fits for use in uses), worst_fit(use.fit for use in uses)
        return cls(simulation.latency_s, peak, len(uses), fits, fit)


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that makes a program faster, or need less memory.

    `span`: what it is about. `edits` change the text that it was found of. `steps`: of a transform, the words of
    `distir transform`. `why`: why results are not compared, where they are not.
    """

    title: str
    kind: AdviceKind
    span: Span
    edits: tuple[Edit, ...]
    before: AdviceFigures
    after: AdviceFigures
    assurance: Assurance = Assurance.NOT_COMPARED
    steps: tuple[str, ...] = ()
    why: str | None = None

    @property
    def speedup(self) -> float:
        """How many times faster the program is: at least 0, infinite where it takes no time any more."""
        return self.before.latency_s / self.after.latency_s if self.after.latency_s else float("inf")

    @property
    def saved_bytes(self) -> int:
        """By how much the peak of the device that needs most is lower; negative where it is higher."""
        return self.before.peak_memory_bytes - self.after.peak_memory_bytes

    @property
    def is_free(self) -> bool:
        """Whether it needs no more devices."""
        return self.after.devices <= self.before.devices


@dataclass(frozen=True, slots=True, eq=False)
class Advised:
    """The advice for one version of a text, best first.

    `untried`: what there was no time for, in words. `refused`: how many steps do not apply.
    """

    document: Document
    before: AdviceFigures
    advice: tuple[Advice, ...]
    untried: tuple[str, ...]
    refused: int
    seconds: float
    """How long that took."""

    @property
    def fastest(self) -> Advice | None:
        """The fastest on the devices that the program has; None where nothing is faster there."""
        free = [advice for advice in self.advice if advice.is_free and advice.speedup >= LEAST_SPEEDUP]
        return max(free, key=lambda advice: advice.speedup, default=None)

    def about_places(self) -> Sequence[Advice]:
        """For each place in the text, the fastest on the same devices."""
        found: dict[int, Advice] = {}
        for advice in self.advice:
            if advice.is_free and advice.speedup >= LEAST_SPEEDUP:
                known = found.get(advice.span.start)
                if known is None or known.speedup < advice.speedup:
                    found[advice.span.start] = advice
        return [found[start] for start in sorted(found)]

    def about(self, span: Span) -> Sequence[Advice]:
        """That of `about_places` for the places in a piece of the text."""
        return [found for found in self.about_places() if found.span.start <= span.end and span.start <= found.span.end]


LEAST_SPEEDUP = 1.01
"""Less is not worth a change."""

LEAST_SAVED = 0.01
"""Nor is a smaller part of the memory."""

SLOWEST = 0.8
"""Nor is memory that a program has anyway worth so much of its speed."""


def helps(advice: Advice) -> bool:
    """Whether it is worth a person's time: faster, or smaller, and nothing overflows that did not."""
    if advice.before.fits and not advice.after.fits:
        return False
    faster = advice.speedup >= LEAST_SPEEDUP
    smaller = advice.saved_bytes >= max(1, LEAST_SAVED * advice.before.peak_memory_bytes)
    return faster or (smaller and (advice.speedup >= SLOWEST or not advice.before.fits))


def in_order(found: Sequence[Advice]) -> tuple[Advice, ...]:
    """The best first: what makes a program fit, then what makes it faster, then what saves memory alone."""

    def rank(advice: Advice) -> tuple[bool, bool, float, int]:
        faster = advice.speedup >= LEAST_SPEEDUP
        makes_fit = advice.after.fits and not advice.before.fits
        return not makes_fit, not faster, -advice.speedup if faster else 0.0, -advice.saved_bytes

    return tuple(sorted(found, key=rank))
