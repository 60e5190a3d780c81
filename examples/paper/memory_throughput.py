"""Figures 4 and 5: peak memory against throughput, for the MLPs in training and the GPT-2s in inference.

python examples/paper/memory_throughput.py
"""

from __future__ import annotations

from evaluation import HARDWARE, INFERENCE, OUT, TABLE_1_BATCH, TRAINING, table_1_grid, write

from distir.cost import load
from distir.search.plot import plot


def main() -> None:
    """A picture to print and a page to point at for each model."""
    capacity = load(HARDWARE).capacity(0)
    parts = ["## Figures 4 and 5: peak memory against throughput\n"]
    for name in (*TRAINING, *INFERENCE):
        found = table_1_grid(name)
        batch = f"batch {TABLE_1_BATCH[name]:,}" if name in TRAINING else "batches 128 to 1,048,576"
        for suffix in ("svg", "html"):
            plot(found.table, str(OUT / f"memory_{name}.{suffix}"), f"{name}, {batch}", capacity)
        best = found.table.best
        shown = f"best that fits: {best.plan}, batch {best.batch_size:,}" if best else "none fits"
        parts.append(f"![{name}](memory_{name}.svg)\n\n{name}, {batch}: {shown}.\n")
    write("memory_throughput", "\n".join(parts))


if __name__ == "__main__":
    main()
