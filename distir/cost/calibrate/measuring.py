"""The inputs and outputs of measuring ranks. Starts no process; torch appears only in generated text."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distir.cost.calibrate.benchmarks import Benchmark
from distir.files.reading import beside

SCRIPT = "measure.py"
COMPUTING, COMMUNICATING = "computing", "communicating"
"""The folders that benchmarks are lowered to, beside the script and the runtime of lowered programs."""

ALIKE = 8.0
"""Up to what ratio the operands of ops differ in size that are measured among each other, about."""

SHORTEST = 0.05
"""The least time of a message, as a share of the time with the computation before it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one benchmark: seconds of one of its ops in each round.

    `warm`: the same while caches hold its operands; none where that was not measured. `issue`: of these seconds, what
    the host takes to issue one of its ops to a device that does not block it; none where the host computes itself.
    """

    benchmark: Benchmark
    rounds: tuple[float, ...]
    warm: tuple[float, ...] = ()
    issue: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """The middle of the rounds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half of what the rounds differ by, relative to their middle."""
        return (max(self.rounds) - min(self.rounds)) / 2 / self.seconds


def script() -> dict[str, str]:
    """The files of the script, by name."""
    return {SCRIPT: beside(__file__, f"{SCRIPT}.txt")}


def plan(computing: Sequence[Benchmark], communicating: Sequence[Benchmark]) -> str:
    """`plan.json`: which entries of which folders are timed.

    Those that are timed among others of their size are entries of one list, in lists by size.
    """
    sizes: dict[int, list[Benchmark]] = {}
    for b in computing:
        if b.mixed:
            sizes.setdefault(round(math.log(max(b.nbytes, 1), ALIKE)), []).append(b)
    folders = [
        {"folder": name, "communicates": name == COMMUNICATING, "entries": [b.name for b in own if not b.mixed]}
        for name, own in ((COMPUTING, computing), (COMMUNICATING, communicating))
        if own
    ]
    mixed = [{b.name: b.nbytes for b in own} for _, own in sorted(sizes.items())]
    return json.dumps({"mixed": {"folder": COMPUTING, "entries": mixed}, "folders": folders})


def typical(seconds: Sequence[float]) -> float:
    """The median of what runs take."""
    return statistics.median(seconds)


def expected(seconds: Sequence[float]) -> float:
    """The mean of runs, without the longest tenth of them.

    Of messages some take many times as long as most, as threads wake up late. In a program many messages add up, which
    takes the mean of one times their number: a median would leave out what is rare, but sure to occur.
    """
    ordered = sorted(seconds)
    return statistics.fmean(ordered[: max(1, len(ordered) * 9 // 10)])


def samples(benchmarks: Sequence[Benchmark], report: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """The ranks' reports, by benchmark. An op that communicates takes as long as its slowest rank.

    What is computed between messages does not count: it is measured by itself, and has no sample of its own.
    """
    seconds = {b.name: _rounds(b, report, "seconds") for b in benchmarks}
    between = {b.devices: seconds[b.name] for b in benchmarks if b.between}
    found: list[Sample] = []
    for b in benchmarks:
        rounds = seconds[b.name]
        if b.devices in between and not b.products and not b.at_once:
            # Of messages that are shorter than what products vary by, nothing is known but that.
            computed = between[b.devices]
            rounds = tuple(max(t - c, SHORTEST * t) for t, c in zip(rounds, computed, strict=True))
        if not b.between:
            found.append(Sample(b, rounds, _rounds(b, report, "warm"), _rounds(b, report, "issue")))
    return found


def _rounds(benchmark: Benchmark, report: Sequence[Mapping[str, Any]], which: str) -> tuple[float, ...]:
    """Seconds of one of the benchmark's ops, as each round saw it; `which`: the report's key for them."""
    by_rank = [own[which][benchmark.name] for own in report if benchmark.name in own.get(which, ())]
    by_rank = [rounds for rounds in by_rank if rounds and rounds[0]]
    rounds: list[float] = []
    for of_ranks in zip(*by_rank, strict=True):
        if len(benchmark.devices) > 1:
            seconds = expected([max(run) for run in zip(*of_ranks, strict=True)])
        else:
            seconds = statistics.fmean(typical(runs) for runs in of_ranks)
        rounds.append(seconds / benchmark.repeats)
    return tuple(rounds)
