"""Times and sizes as people read them, wherever something is printed. Reads none: `distir.cost.units` does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SECONDS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))

_MOST_DIGITS = 15
"""More digits than three that are tried: all that a number has."""


def show_seconds(seconds: float) -> str:
    """Three significant digits, more where whole seconds have them: `12.4us`, `318us`, `1.20ms`, `4210s`."""
    return _show(seconds, _SECONDS)


def show_seconds_apart(seconds: float, others: Iterable[float]) -> str:
    """The same with as many digits more as tell it apart from other times: `397.012ms` beside `397.019ms`."""
    different = [other for other in others if other != seconds]
    for more in range(_MOST_DIGITS):
        shown = _show(seconds, _SECONDS, more)
        if all(_show(other, _SECONDS, more) != shown for other in different):
            return shown
    return f"{seconds!r}s"


@dataclass(frozen=True, slots=True)
class TimeScale:
    """One unit and one number of decimals for the times of a column."""

    unit: str
    size: float
    decimals: int

    def show(self, seconds: float) -> str:
        """A time: `0.086ms`, `12.900ms`."""
        return f"{seconds / self.size:.{self.decimals}f}{self.unit}"


_FINEST_S = 1e-9
"""Times that differ by less than this look alike on a common scale."""


def time_scale(times: Sequence[float]) -> TimeScale:
    """The scale in which the largest time has four digits and neighbours differ, down to nanoseconds."""
    largest = max(times, default=0.0)
    unit, size = _unit(largest, _SECONDS) if largest else _SECONDS[-1]
    different = [(one, other) for one, other in pairwise(times) if abs(one - other) >= _FINEST_S]
    scale = TimeScale(unit, size, _decimals(largest / size) + 1)
    while any(scale.show(one) == scale.show(other) for one, other in different):
        scale = TimeScale(unit, size, scale.decimals + 1)
    return scale


def show_bytes(nbytes: float) -> str:
    """Three significant digits in decimal units: `31.2GB`; below 1000 the exact number, `512B`."""
    return _show(nbytes, (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def show_speedup(speedup: float) -> str:
    """How one time compares with another that is `speedup` times as long: `1.08× faster`, `1.08× slower`, `as fast`."""
    if speedup == 1:
        return "as fast"
    factor, way = (speedup, "faster") if speedup > 1 else (1 / speedup, "slower")
    return f"{factor:.3g}× {way}" if factor >= 1.01 else f"{100 * (factor - 1):.2g}% {way}"


def _show(value: float, units: tuple[tuple[str, float], ...], more: int = 0) -> str:
    if value == 0 or not math.isfinite(value):
        base = next(unit for unit, size in units if size == 1)
        return f"{value:g}{base}"
    sign, value = ("-", -value) if value < 0 else ("", value)
    unit, size = _unit(value, units)
    scaled = value / size
    return f"{sign}{scaled:.3g}B" if unit == "B" else f"{sign}{scaled:.{_decimals(scaled) + more}f}{unit}"


def _unit(value: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """The first unit in which a value reads at least 1 once rounded: 999.7us is 1.00ms."""
    return next((u for u in units if value / u[1] >= 0.9995), units[-1])


def _decimals(scaled: float) -> int:
    """The decimals that make three significant digits of a number from 1 to 1000."""
    return 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
