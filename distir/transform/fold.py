"""Constant folding of host values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from distir.analysis import State, check
from distir.diagnostics import ProgramError
from distir.ir import Apply, Arg, Constant, Dense, Function, Literal, Module, names, results
from distir.ir.rewrite import Rewriter
from distir.ops import dense
from distir.transform.steps import step

WRITTEN = 64
"""Host values with more elements are not folded."""


@step(after=("grad", "pp", "accumulate", "tp", "dp", "dtp", "zero", "mesh"), on_mesh=True)
def fold(module: Module) -> Module:
    """Constant folding: replace known shapes, scales and other host values by constants.

    Replaces values of up to 64 elements that are the same in all calls of a function; returned values keep their names.
    """
    return folded(module, WRITTEN)


def folded(module: Module, most: float = math.inf) -> Module:
    """The program with known host values of up to `most` elements as constants. Raises ProgramError."""
    analysis = check(module)
    if analysis.errors:
        raise ProgramError(analysis.errors)
    return Module(_folded(f, analysis.states[f.name], most) for f in module)


def _folded(function: Function, state: State, most: float) -> Function:
    constants = _constants(function, state, most)
    if not constants:
        return function
    edit, returned = Rewriter(function), {*names(function.returned)}
    edit.rename(constants, range(edit.end))
    gone = constants.keys() - returned  # a returned value keeps its name
    edit.erase(*(i for i, s in edit if results(s) and gone.issuperset(filter(None, results(s)))))
    return edit.done()


def _constants(function: Function, state: State, most: float) -> Mapping[str, Arg]:
    """The values of the function that are known numbers."""
    found: dict[str, Arg] = {}
    for statement in function.body:
        if isinstance(statement, Apply):
            for name in statement.results:
                value = state[name] if name else None
                if isinstance(value, Dense) and not value.symbolic and len(value.values) <= most:
                    found[name] = Literal(written(value))
    return found


def written(value: Dense) -> Constant:
    """A constant as a literal (number or list) if the literal implies its element type."""
    plain = _nested(value.shape, cast("tuple[Constant, ...]", value.values))
    try:
        return plain if dense(plain) == value else value
    except ValueError:
        return value


def _nested(shape: tuple[int, ...], values: tuple[Constant, ...]) -> Constant:
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    return tuple(_nested(shape[1:], values[i * step : (i + 1) * step]) for i in range(shape[0]))
