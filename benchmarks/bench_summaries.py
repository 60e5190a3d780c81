"""What simulation costs where programs consist of calls: CPU time against the ops that the program has if inlined.

    bench_summaries.py                    from 10^3 to 10^8 ops: a pipeline that is repeated, and real pipelines
    bench_summaries.py --plot growth.svg  the same, as a picture
    bench_summaries.py --grid gpt2-1.6b   every D/T/P/K on 16 devices, for each batch size of the paper
    bench_summaries.py --one mlp-103b     one configuration, 4/2/2 with 128 microbatches

Run it as a script. Nothing is asserted: times depend on the machine, how they grow with the program does less so.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from distir import models, transform
from distir.analysis import check
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Module, TensorType
from distir.ir.builder import FunctionBuilder
from distir.simulate import Sweep, simulate

HARDWARE = "dgx2-v100"
DEVICES = 16
STAGES, SHARDS, LAYERS = 4, 4, 10
"""Of the pipeline that is repeated: its layers are those of one stage."""

OPS_EACH = STAGES * (LAYERS * (2 * SHARDS + 1) + SHARDS)
FLAT_UP_TO = 10**5
"""Larger programs are not timed op by op."""

SIZES = tuple(10**exponent for exponent in range(3, 9))
PIPELINES = ((4, 8), (8, 16), (16, 32), (64, 64), (128, 256), (512, 512), (1024, 1024), (2048, 2048))
"""Microbatches and layers of a step of training on 16 devices: about 500 to 10^8 ops."""

MICROBATCHES = (2, 4, 8, 16, 32, 64, 128)
BATCHES = {"mlp": (65536,), "gpt2": tuple(2**exponent for exponent in range(7, 21))}
"""The paper's figures 4 and 5; every batch size that the number of replicas and microbatches divides."""


def repeated(ops: int) -> Module:
    """A batch passes through the stages of a pipeline, again and again, in calls of calls: about so many ops."""
    activation, weight = TensorType(DTYPES["Float16"], (256, 1024)), TensorType(DTYPES["Float16"], (1024, 1024))
    numbers = range(SHARDS)
    layer = FunctionBuilder("layer")
    xs = [layer.param(f"x{i}", activation) for i in numbers]
    ws = [layer.param(f"w{i}", weight) for i in numbers]
    hs = [layer.apply("Gemm", x, w)[0] for x, w in zip(xs, ws, strict=True)]
    sums = layer.apply("MPIAllreduce", *hs, results=tuple(f"sum{i}" for i in numbers))
    functions = [layer.returns(*[layer.apply("Relu", h)[0] for h in sums])]

    stage = FunctionBuilder("stage")
    xs = [stage.param(f"x{i}", activation) for i in numbers]
    ws = [stage.param(f"w{i}", weight) for i in numbers]
    for number in range(LAYERS):
        xs = list(stage.call("layer", *xs, *ws, results=tuple(f"x{number}_{i}" for i in numbers)))
    functions.append(stage.returns(*xs))

    counts = [min(10, count) for count in _levels(max(1, ops // OPS_EACH))]
    for level, count in enumerate([1, *counts]):
        step = FunctionBuilder(f"step{level}")
        xs = [step.param(f"x{i}", activation) for i in numbers]
        ws = [step.param(f"w{p}_{i}", weight) for p in range(STAGES) for i in numbers]
        for number in range(count):
            names = tuple(f"x{number}_{i}" for i in numbers)
            xs = list(step.call(f"step{level - 1}", *xs, *ws, results=names)) if level else _stages(step, xs, ws)
        functions.append(step.returns(*xs))

    main = FunctionBuilder("main")
    xs = [main.param(f"x{i}", TensorType(activation.dtype, activation.shape, 1 + i)) for i in numbers]
    ws = [
        main.param(f"w{p}_{i}", TensorType(weight.dtype, weight.shape, 1 + p * SHARDS + i))
        for p in range(STAGES)
        for i in numbers
    ]
    done = main.call(f"step{len(counts)}", *xs, *ws, results=tuple(f"y{i}" for i in numbers))
    return Module([*functions, main.returns(*done)])


def _levels(times: int) -> Iterator[int]:
    """Factors of up to 10 whose product is about `times`."""
    while times > 1:
        yield min(10, times)
        times //= 10


def _stages(step: FunctionBuilder, xs: list[str], ws: list[str]) -> list[str]:
    for p in range(STAGES):
        names = tuple(f"y{p}_{i}" for i in range(SHARDS))
        xs = list(step.call("stage", *xs, *ws[p * SHARDS : (p + 1) * SHARDS], results=names))
        after = (p + 1) % STAGES
        xs = [step.apply("Send", x, device=1 + after * SHARDS + i)[0] for i, x in enumerate(xs)]
    return xs


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU time of one run in seconds, and what it gives."""
    gc.collect()
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def growth(picture: str | None) -> None:
    """Both series, printed, and drawn where a picture is asked for."""
    simulate(repeated(SIZES[0]), HARDWARE)  # imports and memos are not the program's time
    calls = {"the same pipeline, repeated in calls": repetitions()}
    real = pipelines()
    series = {"microbatches x layers x devices: simulate": [(ops, seconds) for ops, _, seconds in real]}
    distributing = {"microbatches x layers x devices: transform": [(ops, seconds) for ops, seconds, _ in real]}
    if picture is not None:
        draw(calls | series | distributing, picture)


def repetitions() -> list[tuple[int, float]]:
    """Ops as if inlined, and CPU seconds to simulate them, of one pipeline repeated ever more often."""
    found: list[tuple[int, float]] = []
    print(f"{'ops':>12} {'simulate':>10} {'an event':>10} {'its slack':>10} {'op by op':>10}")
    for size in SIZES:
        module = repeated(size)

        def whole(module: Module = module) -> Any:
            found = simulate(module, HARDWARE)
            assert found.devices
            return found

        seconds, simulation = cpu(whole)
        timeline = simulation.timeline()
        index = random.Random(0).randrange(len(timeline))
        event, _ = cpu(lambda: timeline.event(index))  # noqa: B023
        slack, _ = cpu(lambda: timeline.spare(index))  # noqa: B023
        flat = cpu(lambda: timeline.starts)[0] if simulation.ops <= FLAT_UP_TO else float("nan")  # noqa: B023
        print(f"{simulation.ops:12,} {seconds:8.3f} s {event:8.4f} s {slack:8.4f} s {flat:8.3f} s")
        found.append((simulation.ops, seconds))
    return found


def pipelines() -> list[tuple[int, float, float]]:
    """Ops as if inlined, CPU seconds to distribute and to simulate a step of training an MLP, T/P 4/4."""
    found: list[tuple[int, float, float]] = []
    print(f"{'K x layers':>12} {'ops':>12} {'transform':>10} {'simulate':>10}")
    for microbatches, layers in PIPELINES:
        sequential = models.mlp(layers, 64, 2 * microbatches, training=True)

        def whole(sequential: Module = sequential, microbatches: int = microbatches) -> Module:
            return transform(sequential, "dtp=1,4,4", microbatches=microbatches)

        def timed(module: Module) -> Any:
            simulation = simulate(module, HARDWARE)
            assert simulation.latency_s
            return simulation

        transforming, module = cpu(whole)
        seconds, simulation = cpu(lambda: timed(module))  # noqa: B023
        shape = f"{microbatches} x {layers}"
        print(f"{shape:>12} {simulation.ops:12,} {transforming:8.3f} s {seconds:8.3f} s")
        found.append((simulation.ops, transforming, seconds))
    return found


def draw(series: dict[str, list[tuple[int, float]]], path: str) -> None:
    """CPU seconds against ops, with what an op by op simulation of 50,000 ops a second would take."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "distir", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        axes = figure.subplots()
        for (name, points), marker in zip(series.items(), "os^", strict=True):
            axes.loglog(*zip(*points, strict=True), marker=marker, label=name)
        axes.loglog(SIZES, [size / 50_000 for size in SIZES], "--", color="0.5", label="if every op cost 20 us")
        axes.set_xlabel("ops, as if all calls were inlined")
        axes.set_ylabel("CPU seconds")
        axes.legend(fontsize=8)
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def grid(name: str) -> None:
    """Every configuration of the paper's search for a model."""
    sequential, machine = models.named(name), load(HARDWARE)
    seconds = dict.fromkeys(("transform", "check", "first size", "other sizes"), 0.0)
    configurations = 0
    for d, t, p in product((1, 2, 4, 8, 16), repeat=3):
        if d * t * p != DEVICES:
            continue
        for k in MICROBATCHES if p > 1 else (1,):
            sizes = [size for size in BATCHES[name.split("-")[0]] if size % (d * k) == 0]
            configurations += len(sizes)
            try:
                _unit(sequential, f"dtp={d},{t},{p}", k, sizes, machine, seconds)
            except ProgramError as error:
                print(f"{d}/{t}/{p}/{k}: {error.diagnostics[0].message}")
    total = sum(seconds.values())
    print(f"{name}: {configurations} configurations, {total:.1f} s, {configurations / total:.1f} per second")
    for part, spent in seconds.items():
        print(f"  {part:12} {spent:8.1f} s")


def _unit(
    sequential: Module, step: str, microbatches: int, sizes: list[int], machine: Any, seconds: dict[str, float]
) -> None:
    """One way to distribute a model, for all batch sizes; adds up the seconds."""
    spent, module = cpu(lambda: transform(sequential, step, microbatches=microbatches))
    seconds["transform"] += spent
    module = Module(f for f in module if f.name not in ("main.scatter", "main.gather"))
    spent, analysis = cpu(lambda: check(module))
    seconds["check"] += spent
    entry = module.entry()
    assert entry is not None
    sweep = Sweep(analysis, entry, machine)
    for number, size in enumerate(sizes):
        spent, _ = cpu(lambda: (found := sweep.at({"B": size}), found.latency_s, found.devices))  # noqa: B023
        seconds["other sizes" if number else "first size"] += spent


def one(name: str) -> None:
    """One large configuration, from the sequential model to the latency."""
    sequential = models.named(name, batch=8192)
    spent, module = cpu(lambda: transform(sequential, "dtp=4,2,2", microbatches=128))
    simulated, simulation = cpu(lambda: simulate(module, HARDWARE))
    timed, _ = cpu(lambda: (simulation.latency_s, simulation.devices))
    print(f"{name} 4/2/2/128: {simulation.ops:,} ops; transform {spent:.3f} s", end=", ")
    print(f"check and plan {simulated:.3f} s, timing and peaks {timed:.4f} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--plot", metavar="OUT", help="draw how time grows")
    arguments.add_argument("--grid", metavar="MODEL", help="time every configuration of the paper's search")
    arguments.add_argument("--one", metavar="MODEL", help="time one large configuration")
    options = arguments.parse_args()
    if options.grid:
        grid(options.grid)
    elif options.one:
        one(options.one)
    else:
        growth(options.plot)


if __name__ == "__main__":
    main()
