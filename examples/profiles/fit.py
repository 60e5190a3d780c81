"""Fits the figures of products and attention by shape (`distir/cost/contractions.py`) to a table of measured ops.

    python examples/profiles/fit.py products TABLE.csv --like dgx-h100 --dtype BFloat16 [--where system=h100_sxm …]
    python examples/profiles/fit.py experts TABLE.csv --like dgx-h100 --dtype BFloat16 [--where …]
    python examples/profiles/fit.py attention TABLE.csv --like dgx-h100 --dtype BFloat16 [--where …]
    python examples/profiles/fit.py products TABLE.csv --like dgx-h100 --dtype BFloat16 --check

Prints the tables for a profile, and the errors on a fifth of the rows, by a hash of their shapes, that the fit has not
seen. `--like` is a profile whose first device has the peak rates and the bandwidth; its figures by shape, if it has
some, are where the fit starts. See docs/how-to/hardware.md.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distir.cost import DeviceKind, load
from distir.cost.contractions import SPLITS, STEP, AttentionFigures, Pace, ProductFigures, Tile
from distir.cost.correction import Correction
from distir.cost.reader_contractions import ATTENTION_AXES, AXES
from distir.ir import DTYPES

HELD_OUT = 5
"""One row of so many is not fitted."""

ENOUGH = 2500
"""Rows that a fit looks at: more change no figure."""

Array = Any


# Tables.


def read_rows(path: str, where: Mapping[str, str]) -> list[dict[str, str]]:
    """The rows of a CSV file, without lines that begin with `#`, whose columns have these values."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            return [row for row in rows if all(row.get(name) == value for name, value in where.items())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SystemExit(f"`{path}` cannot be read as a table: {error}") from None


def column(rows: Sequence[Mapping[str, str]], name: str, default: float | None = None) -> Array:
    """A column of numbers. Raises SystemExit where it is missing, or a value is no positive number."""
    found: list[float] = []
    for number, row in enumerate(rows, 1):
        text = row.get(name) or ("" if default is None else str(default))
        try:
            value = float(text)
        except ValueError:
            raise SystemExit(f"row {number} has no number in the column `{name}`, but `{text}`") from None
        if not 0 < value < math.inf:
            raise SystemExit(f"row {number}: `{name}` is `{text}`, expected a number above zero")
        found.append(value)
    return np.array(found)


def seconds_of(rows: Sequence[Mapping[str, str]]) -> Array:
    """The measured times: a column `seconds`, `latency_ms` or `latency_us`."""
    for name, unit in (("seconds", 1.0), ("latency_ms", 1e-3), ("latency_us", 1e-6)):
        if rows and name in rows[0]:
            return column(rows, name) * unit
    raise SystemExit("the table has no column `seconds`, `latency_ms` or `latency_us`")


def held_out(*shape: Array) -> Array:
    """Which rows are not fitted: by a hash of the shape, so that the same shape is never on both sides."""

    def one(numbers: Iterable[float]) -> bool:
        text = ",".join(str(int(number)) for number in numbers)
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % HELD_OUT == 0

    return np.array([one(numbers) for numbers in zip(*shape, strict=True)])


# Least squares.


def minimise(
    residuals: Callable[[Array], Array], start: Array, low: Array, high: Array, rounds: int = 40, soft: float = 0.05
) -> Array:
    """Levenberg and Marquardt's method within bounds. Residuals above `soft` count linearly, so that outliers do not.

    Parameters are logarithms of figures; derivatives are differences.
    """
    at, damping = np.clip(start, low, high), 1e-2

    def cost(r: Array) -> float:
        return float(np.sum(np.sqrt(1 + (r / soft) ** 2) - 1))

    found = residuals(at)
    least = cost(found)
    for _ in range(rounds):
        steps = np.where(at + 2e-3 < high, 2e-3, -2e-3)
        slopes = np.stack(
            [(residuals(at + step * unit) - found) / step for step, unit in zip(steps, np.eye(len(at)), strict=True)], 1
        )
        weights = 1 / np.sqrt(1 + (found / soft) ** 2)
        normal, gradient = slopes.T @ (weights[:, None] * slopes), slopes.T @ (weights * found)
        before = least
        for _ in range(8):
            # Least squares, since few rows may say nothing of a figure.
            damped = normal + damping * np.diag(np.diag(normal) + 1e-6 * len(found))
            move = np.linalg.lstsq(damped, -gradient, rcond=None)[0]
            there = np.clip(at + np.clip(move, -0.7, 0.7), low, high)
            tried = residuals(there)
            if cost(tried) < least:
                at, found, least, damping = there, tried, cost(tried), max(damping / 5, 1e-6)
                break
            damping *= 5
        if before - least < 1e-5 * before:
            break
    return at


def restarted(
    residuals: Callable[[Array], Array], start: Array, low: Array, high: Array, restarts: int, seed: int = 0
) -> Array:
    """The best of several fits: the first from `start`, the others from where the best ended, shaken."""
    random = np.random.default_rng(seed)
    best = minimise(residuals, start, low, high)
    least = float(np.sum(np.sqrt(1 + (residuals(best) / 0.05) ** 2)))
    for _ in range(restarts):
        shaken = best + (high - low) * random.normal(0, 0.1, len(best)) * (random.random(len(best)) < 0.3)
        there = minimise(residuals, shaken, low, high, rounds=20)
        cost = float(np.sum(np.sqrt(1 + (residuals(there) / 0.05) ** 2)))
        if cost < least:
            best, least = there, cost
    return best


def quantiles(measured: Array, estimated: Array) -> tuple[float, float]:
    """The median and the ninth decile of the relative errors."""
    errors = np.abs(estimated / measured - 1)
    return float(np.median(errors)), float(np.quantile(errors, 0.9))


# Products.


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

    def memory_traffic(self, cache: float) -> Array:
        """Bytes that come from memory: what a cache of this size does not hold from the last run."""
        left, right = self.m * self.k * self.batch * self.size, self.n * self.k * self.batch * self.size
        result = self.m * self.n * self.batch * max(self.size, 2)

        def missed(held: Array) -> Array:
            return 1 - 1 / (1 + (held / cache) ** 6)

        near = missed(left + right + result)
        return (left + result) * near + right * missed(left + self.turns * right + result)

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
        possible = (parts == 1) | ((parts * STEP <= k) & (tiles <= 2 * figures.processors))
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
        heating = (1 + f.throttle * long / (1 + long))[self.row]
        compute = waves * (overhead + self.steps * step) * heating
        cache = (self.tiles * self.loaded * self.steps + self.written[self.row]) / f.cache
        memory = memory[self.row]
        most = np.maximum(np.maximum(compute, cache), memory)
        total = most * sum((term / most) ** f.overlap for term in (compute, cache, memory)) ** (1 / f.overlap)
        split = np.where(self.parts > 1, pace("split") + self.parts * self.results[self.row] * 4 / f.sums, 0.0)
        best = np.minimum.reduceat(total + split, self.first)
        thin = self.thin[self.first]
        form = best + np.where(thin, f.thin.launch, f.usual.launch)
        if f.correction is None:
            return form
        factor = 1 + Cells(shape_of(self.table), f.correction.axes).interpolated(np.array(f.correction.shares).ravel())
        return np.maximum(form * factor, np.maximum(self.flops / f.rate, memory[self.first]))


TILES = {"64x32": 0.3, "64x64": 0.55, "64x128": 0.75, "128x128": 0.9, "64x256": 0.9, "128x256": 0.98, "256x256": 0.98}
"""The tiles that a fit begins with, and their shares of the peak."""

SHARED = {
    "memory": (0.6, 0.88, 1.0),  # of the bandwidth's peak
    "cache": (1.2, 4.0, 20.0),  # of the bandwidth's peak
    "sums": (0.5, 2.0, 20.0),  # of the bandwidth's peak
    "overlap": (1.1, 3.5, 10.0),
    "throttle": (1e-3, 0.15, 1.0),
    "heats_in": (20e-6, 500e-6, 20e-3),
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


QUANTISING = ((1e-8, 2e-6, 5e-6), (1e-11, 3e-9, 3e-8), (1e-11, 4.5e-9, 3e-8), (1e-12, 2e-10, 3e-9))


@dataclass(frozen=True)
class ProductFit:
    """Figures, and what belongs to the measurement alone: the bytes that caches held, seconds of quantising."""

    figures: ProductFigures
    cache: float
    quantising: tuple[float, ...]

    def seconds(self, table: Products) -> Array:
        """What the measurement should have taken."""
        return self._seconds(table, Choices(table, self.figures))

    def _seconds(self, table: Products, choices: Choices) -> Array:
        found = choices.seconds(self.figures, table.memory_traffic(self.cache) / self.figures.memory)
        return found + self.beside(table)

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
    bounds.append((0.1 * cache, 0.5 * cache, 1.2 * cache))
    if table.quantised:
        bounds += QUANTISING
    low, first, high = np.log(np.maximum(np.array(bounds), 1e-12)).T

    def made(at: Array) -> ProductFit:
        values = iter(np.exp(at).tolist())
        shared = {name: next(values) for name in SHARED}
        usual, thin = (Pace(*(next(values) for _ in PACE)) for _ in range(2))
        tiles = tuple(Tile(t.rows, t.columns, next(values), next(values), next(values)) for t in start.tiles)
        figures = ProductFigures(
            start.processors, usual=usual, thin=thin, tiles=tiles, thin_to=start.thin_to, **shared
        )  # fmt: skip
        return ProductFit(figures, next(values), tuple(values))

    choices, measured = Choices(table, start), np.log(table.measured)

    def residuals(at: Array) -> Array:
        return np.log(made(at)._seconds(table, choices)) - measured

    return made(restarted(residuals, first, low, high, restarts))


def measured_as(figures: ProductFigures, table: Products, cache: float) -> ProductFit:
    """These figures with what belongs to the measurement alone, as the table shows it."""
    bounds = np.array([(0.1 * cache, 0.5 * cache, 1.2 * cache), *(QUANTISING if table.quantised else ())])
    low, first, high = np.log(np.maximum(bounds, 1e-12)).T
    choices, measured = Choices(table, figures), np.log(table.measured)

    def made(at: Array) -> ProductFit:
        cache, *quantising = np.exp(at).tolist()
        return ProductFit(figures, cache, tuple(quantising))

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


# Corrections: what is left, by the shorter side of the result, the longer one, and the terms.

FINENESS = ((6, 5, 5), (8, 6, 6), (9, 7, 6), (10, 8, 6), (11, 9, 6), (10, 8, 8))
"""Sizes along each axis that a correction may have, the smallest table first."""

SMOOTHING = (0.03, 0.1, 0.3, 1.0)
"""Weights of the difference between neighbours."""

FOLDS = 4
CELL_ROWS = 6
"""Rows of the table for each number of a correction, at least."""


class Cells:
    """Where the rows of a table lie among the cells of a correction: eight numbers, and their weights, for each row."""

    def __init__(self, shape: Sequence[Array], axes: Sequence[tuple[int, ...]]) -> None:
        self.sizes = [len(axis) for axis in axes]
        self.count = math.prod(self.sizes)
        self.at = np.zeros((len(shape[0]), 1), int)
        self.weights = np.ones((len(shape[0]), 1))
        for axis, values in zip(axes, shape, strict=True):
            nodes = np.log(np.array(axis, float))
            place = np.clip(np.log(values), nodes[0], nodes[-1])
            low = np.clip(np.searchsorted(nodes, place, side="right") - 1, 0, max(0, len(nodes) - 2))
            high = np.minimum(low + 1, len(nodes) - 1)
            share = np.where(high > low, (place - nodes[low]) / np.maximum(nodes[high] - nodes[low], 1e-9), 0.0)
            near = np.stack([low, high], 1)[:, None, :]
            self.at = (self.at[:, :, None] * len(axis) + near).reshape(len(values), -1)
            weights = np.stack([1 - share, share], 1)[:, None, :]
            self.weights = (self.weights[:, :, None] * weights).reshape(len(values), -1)

    def interpolated(self, numbers: Array) -> Array:
        """For each row, the mean of the numbers around it."""
        return (self.weights * numbers[self.at]).sum(1)

    def part(self, chosen: Array) -> Cells:
        """Some of the rows."""
        found = copy(self)
        found.at, found.weights = self.at[chosen], self.weights[chosen]
        return found

    def fitted(self, wanted: Array, smoothing: float, soft: float = 0.03) -> Array:
        """The numbers whose means are nearest to what is wanted; distances above `soft` count linearly.

        Numbers far from all rows are zero.
        """
        stiff = smoothing * self._differences() + 1e-3 * np.eye(self.count)
        pairs = (self.at[:, :, None] * self.count + self.at[:, None, :]).ravel()
        numbers, trust = np.zeros(self.count), np.ones(len(wanted))
        for _ in range(8):
            weighted = trust[:, None] * self.weights
            products = (weighted[:, :, None] * self.weights[:, None, :]).ravel()
            normal = np.bincount(pairs, products, self.count**2).reshape(self.count, self.count)
            aim = np.bincount(self.at.ravel(), (weighted * wanted[:, None]).ravel(), self.count)
            numbers = np.linalg.solve(normal + stiff, aim)
            trust = 1 / np.sqrt(1 + ((self.interpolated(numbers) - wanted) / soft) ** 2)
        return np.where(np.bincount(self.at.ravel(), self.weights.ravel(), self.count) > 0, numbers, 0.0)

    def _differences(self) -> Array:
        """The matrix of the sum of squared differences between neighbours."""
        found = np.zeros((self.count, self.count))
        for along in range(len(self.sizes)):
            parts = [np.eye(size) for size in self.sizes]
            apart = np.diff(parts[along], axis=0)
            parts[along] = apart.T @ apart
            found += np.kron(np.kron(parts[0], parts[1]), parts[2])
        return found


def shape_of(table: Products) -> tuple[Array, Array, Array]:
    """The axes of a correction, for each row."""
    return np.minimum(table.m, table.n), np.maximum(table.m, table.n) * table.batch, table.k


def fit_correction(fit: ProductFit, table: Products) -> ProductFit:
    """The figures of products with a correction, where one helps."""
    plain = replace(fit, figures=replace(fit.figures, correction=None))
    beside = fit.beside(table)
    found = best_correction(shape_of(table), table.measured, plain.seconds(table) - beside, beside)
    return replace(fit, figures=replace(plain.figures, correction=found))


def best_correction(
    shape: Sequence[Array], measured: Array, form: Array, beside: Array, fineness: Sequence[Sequence[int]] = FINENESS
) -> Correction | None:
    """The correction of a form; None where the rows are too few, or it foretells rows no better than the form.

    How fine and how smooth it is, is decided by cross-validation: each quarter of the rows is foretold from the others.
    `beside`: seconds of the measurement that are not of the form.
    """
    wanted = np.maximum(measured - beside, 0.1 * measured) / form - 1
    folds = np.random.default_rng(1).permutation(len(measured)) % FOLDS
    best, chosen = _score(measured, form + beside), None
    for counts in fineness:
        axes = [_nodes(values, count) for values, count in zip(shape, counts, strict=True)]
        if math.prod(map(len, axes)) * CELL_ROWS > len(measured) or min(map(len, axes)) < 2:
            break
        cells = Cells(shape, axes)
        for smoothing in SMOOTHING:
            foretold = np.zeros(len(wanted))
            for fold in range(FOLDS):
                own = folds == fold
                numbers = _rounded(cells.part(~own).fitted(wanted[~own], smoothing))
                foretold[own] = cells.part(own).interpolated(numbers)
            found = _score(measured, form * (1 + foretold) + beside)
            if found < best * 0.98:
                best, chosen = found, (axes, smoothing)
    if chosen is None:
        return None
    axes, smoothing = chosen
    numbers = _rounded(Cells(shape, axes).fitted(wanted, smoothing))
    shares = numbers.reshape([len(axis) for axis in axes]).tolist()
    return Correction(tuple(axes), tuple(tuple(tuple(row) for row in rows) for rows in shares))


def _nodes(values: Array, count: int) -> tuple[int, ...]:
    """Sizes such that about as many rows lie between any two neighbours."""
    found = np.quantile(np.log(values), np.linspace(0, 1, count), method="nearest")
    return tuple(sorted({round(math.exp(one)) for one in found}))


def _rounded(shares: Array) -> Array:
    """As a profile states them, in whole percent."""
    return np.clip(np.round(100 * shares), -90, 900) / 100


def _score(measured: Array, estimated: Array) -> float:
    """Median and ninth decile count alike."""
    median, decile = quantiles(measured, estimated)
    return 3 * median + decile


# Experts.


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


# Attention.


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
    def shape(self) -> tuple[Array, Array, Array]:
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
        factor = 1 + Cells(self.shape, f.correction.axes).interpolated(np.array(f.correction.shares).ravel())
        return np.maximum(form * factor, long * f.heats_in)


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


ATTENTION_FINENESS = ((6, 6, 3), (8, 8, 4), (10, 8, 5), (10, 10, 6))


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
    correction = best_correction(table.shape, table.measured, table.seconds(form.figures), beside, ATTENTION_FINENESS)
    return replace(form, figures=replace(form.figures, correction=correction))


# Profiles.


def _text(value: float, unit: str) -> str:
    """A figure with three digits and a prefix."""
    scales = {"B/s": (("TB/s", 1e12), ("GB/s", 1e9)), "FLOP/s": (("TFLOP/s", 1e12), ("GFLOP/s", 1e9))}
    scales["s"] = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    name, size = next(((n, s) for n, s in scales[unit] if value >= s), scales[unit][-1])
    return f'"{_digits(value / size)}{name}"'


def _digits(value: float) -> str:
    """Four digits, cut off, so that no rate is above its peak."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.floor(value / unit + 1e-6) * unit:.4g}"


def product_toml(kind: str, dtype: str, figures: ProductFigures, cited: str, table: str = "products") -> str:
    """The tables of a profile."""

    def pace(pace: Pace) -> str:
        figures = (f"{name} = {_text(getattr(pace, name), 's')}" for name in ("launch", "step", "split"))
        return f"{{ {', '.join(figures)}, load = {_text(pace.load, 'B/s')} }}"

    lines = [f"[kinds.{kind}.{table}.{dtype}]", f"processors = {figures.processors}"]
    lines += [f"{name} = {_text(getattr(figures, name), 'B/s')}" for name in ("memory", "cache", "sums")]
    lines += [f"overlap = {_digits(figures.overlap)}", f"throttle = {_digits(figures.throttle)}"]
    lines += [f"heats_in = {_text(figures.heats_in, 's')}", f"usual = {pace(figures.usual)}"]
    lines += [f"thin = {pace(figures.thin)}", cited.rstrip(), f"[kinds.{kind}.{table}.{dtype}.tiles]"]
    for tile in figures.tiles:
        stated = f"rate = {_text(tile.rate, 'FLOP/s')}, overhead = {_text(tile.overhead, 's')}"
        lines.append(f'"{tile.rows}x{tile.columns}" = {{ {stated}, tail = {_digits(tile.tail)} }}')
    if figures.correction is not None:
        lines += [f"[kinds.{kind}.{table}.{dtype}.correction]", *_correction_lines(figures.correction, AXES)]
    return "\n".join(lines) + "\n"


def _correction_lines(correction: Correction, names: Sequence[str]) -> list[str]:
    lines = [f"{name} = {list(axis)}" for name, axis in zip(names, correction.axes, strict=True)]
    lines.append("percent = [")
    for rows in correction.shares:
        lists = ", ".join(f"[{', '.join(f'{round(100 * share)}' for share in row)}]" for row in rows)
        lines.append(f"  [{lists}],")
    return [*lines, "]"]


def attention_toml(kind: str, dtype: str, figures: AttentionFigures, cited: str) -> str:
    """The table of a profile."""
    lines = [f"[kinds.{kind}.attention.{dtype}.{figures.size}]", f"processors = {figures.processors}"]
    lines += [f"rate = {_text(figures.rate, 'FLOP/s')}", f"rows = {figures.rows}", f"columns = {figures.columns}"]
    lines += [f"{name} = {_text(getattr(figures, name), 's')}" for name in ("launch", "overhead", "heats_in")]
    lines += [f"memory = {_text(figures.memory, 'B/s')}"]
    lines += [f"{name} = {_digits(getattr(figures, name))}" for name in ("overlap", "throttle")]
    lines += [] if figures.backward == 1 else [f"backward = {_digits(figures.backward)}"]
    lines.append(cited.rstrip())
    if figures.correction is not None:
        head = f"[kinds.{kind}.attention.{dtype}.{figures.size}.correction]"
        lines += [head, *_correction_lines(figures.correction, ATTENTION_AXES)]
    return "\n".join(lines) + "\n"


# The command.


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a table, fit, print the tables of a profile and the errors."""
    asked = _asked(arguments)
    where, left_out = dict(map(_condition, asked.where)), list(map(_condition, asked.but))
    rows = [row for row in read_rows(asked.table, where) if all(row.get(name) != value for name, value in left_out)]
    if len(rows) < 50:
        raise SystemExit(f"`{asked.table}` has {len(rows)} rows{' where ' + ', '.join(asked.where) if where else ''}")
    kind = load(asked.like).kinds[0]
    peak = kind.rates[DTYPES[asked.dtype]].peak
    cited = f'source = "{asked.source}"\nbasis = "derived"\n'
    if asked.op == "products":
        _products(asked, rows, kind, peak, cited)
    elif asked.op == "experts":
        _experts(asked, rows, kind, peak, cited)
    else:
        _attention(asked, rows, kind, peak, cited)


def _products(asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str) -> None:
    shape = [column(rows, name) for name in ("m", "n", "k")]
    batch = column(rows, "batch", 1)
    table = Products(
        *shape, batch, seconds_of(rows), DTYPES[asked.dtype].bytes, asked.turns, asked.quantised
    )  # fmt: skip
    unseen = held_out(*shape, batch)
    seen = table.part(~unseen)
    known = kind.products.get(asked.dtype)
    if asked.check:
        _checked(asked, table, known)
        return
    start = default_figures(_processors(asked, kind), peak, kind.peak_bandwidth)
    start = start if known is None else replace(known, correction=None)
    some = seen.part(np.random.default_rng(0).permutation(len(seen.m))[:ENOUGH])
    found = fit_products(some, start, peak, kind.peak_bandwidth, asked.cache * 1e6, asked.restarts)
    found = fit_correction(worth(found, some), seen)
    _report(asked, seen.measured, found.seconds(seen), table.part(unseen).measured, found.seconds(table.part(unseen)))
    cited += f'note = "{_note(table.part(unseen).measured, found.seconds(table.part(unseen)))}"\n'
    print(product_toml(kind.name, asked.dtype, found.figures, cited))


def _checked(asked: argparse.Namespace, table: Products, figures: ProductFigures | None) -> None:
    """Print how far a profile's own figures are off."""
    if figures is None:
        raise SystemExit(f"`{asked.like}` has no figures of products of {asked.dtype} to check")
    found = measured_as(figures, table, asked.cache * 1e6).seconds(table)
    print(f"# {asked.op} of {asked.dtype} on {asked.like}: {_errors(table.measured, found)}")


WIDTH = 64
"""Experts whose width is no multiple of this are made by other kernels, which take up to twice as long."""


def _experts(asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str) -> None:
    tokens, hidden, topk, experts = (column(rows, name) for name in ("tokens", "hidden", "topk", "experts"))
    inter = column(rows, "inter") / column(rows, "tp", 1)
    table = Experts(tokens, hidden, inter, topk, experts, seconds_of(rows), DTYPES[asked.dtype].bytes)
    table = table.part((inter % WIDTH == 0) & (tokens * topk >= experts))
    print(f"# {len(rows) - len(table.measured)} rows left out: widths that are no multiple of {WIDTH}, idle experts")
    unseen = held_out(table.tokens, table.hidden, table.inter, table.topk, table.experts)
    seen, rest = table.part(~unseen), table.part(unseen)
    start = default_figures(_processors(asked, kind), peak, kind.peak_bandwidth)
    found = fit_experts(seen, start, peak, kind.peak_bandwidth, asked.restarts)
    (figures, fitted), (_, estimated) = found(seen), found(rest)
    _report(asked, seen.measured, fitted, rest.measured, estimated)
    cited += f'note = "{_note(rest.measured, estimated)}"\n'
    print(product_toml(kind.name, asked.dtype, figures, cited, "experts"))


def _attention(
    asked: argparse.Namespace, rows: list[dict[str, str]], kind: DeviceKind, peak: float, cited: str
) -> None:
    processors = _processors(asked, kind)
    sizes = column(rows, "head_dim")
    for size in sorted(set(sizes.tolist())):
        some = [row for row, own in zip(rows, sizes, strict=True) if own == size]
        shape = [column(some, name) for name in ("batch", "seq", "heads", "kv_heads")]
        table = Attentions(*shape, int(size), seconds_of(some), DTYPES[asked.dtype].bytes, asked.stored)
        if asked.slowest:
            slowest: dict[tuple[float, ...], int] = {}
            for row, key in enumerate(zip(*shape, strict=True)):
                if key not in slowest or table.measured[row] > table.measured[slowest[key]]:
                    slowest[key] = row
            table = table.part(np.array(list(slowest.values())))
        unseen = held_out(table.batch, table.seq, table.heads, table.kv_heads)
        seen, rest = table.part(~unseen), table.part(unseen)
        found = fit_attention(seen, processors, peak, kind.peak_bandwidth, asked.restarts)
        _report(asked, seen.measured, found.seconds(seen), rest.measured, found.seconds(rest))
        note = f'{cited}note = "{_note(rest.measured, found.seconds(rest))}"\n'
        print(attention_toml(kind.name, asked.dtype, found.figures, note))


def _processors(asked: argparse.Namespace, kind: DeviceKind) -> int:
    known = kind.products.get(asked.dtype)
    if asked.processors or known is not None:
        return asked.processors or known.processors
    raise SystemExit("say how many multiprocessors the device has: `--processors 132`")


def _errors(measured: Array, estimated: Array) -> str:
    median, decile = quantiles(measured, estimated)
    return f"{len(measured)} rows: median {median:.2%}, 90 % below {decile:.2%}"


def _note(measured: Array, estimated: Array) -> str:
    median, decile = quantiles(measured, estimated)
    return f"of rows that the fit has not seen, half are off by less than {median:.1%}, nine of ten by {decile:.1%}"


def _report(asked: argparse.Namespace, seen: Array, fitted: Array, unseen: Array, found: Array) -> None:
    median, decile = quantiles(unseen, found)
    known, tenth = quantiles(seen, fitted)
    name = f"{asked.op} of {asked.dtype} on {asked.like}"
    print(f"# {name}: {len(unseen)} rows not seen: median {median:.2%}, 90 % below {decile:.2%}", end="")
    print(f"; {len(seen)} seen: {known:.2%}, {tenth:.2%}")
    sys.stdout.flush()


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"expected a column and a value, as in `device=h100`, found `{text}`")
    return name, value


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op", choices=("products", "experts", "attention"))
    parser.add_argument("table", help="a CSV file of measured times")
    parser.add_argument("--like", required=True, metavar="PROFILE", help="peak rates and bandwidth; the fit's start")
    parser.add_argument("--dtype", default="BFloat16", choices=sorted(DTYPES))
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these rows")
    parser.add_argument("--but", action="append", default=[], metavar="COLUMN=VALUE", help="not these rows")
    parser.add_argument("--processors", type=int, default=0, help="multiprocessors, if the profile does not say")
    parser.add_argument("--cache", type=float, default=50.0, metavar="MB", help="the device's last cache")
    parser.add_argument("--turns", type=int, default=1, help="matrices that the measurement took turns with")
    parser.add_argument(
        "--quantised", action="store_true", help="times include quantising the rows of the left operand"
    )
    parser.add_argument("--stored", action="store_true", help="attention writes keys and values to a cache before")
    parser.add_argument("--slowest", action="store_true", help="of rows of one shape, only the slowest")
    parser.add_argument("--check", action="store_true", help="fit nothing: how far the profile's own figures are off")
    parser.add_argument("--restarts", type=int, default=4)
    parser.add_argument("--source", default="ours", help="the key in `[sources]` that the figures cite")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
