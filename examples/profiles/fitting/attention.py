"""Attention: a table of it, the form for all rows at once, and the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from fitting.corrections import Shapes, best_corrections, factor
from fitting.squares import restarted
from fitting.tables import Array

from distir.cost.contractions import AttentionFigures


@dataclass(frozen=True)
class Attentions:
    """A table of causal attention, forward: queries and keys of one length, heads of one size.

    `stored`: the measurement wrote keys and values to a cache before.
    """

    batch: Array
    seq: Array
    heads: Array
    kv_heads: Array
    head_dim: int
    measured: Array
    size: int
    stored: bool = False

    def part(self, chosen: Array) -> Attentions:
        """Some of the rows."""
        names = ("batch", "seq", "heads", "kv_heads", "measured")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @property
    def traffic(self) -> Array:
        """Bytes of queries, keys, values and result."""
        return self.size * self.batch * self.seq * self.head_dim * 2 * (self.heads + self.kv_heads)

    @property
    def sizes(self) -> tuple[Array, Array, Array]:
        """The axes of a correction, for each row."""
        return self.heads * self.batch, self.seq, np.maximum(1, self.heads // self.kv_heads)

    def storing(self, figures: Array) -> Array:
        """Seconds of storing keys and values, where the measurement includes that. No part of attention."""
        start, token, bandwidth = figures
        tokens = self.batch * self.seq
        moved = 4 * self.size * tokens * self.kv_heads * self.head_dim
        return start + np.hypot(token * tokens, moved / bandwidth)

    def seconds(self, f: AttentionFigures) -> Array:
        """What `AttentionFigures.spent` gives, for all rows."""
        step = 4 * f.rows * f.columns * self.head_dim / (f.rate / f.processors)
        columns = np.ceil(self.seq / f.columns)
        blocks = np.ceil(self.seq / f.rows) * self.heads * self.batch
        mean = np.minimum(columns, columns * 0.5 + 0.5 * max(1.0, f.rows / f.columns))
        together = blocks / f.processors * (mean * step + f.overhead)
        alone = columns * step + f.overhead
        most = np.maximum(together, alone)
        compute = most * ((together / most) ** f.overlap + (alone / most) ** f.overlap) ** (1 / f.overlap)
        long = 2 * self.batch * self.heads * self.seq**2 * self.head_dim / f.rate / f.heats_in
        form = f.launch + compute * (1 + f.throttle * long / (1 + long)) + self.traffic / f.memory
        if f.correction is None:
            return form
        return np.maximum(form * factor(self.sizes, f.correction), long * f.heats_in)


@dataclass(frozen=True)
class AttentionFit:
    """Figures, and seconds of storing that belong to the measurement alone."""

    figures: AttentionFigures
    storing: tuple[float, ...]

    def seconds(self, table: Attentions) -> Array:
        """What the measurement should have taken."""
        return table.seconds(self.figures) + self.beside(table)

    def beside(self, table: Attentions) -> Array:
        """Seconds that are no part of attention."""
        return table.storing(np.array(self.storing)) if table.stored else np.zeros(len(table.seq))


FINENESS = (((6, 6, 3),), ((8, 8, 4),), ((10, 8, 5),), ((10, 10, 6),))


def fit_attention(table: Attentions, processors: int, peak: float, bandwidth: float, restarts: int = 4) -> AttentionFit:
    """The figures that a table of attention shows, with a correction where one helps."""
    ranges = {
        "rate": (0.05 * peak, 0.6 * peak, peak),
        "launch": (1e-7, 8e-6, 3e-5),
        "memory": (0.05 * bandwidth, 0.7 * bandwidth, bandwidth),
        "overhead": (1e-8, 1e-6, 1e-5),
        "overlap": (1.0, 3.0, 10.0),
        "throttle": (1e-3, 0.1, 2.0),
        "heats_in": (5e-6, 1e-3, 0.1),
    }
    storing = ((1e-8, 2e-6, 1e-5), (1e-12, 1e-10, 1e-8), (0.05 * bandwidth, 0.5 * bandwidth, 4 * bandwidth))
    low, first, high = np.log(np.array([*ranges.values(), *(storing if table.stored else ())])).T
    best: tuple[float, AttentionFit] | None = None
    for rows, columns in ((64, 64), (128, 64), (128, 128), (192, 128)):

        def made(at: Array, rows: int = rows, columns: int = columns) -> AttentionFit:
            values = np.exp(at).tolist()
            named = dict(zip(ranges, values[: len(ranges)], strict=True))
            figures = AttentionFigures(table.head_dim, processors, rows=rows, columns=columns, **named)
            return AttentionFit(figures, tuple(values[len(ranges) :]))

        def residuals(at: Array, made: Callable[[Array], AttentionFit] = made) -> Array:
            return np.log(made(at).seconds(table) / table.measured)

        at = restarted(residuals, first, low, high, restarts)
        cost = float(np.sum(np.sqrt(1 + (residuals(at) / 0.05) ** 2)))
        if best is None or cost < best[0]:
            best = cost, made(at)
    assert best is not None
    form, beside = best[1], best[1].beside(table)
    rows = Shapes([table.sizes], table.seconds(form.figures))
    found = best_corrections(rows, table.measured, beside, FINENESS)
    return replace(form, figures=replace(form.figures, correction=found[0] if found else None))
