"""Corrections of a form: tables of what is left of measured times, found by least squares, such that laws still hold.

The logarithm of a time is that of the form and, for each table, the mean of the numbers around it: the numbers are
found together. Kernels do not follow a form, but a larger product that takes less time is an accident of the table that
was measured: pairs of a smaller and a larger shape keep their order, or nearly so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from fitting.tables import Array, quantiles

from distir.cost.correction import Correction

SMOOTHING = (0.03, 0.1, 0.4)
"""Weights of the difference between neighbours."""

SOFT = 0.03
"""Distances above it count linearly."""

ORDER = 30.0
"""The weight of a pair that is not in order, of one row."""

FREE = 6
"""Turns of a fit before pairs count."""

FOLDS = 4
CELL_ROWS = 6
"""Rows of the table for each number of a correction, at least."""

Sizes = Sequence[Array]
"""The axes of one correction, for each row."""


@dataclass(frozen=True)
class Shapes:
    """What corrections go by: the axes of each of them, for each row, and what the form says."""

    sizes: Sequence[Sizes]
    form: Array


class Cells:
    """Where rows lie among the cells of a correction: the numbers around each, and their weights."""

    def __init__(self, sizes: Sizes, axes: Sequence[tuple[int, ...]]) -> None:
        self.sizes = [len(axis) for axis in axes]
        self.count = math.prod(self.sizes)
        self.at = np.zeros((len(sizes[0]), 1), int)
        self.weights = np.ones((len(sizes[0]), 1))
        for axis, values in zip(axes, sizes, strict=True):
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

    def matrix(self) -> Array:
        """The same as a matrix: a column for each number."""
        found = np.zeros((len(self.at), self.count))
        np.add.at(found, (np.arange(len(self.at))[:, None], self.at), self.weights)
        return found

    def differences(self) -> Array:
        """The matrix of the sum of squared differences between neighbours."""
        found = np.zeros((self.count, self.count))
        for along in range(len(self.sizes)):
            product = np.eye(1)
            for i, size in enumerate(self.sizes):
                apart = np.diff(np.eye(size), axis=0)
                product = np.kron(product, apart.T @ apart if i == along else np.eye(size))
            found += product
        return found


def factor(sizes: Sizes, correction: Correction | None) -> Array:
    """By what a correction multiplies the time of each row, as the simulator does."""
    if correction is None:
        return np.ones(len(sizes[0]))
    return 1 + Cells(sizes, correction.axes).interpolated(np.array(correction.shares).ravel())


def best_corrections(
    rows: Shapes,
    measured: Array,
    beside: Array,
    fineness: Sequence[Sequence[Sequence[int]]],
    order: tuple[Shapes, Shapes] | None = None,
) -> tuple[Correction, ...] | None:
    """The corrections of a form; None where the rows are too few, or they foretell rows no better than the form.

    `fineness`: for each choice, how many sizes each axis of each correction has, the smallest choice first. Which one,
    and how smooth, is decided by cross-validation: each quarter of the rows is foretold from the others. `beside`:
    seconds of the measurement that are not of the form. `order`: smaller shapes, and a larger one for each.
    """
    wanted = np.log(np.maximum(measured - beside, 0.1 * measured) / rows.form)
    weights = np.clip(rows.form / (rows.form + beside), 0.01, 1.0) ** 2
    folds = np.random.default_rng(1).permutation(len(measured)) % FOLDS
    best, chosen = _score(measured, rows.form + beside), None
    for counts in fineness:
        axes = [
            [_nodes(values, count) for values, count in zip(sizes, own, strict=True)]
            for sizes, own in zip(rows.sizes, counts, strict=False)
        ]
        numbers = sum(math.prod(map(len, own)) for own in axes)
        if numbers * CELL_ROWS > len(measured) or min(len(axis) for own in axes for axis in own) < 2:
            break
        system = _System(rows, axes, order, weights)
        for smoothing in SMOOTHING:
            foretold = np.zeros(len(wanted))
            for fold in range(FOLDS):
                own = folds == fold
                foretold[own] = system.matrix[own] @ system.fitted(wanted, ~own, smoothing, turns=6)
            found = _score(measured, rows.form * np.exp(foretold) + beside)
            if found < best * 0.98:
                best, chosen = found, (system, smoothing)
    if chosen is None:
        return None
    system, smoothing = chosen
    return system.corrections(system.fitted(wanted, np.ones(len(wanted), bool), smoothing, turns=20))


class _System:
    """The least squares of all tables together."""

    def __init__(
        self,
        rows: Shapes,
        axes: Sequence[Sequence[tuple[int, ...]]],
        order: tuple[Shapes, Shapes] | None,
        weights: Array,
    ) -> None:
        self.axes, self.weights = axes, weights
        cells = [Cells(sizes, own) for sizes, own in zip(rows.sizes, axes, strict=False)]
        self.ends = np.cumsum([0, *(one.count for one in cells)])
        self.matrix = np.concatenate([one.matrix() for one in cells], 1)
        self.stiff = np.zeros((self.ends[-1], self.ends[-1]))
        for start, stop, one in zip(self.ends, self.ends[1:], cells, strict=False):
            self.stiff[start:stop, start:stop] = one.differences()
        self.rise, self.room = np.zeros((0, self.ends[-1])), np.zeros(0)
        if order is not None:
            less, more = order
            self.rise = self._of(more) - self._of(less)
            self.room = np.log(more.form / less.form)

    def _of(self, shapes: Shapes) -> Array:
        cells = (Cells(sizes, own) for sizes, own in zip(shapes.sizes, self.axes, strict=False))
        return np.concatenate([one.matrix() for one in cells], 1)

    def fitted(self, wanted: Array, rows: Array, smoothing: float, turns: int) -> Array:
        """The logarithms whose means are nearest to what is wanted of these rows; numbers far from all are zero.

        Pairs count from the turn `FREE` on, so that outliers are known by then.
        """
        matrix, aim, weights = self.matrix[rows], wanted[rows], self.weights[rows]
        stiff = smoothing * self.stiff + 1e-3 * np.eye(self.ends[-1])
        trust, numbers = weights, np.zeros(self.ends[-1])
        out_of_order = np.zeros(len(self.room), bool)
        for turn in range(turns if len(self.room) else min(turns, FREE)):
            normal, right = matrix.T @ (trust[:, None] * matrix) + stiff, matrix.T @ (trust * aim)
            rise = self.rise[out_of_order]
            normal += ORDER * rise.T @ rise
            right -= ORDER * rise.T @ self.room[out_of_order]
            numbers = np.linalg.solve(normal, right)
            trust = weights / np.sqrt(1 + weights * ((matrix @ numbers - aim) / SOFT) ** 2)
            if turn >= FREE - 1:
                out_of_order |= self.rise @ numbers + self.room < 0
        return np.where(matrix.any(0), numbers, 0.0)

    def corrections(self, numbers: Array) -> tuple[Correction, ...]:
        """The tables, as a profile states them: in whole percent."""
        found: list[Correction] = []
        for start, stop, axes in zip(self.ends, self.ends[1:], self.axes, strict=False):
            shares = np.clip(np.round(100 * np.expm1(numbers[start:stop])), -90, 900) / 100
            nested = shares.reshape([len(axis) for axis in axes]).tolist()
            found.append(Correction(tuple(axes), _tuples(nested)))
        return tuple(found)


def _tuples(nested: list[Array]) -> tuple[Array, ...]:
    return tuple(_tuples(one) if isinstance(one, list) else one for one in nested)


def _nodes(values: Array, count: int) -> tuple[int, ...]:
    """Sizes such that about as many rows lie between any two neighbours."""
    found = np.quantile(np.log(values), np.linspace(0, 1, count), method="nearest")
    return tuple(sorted({round(math.exp(one)) for one in found}))


def _score(measured: Array, estimated: Array) -> float:
    """Median and ninth decile count alike, about as they are stated."""
    median, decile = quantiles(measured, estimated)
    return 3 * median + decile
