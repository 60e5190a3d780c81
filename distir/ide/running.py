"""A program's values in an editor: run by the reference executor on random inputs; what steps made, compared with it.

numpy is loaded here, and only when a run is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distir.diagnostics import ProgramError
from distir.ide.actions.transforms import alone
from distir.ide.document import Document
from distir.ir import HOST, Function, TensorType, types
from distir.simulate.setup import SetupError, fitting

VALUES_SHOWN = 8
"""The most elements of a result that is given with its values."""


class CannotRun(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A program cannot be run, or two cannot be compared; the text says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """One tensor. `device`: None for a value of the host. `values`: of those with few elements.

    `sha256`: of the elements' bytes, little-endian, in row-major order. `largest`: in absolute value. There is neither
    mean nor largest element where there is no element.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    device: int | None
    sha256: str
    mean: float | None
    largest: float | None
    values: str | None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """The results of a run. `random`: the parameters whose values are random, determined by `seed`."""

    function: str
    seed: int
    random: tuple[str, ...]
    outputs: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether two programs give the same results: how many there are; of those that differ, where and by how much."""

    equal: bool
    results: int
    max_abs_error: float
    differences: tuple[str, ...]


def run(document: Document, function: str | None, seed: int, max_bytes: int) -> ProgramRun:
    """Run a function, by default the entry, on random inputs; sizes and host values are those of the setup.

    Raises CannotRun, also where results would take more than `max_bytes` at once; ModuleNotFoundError without numpy.
    """
    import numpy as np

    from distir.analysis import InputError, execute, random_inputs

    entry = _function(document, function)
    module = document.program.module
    try:
        given, sizes = _given(document, entry), _sizes(document, entry)
        values = given | random_inputs(module, seed, sizes, entry.name, given)
        with np.errstate(all="ignore"):  # infinities and nan are results like others
            outputs = execute(module, values, entry.name, None, max_bytes)
    except ProgramError as error:
        raise CannotRun(_first(error)) from None
    except (InputError, SetupError) as error:
        raise CannotRun(str(error)) from None
    except (ValueError, IndexError, ArithmeticError) as error:  # indices out of range, say: the checker sees no values
        raise CannotRun(f"`@{entry.name}` fails on these inputs: {error}") from None
    random = tuple(param.name for param in entry.params if param.name not in given)
    return ProgramRun(entry.name, seed, random, tuple(r for o in outputs for r in _results(o.name, o.type, o.value)))


def agreement(document: Document, function: str, steps: Sequence[str], made: Document, max_bytes: int) -> Agreement:
    """Whether a function and what steps made of it give the same results on random inputs, as `transform.verify` says.

    Raises CannotRun where they cannot be compared, and ModuleNotFoundError without numpy.
    """
    from distir.analysis import InputError
    from distir.transform import VerifyError, reference, verify

    try:
        sizes = _sizes(document, _function(document, function))
        own = reference(alone(document.program.module, function), list(steps))
        found = verify(own, made.program.module, bind=sizes, max_bytes=max_bytes)
    except (VerifyError, InputError, SetupError) as error:
        raise CannotRun(str(error)) from None
    except ProgramError as error:
        raise CannotRun(_first(error)) from None
    wrong = tuple(f"%{r.name}: {r.difference}" for r in found.results if not r.equal)
    return Agreement(found.equal, len(found.results), found.max_abs_error, wrong)


def _function(document: Document, name: str | None) -> Function:
    entry = document.entry if name is None else document.program.module.functions.get(name)
    if entry is None:
        raise CannotRun("the text holds no function" if name is None else f"there is no function `@{name}`")
    if document.program.errors:
        raise CannotRun("the program has errors")
    return entry


def _sizes(document: Document, entry: Function) -> dict[str, int]:
    """The sizes of named dimensions. Raises SetupError."""
    found = fitting(document.setup.bind, entry)
    return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}


def _given(document: Document, entry: Function) -> dict[str, Any]:
    """The values of host parameters that the setup states. Raises SetupError, CannotRun."""
    from distir.ops import dense, to_array

    bound, given = fitting(document.setup.bind, entry), dict[str, Any]()
    for param in entry.params:
        if param.name in bound:
            try:
                stated = param.type.dtype if isinstance(param.type, TensorType) else None
                given[param.name] = to_array(dense(bound[param.name], stated))
            except (ValueError, TypeError, OverflowError) as error:
                raise CannotRun(f"the value of `%{param.name}`: {error}") from None
    return given


def _results(name: str, type: Any, value: Any) -> Iterator[Result]:
    import numpy as np

    from distir.analysis.outputs import digest, flattened
    from distir.ops import dtype_of

    for leaf, stated, array in flattened(name, type, value):
        device = types.device_of(stated)
        numbers = np.asarray(array, np.float64) if array.size else np.zeros(0)
        mean, largest = (float(numbers.mean()), float(np.abs(numbers).max())) if array.size else (None, None)
        values = str(array.tolist()) if array.size <= VALUES_SHOWN else None
        where = None if device == HOST else device
        shape = tuple(array.shape)
        yield Result(leaf, dtype_of(array).name, shape, where, digest(array), mean, largest, values)


def _first(error: ProgramError) -> str:
    first = error.diagnostics[0]
    return f"{first.message} ({first.code.number})"
