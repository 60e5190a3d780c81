"""Least squares for figures that enter a form in no simple way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from fitting.tables import Array


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
