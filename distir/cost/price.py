"""The cost of a step: the hourly price of its devices times its duration.

Prices are of one currency: which others they are worth changes daily, so nothing here converts or adds two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Price:
    """An amount of one currency, by its ISO 4217 code; of a device, per hour."""

    amount: float
    currency: str

    def __str__(self) -> str:
        """Three significant digits: `0.0125 USD`."""
        digits = f"{self.amount:.3g}" if self.amount < 1000 else f"{self.amount:.0f}"
        return f"{digits} {self.currency}"

    def __add__(self, other: Price) -> Price:
        """The sum. Raises ValueError for another currency."""
        if other.currency != self.currency:
            raise ValueError(f"{other.currency} cannot be added to {self.currency}")
        return Price(self.amount + other.amount, self.currency)

    def __mul__(self, factor: float) -> Price:
        return Price(self.amount * factor, self.currency)


@dataclass(frozen=True, slots=True)
class StepCost:
    """The cost of one run of a program: a training or inference step. `tokens`: its input tokens, if known."""

    step: Price
    tokens: int | None = None

    @property
    def per_million_tokens(self) -> Price | None:
        """None where the program's tokens are not known."""
        return self.step * (1e6 / self.tokens) if self.tokens else None

    def __str__(self) -> str:
        """`0.0125 USD per step, 1.53 USD per million tokens`."""
        tokens = self.per_million_tokens
        return f"{self.step} per step" + (f", {tokens} per million tokens" if tokens is not None else "")


def step_cost(per_hour: Iterable[Price | None], seconds: float, tokens: int | None = None) -> StepCost | None:
    """The cost of devices with these prices for a time; None if one has no price, or there are none."""
    total: Price | None = None
    for price in per_hour:
        if price is None:
            return None
        total = price if total is None else total + price
    return None if total is None else StepCost(total * (seconds / HOUR_S), tokens)
