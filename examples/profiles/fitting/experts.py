"""Layers of experts: a table of them, and the fit of their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from fitting.products import PACE, SHARED, Choices, Products
from fitting.squares import restarted
from fitting.tables import Array

from distir.cost.contractions import Pace, ProductFigures, Tile


@dataclass(frozen=True)
class Experts:
    """A table of layers of experts, forward: two products of each, with what is around them, all with equal loads.

    `inter`: the width of one expert. Of a gated one, the first product is twice as wide.
    """

    tokens: Array
    hidden: Array
    inter: Array
    topk: Array
    experts: Array
    measured: Array
    size: int

    def part(self, chosen: Array) -> Experts:
        """Some of the rows."""
        names = ("tokens", "hidden", "inter", "topk", "experts", "measured")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @property
    def weights(self) -> Array:
        """Bytes of the weights of all experts."""
        return 3 * self.size * self.experts * self.hidden * self.inter

    @property
    def products(self) -> Products:
        """The first products of all rows, then the second ones."""
        rows = np.ceil(self.tokens * self.topk / self.experts)
        twice = (np.concatenate([one, one]) for one in (rows, self.experts, self.measured))
        m, batch, measured = twice
        n, k = np.concatenate([2 * self.inter, self.hidden]), np.concatenate([self.hidden, self.inter])
        return Products(m, n, k, batch, measured, self.size)

    def around(self, figures: Array) -> Array:
        """Seconds of sorting rows, of the activation and of summing up. No part of the products."""
        start, row, activation, total = figures
        rows = self.tokens * self.topk
        return start + rows * (row + self.size * (3 * self.inter / activation + self.hidden / total))


def fit_experts(
    table: Experts, start: ProductFigures, peak: float, bandwidth: float, restarts: int = 1
) -> Callable[[Experts], tuple[ProductFigures, Array]]:
    """For a table, the figures that the fitted one shows, and what the measurement should have taken."""
    names = [name for name in SHARED if name != "sums"]
    units = [bandwidth if name in ("memory", "cache") else 1.0 for name in names]
    bounds = [tuple(one * unit for one in SHARED[name]) for name, unit in zip(names, units, strict=True)]
    load = bandwidth / start.processors
    bounds += [(0.5e-6, 3e-6, 2e-5), PACE["step"], tuple(one * load for one in PACE["load"])]
    for tile in start.tiles:
        bounds += [(0.02 * peak, 0.7 * tile.rate, peak), (1e-8, 1e-6, 1e-5), (1e-3, 0.5, 1.0)]
    bounds += [(1e-7, 8e-6, 6e-5), (1e-13, 1e-11, 1e-9)]
    bounds += [(0.1 * bandwidth, bandwidth, 8 * bandwidth), (0.1 * bandwidth, 0.8 * bandwidth, 8 * bandwidth)]
    low, first, high = np.log(np.array(bounds)).T

    def made(at: Array) -> tuple[ProductFigures, Array]:
        values = iter(np.exp(at).tolist())
        shared = {name: next(values) for name in names}
        # These kernels split no sums.
        pace = Pace(next(values), next(values), 1.0, next(values))
        tiles = tuple(Tile(t.rows, t.columns, next(values), next(values), next(values)) for t in start.tiles)
        figures = ProductFigures(start.processors, sums=bandwidth, usual=pace, thin=pace, tiles=tiles, **shared)
        return figures, np.array(list(values))

    def seconds(at: Array, table: Experts, choices: Choices) -> Array:
        figures, around = made(at)
        one = choices.table
        moved = one.size * one.batch * (one.m * one.k + one.n * one.k + one.m * one.n)
        return choices.seconds(figures, moved / figures.memory).reshape(2, -1).sum(0) + table.around(around)

    choices, measured = Choices(table.products, start), np.log(table.measured)
    at = restarted(lambda at: np.log(seconds(at, table, choices)) - measured, first, low, high, restarts)
    return lambda other: (made(at)[0], seconds(at, other, Choices(other.products, start)))
