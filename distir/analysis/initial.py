"""How large the elements of floating-point parameters are drawn, so that values keep their size through any depth.

What a model gives of weights that are all of one size grows or vanishes with its width and depth; then a
difference says nothing. So the deviation of weights goes by their shape, as at initialisation (Glorot & Bengio, 2010),
and what normalisation multiplies with, or divides by, is near 1. Only what the text says counts: shapes, roles, and the
ops that use a value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from distir.ir import Apply, Call, Function, Module, Param
from distir.ir.calls import callees_first

DEVIATION = 0.1
"""Of what nothing more is known."""

SCALES = frozenset(
    ("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization")
)
"""Ops whose operand 1 multiplies what is normalised."""

PASSED_ON = frozenset(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Cast", "CastLike", "Send", "MPIBroadcast"))
"""Ops whose results are their first operands, in other forms and places."""

NEAR_ONE = frozenset((op, 1) for op in SCALES) | {("BatchNormalization", 4)}
"""Operands that models begin with as 1: scales, and a running variance."""


def near_one(module: Module, function: Function) -> Collection[str]:
    """The parameters of a function that normalisation takes as scale or variance, there or in what it calls."""
    found: dict[str, Collection[int]] = {}
    for inner in callees_first(module):
        own = _taken(inner, found)
        found[inner.name] = [i for i, p in enumerate(inner.params) if p.name in own]
    return _taken(function, found)


def _taken(function: Function, inner: Mapping[str, Collection[int]]) -> frozenset[str]:
    """The parameters of one function; `inner` has the places of those of functions that it may call."""
    found: set[str] = set()
    for statement in reversed(function.body):
        if isinstance(statement, Apply):
            passed_on = statement.op in PASSED_ON and found.intersection(statement.results)
            wanted = {0} if passed_on else {i for op, i in NEAR_ONE if op == statement.op}
        elif isinstance(statement, Call):
            wanted = inner.get(statement.function, ())
        else:
            continue
        found.update(arg for i, arg in enumerate(statement.args) if i in wanted and isinstance(arg, str))
    return frozenset(found.intersection(p.name for p in function.params))


def deviation(param: Param, shape: Sequence[int]) -> float:
    """Of the elements of a parameter of this shape: of a matrix that is a weight such that products keep their size.

    A matrix may be met from either side: of `m * n` elements, two that lead from m to n and back to m keep it. Of more
    dimensions than 3 it is a kernel of a convolution, whose output's channels are the first dimension; of 3, a matrix
    for each of the first.
    """
    if "param" not in param.roles or len(shape) < 2:
        return DEVIATION
    if len(shape) > 3:
        return max(math.prod(shape[1:]), 1) ** -0.5
    return max(math.prod(shape[-2:]), 1) ** -0.25
