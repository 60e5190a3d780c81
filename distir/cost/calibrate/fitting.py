"""From seconds to figures: regression where a line fits, tables where it does not. Knows no files and starts nothing.

An op that computes takes `launch + flops / rate + bytes / bandwidth`: the linear model of the paper's section 4, each
coefficient not negative, fitted by least squares of the relative errors. Where half of the points are off by more than
`STRAIGHT`, caches bend the line; then the rate (of products) or the bandwidth (of other ops) becomes a table by size.
Messages are tables by payload, for each pattern and number of devices; a line through them gives the figures of links.

The quality of a fit is reported: R² of the logarithms, and the relative errors of what is predicted for points that
the prediction does not know (those of a table are left out one by one).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

from distir.cost.calibrate.measuring import Sample
from distir.ops.resources import Pattern

STRAIGHT = 0.05
"""The median relative error up to which a line is good enough."""

NOISY = 0.15
"""The greatest median spread between rounds on a machine that is quiet enough."""

NEGLIGIBLE = 1e-9
"""Coefficients that make up no more of any time are zero."""

SHARED = math.sqrt(2)
"""How much longer than alone two groups take at once that share a card: more than this, which is halfway to twice."""

BIN = 8.0
"""The ratio of sizes that share a rate in a table of products."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """The figures of one op in one element type. Seconds; tables by FLOPs and by bytes, of one entry where a line fits.

    `r2`: of the logarithms of times; `error`, `worst`: median and largest relative error; `noise`: the median of what
    rounds differ by; `uncertainty`: how far a time may be off, as a share of it; `sizes`: FLOPs and bytes, by
    point; `warm`: the fit of what was measured while caches held the operands.
    """

    op: str
    dtype: str
    launch: float
    rate: Points
    bandwidth: Points
    r2: float
    error: float
    worst: float
    noise: float
    uncertainty: float
    sizes: Points
    warm: Fit | None = None

    @property
    def points(self) -> int:
        """How many times were measured."""
        return len(self.sizes)

    @property
    def form(self) -> str:
        """`line`: one rate for all sizes; `table`: rates by size."""
        return "table" if len(self.rate) > 1 or len(self.bandwidth) > 1 else "line"

    def seconds(self, flops: float, nbytes: float) -> float:
        """Seconds of an op by the fit."""
        return self.launch + _over(flops, self.rate) + _over(nbytes, self.bandwidth)


@dataclass(frozen=True, slots=True)
class MessageFit:
    """One pattern among so many devices: seconds by payload, and the line `startup + bytes / bandwidth` of them."""

    pattern: Pattern
    group: tuple[int, ...]
    times: Points
    startup: float
    bandwidth: float
    r2: float
    error: float
    worst: float
    noise: float
    uncertainty: float

    @property
    def devices(self) -> int:
        """How many ranks took part."""
        return len(self.group)


@dataclass(frozen=True, slots=True)
class CardsFit:
    """Which ranks of a node share a network card: by rank, its card, numbered in the order of their first ranks.

    `apart`: how far groups that run at once are from taking twice as long on one card, and as long as alone on two, at
    most, as a share of that.
    """

    of: tuple[int, ...]
    apart: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """All fits of one machine.

    `noise`: what the rounds of half of all ops differ by from their middle, as a share, or of all messages if these do
    more.
    """

    ops: tuple[Fit, ...]
    messages: tuple[MessageFit, ...]
    noise: float
    flops: Mapping[str, Points] = field(default_factory=dict[str, Points])
    """By element type: the rate of matrix products by FLOPs, for ops that were not measured themselves."""
    issue: float | None = None
    """The host's time to issue an op, in seconds; None if the host itself computes."""
    interference: float | None = None
    """The share of a collective's time by which it delays what is computed beside it; None where that is not known."""
    begin: float | None = None
    """By how many seconds it does so however short it is; None where that is not known."""

    cards: CardsFit | None = None
    """The network cards of a node; None where ranks are on one node, or have a node each."""

    @property
    def too_noisy(self) -> bool:
        """Whether rounds differ by too much to rely on the figures."""
        return self.noise > NOISY

    def agrees(self, other: Calibration) -> float:
        """The share of times, at the sizes measured, that lie within the uncertainties that both state together."""
        pairs = [
            (a.seconds(*size), b.seconds(*size), a.uncertainty + b.uncertainty)
            for a in self.ops
            for b in other.ops
            if (a.op, a.dtype) == (b.op, b.dtype)
            for size in a.sizes
        ]
        theirs = {(m.pattern, m.group): m for m in other.messages}
        for mine in self.messages:
            if (mine.pattern, mine.group) in theirs:
                same = theirs[mine.pattern, mine.group]
                here, there = dict(mine.times), dict(same.times)
                share = mine.uncertainty + same.uncertainty
                pairs += [(here[n], there[n], share) for n in here if n in there]
        return statistics.fmean(abs(a / b - 1) <= u for a, b, u in pairs) if pairs else 1.0


def fit(samples: Sequence[Sample]) -> Calibration:
    """All figures that the samples give."""
    ops: dict[tuple[str, str], list[Sample]] = {}
    messages: dict[tuple[Pattern, tuple[int, ...]], list[Sample]] = {}
    for sample in samples:
        done = sample.benchmark.work
        if sample.benchmark.between or sample.benchmark.products or sample.benchmark.at_once:
            continue
        if done.communication is not None:
            messages.setdefault((done.communication.pattern, sample.benchmark.devices), []).append(sample)
        else:
            name = "other" if done.dtype is None else done.dtype.name
            ops.setdefault((sample.benchmark.op, name), []).append(sample)
    fits = _ops(ops)
    if all(s.warm for own in ops.values() for s in own):
        warm = _ops({key: [Sample(s.benchmark, s.warm) for s in own] for key, own in ops.items()})
        fits = tuple(replace(fit, warm=own) for fit, own in zip(fits, warm, strict=True))
    exchanged = tuple(_messages(pattern, group, own) for (pattern, group), own in messages.items())
    alone = [s.spread for own in ops.values() for s in own]
    together = [s.spread for own in messages.values() for s in own]
    noise = max((statistics.median(spreads) for spreads in (alone, together) if spreads), default=0.0)
    rates = _rates([s for s in samples if not s.benchmark.products])
    begin, share = _interference(samples, exchanged)
    return Calibration(fits, exchanged, noise, rates, _issue(samples), share, begin, _cards(samples))


def _issue(samples: Sequence[Sample]) -> float | None:
    """The median over ops: of each, what the fastest of its sizes takes to issue."""
    by_op: dict[str, float] = {}
    for sample in samples:
        if sample.issue:
            op, seconds = sample.benchmark.op, statistics.median(sample.issue)
            by_op[op] = min(seconds, by_op.get(op, math.inf))
    return statistics.median(by_op.values()) if by_op else None


def _interference(samples: Sequence[Sample], messages: Sequence[MessageFit]) -> tuple[float, float] | tuple[None, None]:
    """How much longer products take beside a collective, where it ends before they do.

    A line through what was measured: in seconds, for a collective of any length, and as a share of its time.
    """
    alone = {s.benchmark.devices: s.seconds for s in samples if s.benchmark.products and not s.benchmark.beside}
    points: list[tuple[float, float]] = []
    for sample in samples:
        message, devices = sample.benchmark.beside, sample.benchmark.devices
        if message is None or devices not in alone:
            continue
        times = [m.times for m in messages if (m.pattern, m.group) == (message.pattern, devices)]
        took = dict(times[0]).get(message.nbytes, 0.0) if times else 0.0
        if 0 < took <= alone[devices]:
            points.append((took, max(0.0, sample.seconds - alone[devices])))
    if not points:
        return None, None
    begin, share = nonnegative([[1.0 / took for took, _ in points], [1.0] * len(points)], [d / t for t, d in points])
    return begin, min(1.0, share)


def _cards(samples: Sequence[Sample]) -> CardsFit | None:
    """Ranks of a node share a card if their groups take much longer at once than alone, or both do with a third one."""
    took = {s.benchmark.at_once: s.seconds for s in samples if s.benchmark.at_once}
    ranks = [rank for (rank, *others) in took if not others]
    if not ranks:
        return None
    longer = {pair: took[pair] / max(took[pair[:1]], took[pair[1:]]) for pair in took if len(pair) == 2}
    first = {rank: rank for rank in ranks}
    for (one, other), ratio in longer.items():
        if ratio > SHARED:
            low, high = sorted((first[one], first[other]))
            first = {rank: low if of == high else of for rank, of in first.items()}
    order = sorted(set(first.values()))
    of = tuple(order.index(first[rank]) for rank in sorted(ranks))
    apart = [ratio / (2 if of[pair[0]] == of[pair[1]] else 1) - 1 for pair, ratio in longer.items()]
    return CardsFit(of, max(map(abs, apart)))


def _ops(ops: Mapping[tuple[str, str], Sequence[Sample]]) -> tuple[Fit, ...]:
    """The fits of ops that compute, by op and element type."""
    views = statistics.median(own.seconds for own in ops["Reshape", "other"]) if ("Reshape", "other") in ops else 0.0
    return tuple(_op(op, dtype, [_without_view(s, views) for s in own]) for (op, dtype), own in ops.items())


def _without_view(sample: Sample, view: float) -> Sample:
    """The time of an op without the view of its result, which takes `view` seconds."""
    if not sample.benchmark.viewed:
        return sample
    return Sample(sample.benchmark, tuple(max(t - view, t / 10) for t in sample.rounds))


def nonnegative(columns: Sequence[Sequence[float]], target: Sequence[float]) -> list[float]:
    """The coefficients, none below zero, with the least squares: of few columns all choices are tried."""
    import numpy as np

    matrix, wanted = np.array(columns, dtype=float).T, np.array(target, dtype=float)
    best: tuple[float, list[float]] = (math.inf, [0.0] * len(columns))
    for count in range(1, len(columns) + 1):
        for chosen in combinations(range(len(columns)), count):
            found: Any = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)[0]
            if (found < 0).any():
                continue
            error = float(((matrix[:, chosen] @ found - wanted) ** 2).sum())
            if error < best[0] * (1 - 1e-12):
                full = [0.0] * len(columns)
                for index, value in zip(chosen, found, strict=True):
                    share = float(value) * max(map(abs, columns[index])) / (max(map(abs, target)) or 1.0)
                    full[index] = float(value) if share > NEGLIGIBLE else 0.0
                best = (error, full)
    return best[1]


# Ops that compute.


def _op(op: str, dtype: str, samples: Sequence[Sample]) -> Fit:
    flops = [float(s.benchmark.work.flops) for s in samples]
    nbytes = [float(s.benchmark.work.bytes) for s in samples]
    seconds = [s.seconds for s in samples]
    products = op in ("MatMul", "Gemm", "Attention")
    columns = [[1 / t for t in seconds], [b / t for b, t in zip(nbytes, seconds, strict=True)]]
    if products:
        columns.append([f / t for f, t in zip(flops, seconds, strict=True)])
    found = nonnegative(columns, [1.0] * len(seconds))
    launch, per_byte, per_flop = found[0], found[1], found[2] if products else 0.0
    rate: Points = ((1.0, 1 / per_flop),) if per_flop else ()
    bandwidth: Points = ((1.0, 1 / per_byte),) if per_byte else ()
    errors = [
        launch / t + (f * per_flop + b * per_byte) / t - 1 for f, b, t in zip(flops, nbytes, seconds, strict=True)
    ]
    if _middle(errors) > STRAIGHT and not products and len(set(nbytes)) > 1:
        launch, bandwidth = _stream(nbytes, seconds)
        rate = ()
        errors = _left_out(nbytes, seconds)
    elif _middle(errors) > STRAIGHT and products:
        table = _product_rates(flops, [t - launch - b * per_byte for t, b in zip(seconds, nbytes, strict=True)])
        corrected = [
            (launch + _over(f, table) + b * per_byte) / t - 1 for f, b, t in zip(flops, nbytes, seconds, strict=True)
        ]
        if _middle(corrected) < _middle(errors):
            rate, errors = table, corrected
    noise = statistics.median(s.spread for s in samples)
    return Fit(
        op, dtype, launch, rate, bandwidth, _r2(errors, seconds), _middle(errors), max(map(abs, errors)), noise,
        _uncertainty(errors, noise), tuple(zip(flops, nbytes, strict=True)),
    )  # fmt: skip


def _stream(nbytes: Sequence[float], seconds: Sequence[float]) -> tuple[float, Points]:
    """The time of an op without bytes, and the bandwidth at each size; times grow with sizes."""
    ordered = _growing(nbytes, seconds)
    (first, least), rest = ordered[0], ordered[1:]
    slope = min(((t - least) / (b - first) for b, t in rest), default=0.0)
    launch = max(least - slope * first, 0.5 * least)
    points: list[tuple[float, float]] = []
    longest = 0.0
    for b, t in ordered:
        longest = max(longest, t - launch, 0.01 * least)
        points.append((b, b / longest))
    return launch, tuple(points)


def _growing(sizes: Sequence[float], seconds: Sequence[float]) -> list[tuple[float, float]]:
    """Size and seconds, by size, one of each size, growing: where noise has it otherwise, neighbours share their mean.

    (Isotonic regression, by pooling adjacent violators; Barlow et al., 1972.)
    """
    by_size: dict[float, list[float]] = {}
    for size, t in zip(sizes, seconds, strict=True):
        by_size.setdefault(size, []).append(t)
    pools: list[tuple[float, int]] = []  # the mean of the logarithms, and of how many
    for _, ts in sorted(by_size.items()):
        pools.append((math.log(statistics.median(ts)), 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    level = [math.exp(mean) for mean, count in pools for _ in range(count)]
    return list(zip(sorted(by_size), level, strict=True))


def _product_rates(flops: Sequence[float], seconds: Sequence[float]) -> Points:
    """The rate by size, in bins; `seconds` are those of arithmetic alone. Larger products never take less time."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for f, t in zip(flops, seconds, strict=True):
        if t > 0:
            bins.setdefault(round(math.log(f, BIN)), []).append((f, f / t))
    points: list[tuple[float, float]] = []
    for _, own in sorted(bins.items()):
        size = math.exp(statistics.fmean(math.log(f) for f, _ in own))
        rate = statistics.median(r for _, r in own)
        if points:
            rate = min(rate, size / (points[-1][0] / points[-1][1]))
        points.append((size, rate))
    return tuple(points)


def _rates(samples: Sequence[Sample]) -> dict[str, Points]:
    """By element type: what products achieve, launch included."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        done = sample.benchmark.work
        if sample.benchmark.op in ("MatMul", "Gemm") and done.dtype is not None and not sample.benchmark.between:
            found.setdefault(done.dtype.name, []).append(sample)
    return {
        dtype: _product_rates([float(s.benchmark.work.flops) for s in own], [s.seconds for s in own])
        for dtype, own in found.items()
    }


# Messages.


def _messages(pattern: Pattern, group: tuple[int, ...], samples: Sequence[Sample]) -> MessageFit:
    sizes = [float(s.benchmark.work.communication.nbytes) for s in samples if s.benchmark.work.communication]
    seconds = [s.seconds for s in samples]
    startup, per_byte = nonnegative(
        [[1 / t for t in seconds], [b / t for b, t in zip(sizes, seconds, strict=True)]], [1.0] * len(seconds)
    )
    errors = [(startup + b * per_byte) / t - 1 for b, t in zip(sizes, seconds, strict=True)]
    noise = statistics.median(s.spread for s in samples)
    times = tuple(_growing(sizes, seconds))
    left_out = _left_out(sizes, seconds)
    return MessageFit(
        pattern, group, times, startup, 1 / per_byte if per_byte else max(sizes) / max(seconds), _r2(errors, seconds),
        _middle(errors), max(map(abs, errors)), noise, _uncertainty(left_out, noise),
    )  # fmt: skip


# How good they are.


def _left_out(sizes: Sequence[float], seconds: Sequence[float]) -> list[float]:
    """Relative errors of inner points, each predicted from the others.

    A table is read half as far from its points as these are from their neighbours, where a curve is off by a quarter.
    """
    points = _growing(sizes, seconds)
    errors: list[float] = []
    for i in range(1, len(points) - 1):
        others = points[:i] + points[i + 1 :]
        predicted = _predicted([b for b, _ in others], [t for _, t in others], points[i][0])
        errors.append((predicted / points[i][1] - 1) / 4)
    return errors or [0.0]


def _predicted(sizes: Sequence[float], seconds: Sequence[float], at: float) -> float:
    """Seconds at a size between two others, on the line of the logarithms."""
    for (a, t), (b, u) in pairwise(zip(sizes, seconds, strict=True)):
        if a <= at <= b:
            return t * (u / t) ** (math.log(at / a) / math.log(b / a))
    return seconds[-1]


def _over(amount: float, points: Points) -> float:
    from distir.cost.compute import Rate

    return amount / Rate(0.0, points).achieved(amount) if points and amount else 0.0


def _middle(errors: Sequence[float]) -> float:
    return statistics.median(map(abs, errors))


def _r2(errors: Sequence[float], seconds: Sequence[float]) -> float:
    """How much of what distinguishes the times, in logarithms, the fit explains."""
    logs = [math.log(t) for t in seconds]
    mean = statistics.fmean(logs)
    total = statistics.fmean((x - mean) ** 2 for x in logs)
    left = statistics.fmean(math.log(max(1 + e, 1e-9)) ** 2 for e in errors)
    return 1 - left / total if total > 1e-3 else 1.0  # nothing to explain: the times are all one


def _uncertainty(errors: Sequence[float], noise: float) -> float:
    """Four of five errors are smaller, and rounds differ by less than twice their usual."""
    ordered = sorted(map(abs, errors))
    return math.hypot(ordered[math.ceil(0.8 * len(ordered)) - 1], 2 * noise)
