"""Fits a few figures of a machine to measured runs, with their uncertainty.

The figures are logarithms of what is multiplied with a profile's: the residuals are logarithms of predicted over
measured times, and least squares with few steps of Gauss and Newton find them. What rows do not determine is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from distir.ir.errors import DistirError
from distir.ops.numeric import np
from distir.validate.machines import Conditions
from distir.validate.plans import conditions_of, plan_of
from distir.validate.predictions import REFUSALS, figures_of
from distir.validate.runs import MeasuredRun

numpy: Any = np  # untyped: arrays of two dimensions and their products

STEPS = 4
"""Of Gauss and Newton; one that gains less than a thousandth is the last."""

DIFFERENCE = 0.05
"""By what share a figure is changed to find how times depend on it."""

FIRST_ISSUE = 10e-6
"""The initial cost of issuing an op, in seconds, if the framework's definition states none."""

LEAST = 0.02
"""A figure is not determined if a change of 1 % changes the times by less than this many per cent."""

WIDE = 0.3
"""Nor is one that may be off by more than this share."""

TWO_SIDED = 1.96


class FitError(DistirError, ValueError):
    """Runs that nothing can be fitted to; the text says why."""


@dataclass(frozen=True, slots=True)
class FitFigure:
    """A figure that can be fitted: `change` multiplies it in the conditions of a run."""

    name: str
    meaning: str
    unit: str
    change: Callable[[Conditions, float], Conditions]
    value: Callable[[Conditions], float]


def _issue(conditions: Conditions, factor: float) -> Conditions:
    return replace(conditions, issue=(conditions.issue or FIRST_ISSUE) * factor)


FIGURES: Final[Mapping[str, FitFigure]] = {
    figure.name: figure
    for figure in (
        FitFigure(
            "issue", "what the host takes to issue an op", "us", _issue, lambda c: 1e6 * (c.issue or FIRST_ISSUE)
        ),
        FitFigure(
            "compute",
            "the rate of products over the profile's",
            "",
            lambda c, factor: replace(c, compute=c.compute * factor),
            lambda c: c.compute,
        ),
        FitFigure(
            "links",
            "the bandwidth of links over the profile's",
            "",
            lambda c, factor: replace(c, links=c.links * factor),
            lambda c: c.links,
        ),
    )
}
"""By name."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted figure with its 95 % confidence interval."""

    name: str
    meaning: str
    unit: str
    before: float
    value: float
    low: float
    high: float
    determined: bool


@dataclass(frozen=True, slots=True)
class RunsFit:
    """The figures, and the mean sizes of errors before and after, as shares; the runs it used, and those it did not."""

    figures: tuple[Fitted, ...]
    error_before: float
    error_after: float
    used: tuple[str, ...]
    left_out: tuple[str, ...]


def fit(runs: Sequence[MeasuredRun], names: Sequence[str]) -> RunsFit:
    """Fit the figures of these names to the step times of runs, which are of one kind of machine and framework.

    Raises FitError for too few runs, or runs of several kinds.
    """
    kinds = {(run.hardware or run.gpu, run.framework) for run in runs}
    if len(kinds) > 1:
        listed = ", ".join(sorted(f"{framework} on {gpu}" for gpu, framework in kinds))
        raise FitError(f"expected runs of one framework on one kind of GPU, found {listed}")
    chosen = [FIGURES[name] for name in names]
    used = [run for run in runs if run.status == "ok" and run.step_time_s and _predicted(run, chosen, [0.0] * 3)]
    if len(used) <= len(chosen):
        raise FitError(f"expected more runs with a measured time than the {len(chosen)} figures, found {len(used)}")
    at: Any = numpy.zeros(len(chosen))
    residuals, slopes = _linearised(used, chosen, at)
    before = residuals
    for _ in range(STEPS):
        step: Any = numpy.linalg.lstsq(numpy.where(_weak(slopes), 0.0, slopes), -residuals, rcond=1e-6)[0]
        moved: Any = at + numpy.minimum(1.0, numpy.maximum(-1.0, step))
        found, steepness = _linearised(used, chosen, moved)
        gain = float((residuals**2).sum() - (found**2).sum())
        if gain <= 0:
            break
        enough = gain < 1e-3 * float((residuals**2).sum())
        at, residuals, slopes = moved, found, steepness
        if enough:
            break
    return RunsFit(
        tuple(_fitted(used, chosen, at, residuals, slopes)),
        float(numpy.abs(numpy.exp(before) - 1).mean()),
        float(numpy.abs(numpy.exp(residuals) - 1).mean()),
        tuple(run.id for run in used),
        tuple(run.id for run in runs if run not in used),
    )


def _fitted(
    used: Sequence[MeasuredRun], chosen: Sequence[FitFigure], at: Any, residuals: Any, slopes: Any
) -> list[Fitted]:
    weak = _weak(slopes)
    variance = float((residuals**2).sum()) / (len(used) - len(chosen))
    covariance: Any = numpy.linalg.pinv(slopes.T @ slopes) * variance
    spread = numpy.sqrt(numpy.maximum(0.0, covariance.diagonal()))
    conditions = conditions_of(used[0])
    found: list[Fitted] = []
    for index, figure in enumerate(chosen):
        before, half = figure.value(conditions), TWO_SIDED * float(spread[index])
        value = before * math.exp(float(at[index]))
        determined = not weak[index] and float(spread[index]) <= WIDE
        ends = (value * math.exp(-half), value * math.exp(half)) if not weak[index] else (0.0, math.inf)
        found.append(Fitted(figure.name, figure.meaning, figure.unit, before, value, *ends, determined))
    return found


def _weak(slopes: Any) -> Any:
    """Which figures times hardly depend on."""
    return numpy.abs(slopes).max(axis=0) < LEAST


def _linearised(used: Sequence[MeasuredRun], chosen: Sequence[FitFigure], at: Any) -> tuple[Any, Any]:
    """The residuals, and by run and figure, by how many per cent the time changes where the figure changes by 1 %.

    Run by run: the program of one is the same at all points, and not of all runs are programs kept.
    """
    points = [at, *(at + DIFFERENCE * unit for unit in numpy.eye(len(chosen)))]
    found: Any = numpy.array([[_residual(run, chosen, point) for point in points] for run in used])
    return found[:, 0], (found[:, 1:] - found[:, :1]) / DIFFERENCE


def _residual(run: MeasuredRun, chosen: Sequence[FitFigure], at: Any) -> float:
    return math.log((_predicted(run, chosen, at) or 1.0) / (run.step_time_s or 1.0))


def _predicted(run: MeasuredRun, chosen: Sequence[FitFigure], at: Any) -> float | None:
    """Seconds of a step; None for a run that cannot be expressed."""
    try:
        conditions = conditions_of(run)
        for figure, power in zip(chosen, at, strict=False):
            conditions = figure.change(conditions, math.exp(float(power)))
        return figures_of(plan_of(run, conditions))[0]
    except REFUSALS:
        return None
