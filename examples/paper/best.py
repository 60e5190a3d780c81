"""Tables 2 and 3: the best configuration of each model and batch size, against pure D, T and P.

python examples/paper/best.py
"""

from __future__ import annotations

from evaluation import INFERENCE, MLP_BATCHES, TRAINING, grid, markdown, table_1_grid, write

from distir.search import Row, Table

PAPER_MLP_1B = {
    128: "1/16/1/1",
    256: "1/16/1/1",
    512: "1/16/1/1",
    1024: "1/16/1/1",
    2048: "2/8/1/1",
    4096: "4/4/1/1",
    8192: "4/4/1/1",
    16384: "8/2/1/1",
    32768: "8/2/1/1",
    65536: "16/1/1/1",
    131072: "16/1/1/1",
    262144: "16/1/1/1",
}
"""Table 2's rows for MLP 1B."""

BASELINE_K = 128
"""How many microbatches the paper's pure pipelines have."""


def main() -> None:
    """Table 2 for the MLPs by batch size, Table 3 for the GPT-2s over all batch sizes."""
    rows: list[list[object]] = []
    same = 0
    for name in TRAINING:
        table = grid(name, MLP_BATCHES, f"{name}-all").table
        for best in table.best_by_batch:
            own = Table(tuple(row for row in table if row.batch_size == best.batch_size))
            paper = PAPER_MLP_1B.get(best.batch_size or 0, "") if name == "mlp-1b" else ""
            theirs = next((row for row in own if paper and str(row.plan) == paper), None)
            same += theirs is not None and theirs.plan == best.plan
            behind = (
                f"{theirs.latency_s / best.latency_s:.3f}" if theirs and theirs.latency_s and best.latency_s else ""
            )
            rows.append([name, best.batch_size, str(best.plan), *_speedups(best, own), paper, behind])
    columns = ["model", "batch", "D/T/P/K", "vs D", "vs T", "vs P", "paper", "its time / ours"]
    parts = [
        "## Table 2: the best configurations of the MLPs\n",
        markdown(columns, rows),
        f"Of the paper's {len(PAPER_MLP_1B)} rows for MLP 1B, {same} are the same here; the last column says how much "
        "longer the paper's choice takes in our simulation. The speedups are simulated, the paper's are measured.\n",
        "## Table 3: the best configurations of the GPT-2s\n",
        markdown(columns[:6], [_inference(name) for name in INFERENCE]),
    ]
    write("best", "\n".join(parts))


def _inference(name: str) -> list[object]:
    table = table_1_grid(name).table
    best = table.best
    if best is None:
        return [name, "", "none fits", "", "", ""]
    return [name, best.batch_size, str(best.plan), *_speedups(best, table)]


def _speedups(best: Row, table: Table) -> list[object]:
    """How much faster the best is than the best pure strategies that fit."""
    found: list[object] = []
    for pure in "DTP":
        rows = [row for row in table.ranked if row.plan.pure == pure and (pure != "P" or row.K == BASELINE_K)]
        ours, theirs = best.throughput or 0.0, rows[0].throughput if rows else None
        found.append(f"{ours / theirs:.1f}×" if theirs else "-")
    return found


if __name__ == "__main__":
    main()
