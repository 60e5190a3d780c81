"""Figures 4 and 5: peak memory against throughput, for the MLPs in training and the GPT-2s in inference.

python examples/paper/memory_throughput.py
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from evaluation import (
    HARDWARE,
    INFERENCE,
    OUT,
    TABLE_1_BATCH,
    TRAINING,
    Grid,
    layout,
    markdown,
    picture,
    table_1_grid,
    write,
)

from distir.cost import load
from distir.search.plot import plot
from distir.search.rows import show_rate


def main() -> None:
    """A static figure and an interactive page for each model."""
    capacity = load(HARDWARE).capacity(0)
    parts = ["## Figures 4 and 5: peak memory against throughput\n"]
    for name in (*TRAINING, *INFERENCE):
        found = table_1_grid(name)
        batch = f"batch {TABLE_1_BATCH[name]:,}" if name in TRAINING else "batches 128 to 1,048,576"
        title = f"{name}, {batch}"
        plot(found.table, str(OUT / f"memory_{name}.html"), title, capacity)
        shown = picture(f"memory_{name}", partial(_draw, found, title, capacity))
        best, fitting = found.table.best, sum(row.fits for row in found.table)
        text = f"the best that fits is {layout(best)} with batch {best.batch_size:,}" if best else "none fits"
        parts.append(
            f"{shown}\n\n{title}: {fitting:,} of {len(found.table):,} fit into {capacity / 1e9:.0f} GB; {text}.\n"
        )
    parts += ["The paper's conclusions from these figures, and ours:\n", _claims()]
    write("memory_throughput", "\n".join(parts))


def _draw(found: Grid, title: str, capacity: int, path: Path) -> None:
    plot(found.table, str(path), title, capacity)


def _claims() -> str:
    """Section 5.1 draws two conclusions from figure 4."""
    large, middle = table_1_grid("mlp-103b").table, table_1_grid("mlp-17b").table
    tensor = max(row.throughput or 0.0 for row in large if row.plan.pure == "T")
    piped = max(row.throughput or 0.0 for row in large if row.plan.pipeline > 1)
    pure = next(row for row in middle if row.plan.pure == "T")
    best = middle.best
    assert best is not None
    rows: list[list[object]] = [
        [
            "MLP 103B: pure tensor parallelism is faster than all strategies with a pipeline",
            f"{_yes(tensor > piped)}: {show_rate(tensor)} against {show_rate(piped)}",
        ],
        [
            "MLP 17B: pure tensor parallelism does not fit, its activations are larger than the weights",
            f"{_yes(not pure.fits)}: it needs {(pure.peak_memory_bytes or 0) / 1e9:.1f} GB",
        ],
        [
            "MLP 17B: the best combines all three",
            f"{_yes(min(best.plan.data, best.plan.tensor, best.plan.pipeline) > 1)}: {layout(best)}",
        ],
    ]
    return markdown(["the paper", "here"], rows)


def _yes(true: bool) -> str:
    return "the same" if true else "not so"


if __name__ == "__main__":
    main()
