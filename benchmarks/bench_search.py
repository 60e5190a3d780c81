"""What a search costs: CPU time of the paper's grids, transforms and simulations together, in one process.

    bench_search.py                        the grids of the three MLPs, 885 configurations each, and one configuration
    bench_search.py gpt2-1.6b gpt2-175b    the grids of these models, 1,035 configurations each of a GPT-2

Run it as a script. Nothing is asserted: times depend on the machine, configurations per second do less so.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from dataclasses import replace

from distir import models
from distir.cost import load
from distir.search.evaluate import evaluate
from distir.search.plan import Plan
from distir.search.searching import Search
from distir.search.space import Space
from distir.search.subject import Subject
from distir.search.work import Workers

HARDWARE = "dgx2-v100"
DEVICES = 16
MLPS = ("mlp-1b", "mlp-17b", "mlp-103b")
BATCHES = {
    "mlp": tuple(2**exponent for exponent in range(7, 19)),
    "gpt2": tuple(2**exponent for exponent in range(7, 21)),
}
"""The paper's table 2 and figure 5; every batch size that the number of replicas and microbatches divides."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("models", nargs="*", default=MLPS, help="models of the paper by name")
    names = arguments.parse_args().models
    if names == MLPS:
        one("mlp-103b", Plan(4, 2, 2, 128))
    for name in names:
        grid(name)


def one(name: str, plan: Plan) -> None:
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
