"""What a search costs: CPU time of the paper's grids, transforms and simulations together, in one process.

    bench_search.py                        the grids of the three MLPs, 885 configurations each, and one configuration
    bench_search.py gpt2-1.6b gpt2-175b    the grids of these models, 1,035 configurations each of a GPT-2
    bench_search.py --streams              what hosts and streams add to searches, by each method

The last one is over a small space of training steps of Llama 3 8B: every plan that has something to overlap, as it is
and with the step `overlap`; then with that on a machine whose hosts take time. Ratios are of times per row, as bounds
pass over others. The goal is 1.5.

Run it as a script. Nothing is asserted: times depend on the machine, configurations per second do less so.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from dataclasses import replace
from multiprocessing import get_context

from distir import models
from distir.cost import load
from distir.search.annealing import Annealing
from distir.search.evaluate import evaluate
from distir.search.searching import Method, Search
from distir.search.space import Space
from distir.search.subject import Subject
from distir.search.work import Workers
from distir.transform import transform
from distir.transform.strategy import Strategy

HARDWARE = "dgx2-v100"
DEVICES = 16
MLPS = ("mlp-1b", "mlp-17b", "mlp-103b")
METHODS: tuple[Method, ...] = ("grid", "bounded", "anneal")
TURNS = 3
"""How often searches with streams, and without, are run."""
BATCHES = {
    "mlp": tuple(2**exponent for exponent in range(7, 19)),
    "gpt2": tuple(2**exponent for exponent in range(7, 21)),
}
"""The paper's table 2 and figure 5; every batch size that the number of replicas and microbatches divides."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("models", nargs="*", default=MLPS, help="models of the paper by name")
    arguments.add_argument("--streams", action="store_true", help="what hosts and streams add to searches")
    asked = arguments.parse_args()
    if asked.streams:
        streams()
        return
    names = asked.models
    if names == MLPS:
        one("mlp-103b", Strategy(4, 2, 2, 128))
    for name in names:
        grid(name)


def one(name: str, plan: Strategy) -> None:
    """A configuration, transform and simulation together: as a search meets it first, and as it meets the next one.

    Before the first one there were others, of as many devices in other stages; so the model has been read already. The
    next one has twice as many microbatches.
    """
    subject = Subject(name, models.named(name), load(HARDWARE))
    sizes = (65536,)
    list(evaluate(subject, replace(plan, data=1, pipeline=plan.pipeline * plan.data), sizes))
    spent: list[float] = []
    for found in (plan, replace(plan, microbatches=2 * plan.microbatches)):
        gc.collect()
        start = time.process_time()
        list(evaluate(subject, found, sizes))
        spent.append(time.process_time() - start)
    print(f"{name} {plan}: {spent[0]:.3f} s of CPU, with twice as many microbatches {spent[1]:.3f} s")


def streams() -> None:
    """What hosts and streams add to searches of one space, by each method: the least of some runs in turns."""
    cases = {"plain": (False, "dgx-h100"), "streams": (True, "dgx-h100"), "both": (True, "dgx-h100@eager")}
    print(f"{'':8}{'rows':>6}{'plain':>14}{'streams':>9}{'both':>9}   times per row, and ratios (goal: 1.5)")
    for method in METHODS:
        spent: dict[str, list[float]] = {case: [] for case in cases}
        found = 0
        for _ in range(TURNS):
            for case, (overlaps, hardware) in cases.items():
                with get_context("spawn").Pool(1) as alone:  # what one search finds would serve the next one
                    found, seconds = alone.apply(_searched, (overlaps, hardware, method))
                spent[case].append(seconds / found)
        plain = min(spent["plain"])
        ratios = "".join(f"{min(spent[case]) / plain:9.2f}" for case in ("streams", "both"))
        print(f"{method:8}{found:>6}{plain * 1e3:>11.1f} ms{ratios}", flush=True)


def _searched(overlaps: bool, hardware: str, method: Method) -> tuple[int, float]:
    """How many rows a search gives, and seconds of CPU time."""
    search = _training(overlaps, hardware, method)
    gc.collect()
    start = time.process_time()
    found = len([*search.rows()])
    return found, time.process_time() - start


def _training(overlaps: bool, hardware: str, method: Method) -> Search:
    """A search for how to train Llama 3 8B, a few layers of it."""
    module = transform(models.named("llama3-8b", None, 4096, layers=4), "grad", "optimizer=adamw", "precision=mixed")
    subject = Subject("llama3-8b", module, load(hardware))
    space = Space(
        8,
        (32,),
        microbatches=(4, 8),
        zero=(0, 3),
        overlap=(overlaps,),
        fixed={"D": (2, 4)},
    )
    return Search(subject, space, method, Workers(jobs=1), Annealing(4), budget=8 if method == "anneal" else None)


def grid(name: str) -> None:
    """Every configuration for a model on 16 devices."""
    space = Space(DEVICES, BATCHES[name.split("-")[0]])
    search = Search(Subject(name, models.named(name), load(HARDWARE)), space, workers=Workers(jobs=1))
    gc.collect()
    start, begin = time.process_time(), time.perf_counter()
    rows = list(search.rows())
    spent, passed = time.process_time() - start, time.perf_counter() - begin
    failed = sum(bool(row.reason) for row in rows)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {len(rows)} configurations ({failed} infeasible), {spent:.1f} s of CPU, {passed:.1f} s", end=", ")
    print(f"{len(rows) / spent:.1f} per CPU second, {memory:.0f} MB")


if __name__ == "__main__":
    main()
