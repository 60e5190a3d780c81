"""What distributing a training step over thousands of devices costs: CPU time and memory, by stage of work.

    bench_cluster.py [D T P K]    GPT-2 175B; as 64 replicas of 32 stages of 8 shards, for 128 microbatches, by default

Transformed as a representative of its replicas and shards, without the functions that scatter inputs and gather
results, as a search does, and simulated with memory. Run it as a script. Nothing is asserted: times depend on the
machine.
"""

from __future__ import annotations

import sys
import time

from timed import timed

from distir import models
from distir.ir import Call
from distir.simulate import simulate
from distir.transform import transform

MODEL = "gpt2-175b"
NODE = "dgx-a100"
DEVICES_PER_NODE = 8


def main() -> None:
    """One strategy."""
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


if __name__ == "__main__":
    main()
