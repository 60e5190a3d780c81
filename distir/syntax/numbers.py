"""What the rules of `dir.lark` for numbers mean. See `reading`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from distir.diagnostics.codes import syntax as codes
from distir.syntax.fault import Fault

INT64 = range(-(2**63), 2**63)


def minus(parts: list[Any]) -> int | float:
    return -parts[0]


def integer(parts: list[Any]) -> int:
    (digits,) = parts
    if len(digits) > 20 or (number := int(digits)) >= 2**64:
        shown = digits if len(digits) <= 24 else f"{digits[:20]}…"
        raise Fault(codes.LARGE_NUMBER, f"`{shown}` does not fit in 64 bits")
    return number


def real(parts: list[Any]) -> float:
    number = float(parts[0])
    if math.isinf(number):
        raise Fault(codes.LARGE_NUMBER, f"`{parts[0]}` does not fit in 64 bits", "write `inf` for infinity")
    return number


def large_list(parts: list[Any]) -> tuple[int | float, ...]:
    text: str = parts[0]
    try:
        numbers = json.loads(text.replace("inf", "Infinity").replace("nan", "NaN"))
    except ValueError:
        numbers = [_number(item) for item in text[1:-1].removesuffix(",").split(",")]
    if "inf" not in text and any(map(math.isinf, numbers)):
        raise Fault(codes.LARGE_NUMBER, "a number in this list does not fit in 64 bits", "write `inf` for infinity")
    return tuple(numbers)


def _number(text: str) -> int | float:
    digits = text.strip()
    unsigned = digits.removeprefix("-").strip()
    sign = -1 if digits.startswith("-") else 1
    if unsigned.isdigit():
        return sign * integer([unsigned])
    try:
        return sign * float(unsigned)
    except ValueError as error:
        raise Fault(codes.UNEXPECTED, f"expected a number, found `{digits}`") from error


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "minus": minus,
    "integer": integer,
    "real": real,
    "infinity": lambda _: math.inf,
    "not_a_number": lambda _: math.nan,
    "large_list": large_list,
}
