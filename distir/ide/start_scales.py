"""How starts are written beside a function's statements: in one unit, with one number of digits, from one moment on.

A function that begins late would need many digits to tell its starts apart: there they count from its first op.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distir.cost import TimeScale, show_seconds, time_scale
from distir.ide.instances import View
from distir.simulate.show import Moment, Occurrence

MANY_DIGITS = 3
"""Starts are counted from the first one where they would take so many digits more than three."""

LONGEST = 5_000
"""Of a function of more statements the first so many decide how its starts are written."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Starts from `begin` on; `first` is how that is written itself."""

    scale: TimeScale
    begin: float
    first: str

    def show(self, start: float, mark: str) -> str:
        """A start: `12.90ms`, or `+0.007ms` after the function's beginning; with another mark than `+`, perhaps."""
        if not self.begin or start < self.begin:
            return self.scale.show(start)
        return self.first if start == self.begin else f"{mark or '+'}{self.scale.show(start - self.begin)}"


@dataclass(slots=True)
class _Known:
    """The scales of one simulation, by function, first event of the call and number of statements: a part has fewer."""

    by_call: dict[tuple[str, int, int], _Scale] = field(default_factory=dict[tuple[str, int, int], _Scale])


class StartScales:
    """The scales of the calls that are shown."""

    def __init__(self, view: View) -> None:
        self._view = view

    def start(self, function: str, moment: Moment, mark: str = "") -> str:
        """When a statement of a function starts, as it is written in a hint."""
        occurrence = self._view.shown(function)
        assert occurrence is not None
        assert self._view.simulated is not None
        known = self._view.simulated.remembered(_Known).by_call
        key = (function, occurrence.first_event, len(occurrence.instance.function.body))
        if key not in known:
            known[key] = self._found(occurrence)
        return known[key].show(moment.start, mark)

    def _found(self, occurrence: Occurrence) -> _Scale:
        count = min(len(occurrence.instance.function.body), LONGEST)
        moments = (self._view.moment_of(occurrence, index) for index in range(count))
        starts = [moment.start for moment in moments if moment is not None]
        first, last = min(starts), max(starts)
        plain = time_scale(starts)
        if not first or len(plain.show(last)) - len(show_seconds(last)) < MANY_DIGITS:
            return _Scale(plain, 0.0, "")
        return _Scale(time_scale([start - first for start in starts]), first, plain.show(first))
