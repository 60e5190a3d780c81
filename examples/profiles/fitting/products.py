"""Products: a table of them, the form of `distir/cost/contractions.py` for all rows at once, and the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from fitting.corrections import Shapes, best_corrections, factor
from fitting.squares import minimise, restarted
from fitting.tables import Array, quantiles

from distir.cost.contractions import SPLITS, STEP, Pace, ProductFigures, Tile
from distir.cost.reader_contractions import PRODUCT_AXES


@dataclass(frozen=True)
class Products:
    """A table of products of one element type.

    `turns`: how many matrices `n` × `k` the measurement took turns with, so that caches hold one only if they hold all;
    the other operand and the result are those of the last run. `cache`: bytes that the device's caches hold.
    """

    m: Array
    n: Array
    k: Array
    batch: Array
    measured: Array
    size: int
    turns: int = 1
    quantised: bool = False

    def part(self, chosen: Array) -> Products:
        """Some of the rows."""
        names = ("m", "n", "k", "batch", "measured")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def traffic(self, cache: float) -> tuple[Array, Array]:
        """Bytes that come from memory, and those that a cache of this size holds from the last run."""
        left, right = self.m * self.k * self.batch * self.size, self.n * self.k * self.batch * self.size
        result = self.m * self.n * self.batch * max(self.size, 2)

        def missed(held: Array) -> Array:
            return 1 - 1 / (1 + (held / cache) ** 6)

        near = missed(left + right + result)
        cold = (left + result) * near + right * missed(left + self.turns * right + result)
        return cold, left + right + result - cold

    def quantising(self, figures: Array) -> Array:
        """Seconds of quantising the left operand, where the measurement includes that. No part of a product."""
        start, row, block, sums = figures
        return (
            start
            + self.m * (row + block * np.ceil(self.k / 2048))
            + sums * self.k * np.minimum(self.m, 256) / 256
        )  # fmt: skip


class Choices:
    """Each row of a table with each tile and each number of parts that a kernel may take."""

    def __init__(self, table: Products, figures: ProductFigures) -> None:
        sides = [(i, *s) for i, t in enumerate(figures.tiles) for s in {(t.rows, t.columns), (t.columns, t.rows)}]
        chosen = [(i, r, c, parts) for i, r, c in sides for parts in SPLITS]
        self.table = table
        tile, rows, columns, parts = (np.array(one)[None] for one in zip(*chosen, strict=True))
        m, n, k, batch = (one[:, None] for one in (table.m, table.n, table.k, table.batch))
        tiles = np.ceil(m / rows) * np.ceil(n / columns) * batch * parts
        splits = may_split(figures, m, n, k)
        possible = (parts == 1) | (splits & (parts * STEP <= k) & (tiles <= 2 * figures.processors))
        self.row, chosen = np.nonzero(possible)
        self.first = np.searchsorted(self.row, np.arange(len(table.m)))
        self.tile = tile[0][chosen]
        self.loaded = (STEP * (rows + columns) * table.size)[0][chosen]
        self.parts = parts[0][chosen]
        self.tiles = tiles[possible]
        self.steps = np.ceil(k / (parts * STEP))[possible]
        self.filled = self.tiles / figures.processors
        self.waves = np.ceil(self.filled)
        self.thin = (np.minimum(table.m, table.n) <= figures.thin_to)[self.row]
        self.area = (2 * STEP * rows * columns)[0][chosen]
        self.flops = 2 * table.m * table.n * table.k * table.batch
        self.results = table.m * table.n * table.batch
        self.written = self.results * max(table.size, 2)

    def seconds(self, f: ProductFigures, memory: Array) -> Array:
        """What `ProductFigures.spent` gives, for all rows; `memory`: their traffic in seconds."""
        rate, overhead, tail = (
            np.array([getattr(tile, name) for tile in f.tiles])[self.tile] for name in ("rate", "overhead", "tail")
        )

        def pace(name: str) -> Array:
            return np.where(self.thin, getattr(f.thin, name), getattr(f.usual, name))

        alone = self.area / (rate / f.processors)
        step = (alone**4 + (self.loaded / pace("load")) ** 4 + pace("step") ** 4) ** 0.25
        waves = np.where(self.filled <= 1, 1.0, (1 - tail) * self.waves + tail * self.filled)
        long = self.flops / f.rate / f.heats_in
        heating = (1 + f.throttle / (1 + long**-f.steepness))[self.row]
        compute = waves * (overhead + self.steps * step) * heating
        cache = (self.tiles * self.loaded * self.steps + self.written[self.row]) / f.cache
        memory = memory[self.row]
        most = np.maximum(np.maximum(compute, cache), memory)
        total = most * sum((term / most) ** f.overlap for term in (compute, cache, memory)) ** (1 / f.overlap)
        split = np.where(self.parts > 1, pace("split") + self.parts * self.results[self.row] * 4 / f.sums, 0.0)
        best = np.minimum.reduceat(total + split, self.first)
        thin = self.thin[self.first]
        form = best + np.where(thin, f.thin.launch, f.usual.launch)
        corrections = [getattr(f, name) for name in PRODUCT_AXES]
        if not any(corrections):
            return form
        factors = (factor(sizes, own) for sizes, own in zip(sizes_of(self.table), corrections, strict=True))
        return np.maximum(form * np.prod(list(factors), 0), np.maximum(self.flops / f.rate, memory[self.first]))


def may_split(figures: ProductFigures, m: Array, n: Array, k: Array) -> Array:
    """What `SplitsFrom.may` gives, for all products."""
    known = figures.splits_from
    return (m > 0) if known is None else (m * n * k >= known.multiplications) | (k >= known.terms)


TILES = {"64x32": 0.3, "64x64": 0.55, "64x128": 0.75, "128x128": 0.9, "64x256": 0.9, "128x256": 0.98, "256x256": 0.98}
"""The tiles that a fit begins with, and their shares of the peak."""

SHARED = {
    "memory": (0.6, 0.88, 1.0),  # of the bandwidth's peak
    "cache": (1.2, 4.0, 20.0),  # of the bandwidth's peak
    "sums": (0.5, 2.0, 20.0),  # of the bandwidth's peak
    "overlap": (1.1, 3.5, 10.0),
    "throttle": (1e-3, 0.15, 2.0),
    "heats_in": (20e-6, 500e-6, 20e-3),
    "steepness": (1.0, 1.0, 12.0),
}
PACE = {
    "launch": (0.5e-6, 2e-6, 8e-6),
    "step": (2e-9, 3e-8, 6e-7),
    "split": (0.2e-6, 1.5e-6, 6e-6),
    "load": (3.0, 10.0, 60.0),  # of a multiprocessor's share of the bandwidth's peak
}
"""Lowest, usual and highest of each figure."""


def default_figures(processors: int, peak: float, bandwidth: float) -> ProductFigures:
    """Where a fit starts that knows no similar device."""
    usual, thin = (
        Pace(*(value[1] * (bandwidth / processors if name == "load" else 1) for name, value in PACE.items()))
        for _ in range(2)
    )
    tiles = tuple(
        Tile(*map(int, name.split("x")), 0.95 * share * peak, overhead, tail=0.3)
        for (name, share), overhead in zip(TILES.items(), (3e-7, 4e-7, 6e-7, 1e-6, 1e-6, 2e-6, 4e-6), strict=True)
    )
    shared = {
        name: value[1] * (bandwidth if name in ("memory", "cache", "sums") else 1) for name, value in SHARED.items()
    }
    return ProductFigures(processors, usual=usual, thin=thin, tiles=tiles, **shared)


WARM = (1.0, 2.5, 20.0)
"""The bandwidth of what a cache holds from the last run, over that of memory: lowest, usual and highest."""

QUANTISING = ((1e-8, 2e-6, 5e-6), (1e-11, 3e-9, 3e-8), (1e-11, 4.5e-9, 3e-8), (1e-12, 2e-10, 3e-9))


@dataclass(frozen=True)
class ProductFit:
    """Figures, and what belongs to the measurement alone: what caches held from the last run, seconds of quantising.

    `cache`: the bytes that they held; `warm`: bytes/s of these.
    """

    figures: ProductFigures
    cache: float
    quantising: tuple[float, ...]
    warm: float = math.inf

    def seconds(self, table: Products) -> Array:
        """What the measurement should have taken."""
        return self._seconds(table, Choices(table, self.figures))

    def _seconds(self, table: Products, choices: Choices) -> Array:
        cold, warm = table.traffic(self.cache)
        return choices.seconds(self.figures, cold / self.figures.memory + warm / self.warm) + self.beside(table)

    def beside(self, table: Products) -> Array:
        """Seconds of the measurement that are no part of the products."""
        return table.quantising(np.array(self.quantising)) if table.quantised else np.zeros(len(table.m))


def fit_products(
    table: Products, start: ProductFigures, peak: float, bandwidth: float, cache: float, restarts: int = 4
) -> ProductFit:
    """The figures that a table of products shows. `peak` and `bandwidth` of the device bound them."""
    names = [*SHARED, *(("usual", name) for name in PACE), *(("thin", name) for name in PACE)]
    bounds: list[tuple[float, float, float]] = []
    for name in names:
        low, _, high = SHARED[name] if isinstance(name, str) else PACE[name[1]]
        unit = bandwidth if name in ("memory", "cache", "sums") else 1.0
        unit = bandwidth / start.processors if isinstance(name, tuple) and name[1] == "load" else unit
        value = getattr(start, name) if isinstance(name, str) else getattr(getattr(start, name[0]), name[1])
        bounds.append((low * unit, value, high * unit))
    for tile in start.tiles:
        bounds += [(0.02 * peak, tile.rate, peak), (1e-8, tile.overhead, 1e-5), (1e-3, tile.tail, 1.0)]
    bounds += [(0.1 * cache, 0.5 * cache, 1.2 * cache), tuple(share * bandwidth for share in WARM)]
    if table.quantised:
        bounds += QUANTISING
    low, first, high = np.log(np.maximum(np.array(bounds), 1e-12)).T

    def made(at: Array) -> ProductFit:
        values = iter(np.exp(at).tolist())
        shared = {name: next(values) for name in SHARED}
        usual, thin = (Pace(*(next(values) for _ in PACE)) for _ in range(2))
        tiles = tuple(Tile(t.rows, t.columns, next(values), next(values), next(values)) for t in start.tiles)
        figures = replace(uncorrected(start), usual=usual, thin=thin, tiles=tiles, **shared)
        cached, warm = next(values), next(values)
        return ProductFit(figures, cached, tuple(values), warm)

    choices, measured = Choices(table, start), np.log(table.measured)

    def residuals(at: Array) -> Array:
        return np.log(made(at)._seconds(table, choices)) - measured

    return made(restarted(residuals, first, low, high, restarts))


def measured_as(figures: ProductFigures, table: Products, cache: float) -> ProductFit:
    """These figures with what belongs to the measurement alone, as the table shows it."""
    warm = tuple(share * figures.memory for share in WARM)
    bounds = np.array([(0.1 * cache, 0.5 * cache, 1.2 * cache), warm, *(QUANTISING if table.quantised else ())])
    low, first, high = np.log(np.maximum(bounds, 1e-12)).T
    choices, measured = Choices(table, figures), np.log(table.measured)

    def made(at: Array) -> ProductFit:
        cache, warm, *quantising = np.exp(at).tolist()
        return ProductFit(figures, cache, tuple(quantising), warm)

    return made(minimise(lambda at: np.log(made(at)._seconds(table, choices)) - measured, first, low, high))


def worth(fit: ProductFit, table: Products) -> ProductFit:
    """Without the tiles that no product of the table is made in: each is left out, if that costs next to nothing."""
    chosen = fit
    error = quantiles(table.measured, fit.seconds(table))[0]
    for tile in fit.figures.tiles:
        rest = tuple(one for one in chosen.figures.tiles if one != tile)
        fewer = replace(chosen, figures=replace(chosen.figures, tiles=rest))
        if rest and quantiles(table.measured, fewer.seconds(table))[0] <= error * 1.005:
            chosen = fewer
    return chosen


LARGE = 2048
"""Products whose sides are all at least so long do the same work in any order of their sides."""


def spread(table: Products) -> tuple[float, float, int] | None:
    """How far a table is off itself: large products of the same three sides, in any order, from their median.

    Median and ninth decile, and of how many products; None where there are too few. No model that takes a transposed
    product for the same does better.
    """
    same: dict[tuple[float, ...], list[float]] = {}
    for m, n, k, batch, seconds in zip(table.m, table.n, table.k, table.batch, table.measured, strict=True):
        if min(m, n, k) >= LARGE and batch == 1:
            same.setdefault(tuple(sorted((m, n, k))), []).append(seconds)
    off = [abs(one / float(np.median(group)) - 1) for group in same.values() if len(group) >= 4 for one in group]
    return (float(np.median(off)), float(np.quantile(off, 0.9)), len(off)) if len(off) >= 20 else None


# Corrections.

FINENESS = (
    ((6, 5, 5),),
    ((8, 6, 6),),
    ((7, 6, 4), (16, 8)),
    ((9, 8, 5), (20, 10)),
    ((10, 9, 6), (24, 12)),
    ((10, 9, 6), (24, 12), (16, 12)),
)
"""Sizes along each axis of the corrections, as in `PRODUCT_AXES`, the smallest tables first."""

PAIRS = 6000
"""Products that are compared with smaller ones."""


def sizes_of(table: Products) -> tuple[tuple[Array, ...], ...]:
    """The axes of the corrections, for each row."""
    short, long = np.minimum(table.m, table.n), np.maximum(table.m, table.n) * table.batch
    return (short, long, table.k), (short * long, table.k), (long * table.k, short)


def uncorrected(figures: ProductFigures) -> ProductFigures:
    """The form alone."""
    return replace(figures, correction=None, filling=None, streaming=None)


def fit_correction(fit: ProductFit, table: Products, numbers: int = 600, slack: float = 0.0) -> ProductFit:
    """The figures of products with corrections of at most so many numbers, where they help.

    `slack`: the share by which a larger product may take less time.
    """
    plain = replace(fit, figures=uncorrected(fit.figures))
    beside = fit.beside(table)
    rows = Shapes(sizes_of(table), plain.seconds(table) - beside)
    counts = [tables for tables in FINENESS if sum(map(math.prod, tables)) <= numbers]
    found = best_corrections(rows, table.measured, beside, counts, _in_order(plain.figures, table, slack))
    corrections = dict(zip(PRODUCT_AXES, found or (), strict=False))
    return replace(fit, figures=replace(plain.figures, **corrections))


def _in_order(figures: ProductFigures, table: Products, slack: float) -> tuple[Shapes, Shapes]:
    """Products within the table's sizes, and for each a larger one: up to eight times as long along one axis."""
    dice = np.random.default_rng(0)
    most = [2 * float(axis.max()) for axis in (table.m, table.n, table.k)]
    less = np.floor(np.exp(dice.uniform(0, 1, (PAIRS, 3)) * np.log(most)))
    more = less.copy()
    along = np.arange(PAIRS), dice.integers(3, size=PAIRS)
    more[along] = np.floor(more[along] * 2 ** dice.uniform(0.1, 3, PAIRS)) + 1
    # A product whose sums are split may well take less time than a smaller one whose sums are not.
    alike = may_split(figures, *less.T) == may_split(figures, *more.T)
    less, more = less[alike], more[alike]

    def shapes(sides: Array) -> Shapes:
        m, n, k = sides.T
        one = Products(m, n, k, np.ones(len(m)), np.ones(len(m)), table.size)
        moved = table.size * (m * k + n * k + m * n)
        return Shapes(sizes_of(one), Choices(one, figures).seconds(figures, moved / figures.memory))

    larger = shapes(more)
    return shapes(less), replace(larger, form=larger.form * (1 + slack))
