"""The scaling figure: time to simulate against the number of ops, as if inlined.

python examples/paper/scaling.py
"""

from __future__ import annotations

import time

from evaluation import HARDWARE, markdown, picture, save, write
from matplotlib.figure import Figure

import distir

CONFIGURATIONS = [(1, 1, 1, 1), (2, 1, 2, 2), (2, 2, 2, 8), (2, 4, 2, 32), (2, 4, 2, 128), (1, 2, 8, 128)]
BATCH = 16384


def main() -> None:
    """Simulate GPT-2s in growing programs, transform included and not."""
    points: list[tuple[int, float, float]] = []
    for name in ("gpt2-1.6b", "gpt2-175b"):
        model = distir.models.named(name)
        for d, t, p, k in CONFIGURATIONS:
            start = time.process_time()
            words = [f"dtp={d},{t},{p}", *([f"microbatches={k}"] if p > 1 else [])]
            program = distir.transform(model, *words)
            transformed = time.process_time()
            simulation = distir.simulate(program, HARDWARE, bind={"B": BATCH})
            _ = simulation.latency_s
            points.append((simulation.ops, transformed - start, time.process_time() - transformed))
    points.sort()
    figure = Figure(figsize=(5.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.loglog([p[0] for p in points], [p[2] for p in points], "o", color="#0072b2", label="simulate")
    axes.loglog([p[0] for p in points], [p[1] for p in points], "s", color="#d55e00", label="transform")
    axes.loglog([p[0] for p in points], [p[0] / 50_000 for p in points], "--", color="0.5", label="50,000 ops/s")
    axes.set_xlabel("ops, as if inlined")
    axes.set_ylabel("CPU seconds")
    axes.legend(fontsize=8)
    rows: list[list[object]] = [
        [f"{ops:,}", f"{transform:.3f}", f"{simulate:.3f}", f"{float(f'{ops / simulate:.3g}'):,.0f}"]
        for ops, transform, simulate in points
    ]
    shown = picture("scaling", lambda path: save(figure, path))
    (least, _, first), (most, _, last) = points[0], points[-1]
    write(
        "scaling",
        f"## Scaling: time against size\n\n{shown}\n\n"
        + markdown(["ops", "transform, CPU s", "simulate, CPU s", "ops/s"], rows)
        + "\nGPT-2 1.6B and 175B in growing D/T/P/K, batch 16,384. The paper's simulator visits each op, and its "
        f"time is linear in the number of ops. Here {most / least:,.0f} times as many ops take "
        f"{last / first:,.0f} times as long: microbatches and layers are calls of the same functions, and the effect "
        "of a call on clocks and memory is computed once. `benchmarks/bench_summaries.py --plot` continues to 10⁸ "
        "ops:\n\n"
        "![ops from 10³ to 10⁸](paper/summaries.svg)\n",
    )


if __name__ == "__main__":
    main()
