"""How often to save a training run, and what share of its time is left for steps, on machines that fail.

Failures come independently of each other and of time: exponentially, with the mean time `mtbf_s` between those of the
whole machine. A run does `steps` steps, saves, and so on; a failure, while it computes or saves, throws it back to what
was saved last, after a restart, in which it may fail again. Then so much work with one save takes, in the mean,

    E = M · e^(R/M) · (e^((τ + δ)/M) - 1)

with τ seconds of steps, δ of saving, R of restarting, and M between failures (J. T. Daly, "A higher order estimate of
the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22, 2006, equation 7). τ / E is
largest where (1 - τ/M) e^(τ/M) = e^(-δ/M), that is, τ = M (1 + W(-e^(-1 - δ/M))) with Lambert's W; for δ far below M
that is √(2δM) (J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17, 1974).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goodput:
    """A run that saves every `steps` steps. Times in seconds; `mtbf_s`: between failures of the whole machine."""

    step_s: float
    steps: int
    save_s: float
    restart_s: float
    mtbf_s: float

    @property
    def interval_s(self) -> float:
        """Seconds of steps between two saves."""
        return self.steps * self.step_s

    @property
    def goodput(self) -> float:
        """The share of the time that goes into steps which need not be done again, from 0 to 1."""
        return self._share(self.interval_s)

    @property
    def saving(self) -> float:
        """The share of the time that goes into saves which are kept."""
        return self._share(self.save_s)

    @property
    def failing(self) -> float:
        """The share of the time that failures cost: what is done again, and restarts."""
        return max(0.0, 1.0 - self.goodput - self.saving)

    def _share(self, seconds: float) -> float:
        exponent = (self.interval_s + self.save_s) / self.mtbf_s
        if exponent + self.restart_s / self.mtbf_s > math.log(1e300):
            return 0.0
        each = math.exp(self.restart_s / self.mtbf_s) * math.expm1(exponent)
        return seconds / (self.mtbf_s * each) if each else 1.0


def best_interval(save_s: float, mtbf_s: float) -> float:
    """The seconds of work between two saves that lose least, at any moment. Raises ValueError for what is no time."""
    if not (save_s >= 0 and mtbf_s > 0):
        raise ValueError(f"expected seconds of saving from 0, and between failures above 0, found {save_s}, {mtbf_s}")
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:  # to the last bit: what is compared falls from 0 on
        low, high = (middle, high) if math.log1p(-middle) + middle > -save_s / mtbf_s else (low, middle)
    return low * mtbf_s


def best_goodput(step_s: float, save_s: float, restart_s: float, mtbf_s: float) -> Goodput:
    """The run that saves every so many whole steps, one or more, as loses least.

    Seconds of a step, of saving, of restarting (with reading what was saved), and between failures of the whole
    machine. Raises ValueError for what is no time.
    """
    if not (step_s > 0 and restart_s >= 0):
        raise ValueError(f"expected seconds of a step above 0, and of restarting from 0, found {step_s}, {restart_s}")
    least = max(1, math.floor(best_interval(save_s, mtbf_s) / step_s))
    found = [Goodput(step_s, steps, save_s, restart_s, mtbf_s) for steps in (least, least + 1)]
    return max(found, key=lambda run: run.goodput)
