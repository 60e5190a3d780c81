"""Which causes explain what a run takes: what-ifs, each the same run with one of them taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from distir.transform.overlap import KINDS
from distir.validate.machines import at_peak, without_host, without_links, without_traffic
from distir.validate.plans import plan_of
from distir.validate.predictions import figures_of, reason
from distir.validate.programs import RunProgram, TrainingProgram
from distir.validate.runs import MeasuredRun


def _with_other_kernels(step: TrainingProgram) -> TrainingProgram:
    is_eager = step.strategy.kernels == "eager" and not step.strategy.around
    return step.with_strategy(kernels="compiled" if is_eager else "eager", apart=(), around=())


def _with_other_overlap(step: TrainingProgram) -> TrainingProgram:
    return step.overlapping(() if step.overlap else tuple(KINDS))


WHAT_IFS: Final[Mapping[str, tuple[str, Callable[[RunProgram], RunProgram]]]] = {
    "launch": (
        "issuing and launching an op take no time",
        lambda program: replace(program, hardware=without_host(program.hardware)),
    ),
    "kernels": (
        "the other kernels: fused where the framework runs op by op, op by op where it fuses",
        lambda program: replace(program, step=_with_other_kernels(program.step)),
    ),
    "overlap": (
        "the other way: communication beside computation, or none of it",
        lambda program: replace(program, step=_with_other_overlap(program.step)),
    ),
    "links": (
        "communication takes no time",
        lambda program: replace(program, hardware=without_links(program.hardware)),
    ),
    "memory": (
        "the traffic of all but products and attention takes no time",
        lambda program: replace(program, hardware=without_traffic(program.hardware)),
    ),
    "products": (
        "matrix products run at the peak",
        lambda program: replace(program, hardware=at_peak(program.hardware)),
    ),
}
"""By cause: what is assumed, and how the program changes."""

TAKEN_AWAY: Final = ("launch", "links", "memory", "products")
"""The causes that only take time away, and so can be taken away together."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A step under an assumption. `change`: by how many seconds, None where it cannot be simulated, for a `reason`."""

    name: str
    assumed: str
    seconds: float | None
    change: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run's predicted time in seconds, and its causes, the largest change first.

    Each cause is taken away by itself. What runs at the same time as another changes nothing then, and what waits for
    two of them is in both, so that changes do not add up. `together`: all that `TAKEN_AWAY` names, at once.
    """

    run: MeasuredRun
    predicted: float
    causes: tuple[WhatIf, ...]
    together: WhatIf

    @property
    def one_by_one(self) -> float:
        """The sum of the changes of the causes that `together` is of."""
        return sum(cause.change or 0.0 for cause in self.causes if cause.name in TAKEN_AWAY)

    @property
    def left_out(self) -> tuple[WhatIf, ...]:
        """Those that cannot be simulated."""
        return tuple(what_if for what_if in (*self.causes, self.together) if what_if.seconds is None)


def explain(run: MeasuredRun) -> Explanation:
    """The causes of what a run is predicted to take. Raises an error where it cannot be predicted (see `reason`)."""
    program = plan_of(run)
    seconds, _ = figures_of(program)
    causes = [_what_if(name, assumed, program, seconds, change) for name, (assumed, change) in WHAT_IFS.items()]
    every = (WHAT_IFS[name][1] for name in TAKEN_AWAY)
    together = _what_if("all at once", ", ".join(TAKEN_AWAY), program, seconds, *every)
    return Explanation(run, seconds, tuple(sorted(causes, key=lambda cause: -abs(cause.change or 0.0))), together)


def _what_if(
    name: str, assumed: str, program: RunProgram, seconds: float, *changes: Callable[[RunProgram], RunProgram]
) -> WhatIf:
    try:
        for change in changes:
            program = change(program)
        then, _ = figures_of(program)
    except Exception as error:  # what one assumption cannot be simulated for says nothing of the others
        return WhatIf(name, assumed, None, None, reason(error))
    return WhatIf(name, assumed, then, then - seconds)
