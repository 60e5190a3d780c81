"""Options that are tried of the best rows alone, where these rows say that they may win.

In a product with all others they would be most of a space, and few of them win: collectives beside passes of other
microbatches where links bind a row, stages by memory where that is lacking, cut sequences where a pipeline waits for
few microbatches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distir.search.annealing import settled
from distir.search.rows import Row
from distir.search.space import Space
from distir.transform.strategy import AXES, Strategy

BEST = 3
"""Of how many rows, the fastest, options are tried."""

COSTLY = ("passes",)
"""Options that are tried of the fastest row alone: their programs write microbatches out."""

NEARLY = 1.1
"""How much more memory than there is a plan may need that stages by memory may bring to fit."""

WAITING, BOUND = 0.1, 0.03
"""Shares of time in bubbles and in communication above which options against these are tried."""


def options(rows: Sequence[Row], space: Space, capacity: int) -> Iterator[Strategy]:
    """The plans that differ from the best of the rows, those at one batch size, in an option; the best row first.

    `capacity`: bytes of a device.
    """
    timed = sorted((row for row in rows if row.latency_s), key=lambda row: row.latency_s or 0.0)
    best = [row for row in timed if row.fits][:BEST]
    slowest = best[-1].latency_s or 0.0 if best else 0.0
    large = [row for row in timed if not row.fits and (row.latency_s or 0.0) < slowest]
    wide = space.of_its_best
    for row in [*best, *large]:
        for field, value in space.of_the_best:
            if _may_win(row, field, capacity) and (row is best[0] or field not in COSTLY):
                at = next(i for i, axis in enumerate(AXES) if axis.name == field)
                if value in AXES[at].tried(wide, row.plan):
                    yield settled(replace(row.plan, **{field: value}), wide, at + 1)


def _may_win(row: Row, field: str, capacity: int) -> bool:
    """Whether what binds the row is what the option is for."""
    held = (row.peak_memory_bytes or 0) / capacity
    if field == "balance":
        return not row.fits and held <= NEARLY
    if not row.fits or row.binding is None:
        return row.fits
    return row.binding.links >= BOUND if field == "passes" else row.binding.bubble >= WAITING
