"""Best-first search with a bound: the best row of the grid, without simulating what its bounds exclude.

Plans are simulated in order of their lower bounds. Once the next bound is no better than the best row that fits in
memory, the rest is pruned: every remaining plan takes at least as long. So the best row is that of the whole grid.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from distir.search.bounds import Load, load_of
from distir.search.distributed import Distributed
from distir.search.plan import Plan
from distir.search.rows import Row
from distir.search.subject import Subject
from distir.search.work import Workers, carry_out
from distir.transform.all_steps import transform

BEAM = 4
"""How many plans are simulated at a time, at least; with more workers, one each."""


def bounded(
    subject: Subject,
    plans: Sequence[Plan],
    batch_sizes: Sequence[int | None],
    workers: Workers,
    known: Sequence[Row] = (),
) -> Generator[Row]:
    """The rows that were simulated; for each batch size the grid's best row is among these or the `known` ones."""
    beam = max(BEAM, workers.jobs)
    for size in batch_sizes:
        mine = {row.plan: row for row in known if row.batch_size == size}
        best = min((_latency(row) for row in mine.values()), default=float("inf"))
        load = _load(subject, size)
        queue = sorted((load.bound(plan, subject.hardware), plan) for plan in plans if plan not in mine)
        while queue and queue[0][0] < best:
            tried = [plan for bound, plan in queue[:beam] if bound < best]
            queue = queue[len(tried) :]
            for row in carry_out(subject, [(plan, (size,)) for plan in tried], workers):
                best = min(best, _latency(row))
                yield row


def _latency(row: Row) -> float:
    return row.latency_s if row.fits and row.latency_s is not None else float("inf")


def _load(subject: Subject, batch_size: int | None) -> Load:
    """The program's heavy ops that are live and grow with the batch.

    Others may run once for all microbatches, or not at all. Where the program fixes its batch size, these cannot be
    identified, and nothing is pruned.
    """
    if batch_size is None:
        return Load(())
    sequential = Distributed(replace(subject, module=transform(subject.module, "cse", "dce")), Plan(1, 1, 1))
    once, twice = (load_of(sequential.simulation(size)) for size in (batch_size, 2 * batch_size))
    same = {(flops, dtype) for flops, dtype, _ in twice.ops}
    return Load(tuple(op for op in once.ops if op[:2] not in same))
