"""Dimensions: integers, unknown (`?`, here `None`) and symbolic ones such as `B`, `8*B` or `(B+1)/2`.

A symbolic dimension is a polynomial over named dimensions with one integer denominator. Division is exact: an op
that divides a dimension (`Split`) requires that it divides, so `B/2` states that claim, which is checked when `B`
is bound. Equal polynomials are equal values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from distir.ir.errors import DistirError

LARGEST: Final = 2**31 - 1
"""The largest size that a model or a configuration may state: a larger one is a typo. Products of two fit 64 bits."""

Monomial = tuple[str, ...]

MOST_TERMS = 256
"""Terms of a dimension, and names in a term: what would have more is unknown."""


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """`sum(coefficient * product(names)) / denominator`, reduced; never a constant."""

    terms: tuple[tuple[Monomial, int], ...]
    denominator: int = 1

    def __str__(self) -> str:
        parts = [_term(names, coefficient) for names, coefficient in self.terms]
        total = parts[0] + "".join(part if part.startswith("-") else f"+{part}" for part in parts[1:])
        if self.denominator == 1:
            return total
        return f"{total}/{self.denominator}" if len(parts) == 1 else f"({total})/{self.denominator}"

    @property
    def names(self) -> frozenset[str]:
        """The names that it depends on."""
        return frozenset(name for names, _ in self.terms for name in names)

    # Arithmetic with operators, so that arrays of dimensions go through the ops' reference implementations.

    def __add__(self, other: int | SymbolicDim) -> Dim:
        return add(self, other)

    def __sub__(self, other: int | SymbolicDim) -> Dim:
        return subtract(self, other)

    def __rsub__(self, other: int) -> Dim:
        return subtract(other, self)

    def __mul__(self, other: int | SymbolicDim) -> Dim:
        return multiply(self, other)

    def __floordiv__(self, other: int | SymbolicDim) -> Dim:
        return divide(self, other)

    def __neg__(self) -> Dim:
        return multiply(self, -1)

    __radd__ = __add__
    __rmul__ = __mul__
    __truediv__ = __floordiv__


Dim = int | SymbolicDim | None
Shape = tuple[Dim, ...]


class DimensionError(DistirError, ValueError):
    """A dimension that bindings evaluate to a non-integer or a negative number; the text names it."""


def named(name: str) -> SymbolicDim:
    """The dimension that is called `name`."""
    return SymbolicDim((((name,), 1),))


def add(a: Dim, b: Dim) -> Dim:
    """The sum; unknown if a part is."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a is None or b is None:
        return None
    (p, m), (q, n) = _polynomial(a), _polynomial(b)
    total: dict[Monomial, int] = {names: c * n for names, c in p.items()}
    for names, c in q.items():
        total[names] = total.get(names, 0) + c * m
    return _dim(total, m * n)


def multiply(a: Dim, b: Dim) -> Dim:
    """The product; unknown if a factor is, unless another is 0, or if it has too many terms."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a is None or b is None:
        return None
    (p, m), (q, n) = _polynomial(a), _polynomial(b)
    product: dict[Monomial, int] = {}
    for left, c in p.items():
        for right, e in q.items():
            names = tuple(sorted(left + right))
            product[names] = product.get(names, 0) + c * e
        if len(product) > MOST_TERMS or len(left) > MOST_TERMS:
            return None
    return _dim(product, m * n)


def subtract(a: Dim, b: Dim) -> Dim:
    """The difference; unknown if a part is."""
    return add(a, multiply(b, -1))


def divide(a: Dim, b: Dim) -> Dim:
    """`a / b` if it is exact; unknown if that is undecidable; raises DimensionError if it is not."""
    if a is None or b is None or b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        if a % b:
            raise DimensionError(f"{a} is not divisible by {b}")
        return a // b
    (p, m), (q, n) = _polynomial(a), _polynomial(b)
    if len(q) != 1:
        return 1 if a == b else None
    ((divisor, c),) = q.items()
    quotient: dict[Monomial, int] = {}
    for names, coefficient in p.items():
        rest = list(names)
        for name in divisor:
            if name not in rest:
                return None
            rest.remove(name)
        quotient[tuple(rest)] = coefficient * n
    result = _dim(quotient, m * c)
    if isinstance(result, SymbolicDim) and not result.names:
        raise DimensionError(f"{a} is not divisible by {b}")
    return result


def divide_up(a: Dim, b: int) -> Dim:
    """`a / b` rounded up; of a symbolic dimension the exact quotient."""
    return -(-a // b) if isinstance(a, int) else divide(a, b)


def is_multiple(dim: Dim, size: int) -> bool:
    """Whether a dimension is known to be a multiple of a number, whatever its names are bound to."""
    if isinstance(dim, SymbolicDim):
        return all(coefficient % (size * dim.denominator) == 0 for _, coefficient in dim.terms)
    return dim is not None and dim % size == 0


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all: the elements of a shape."""
    total: Dim = 1
    for dim in dims:
        total = total * dim if isinstance(total, int) and isinstance(dim, int) else multiply(total, dim)
    return total


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of all."""
    result: Dim = 0
    for dim in dims:
        result = add(result, dim)
    return result


def substitute(dim: Dim, bindings: Mapping[str, Dim]) -> Dim:
    """`dim` with names replaced. Raises DimensionError if the result is no integer or negative."""
    if not isinstance(dim, SymbolicDim) or not (dim.names & bindings.keys()):
        return dim
    result: Dim = 0
    for names, coefficient in dim.terms:
        factors: list[Dim] = [bindings.get(name, named(name)) for name in names]
        result = add(result, multiply(coefficient, product(factors)))
    try:
        result = divide(result, dim.denominator)
    except DimensionError as error:
        known = ", ".join(f"{n} = {bindings[n]}" for n in sorted(dim.names & bindings.keys()))
        raise DimensionError(f"`{dim}` is no integer where {known}") from error
    if isinstance(result, int) and result < 0:
        raise DimensionError(f"`{dim}` is {result}, a dimension cannot be negative")
    return result


def solve(dim: Dim, size: Dim) -> tuple[str, Dim] | None:
    """The name and the value that make `dim` equal `size`, where `dim` is a multiple or a part of one name.

    None where it is something else, or no integer does.
    """
    if not isinstance(dim, SymbolicDim) or size is None or len(dim.terms) != 1:
        return None
    ((names, coefficient),) = dim.terms
    if len(names) != 1:
        return None
    try:
        value = divide(multiply(size, dim.denominator), coefficient)
    except DimensionError:
        return None
    return None if value is None else (names[0], value)


def combine(function: Callable[[int, int], int], a: Dim, b: Dim) -> Dim:
    """`function(a, b)` where both are known integers, else unknown."""
    return function(a, b) if isinstance(a, int) and isinstance(b, int) else None


def show(dim: Dim) -> str:
    """As it is written; `?` where it is unknown."""
    return "?" if dim is None else str(dim)


def _polynomial(dim: int | SymbolicDim) -> tuple[dict[Monomial, int], int]:
    return ({(): dim}, 1) if isinstance(dim, int) else (dict(dim.terms), dim.denominator)


def _dim(terms: dict[Monomial, int], denominator: int) -> Dim:
    kept = {names: c for names, c in terms.items() if c}
    if not kept:
        return 0
    common = math.gcd(denominator, *kept.values())
    sign = -1 if denominator < 0 else 1
    denominator = sign * denominator // common
    reduced = {names: sign * c // common for names, c in kept.items()}
    if denominator == 1 and reduced.keys() == {()}:
        return reduced[()]
    return SymbolicDim(tuple(sorted(reduced.items(), key=lambda t: (-len(t[0]), t[0]))), denominator)


def _term(names: Monomial, coefficient: int) -> str:
    text = "*".join(names)
    if not names:
        return str(coefficient)
    return {1: text, -1: f"-{text}"}.get(coefficient, f"{coefficient}*{text}")
