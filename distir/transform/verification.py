"""Whether a transformed program gives the results of the original, on random inputs, by the reference executor.

`gather(main(scatter(x))) = sequential(x)`: a distributed program tells by `@main.scatter` and `@main.gather` how its
parameters and results belong to the sequential ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from distir.analysis import Load, Output, execute, random_inputs
from distir.ir import Apply, Function, Module, TensorType, types
from distir.ir.roles import is_trained
from distir.ops import OPS
from distir.ops.group import REPRESENTATIVE_OPS
from distir.transform.entry import entry_of
from distir.transform.steps import Application

TOLERANCES = {"Float64": 1e-10, "Float32": 1e-4, "Float16": 2e-2, "BFloat16": 1e-1}
"""How far a result may lie off, as a part of its greatest element (or of 1, if that is more), by element type."""

FROM_NARROW = {"Float16": 2e-3, "BFloat16": 1e-2}
"""The same for wider results of a program whose weights have these element types: a loss, or a gradient that was cast.

They are as precise as what they are computed of: about two units in the last place of the narrow type. What an
optimizer updates in place is as precise as it is wide, for it changes little in a step.
"""

DIFFERENT_MEANING = frozenset({"grad"})
"""Steps that make another program on purpose: what they give is what later steps are compared with."""


class VerifyError(ValueError):
    """Two programs that cannot be compared: their parameters or results do not belong together."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One result in both programs."""

    name: str
    max_abs_error: float
    """The greatest difference of two elements; `inf` where shapes differ or one is not a number."""
    tolerance: float
    """The greatest one allowed."""
    difference: str | None = None
    """Of results that do not agree: in how many elements, by how much, and where most."""

    @property
    def equal(self) -> bool:
        """Whether the results agree within the tolerance."""
        return self.max_abs_error <= self.tolerance


@dataclass(frozen=True, slots=True)
class Verification:
    """What comparing two programs found."""

    results: tuple[Compared, ...]

    @property
    def equal(self) -> bool:
        """Whether all results agree within their tolerances."""
        return all(result.equal for result in self.results)

    @property
    def max_abs_error(self) -> float:
        """The largest difference of two elements."""
        return max((result.max_abs_error for result in self.results), default=0.0)


def verify(
    original: Module,
    transformed: Module,
    seed: int = 0,
    tolerance: float | None = None,
    bind: Mapping[str, int] | None = None,
    load: Load | None = None,
    max_bytes: int | None = None,
) -> Verification:
    """Run both programs on the same random inputs and compare their results, one by one.

    `tolerance` is relative, by default as fits the element type; `bind` gives sizes to named dimensions, and values to
    host parameters; a program whose results take more than `max_bytes` at once is not run. Raises VerifyError where
    parameters or results do not belong together, ProgramError if one of the programs does not check,
    analysis.InputError where a parameter of the original has no type, or a named dimension no size, and for
    `max_bytes`.
    """
    entry = entry_of(original)
    inputs = random_inputs(original, seed, bind or {})
    inputs |= {name: value for name, value in (bind or {}).items() if name in inputs}
    expected = execute(original, inputs, entry.name, load, max_bytes)
    found = distributed(transformed, list(inputs.values()), entry, load, max_bytes)
    if len(found) != len(expected):
        message = f"expected {len(expected)} results, as `@{entry.name}` had, found {len(found)}"
        raise VerifyError(f"{message}; is `@{entry.name}.gather` missing?")
    least = _least_tolerances(entry)
    rows = zip(expected, found, least, strict=True)
    return Verification(tuple(_compared(e, f, tolerance, at_least) for e, f, at_least in rows))


def distributed(
    module: Module,
    inputs: Sequence[Any],
    original: Function,
    load: Load | None = None,
    max_bytes: int | None = None,
) -> tuple[Output, ...]:
    """The results of a module for the parameters of the program that it was made from.

    Raises VerifyError where the module does not take them, and what `execute` raises.
    """
    entry = module.entry(original.name) or entry_of(module)
    scatter, gather = (f"{entry.name}.{role}" for role in ("scatter", "gather"))
    collective = next(
        (s.op for f in module for s in f.body if isinstance(s, Apply) and s.op in REPRESENTATIVE_OPS), None
    )
    if collective is not None:
        message = f"one device represents others (`{collective}`), whose parts of parameters and results are not there"
        raise VerifyError(f"{message}; verify what the same steps give without `representative=true`")
    values = list(inputs)
    if scatter in module.functions:
        values = [output.value for output in execute(module, values, scatter, load, max_bytes)]
    if len(values) != len(entry.params):
        message = f"`@{entry.name}` expected {len(entry.params)} parameters, found {len(values)} values for them"
        raise VerifyError(f"{message}; is `@{scatter}` missing?")
    outputs = execute(module, values, entry.name, load, max_bytes)
    if gather in module.functions:
        outputs = execute(module, [output.value for output in outputs], gather, load, max_bytes)
    return outputs


def reference(original: Module, words: Sequence[str], keywords: Mapping[str, Any] | None = None) -> Module:
    """What the result of steps is to be compared with: the original, or what the last step made that changes meaning.

    Raises StepError for steps that do not exist.
    """
    from distir.transform.all_steps import parse_steps  # all steps are looked for only where words are read

    applications = parse_steps(words, keywords)
    changing = [i for i, application in enumerate(applications) if application.step.name in DIFFERENT_MEANING]
    return _applied(original, applications[: changing[-1] + 1] if changing else [])


def _applied(module: Module, applications: Sequence[Application]) -> Module:
    for application in applications:
        module = application(module)
    return module


def largest_difference(expected: Any, found: Any) -> tuple[float, float]:
    """Of two arrays: the greatest difference of two elements, and the greatest that is allowed."""
    from distir.ops import dtype_of

    scale, difference = max(_differences(expected, found), default=(0.0, 0.0))
    return difference, TOLERANCES.get(dtype_of(expected).name, 0.0) * max(1.0, scale)


def described(expected: Any, found: Any, allowed: Any) -> str:
    """How two results differ that are further apart than is allowed: in how many elements, by how much, where most.

    `allowed`: the greatest difference of two elements, or one for each.
    """
    said: list[str] = []
    for part, a, b in _parts(expected, found):
        if a is None or b is None:
            said.append(f"{part}expected a tuple of as many parts")
        elif a.shape != b.shape:
            said.append(f"{part}expected the shape {a.shape}, found {b.shape}")
        elif sentence := _described(a, b, allowed):
            said.append(part + sentence)
    return "; ".join(said)


def _described(expected: Any, found: Any, allowed: Any) -> str:
    """The same of two arrays of one shape; nothing where they agree."""
    from distir.ops.numeric import np

    apart = _apart(expected, found)
    wrong = apart > allowed
    if not wrong.any():
        return ""
    worst = np.unravel_index(int(np.argmax(np.where(wrong, apart, -1.0))), apart.shape)
    count = f"{np.count_nonzero(wrong):,} of {apart.size:,} elements differ" if apart.size > 1 else "differs"
    place = f", most at [{', '.join(map(str, worst))}]" if worst else ""
    a, b = (f"{np.asarray(array)[worst]!s}" for array in (expected, found))
    return f"{count} by up to {apart[worst]:.1e}{place}: expected {a}, found {b}"


def _least_tolerances(entry: Function) -> list[float]:
    """By result of a program: what its tolerance is at least, for it follows from narrow weights."""
    weights = [leaf for p in entry.params if is_trained(p) for leaf in types.leaves(p.type)]
    narrow = [leaf.dtype.name for leaf in weights if isinstance(leaf, TensorType) and leaf.dtype is not None]
    least = max((FROM_NARROW.get(name, 0.0) for name in narrow), default=0.0)
    updated = {
        statement.results[i]
        for statement in entry.body
        if isinstance(statement, Apply) and isinstance(inplace := OPS[statement.op].inplace, dict)
        for i in inplace
        if i < len(statement.results)
    }
    return [0.0 if arg in updated else least for arg in entry.returned]


def _compared(expected: Output, found: Output, tolerance: float | None, least: float) -> Compared:
    pairs = _differences(expected.value, found.value)
    relative = max(_tolerance(expected), least) if tolerance is None else tolerance
    scale = max((largest for largest, _ in pairs), default=0.0)
    error = max((difference for _, difference in pairs), default=0.0)
    allowed = relative * max(1.0, scale)
    difference = None if error <= allowed else described(expected.value, found.value, allowed)
    return Compared(expected.name, error, allowed, difference)


def _tolerance(output: Output) -> float:
    dtypes = [leaf.dtype.name for leaf in types.leaves(output.type) if isinstance(leaf, TensorType) and leaf.dtype]
    return max((TOLERANCES.get(name, 0.0) for name in dtypes), default=0.0)


def _differences(expected: Any, found: Any) -> list[tuple[float, float]]:
    """By tensor: the greatest element, and the greatest difference."""
    return [_difference(a, b) for _, a, b in _parts(expected, found)]


def _difference(expected: Any, found: Any) -> tuple[float, float]:
    if expected is None or found is None or expected.shape != found.shape:
        return 0.0, float("inf")
    if not expected.size:
        return 0.0, 0.0
    from distir.ops.numeric import np

    a = expected.astype(np.float64)
    finite = a[np.isfinite(a)]
    return float(np.max(np.abs(finite))) if finite.size else 0.0, float(np.max(_apart(expected, found)))


def _parts(expected: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The tensors of two results, side by side: which part of a tuple they are; None where the tuples differ."""
    if not (isinstance(expected, tuple) or isinstance(found, tuple)):
        yield f"part {path}: " if path else "", expected, found
        return
    left, right = _tuple(expected), _tuple(found)
    if left is None or right is None or len(left) != len(right):
        yield f"part {path}: " if path else "", None, None
        return
    for number, (e, f) in enumerate(zip(left, right, strict=True)):
        yield from _parts(e, f, f"{path}.{number}" if path else str(number))


def _tuple(value: Any) -> tuple[Any, ...] | None:
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else None


def _apart(expected: Any, found: Any) -> Any:
    """By element: how far two arrays are apart; 0 where neither is a number, `inf` where one is not."""
    from distir.ops.numeric import np

    a, b = expected.astype(np.float64), found.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, a - b))
    return np.where(np.isnan(apart), np.inf, apart)
