"""Table 1: how long it takes to simulate all configurations of the six models.

python examples/paper/table1.py
"""

from __future__ import annotations

from evaluation import INFERENCE, TABLE_1_BATCH, TRAINING, markdown, table_1_grid, write

from distir import models

PAPER = {
    "mlp-1b": (8192, 2.2, 75, "< 1 min"),
    "mlp-17b": (16384, 34.4, 75, "1 min"),
    "mlp-103b": (32768, 206.2, 75, "2 min"),
    "gpt2-1.6b": (2048, 3.2, 1035, "35 min"),
    "gpt2-13b": (5140, 25.8, 1035, "58 min"),
    "gpt2-175b": (12288, 394.4, 1035, "138 min"),
}
"""The paper's widths, sizes in GB, configurations, and simulation times."""


def main() -> None:
    """Search the six grids on one core."""
    rows: list[list[object]] = []
    total = 0.0
    for name in (*TRAINING, *INFERENCE):
        found, model = table_1_grid(name), models.NAMED[name]
        total += found.cpu_s
        count, (width, size, configurations, time) = len(found.table), PAPER[name]
        gigabytes = 2 * models.parameter_count(models.named(name)) / 1e9
        rows.append(
            [
                name,
                model.layers,
                _beside(f"{model.width}", f"{width}"),
                _beside(f"{gigabytes:.1f}", f"{size}"),
                _beside(f"{count:,}", f"{configurations:,}"),
                f"{found.cpu_s:.0f} s",
                f"{count / found.cpu_s:.1f}",
                time,
            ]
        )
    columns = ["model", "layers", "width", "GB", "configurations", "CPU time", "per CPU second", "the paper, 56 cores"]
    batch, large = TABLE_1_BATCH["mlp-103b"], len(table_1_grid("mlp-103b").table)
    write(
        "table1",
        "## Table 1: simulating all configurations\n\n"
        + markdown(columns, rows)
        + f"\nFigures of the paper that differ are in brackets. All six grids take {total:.0f} seconds on "
        "one core, transforms included; the paper's times are wall-clock minutes on 56 cores of 2.6 GHz. "
        f"MLP 103B has {large} configurations instead of 75: its batch of {batch} cannot be split into D·K equal parts "
        f"if D·K exceeds {batch}. Sizes are 16-bit weights; the paper's sizes for GPT-2 do not follow from its layers "
        "and widths (175B parameters are 350 GB, not 394); the documentation of `distir.models.named` says which of "
        "its figures we use.\n",
    )


def _beside(ours: str, paper: str) -> str:
    return ours if ours == paper else f"{ours} ({paper})"


if __name__ == "__main__":
    main()
