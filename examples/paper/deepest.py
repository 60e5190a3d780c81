"""GPT-2 175B: why deep pipelines are the fastest at large batches, and tensor parallelism at small ones.

python examples/paper/deepest.py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evaluation import DEVICES, HARDWARE, layout, markdown, table_1_grid, write

from distir import models, simulate
from distir.cost import Hardware, load
from distir.search import Row
from distir.search.rows import show_rate
from distir.simulate import Simulation
from distir.simulate.body import runs
from distir.simulate.effects import Effect
from distir.transform.strategy.steps import apply

MODEL = "gpt2-175b"
BATCH = 2048
"""The largest at which every layout without replicas fits."""
PRODUCTS = ("MatMul",)
"""What tensor parallelism divides: all products, but that with the token embedding."""


@dataclass(frozen=True)
class Spent:
    """Where the time of all devices goes, as shares of (devices × latency)."""

    row: Row
    products: float
    others: float
    communication: float
    idle: float


def main() -> None:
    """A section of the report."""
    table = [row for row in table_1_grid(MODEL).table if row.fits]
    sizes = sorted({row.batch_size or 0 for row in table})
    layouts = sorted({(row.plan.tensor, row.plan.pipeline) for row in table}, reverse=True)
    fastest = {
        (size, *of): _best(row for row in table if (row.batch_size, row.plan.tensor, row.plan.pipeline) == (size, *of))
        for size in sizes
        for of in layouts
    }
    by_batch: list[list[object]] = [[f"{size:,}", *(_rate(fastest[size, *of]) for of in layouts)] for size in sizes]
    machine = load(HARDWARE)
    spent = [_spent(row, machine) for of in layouts if (row := fastest[BATCH, *of]) is not None]
    where: list[list[object]] = [
        [layout(s.row), *(f"{100 * share:.1f} %" for share in (s.products, s.others, s.communication, s.idle))]
        for s in spent
    ]
    tensor, deep = spent[0].row, spent[-1].row
    ahead = [size for size in sizes if _ahead(fastest[size, *layouts[-1]], fastest[size, *layouts[0]])]
    free = _simulated(tensor, _with_links(machine, 1e-9)).latency_s
    even = BATCH / free
    first = fastest[sizes[0], *layouts[0]]
    last = fastest[sizes[0], *layouts[-1]]
    best = _best(table)
    assert best is not None
    assert first is not None
    assert last is not None
    rows = (BATCH // deep.K) * 8
    parts = [
        "## GPT-2 175B: why the deepest pipelines win at large batches\n",
        "The best of each T/P, in examples per second, by batch; a dash does not fit:\n",
        markdown(["batch", *(f"1/{t}/{p}" for t, p in layouts)], by_batch),
        f"They do not win in general: at batch {sizes[0]:,} pure tensor parallelism is {_times(first, last)} as fast "
        f"as 16 stages, as the paper finds for MLP 103B at batch 256, and from batch {ahead[0]:,} on it is behind. The "
        "paper's search treats the batch of inference as free, so the best of all rows is one of a large batch. Where "
        f"the time of the 16 devices goes at batch {BATCH:,}:\n",
        markdown(["D/T/P/K", "products", "other ops", "communication", "idle"], where),
        "- **Products take about as many seconds in all of them**: the same FLOPs at nearly the same rate. A "
        f"microbatch of the deepest pipeline still has {rows} rows of tokens, for which arithmetic takes a little "
        "longer than reading the weights.",
        "- **A pipeline pays its bubble**, (P-1)/(K+P-1), and a little for stages of unequal work: "
        f"{100 * 15 / (deep.K + 15):.1f} % with K = {deep.K}. At a small batch, K is small, or the microbatches are, "
        "and then the weights' traffic binds. Where the batch is free, many large microbatches cost nothing but "
        "memory, and in inference little of that: no activations are kept for a backward pass.",
        "- **Tensor parallelism pays at every layer**, whatever the batch: 192 all-reduces of the whole hidden state, "
        "and the ops between them (residual sums, normalisations, the product with the embedding, whose 50,257 rows 16 "
        "does not divide), which each shard does for all tokens.",
        "- **A pipeline's transfers are as good as free**: 15 sends of the hidden state instead of 192 all-reduces.\n",
        f"So the margin is that of the links. If all-reduces took no time, {layout(tensor)} would have "
        f"{show_rate(even)} at batch {BATCH:,}, against {show_rate(deep.throughput)} of {layout(deep)}: what all "
        "shards repeat costs about as much as the bubble. With links twice as fast as the profile's it has "
        f"{_half(tensor, machine)}; with links half as fast, {_half(tensor, machine, 2.0)}.\n",
        "Which is right? For the program, this: it follows from FLOPs, bytes and the bubble, and the order at large "
        "batches holds with links twice as fast. A machine may be less kind to pipelines than the simulator: "
        "arithmetic and the weights' traffic, which take almost as long here, overlap perfectly; hosts do not wait for "
        f"sends; and a backend that allocates as it goes may not fit the batch of {best.batch_size:,}, for which "
        f"this says {(best.peak_memory_bytes or 0) / 1e9:.1f} of 32 GB. With smaller batches the layouts are "
        "close, and tensor parallelism leads. We have no measurements of this model, and our copy of the paper lacks "
        "its rows.\n",
    ]
    write("deepest", "\n".join(parts))


def _best(rows: Iterable[Row]) -> Row | None:
    return max(rows, key=lambda row: row.throughput or 0.0, default=None)


def _rate(row: Row | None) -> str:
    if row is None:
        return "-"
    piped = f" (K = {row.plan.microbatches})" if row.plan.pipeline > 1 else ""
    return f"{row.throughput or 0.0:.0f}{piped}"


def _ahead(one: Row | None, other: Row | None) -> bool:
    return one is not None and other is not None and (one.throughput or 0.0) > (other.throughput or 0.0)


def _times(one: Row, other: Row) -> str:
    return f"{(one.throughput or 0.0) / (other.throughput or 1.0):.1f} times"


def _half(row: Row, machine: Hardware, factor: float = 0.5) -> str:
    return show_rate(BATCH / _simulated(row, _with_links(machine, factor)).latency_s)


def _with_links(machine: Hardware, factor: float) -> Hardware:
    """The machine whose transfers take so many times as long."""
    return machine.slowed({}, {(device, 0): factor for device in range(machine.devices)})


def _simulated(row: Row, machine: Hardware) -> Simulation:
    module = apply(models.named(MODEL), row.plan)
    return simulate(module, machine, bind={"B": BATCH})


def _spent(row: Row, machine: Hardware) -> Spent:
    simulation = _simulated(row, machine)
    whole = DEVICES * simulation.latency_s
    products = sum(
        times * effect.cost.seconds * len(effect.devices)
        for body, times in runs(simulation.body)
        for effect in body.timed
        if isinstance(effect, Effect) and effect.op in PRODUCTS
    )
    busy = sum(use.busy_s - use.comm_s for use in simulation.devices.values())
    communication = sum(use.comm_s for use in simulation.devices.values())
    return Spent(row, products / whole, (busy - products) / whole, communication / whole, simulation.bubble)


if __name__ == "__main__":
    main()
