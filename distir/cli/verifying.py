"""What `distir launch --verify` says: whether results are those that the reference executor gives.

A result may be off by what its element type allows, relative to the largest element (`transform/verification.py`).
Where it is off by more, it is asked how well the program determines it: the reference executor runs again, on inputs
that differ in their last digits. What that changes an element by, rounding may change it by too: the sign of a sum near
zero, which decides what passes a ReLU, depends on the order of its terms. A program that is wrong is off where the
reference does not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from distir.cli import memory
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Function

CHANGES = (2, 2, 4, 4, 8, 8)
"""By how many units of rounding inputs differ from run to run, at most."""

MARGIN = 4.0
"""How many times what a few changed inputs show may be rounding."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One result: the largest difference from the reference executor's, and whether that is allowed.

    `rounding`: how far rounding may move an element of it, where that was asked.
    """

    name: str
    error: float
    same: bool
    rounding: float | None = None


def verdicts(
    program: Program, entry: Function, values: Mapping[str, Any], measured: Mapping[str, Any], home: Path
) -> list[Verdict]:
    """A verdict for each result. `measured`: arrays by name, parts of tuples as `w.0`. Raises Refused."""
    from distir.transform.verification import largest_difference

    expected = _executed(program, entry, values, home)
    found: list[Verdict] = []
    wide: list[str] = []
    for name, array in expected.items():
        error, allowed = largest_difference(array, measured[name])
        found.append(Verdict(name, error, error <= allowed))
        if error > allowed and array.shape == measured[name].shape and _is_float(array):
            wide.append(name)
    if not wide:
        return found
    others = [_executed(program, entry, changed(values, units, i), home) for i, units in enumerate(CHANGES)]
    again = {n: _with_rounding(n, expected[n], measured[n], [other[n] for other in others]) for n in wide}
    return [again.get(verdict.name, verdict) for verdict in found]


def changed(values: Mapping[str, Any], units: int, seed: int) -> dict[str, Any]:
    """The inputs with each floating-point element moved by up to `units` roundings, up or down."""
    from distir.ops.numeric import np

    draw: Any = np.random.default_rng(seed)

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, cast("tuple[Any, ...]", value)))
        if not _is_float(value):
            return value
        step: Any = _rounding_unit(value) * units * draw.uniform(-1, 1, value.shape)
        return (value.astype(np.float64) * (1 + step)).astype(value.dtype)

    return {name: moved(value) for name, value in values.items()}


def _with_rounding(name: str, expected: Any, found: Any, others: Sequence[Any]) -> Verdict:
    from distir.ops.numeric import np
    from distir.transform.verification import largest_difference

    error, allowed = largest_difference(expected, found)
    a, b = expected.astype(np.float64), found.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        spread = np.max([np.abs(other.astype(np.float64) - a) for other in others], axis=0)
    rounding = MARGIN * np.where(np.isfinite(spread), spread, 0.0)
    same = bool(np.all(apart <= allowed + rounding))
    return Verdict(name, error, same, float(np.max(rounding, initial=0.0)))


def _executed(program: Program, entry: Function, values: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The reference executor's results, by name."""
    from distir.analysis import InputError, execute
    from distir.cli.tensors import flattened, loader

    try:
        results = execute(program.module, values, entry.name, loader(home), memory.available_bytes())
    except InputError as error:
        raise Refused(str(error)) from None
    return {n: array for r in results for n, _, array in flattened(r.name, r.type, r.value)}


def _is_float(array: Any) -> bool:
    from distir.ops import dtype_of

    return dtype_of(array).kind == "float"


def _rounding_unit(array: Any) -> float:
    """Half of the distance from 1 to the next number of this type."""
    import ml_dtypes

    info = cast("Any", ml_dtypes.finfo(array.dtype))
    return float(info.eps) / 2
