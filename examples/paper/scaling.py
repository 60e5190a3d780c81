"""The scaling figure: time to simulate against the number of ops, as if inlined.

python examples/paper/scaling.py
"""

from __future__ import annotations

import time

from evaluation import HARDWARE, OUT, markdown, write
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
    figure.savefig(OUT / "scaling.svg", metadata={"Date": None})
    rows: list[list[object]] = [[ops, transform, simulate, ops / simulate] for ops, transform, simulate in points]
    write(
        "scaling",
        "## Scaling: time against size\n\n![Scaling](scaling.svg)\n\n"
        + markdown(["ops", "transform, CPU s", "simulate, CPU s", "ops/s"], rows)
        + "\nThe paper's simulator is linear in the ops; here only what is distinct costs.\n",
    )


if __name__ == "__main__":
    main()
