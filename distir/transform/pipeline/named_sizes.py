"""Sizes in terms of named dimensions, computed from the parameters that have these dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from distir.ir import Dense, Dim, Function, SymbolicDim, TensorType, dims
from distir.ir.builder import FunctionBuilder


def write_sizes(f: FunctionBuilder, entry: Function, sizes: Dense, hint: str) -> str | None:
    """Write statements that compute sizes, a scalar or a vector; the name of the result.

    None where no parameter of the entry function has a dimension of a name.
    """
    found = [_one(f, entry, size, hint) for size in sizes.values if isinstance(size, (int, SymbolicDim))]
    parts = [part for part in found if part is not None]
    if len(parts) < len(sizes.values) or len(sizes.shape) > 1:
        return None
    op, given = ("Concat", parts) if sizes.shape else ("Squeeze", [*parts, (0,)])
    return f.apply(op, *given, results=(hint,), **({"axis": 0} if sizes.shape else {}))[0]


def _one(f: FunctionBuilder, entry: Function, size: Dim, hint: str) -> str | tuple[int, ...] | None:
    """A vector of one size."""
    if not isinstance(size, SymbolicDim):
        return None if size is None else (size,)
    terms: list[str] = []
    for names, coefficient in size.terms:
        sources = [_source(entry, name) for name in names]
        factors = [
            f.apply("Shape", name, results=(hint,), start=axis, end=axis + 1)[0] for name, axis in filter(None, sources)
        ]
        if len(factors) < len(names):
            return None
        product = _folded(f, "Mul", factors, hint)
        terms.append(product if coefficient == 1 else f.apply("Mul", product, (coefficient,), results=(hint,))[0])
    total = _folded(f, "Add", terms, hint)
    return total if size.denominator == 1 else f.apply("Div", total, (size.denominator,), results=(hint,))[0]


def _folded(f: FunctionBuilder, op: str, values: Sequence[str], hint: str) -> str:
    return reduce(lambda a, b: f.apply(op, a, b, results=(hint,))[0], values)


def _source(entry: Function, name: str) -> tuple[str, int] | None:
    """A parameter with a named dimension, and which dimension."""
    for param in entry.params:
        for axis, dim in enumerate((param.type.shape or ()) if isinstance(param.type, TensorType) else ()):
            if dim == dims.named(name):
                return param.name, axis
    return None
