"""Table 1: how long it takes to simulate all configurations of the six models.

python examples/paper/table1.py
"""

from __future__ import annotations

from evaluation import INFERENCE, TRAINING, markdown, table_1_grid, write

from distir import models

PAPER_MINUTES = {
    "mlp-1b": "< 1",
    "mlp-17b": "1",
    "mlp-103b": "2",
    "gpt2-1.6b": "35",
    "gpt2-13b": "58",
    "gpt2-175b": "138",
}


def main() -> None:
    """Search the six grids on one core."""
    rows: list[list[object]] = []
    for name in (*TRAINING, *INFERENCE):
        found, model = table_1_grid(name), models.NAMED[name]
        count = len(found.table)
        speed = count / found.cpu_s
        gigabytes = 2 * models.parameter_count(models.named(name)) / 1e9
        rows.append(
            [name, model.layers, model.width, gigabytes, count, found.cpu_s, speed, f"{PAPER_MINUTES[name]} min"]
        )
    columns = ["model", "layers", "width", "GB", "configurations", "CPU s", "configurations/s", "paper, 56 cores"]
    write(
        "table1",
        "## Table 1: simulating all configurations\n\n"
        + markdown(columns, rows)
        + "\nOne process; transforms included. The paper's times are wall times on 56 cores.\n",
    )


if __name__ == "__main__":
    main()
