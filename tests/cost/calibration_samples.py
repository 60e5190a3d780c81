"""Machines that follow a law exactly, or with noise, and what calibration would see of them."""

from dataclasses import replace
from functools import cache

from distir.cost.calibrate import MeasuredMachine, Sample, communicating, computing
from distir.cost.calibrate.benchmarks import BESIDE
from distir.ops.resources import Work

ABOUT = {
    "torch": "2.9",
    "threads": 1,
    "cores": 2,
    "system": "Linux",
    "processor": 'An "Example"',
    "memory_bytes": 8 << 30,
}


def machine(devices=1, local=None, **about):
    return MeasuredMachine("gloo", devices, local or devices, "2024-05-31", {**ABOUT, **about}, 3)


def lawful(work):
    """2 us, and 50 GFLOP/s, and 10 GB/s; messages take 50 us, and 1 GB/s."""
    if work.communication is not None:
        return 50e-6 + work.communication.nbytes / 1e9
    return 2e-6 + work.flops / 50e9 + work.bytes / 10e9


def cached(work):
    """The same, but ten times the bandwidth below a megabyte."""
    return 2e-6 + work.bytes / (100e9 if work.bytes < 1e6 else 10e9)


@cache
def benchmarks(devices=1, local=None):
    return (*computing(), *communicating(devices, local))


def seen(law, devices=1, noise=lambda: (1.0, 1.0, 1.0), local=None):
    """Samples of all benchmarks. `noise`: what rounds of a benchmark are times as long as the law says."""
    found = benchmarks(devices, local)
    return [Sample(b, tuple(taken(b, law) * factor for factor in noise())) for b in found]


CARDS = (0, 1, 0, 2)
"""The card of each of four ranks of a node."""

INTERFERENCE, BEGIN = 0.25, 2e-5


def taken(benchmark, law):
    """What one of a benchmark's ops takes by a law; a collective beside products delays them, by a line."""
    if benchmark.at_once:
        return law(benchmark.work) * max(map([CARDS[rank] for rank in benchmark.at_once].count, CARDS))
    if not benchmark.products:
        return law(benchmark.work)
    beside = Work(communication=benchmark.beside) if benchmark.beside else None
    return BESIDE * law(benchmark.work) + (BEGIN + INTERFERENCE * law(beside) if beside else 0.0)


def also_warm(measured, law):
    """The samples, of ops that compute also what they take warm by another law."""
    alone = [replace(s, warm=(law(s.benchmark.work),) * 3) for s in measured if len(s.benchmark.devices) == 1]
    return [*alone, *(s for s in measured if len(s.benchmark.devices) > 1)]
