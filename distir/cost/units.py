"""Quantities with units: `"5ms"`, `"80GB"`, `"312TFLOP/s"` to SI numbers. Knows no hardware.

A quantity is a number and a unit, with or without a space between them. Prefixes are SI's: `GB` is 10^9 bytes, `GiB`
is 2^30. `B` is a byte; bits are written out (`25Gbit/s`), because `Gb` is too easily mistaken. Results are in seconds,
bytes, bytes per second, floating-point operations (per second), and currency per hour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from distir.cost.price import Price
from distir.diagnostics.spelling import nearest
from distir.ir.errors import DistirError


class UnitError(DistirError, ValueError):
    """A text that is not the expected quantity. `help` suggests a correction, if there is a likely one."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A kind of quantity: what it is called, one example of it, and its units with their size in SI.

    `least` and `most`: the smallest and the largest that is taken for one, but for zero. They are far from any machine;
    beyond them a time or size has no printable digits.
    """

    name: str
    example: str
    units: Mapping[str, float]
    least: float
    most: float


_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BYTES = {f"{prefix}B": size for prefix, size in (_DECIMAL | _BINARY).items()}
_BITS = {f"{prefix}bit": size / 8 for prefix, size in (_DECIMAL | _BINARY).items()}
_FLOPS = {f"{prefix}FLOP": size for prefix, size in _DECIMAL.items()}
_DAY = 86400.0
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9} | {
    "min": 60.0,
    "h": 3600.0,
    "d": _DAY,
    "y": 365.25 * _DAY,
}

DURATION = Quantity("duration", "7us", _SECONDS, least=0.0, most=1e12)
MEMORY = Quantity("memory size", "80GB", _BYTES, least=1.0, most=1e24)
BANDWIDTH = Quantity(
    "bandwidth", "300GB/s", {f"{unit}/s": size for unit, size in (_BYTES | _BITS).items()}, least=1.0, most=1e24
)
FLOPS = Quantity("number of operations", "2GFLOP", _FLOPS, least=1.0, most=1e30)
FLOP_RATE = Quantity(
    "rate of arithmetic",
    "312TFLOP/s",
    {f"{unit}/s": size for unit, size in _FLOPS.items()} | {f"{unit}S": size for unit, size in _FLOPS.items()},
    least=1.0,
    most=1e30,
)
CURRENCIES = ("USD", "EUR", "GBP", "CHF", "JPY", "CNY")
PRICE = Quantity("price", "2.5USD/h", {f"{currency}/h": 1.0 for currency in CURRENCIES}, least=1e-9, most=1e12)
"""Amounts of money; `parse_price` returns their currency, because amounts of different ones must not be added."""

QUANTITIES = (DURATION, MEMORY, BANDWIDTH, FLOPS, FLOP_RATE, PRICE)


def parse_seconds(text: str) -> float:
    """`"5ms"` is 0.005. Raises UnitError."""
    return parse(text, DURATION)


def parse_bytes(text: str) -> int:
    """`"32GB"` is 32·10^9 and `"80GiB"` is 80·2^30, rounded to whole bytes. Raises UnitError."""
    return round(parse(text, MEMORY))


def parse(text: str, quantity: Quantity) -> float:
    """The quantity in SI units, not negative, and zero or within the bounds of its kind. Raises UnitError."""
    example = f"`{quantity.example}`"
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise UnitError(f"expected a {quantity.name} such as {example}, found `{text}`")
    number, unit = match["number"], match["unit"]
    if unit not in quantity.units:
        raise UnitError(*_wrong_unit(text, number, unit, quantity))
    value = float(number.replace("_", "")) * quantity.units[unit]
    if number.startswith("-"):
        raise UnitError(f"expected a {quantity.name} such as {example}, found the negative `{text}`")
    if value > quantity.most:
        raise UnitError(f"expected a {quantity.name} such as {example}, found `{text}`, which is too large")
    if value < quantity.least and (value or _SOME_DIGIT.search(number)):
        raise UnitError(f"expected a {quantity.name} such as {example}, found `{text}`, which is too small")
    return value


def parse_price(text: str) -> Price:
    """`"2.5USD/h"` is 2.5 USD, per hour. Raises UnitError."""
    amount = parse(text, PRICE)
    return Price(amount, next(currency for currency in CURRENCIES if text.strip().endswith(f"{currency}/h")))


_SOME_DIGIT = re.compile(r"^[^eE]*[1-9]")
"""A non-zero digit: it distinguishes `1e-400`, which underflows to 0, from `0`."""
_QUANTITY = re.compile(r"(?P<number>[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?)\s*(?P<unit>[^\d\s].*|)")


def _wrong_unit(text: str, number: str, unit: str, quantity: Quantity) -> tuple[str, str | None]:
    if not unit:
        return f"expected a {quantity.name} such as `{quantity.example}`, found `{text}` without a unit", None
    other = next((q for q in QUANTITIES if unit in q.units), None)
    if other is not None:
        return f"expected a {quantity.name} such as `{quantity.example}`, found the {other.name} `{text}`", None
    likely = unit.replace("b", "bit", 1) if unit.replace("b", "bit", 1) in quantity.units else None
    likely = likely or nearest(unit, quantity.units)
    message = f"expected a {quantity.name} such as `{quantity.example}`, found the unknown unit `{unit}` in `{text}`"
    return message, f"write `{number}{likely}`" if likely else None
