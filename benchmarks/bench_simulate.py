"""How fast flat programs are simulated: ops per second of CPU time in each pass, and bytes kept per op.

Then, for programs of 10,000 ops, what hosts that take time and named streams add: each pass, over that of the same
program without either. The same for training steps of Llama 3 8B with overlap: over the same statements on one stream,
beside the steps without overlap. At last a table of what is simulated end to end, where the goal is 1.5: the least CPU
time of some runs in turns, which what else the machine does disturbs least.

Run it as a script: `bench_simulate.py [OPS …] [--profile]`. Parsing is left out. Nothing is asserted: times depend on
the machine, how time per op grows with the program does less so.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import distir
from distir import models
from distir.analysis import Analysis, check
from distir.cost import load
from distir.ir import DTYPES, Apply, Call, Function, Module, Statement, TensorType
from distir.ir.builder import FunctionBuilder
from distir.simulate import Timeline, plan, simulate

DEVICES = 8
LAYERS = 4
"""Layers that each stage of the pipeline has."""

HARDWARE = "dgx-a100"
WITH_HOSTS = f"{HARDWARE}@eager"
SIZES = (1_000, 10_000, 100_000)
BASELINE = 10_000
"""The size whose time per op the others are compared with."""
TRAINING = (
    ("optimizer=adam dtp=8,1,1 representative=true zero=3 partition=split", 8, "dgx-h100"),
    ("optimizer=adamw precision=mixed dtp=1,2,4 microbatches=16 representative=true", 64, "dgx-h100"),
    (
        "optimizer=adamw precision=mixed dtp=1,2,4 microbatches=16 schedule=interleaved representative=true",
        64,
        "dgx-h100",
    ),
)
"""How Llama 3 8B is distributed, its batch, and the machine."""
RUNS = 3
"""How often programs with hosts and streams, and without, are simulated."""
TURNS = 9
"""How often for the table of what is simulated end to end."""


def flat(ops: int) -> Module:
    """A pipeline of 8 stages without calls: batches of varying size pass through, weights are updated now and then."""
    f = FunctionBuilder("main")
    types = {n: TensorType(DTYPES["Float32"], (n, 1024), 1) for n in (32, 64, 128)}
    weights = {
        (d, layer): f.param(f"w_{d}_{layer}", TensorType(DTYPES["Float32"], (1024, 1024), d))
        for d in range(1, DEVICES + 1)
        for layer in range(LAYERS)
    }
    inputs = [f.param(f"x_{n}", t) for n, t in types.items()]
    done: list[str] = []
    batch = 0
    while len(f.body) < ops:
        x, kept = inputs[batch % len(inputs)], []
        for device in range(1, DEVICES + 1):
            if device > 1:
                (x,) = f.apply("Send", x, device=device)
            for layer in range(LAYERS):
                (h,) = f.apply("Gemm", x, weights[device, layer])
                (a,) = f.apply("Relu", h)
                (x,) = f.apply("Add", a, x)
            kept.append(x)
        f.apply("MPIAllreduce", *kept, results=("_",) * len(kept))
        if batch % 8 == 7:
            for (device, layer), weight in weights.items():
                (weights[device, layer],) = f.apply("SGD", weight, weight)
        done = [*done[-3:], x]
        batch += 1
    del f.body[ops:]
    return Module([_closed(f, [*weights.values(), *done])])


def training(steps: str, batch: int, hardware: str) -> tuple[Module, Module]:
    """A training step of Llama 3 8B, distributed, without overlap and with it."""
    step = distir.transform(models.named("llama3-8b", batch, 4096), "grad", *steps.split())
    return step, distir.transform(step, "overlap", f"hardware={hardware}")


def without_streams(module: Module) -> Module:
    """The same statements, all on the compute stream."""

    def plain(statement: Statement) -> Statement:
        return replace(statement, stream="") if isinstance(statement, (Apply, Call)) else statement

    return Module([replace(f, body=tuple(map(plain, f.body))) for f in module])


def streamed(module: Module) -> Module:
    """The same with sends between stages, and reductions, on streams of their own."""
    streams = {"Send": "copy", "MPIAllreduce": "reduce"}
    (f,) = module
    body = [replace(s, stream=streams.get(s.op, "")) if isinstance(s, Apply) else s for s in f.body]
    return Module([replace(f, body=tuple(body))])


def _closed(f: FunctionBuilder, wanted: list[str]) -> Function:
    """Return what is wanted of what the statements that are left define."""
    defined = {p.name for p in f.params} | {name for s in f.body for name in getattr(s, "results", ())}
    return f.returns(*[name for name in wanted if name in defined])


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU time of one run in seconds, and what it gives."""
    gc.collect()
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def measure(ops: int) -> dict[str, float]:
    """Seconds of CPU time by pass, and end to end."""
    return _passes(flat(ops))


def _passes(module: Module, hardware: str = HARDWARE) -> dict[str, float]:
    machine = load(hardware)
    entry = module.entry()
    assert entry is not None
    seconds: dict[str, float] = {}
    analysis: Analysis
    seconds["check"], analysis = cpu(lambda: check(module))
    assert not analysis.errors
    instance = analysis.instance(entry, tuple(p.type for p in entry.params))
    seconds["plan"], planned = cpu(lambda: plan(module, analysis.domain, instance, machine))
    timeline = Timeline(planned.body)
    seconds["timing"], finish = cpu(lambda: timeline.finish)
    assert finish > 0
    seconds["peaks"], _ = cpu(lambda: planned.peaks)
    seconds["devices"], _ = cpu(lambda: planned.devices)
    seconds["slack"], _ = cpu(lambda: timeline.slack)
    seconds["waits"], _ = cpu(lambda: timeline.waits)
    seconds["path"], _ = cpu(timeline.critical_path)
    seconds["points"], _ = cpu(lambda: sum(1 for _ in planned.memory().points()))
    seconds["end to end"], _ = cpu(lambda: _whole(module, hardware))
    return seconds


def _whole(module: Module, hardware: str = HARDWARE) -> Any:
    simulation = simulate(module, hardware)
    assert simulation.devices
    return simulation


def kept_bytes(ops: int) -> float:
    """Bytes per op that a simulation keeps beside the module, its check included."""
    module = flat(ops)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = _whole(module)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return (after - before) / ops


def compare(title: str, cases: dict[str, tuple[Module, str]]) -> None:
    """Print what each case takes in each pass, over the first one: the median of some runs, all cases in turns."""
    first, *others = cases
    ratios: dict[str, dict[str, list[float]]] = {name: {} for name in others}
    for _ in range(RUNS):
        base = _passes(*cases[first])
        for name in others:
            for step, s in _passes(*cases[name]).items():
                ratios[name].setdefault(step, []).append(s / base[step])
    print(f"{title}, over {first}:")
    print(f"  {'':12} " + "".join(f"{name:>10}" for name in others))
    for step in ratios[others[0]]:
        print(f"  {step:12} " + "".join(f"{median(ratios[name][step]):10.2f}" for name in others))


def with_hosts_and_streams(ops: int) -> dict[str, dict[str, tuple[Module, str]]]:
    """Programs, by title: each without hosts and streams first, then with them."""
    plain, with_streams = flat(ops), streamed(flat(ops))
    found = {
        f"flat, {ops:,} ops": {
            "plain": (plain, HARDWARE),
            "hosts": (plain, WITH_HOSTS),
            "streams": (with_streams, HARDWARE),
            "both": (with_streams, WITH_HOSTS),
        }
    }
    for steps, batch, hardware in TRAINING:
        before, overlapped = training(steps, batch, hardware)
        plain = without_streams(overlapped)  # the same statements
        found[f"llama3-8b {steps}"] = {
            "plain": (plain, hardware),
            "no overlap": (before, hardware),
            "hosts": (plain, f"{hardware}@eager"),
            "streams": (overlapped, hardware),
            "both": (overlapped, f"{hardware}@eager"),
        }
    return found


def compare_end_to_end(programs: dict[str, dict[str, tuple[Module, str]]]) -> None:
    """Print the time that each program takes, and over it what it takes with hosts and streams."""
    columns = ("hosts", "streams", "both")
    print(f"end to end, least of {TURNS} runs: milliseconds of CPU time, and ratios to it (goal: 1.5)")
    print(f"  {'plain':>9} " + "".join(f"{name:>9}" for name in columns))
    for title, cases in programs.items():
        seconds: dict[str, list[float]] = {name: [] for name in ("plain", *columns)}
        for _ in range(TURNS):
            for name, found in seconds.items():
                module, hardware = cases[name]
                found.append(cpu(lambda module=module, hardware=hardware: _whole(module, hardware))[0])
        plain = min(seconds["plain"])
        print(f"  {plain * 1e3:9.1f} " + "".join(f"{min(seconds[n]) / plain:9.2f}" for n in columns) + f"  {title}")


def profile(ops: int) -> None:
    module = flat(ops)
    profiler = cProfile.Profile()
    profiler.runcall(lambda: _whole(module))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("ops", nargs="*", type=int, default=SIZES)
    arguments.add_argument("--profile", action="store_true", help="show where the time goes, at the first size")
    options = arguments.parse_args()
    if options.profile:
        profile(options.ops[0])
        return
    measure(1_000)  # imports and memos are not the program's time
    per_op: dict[int, dict[str, float]] = {}
    for ops in options.ops:
        seconds = measure(ops)
        per_op[ops] = {name: s / ops for name, s in seconds.items()}
        kept = kept_bytes(ops)
        print(f"{ops:,} ops, {kept:,.0f} bytes kept per op")
        for name, s in seconds.items():
            print(f"  {name:12} {s:8.3f} s  {ops / s if s else float('inf'):14,.0f} ops/s")
    if BASELINE in per_op:
        largest = max(per_op)
        print(f"time per op at {largest:,} ops over that at {BASELINE:,}:")
        for name, s in per_op[BASELINE].items():
            print(f"  {name:12} {per_op[largest][name] / s if s else float('nan'):.2f}")
    programs = with_hosts_and_streams(BASELINE)
    for title, cases in programs.items():
        compare(title, cases)
    compare_end_to_end(programs)


if __name__ == "__main__":
    main()
