"""The roofline: how long a device takes to compute. Knows one device; nothing of topology or files.

The time of an op is `launch + max(flops / rate, bytes / bandwidth)` (Williams, Waterman and Patterson, "Roofline",
CACM 2009). The maximum, not the sum: a GPU runs enough threads that loads of some overlap with arithmetic of others,
so the slower of the two streams decides; a sum would overstate ops near the ridge up to twice. The launch is added,
because neither stream runs before the op has started.

The rate is what was achieved, not the peak, and depends on the size of the op: small matrix products do not fill a
device. Between the measured sizes, the rate follows a power law (a line in the logarithms of both), beyond them it is
constant.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from distir.ir import DType


@dataclass(frozen=True, slots=True)
class Rate:
    """Arithmetic of one element type. `points`: (FLOPs of the op, FLOP/s achieved), sizes ascending, at least one."""

    peak: float
    points: tuple[tuple[float, float], ...]

    def achieved(self, flops: float) -> float:
        """FLOP/s that an op of this size achieves."""
        points = self.points
        if flops <= points[0][0]:
            return points[0][1]
        if flops >= points[-1][0]:
            return points[-1][1]
        above = bisect_right(points, (flops, math.inf))
        (size, rate), (next_size, next_rate) = points[above - 1], points[above]
        return rate * (next_rate / rate) ** (math.log(flops / size) / math.log(next_size / size))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device. `rates` has every element type; `other` serves work that names none.

    `memory` in bytes; `bandwidth` achieved and `peak_bandwidth` in bytes/s; `launch` in seconds per op; `tdp` in
    watts; `price` per hour.
    """

    name: str
    title: str
    memory: int
    bandwidth: float
    peak_bandwidth: float
    launch: float
    rates: Mapping[DType, Rate]
    other: Rate
    tdp: float | None = None
    price: float | None = None


def roofline(kind: Kind, flops: float, nbytes: float, dtype: DType | None) -> tuple[float, float]:
    """Seconds of arithmetic and seconds of memory traffic; the slower counts, after `kind.launch`."""
    rate = kind.other if dtype is None else kind.rates[dtype]
    return (flops / rate.achieved(flops) if flops else 0.0), nbytes / kind.bandwidth
