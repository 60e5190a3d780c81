"""What is given to the ranks that measure, and what comes back. Starts nothing, and knows no torch but as a text."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from distir.cost.calibrate.benchmarks import Benchmark

SCRIPT = "measure.py"
COMPUTING, COMMUNICATING = "computing", "communicating"
"""The folders that benchmarks are lowered to, beside the script and the runtime of lowered programs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one benchmark took: seconds of one of its ops, as each round saw it."""

    benchmark: Benchmark
    rounds: tuple[float, ...]

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
    return {SCRIPT: (files("distir.cost.calibrate") / f"{SCRIPT}.txt").read_text(encoding="utf-8")}


def plan(computing: Sequence[Benchmark], communicating: Sequence[Benchmark]) -> str:
    """`plan.json`: which entries of which folders are timed."""
    folders = [
        {"folder": name, "communicates": name == COMMUNICATING, "entries": [b.name for b in benchmarks]}
        for name, benchmarks in ((COMPUTING, computing), (COMMUNICATING, communicating))
        if benchmarks
    ]
    return json.dumps({"folders": folders})


def typical(seconds: Sequence[float]) -> float:
    """The lowest decile: what a run takes that nothing disturbs. Disturbances only ever add."""
    ordered = sorted(seconds)
    return ordered[(len(ordered) - 1) // 10]


def samples(benchmarks: Sequence[Benchmark], report: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """What the ranks report, by benchmark. An op that communicates takes as long as its slowest rank."""
    found: list[Sample] = []
    for benchmark in benchmarks:
        by_rank = [own["seconds"][benchmark.name] for own in report if benchmark.name in own["seconds"]]
        by_rank = [rounds for rounds in by_rank if rounds and rounds[0]]
        together = benchmark.work.communication is not None
        rounds: list[float] = []
        for of_ranks in zip(*by_rank, strict=True):
            if together:
                seconds = typical([max(run) for run in zip(*of_ranks, strict=True)])
            else:
                seconds = statistics.fmean(typical(runs) for runs in of_ranks)
            rounds.append(seconds / benchmark.repeats)
        found.append(Sample(benchmark, tuple(rounds)))
    return found
