"""Complex values as pairs of real ones: rotary embeddings are written with them.

What moves elements, adds or picks them is done to both parts by the rule for real values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from distir.importers.stablehlo.elementwise import number_like
from distir.importers.stablehlo.text import Braces, MlirOperation, refuse
from distir.importers.stablehlo.translating import RULES_BY_OP, StableHlo, rule

LINEAR = frozenset(
    ("add", "subtract", "negate", "select", "convert", "reshape", "transpose", "broadcast_in_dim", "slice", "gather")
) | {"concatenate", "reverse", "dynamic_slice", "dynamic_update_slice", "sharding_constraint", "pad"}
"""Operations that do the same to real and imaginary parts."""

Pair = tuple[str, str]

_COMPLEX = re.compile(r"complex<(\w+)>")


def real_type(text: str) -> str:
    """The type of a part of a complex tensor."""
    return _COMPLEX.sub(r"\1", text)


@rule("complex values", "complex", "real", "imag")
def _complex_values(into: StableHlo, operation: MlirOperation, operands: Sequence[str]) -> str:
    """Any operation that takes or gives complex values."""
    name = operation.name.rpartition(".")[2]
    before, behind = ([real_type(text) for text in side] for side in operation.types)
    plain = replace(operation, types=(before, behind))
    if name == "complex":
        return _pair(into, operands[0], operands[1])
    if name == "constant":
        real, imaginary = (str(RULES_BY_OP[name](into, part, ())) for part in _constants(plain))
        return _pair(into, real, imaginary)
    if name in LINEAR:
        sides = [[into.pairs[x][side] if x in into.pairs else x for x in operands] for side in (0, 1)]
        if name == "convert" and operands[0] not in into.pairs:
            sides[1] = [into.apply("Mul", operands[0], number_like(into, operands[0], 0))]
        real, imaginary = (into.stacked(str(RULES_BY_OP[name](into, plain, side))) for side in sides)
        return _pair(into, real, imaginary)
    if name not in MIXING:
        refuse(f"`{operation.name}` of complex values has no op here", operation.place, "use real parts")
    made = MIXING[name](into, *(into.pairs[x] for x in operands))
    return made if isinstance(made, str) else _pair(into, *made)


def _pair(into: StableHlo, real: str, imaginary: str) -> str:
    name = into.builder.fresh(into.hint)
    into.pairs[name] = real, imaginary
    return name


def _constants(operation: MlirOperation) -> list[MlirOperation]:
    """A constant of pairs `(1.0, 2.0)` as two of numbers."""
    given = operation.attributes.get("value") or next(iter(operation.words), None)
    if not isinstance(given, Braces):
        refuse("expected `dense<…>`", operation.place)

    def part(value: Any, side: int) -> Any:
        items = cast("list[Any]", value) if isinstance(value, list) else []
        numbers = len(items) == 2 and not any(isinstance(item, list) for item in items)
        return items[side] if numbers else [part(item, side) for item in items]

    named = {key: real_type(str(of)) for key, of in given.named.items()}
    sides = [Braces(named, tuple(part(value, side) for value in given.listed), "dense") for side in (0, 1)]
    return [replace(operation, attributes={}, words=[one]) for one in sides]


def _multiply(into: StableHlo, x: Pair, y: Pair) -> Pair:
    (a, b), (c, d) = x, y
    real = into.apply("Sub", into.apply("Mul", a, c), into.apply("Mul", b, d))
    return real, into.apply("Add", into.apply("Mul", a, d), into.apply("Mul", b, c))


def _exponential(into: StableHlo, x: Pair) -> Pair:
    size = into.apply("Exp", x[0])
    return into.apply("Mul", size, into.apply("Cos", x[1])), into.apply("Mul", size, into.apply("Sin", x[1]))


def _abs(into: StableHlo, x: Pair) -> str:
    squares = [into.apply("Mul", part, part) for part in x]
    return into.apply("Sqrt", into.apply("Add", *squares))


def _real(into: StableHlo, x: Pair) -> str:
    return x[0]


def _imaginary(into: StableHlo, x: Pair) -> str:
    return x[1]


MIXING: Mapping[str, Callable[..., Pair | str]] = {
    "real": _real,
    "imag": _imaginary,
    "multiply": _multiply,
    "exponential": _exponential,
    "abs": _abs,
}
"""Operations that mix both parts."""
