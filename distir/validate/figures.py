"""How far predictions are from measurements: errors, ranks, choices, memory. Knows no programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import exp, log
from statistics import fmean, median

from distir.cost.hardware import EXACT_MEMORY, MAY_NOT, PUBLISHED_SHARE, Fit, MemoryErrors, PublishedErrors
from distir.validate.predictions import Prediction, judged
from distir.validate.runs import MeasuredRun

FEWEST = 3
"""Runs of a group within which ranks say something."""

ENOUGH = 10
"""Runs from which the tenths of their errors are read."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run beside what is predicted of it."""

    run: MeasuredRun
    predicted: Prediction
    memory: MemoryErrors | None = None
    """How far simulated memory is off, in the place of what the profile of the run's machine says."""

    @property
    def fit(self) -> Fit | None:
        """Whether it fits, as far as simulated memory is known to be right; None where it is not predicted."""
        return (self.predicted if self.memory is None else judged(self.predicted, self.memory)).fit

    @property
    def time_error(self) -> float | None:
        """By how much the predicted step takes longer, as a share of the measured time; None without both."""
        if self.run.status != "ok" or not self.run.step_time_s or self.predicted.step_time_s is None:
            return None
        return self.predicted.step_time_s / self.run.step_time_s - 1

    @property
    def memory_error(self) -> float | None:
        """By how much the peak of memory is larger as predicted, as a share of the measured one; None without both."""
        if not self.run.peak_memory_bytes or self.predicted.reported_memory_bytes is None:
            return None
        return self.predicted.reported_memory_bytes / self.run.peak_memory_bytes - 1


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors as shares: the mean, the median, the 9th decile and the largest of their sizes; their mean with signs."""

    n: int
    mean: float
    median: float
    p90: float
    worst: float
    bias: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Errors | None:
        """The figures of some errors; None for none."""
        if not errors:
            return None
        sizes = sorted(map(abs, errors))
        return cls(len(sizes), fmean(sizes), median(sizes), quantile(sizes, 0.9), sizes[-1], fmean(errors))


@dataclass(frozen=True, slots=True)
class FitCounts:
    """Predictions of whether runs fit into memory: the total, those right, those wrong, and those that leave it open.

    `missed` ran out of memory, and were predicted to fit; `false_alarms` ran, and were predicted not to. `open`: they
    may not fit. `fitting`, `not_fitting`: all that were predicted to fit, and not to.
    """

    n: int
    right: int
    missed: int
    false_alarms: int
    open: int
    fitting: int
    not_fitting: int

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> FitCounts:
        """The counts of some runs, those without a prediction left out."""
        verdicts = [(fit, o.run.status == "ok") for o in outcomes if (fit := o.fit) is not None]
        missed = verdicts.count(("fits", False))
        alarms = verdicts.count(("does not fit", True))
        left = sum(fit == MAY_NOT for fit, _ in verdicts)
        fitting = sum(fit == "fits" for fit, _ in verdicts)
        n = len(verdicts)
        return cls(n, n - missed - alarms - left, missed, alarms, left, fitting, n - left - fitting)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """How predictions of a group of runs fare.

    `rank` is Spearman's ρ of step times, of all runs; `rank_within`, its mean over groups of the same work on equal
    devices, weighted by their runs; `regret`, how much longer than the best measured step the one takes that
    predictions choose, the median over these groups, as a share, and `worst_regret` the largest. None: too few runs.
    """

    name: str
    runs: int
    expressed: int
    time: Errors | None
    rank: float | None
    rank_within: float | None
    regret: float | None
    worst_regret: float | None
    memory: FitCounts
    memory_error: Errors | None


def summaries(outcomes: Iterable[Outcome]) -> list[GroupFigures]:
    """One for each file and framework, in their order."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.run.group, []).append(outcome)
    return [summary(name, found) for name, found in groups.items()]


def summary(name: str, outcomes: Sequence[Outcome]) -> GroupFigures:
    """The figures of some runs."""
    timed = [o for o in outcomes if o.time_error is not None]
    clusters: dict[tuple[object, ...], list[Outcome]] = {}
    for outcome in outcomes:
        clusters.setdefault(outcome.run.cluster, []).append(outcome)
    within = [(rho, len(some)) for some in clusters.values() if (rho := rank_of(some)) is not None]
    regrets = [found for some in clusters.values() if (found := regret_of(some)) is not None]
    return GroupFigures(
        name,
        len(outcomes),
        sum(o.predicted.step_time_s is not None for o in outcomes),
        Errors.of([e for o in timed if (e := o.time_error) is not None]),
        rank_of(timed),
        sum(rho * n for rho, n in within) / sum(n for _, n in within) if within else None,
        median(regrets) if regrets else None,
        max(regrets, default=None),
        FitCounts.of(outcomes),
        Errors.of([e for o in outcomes if (e := o.memory_error) is not None]),
    )


GROUP_COLUMNS = (
    *("runs", "n", "MAPE", "median", "p90", "bias", "ρ", "ρ within", "regret"),
    *("OOM right", "missed", "false", "open", "memory", "p90 "),
)
"""The heads of a table of groups."""


def group_cells(group: GroupFigures) -> list[str]:
    """A row of that table; empty where there is nothing to say."""
    memory = group.memory
    counts = memory.missed, memory.false_alarms, memory.open
    fits = [f"{memory.right}/{memory.n}", *map(str, counts)] if memory.n else [""] * 4
    ranks = ["" if rank is None else f"{rank:.3f}" for rank in (group.rank, group.rank_within)]
    regret = "" if group.regret is None else _percent(group.regret)
    found = [group.name, f"{group.expressed}/{group.runs}", *_errors(group.time), *ranks, regret, *fits]
    return [*found, *_errors(group.memory_error)[1:3]]


def _errors(of: Errors | None) -> list[str]:
    if of is None:
        return [""] * 4
    return [*map(_percent, (of.mean, of.median, of.p90)), f"{100 * of.bias:+.1f} %"]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def published_errors(outcomes: Iterable[Outcome]) -> PublishedErrors | None:
    """What 8 of 10 of some runs lie within, as profiles state it; None for fewer than `ENOUGH` with a predicted time.

    The bands leave out as many runs above as below. The ratios are of layouts of the same work on equally many GPUs;
    with too few of those, two times are apart where one is beyond the band of the other.
    """
    timed = [o for o in outcomes if o.time_error is not None]
    if len(timed) < ENOUGH:
        return None
    ratios = sorted(_ratio(o) for o in timed)
    clusters: dict[tuple[object, ...], list[Outcome]] = {}
    for outcome in timed:
        clusters.setdefault(outcome.run.cluster, []).append(outcome)
    pairs = (pair for some in clusters.values() for pair in combinations(some, 2))
    off = sorted(abs(log(_ratio(a) / _ratio(b))) for a, b in pairs if a.run.layout != b.run.layout)
    tail = (1 - PUBLISHED_SHARE) / 2
    low, high = quantile(ratios, tail), quantile(ratios, 1 - tail)
    return PublishedErrors(low, high, exp(quantile(off, PUBLISHED_SHARE)) - 1 if len(off) >= ENOUGH else high / low - 1)


def memory_errors(sources: Iterable[Sequence[Outcome]]) -> MemoryErrors:
    """What 8 of 10 measured peaks of memory lie within, over predicted ones, each source counting as much as another.

    Exact where no source states a peak.
    """
    of_sources = [[1 / (1 + e) for o in some if (e := o.memory_error) is not None] for some in sources]
    weighed = sorted((ratio, 1 / len(ratios)) for ratios in of_sources for ratio in ratios)
    total, tail = sum(weight for _, weight in weighed), (1 - PUBLISHED_SHARE) / 2
    if not weighed:
        return EXACT_MEMORY
    passed = list(accumulate(weight for _, weight in weighed))
    low = next(ratio for (ratio, _), sum_ in zip(weighed, passed, strict=True) if sum_ >= tail * total)
    high = next(
        ratio for (ratio, _), sum_ in zip(weighed, passed, strict=True) if sum_ >= (1 - tail) * total * (1 - 1e-9)
    )
    return MemoryErrors(low, high)


def _ratio(outcome: Outcome) -> float:
    """Measured over predicted time."""
    return 1 / (1 + (outcome.time_error or 0.0))


def rank_of(outcomes: Iterable[Outcome]) -> float | None:
    """Spearman's ρ of measured and predicted step times; None for too few, or where either are all equal."""
    pairs = [(o.run.step_time_s or 0.0, o.predicted.step_time_s or 0.0) for o in outcomes if o.time_error is not None]
    return spearman([m for m, _ in pairs], [p for _, p in pairs]) if len(pairs) >= FEWEST else None


def regret_of(outcomes: Sequence[Outcome]) -> float | None:
    """How much longer the chosen layout takes than the best, as a share; None where there is nothing to choose.

    The choice is the fastest by prediction of those that are predicted to fit, and ran. One that ran out of memory is
    skipped, as a user would find out within minutes; such are counted as missed.
    """
    there = [o for o in outcomes if o.time_error is not None]
    choices = [o for o in there if o.predicted.fits] or there
    if len(there) < FEWEST:
        return None
    chosen = min(choices, key=lambda o: o.predicted.step_time_s or 0.0)
    best = min(o.run.step_time_s or 0.0 for o in there)
    return (chosen.run.step_time_s or 0.0) / best - 1


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """The correlation of ranks, equal values sharing theirs; None where all values of one are equal."""
    a, b = _ranks(xs), _ranks(ys)
    mean_a, mean_b = fmean(a), fmean(b)
    da, db = [x - mean_a for x in a], [y - mean_b for y in b]
    scale = (sum(x * x for x in da) * sum(y * y for y in db)) ** 0.5
    return sum(x * y for x, y in zip(da, db, strict=True)) / scale if scale else None


def _ranks(values: Sequence[float]) -> list[float]:
    places: Mapping[float, list[int]] = {}
    for place, value in enumerate(sorted(values)):
        places.setdefault(value, []).append(place)
    return [fmean(places[value]) for value in values]


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of values in ascending order, by linear interpolation."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
