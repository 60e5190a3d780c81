"""What distributing a training step over thousands of devices costs: CPU time and memory, by stage of work.

    bench_cluster.py [D T P K]    GPT-2 175B; as 64 replicas of 32 stages of 8 shards, for 128 microbatches, by default
    bench_cluster.py plans        single plans of Llama 3 405B on 16,384 H100, as a search makes the first one it meets

Transformed as a representative of its replicas and shards, without the functions that scatter inputs and gather
results, as a search does, and simulated with memory. Run it as a script. Nothing is asserted: times depend on the
machine. Each plan has a process of its own, in which nothing is known but the training step; of a search's later plans
most functions are known. Plans differ by an order of magnitude: the last column relates each to the first one.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from timed import timed

from distir import models
from distir.cost import load
from distir.ir import Call
from distir.ir.collection import paused_collection
from distir.search.evaluate import evaluate
from distir.search.rows import Row
from distir.search.subject import Subject
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.strategy import Strategy

MODEL = "gpt2-175b"
NODE = "dgx-a100"
DEVICES_PER_NODE = 8

PLANS = (
    Strategy(128, 8, 16, 32, zero=1),
    Strategy(128, 8, 16, 32, "interleaved", virtual=4, zero=1),
    Strategy(64, 8, 16, 32, "zb-v", context=2, kind="allgather", zero=1, sequence=True, overlap=True, fuse=True),
    Strategy(64, 8, 32, 128, "zb-v", zero=1, sequence=True, overlap=True, fuse=True),
    Strategy(128, 8, 16, 32, zero=3, sequence=True, overlap=True, fuse=True),
)
"""Of 16,384 devices, for microbatches of one sequence."""


def main() -> None:
    """One strategy, or several plans."""
    if sys.argv[1:] == ["plans"]:
        plans()
        return
    d, t, p, k = map(int, sys.argv[1:]) if len(sys.argv) > 1 else (64, 8, 32, 128)
    hardware = f"{-(-d * t * p // DEVICES_PER_NODE)}x-{NODE}"
    print(f"{MODEL} {d}/{t}/{p}/{k}, {d * t * p:,} devices of {hardware}")
    training = timed("grad", lambda: transform(models.named(MODEL), "grad", "loss=cross_entropy", "optimizer=adam"))
    start = time.process_time()
    steps = (f"dtp={d},{t},{p}", f"microbatches={k}", "representative=true", "ends=false")
    module = timed("transform", lambda: transform(training, *steps))
    found = timed("simulate", lambda: simulate(module, hardware, bind={"B": d * k}))
    peak = timed("memory", lambda: max(found.peaks.values()))
    spent = time.process_time() - start
    calls = sum(isinstance(s, Call) for function in module for s in function.body)
    size = sum(len(function.body) for function in module)
    print(f"    {spent:.2f} s in all; {size:,} statements, {calls:,} calls, {found.ops:,} ops if inlined")
    print(f"    latency {found.latency_s:.3f} s, peak memory {peak / 1e9:.1f} GB")


def plans() -> None:
    """Each plan, cold."""
    print(f"llama3-405b on 16,384 devices of 2048x-dgx-h100{'CPU':>34} {'memory':>8}")
    first = None
    for plan in PLANS:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            row, spent, memory = fresh.submit(cold, plan).result()
        first = first or spent
        said = "" if row.latency_s is None else f"{row.latency_s:.2f} s a step"
        print(f"    {plan!s:<62} {said:<15} {spent:5.1f} s {memory:5.0f} MB {spent / first:5.1f}")


def cold(plan: Strategy) -> tuple[Row, float, float]:
    """The row of a plan, the seconds of CPU that it took, and the most memory of the process in MB."""
    module = transform(models.named("llama3-405b"), "grad", "optimizer=adamw", "precision=mixed")
    subject = Subject("llama3-405b", module, load("2048x-dgx-h100").sustained())
    start = time.process_time()
    with paused_collection():  # as in a search
        (row,) = evaluate(subject, plan, [plan.data * plan.microbatches])
    spent = time.process_time() - start
    return row, spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
