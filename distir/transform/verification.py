"""Whether a transformed program gives the results of the original, on random inputs, by the reference executor.

`gather(main(scatter(x))) = sequential(x)`: a distributed program tells by `@main.scatter` and `@main.gather` how its
parameters and results belong to the sequential ones. Gather takes one copy of what several devices have; the others,
and the parts of new weights and state, must equal what is gathered (`analysis/copies.py`).

Programs in Float32 run in Float64, where a small gradient is not lost beside a large weight. A result may be off by a
part of its own greatest element. Where it is further off, the original runs again on inputs perturbed in their last
digits: rounding may change an element as much as such a perturbation does. For instance, the sign of a sum near zero,
and thus what passes a ReLU, depends on the order of its terms. A wrong program has errors where the original does not
change. Of a chaotic program everything changes, so that nothing can be said of it: there is a most that counts as
rounding (`most_rounding`), and a result that is further off is refused, with the reason.

Programs with narrower types round more, which hides errors. They run in Float64, too, and must agree there; 8-bit
floats stay what they are, for their scales are part of what is computed. Then each differs from that by its rounding
alone, and the rounding of the original says how much is allowed of the other, as in the tests of FlashAttention: with
8-bit floats few elements move, each by up to an eighth, where an operand changes in its last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Union, cast

from distir.analysis import Load, Output, TooLargeError, execute, random_inputs
from distir.analysis.copies import CopyClaim, CopyClaims, copies
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call, DType, Function, Module, TensorType, Type, ops_in, types
from distir.ir.errors import DistirError
from distir.ir.roles import is_trained
from distir.ops import OPS
from distir.ops.group import represented
from distir.transform.entry import entry_of
from distir.transform.fold import folded
from distir.transform.in_float64 import (
    FLOAT32,
    FLOAT64,
    WIDENED,
    array_in_float64,
    float_types,
    in_float64,
    loaded_in_float64,
)
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.steps import Application

TOLERANCES = {"Float64": 1e-12, "Float32": 1e-4, "Float16": 2e-2, "BFloat16": 1e-1}
"""How far a result may lie off without further question, as a part of its greatest element, by element type."""

FROM_NARROW = {"Float16": 2e-3, "BFloat16": 1e-2}
"""The same for wider results of a program that computes with weights of these element types, or that casts them to one:
a loss, or a gradient that was cast.

They are as precise as what they are computed of: about two units in the last place of the narrow type. What an
optimizer updates in place is as precise as it is wide, for it changes little in a step.
"""

CHANGES = (2, 2, 4, 4, 8, 8)
"""By how many units of rounding inputs differ from run to run, at most."""

EMPTY: Final[Mapping[str, DType]] = {}

MARGIN = 4.0
"""How many times what a few changed inputs show may be rounding."""

FEW = 0.1
"""Of more than this part of a result's elements, not more than `LITTLE` counts as rounding."""

LITTLE = 0.1
"""That much, as a part of the result's greatest element. Of a few elements, rounding may be all of it."""

NOISE = {"Float64": 1e-9, "Float32": 1e-4, "Float16": 2e-2, "BFloat16": 1e-1}
"""What counts as rounding at any rate, by element type: some results are nothing else, as of terms that cancel."""


class VerifyError(DistirError, ValueError):
    """Two programs that cannot be compared: their parameters or results do not belong together."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One result in both programs."""

    name: str
    max_abs_error: float
    """The greatest difference of two elements; `inf` where shapes differ or one is not a number."""
    tolerance: float
    """The greatest one allowed, in the element where most is allowed."""
    difference: str | None = None
    """Of results that do not agree: in how many elements, by how much, and where most."""

    @property
    def equal(self) -> bool:
        """Whether the results agree, each element within what is allowed of it."""
        return self.difference is None


@dataclass(frozen=True, slots=True)
class Verification:
    """What comparing two programs found."""

    results: tuple[Compared, ...]
    copies: int = 0
    """How many values that devices hold were compared besides: copies of results, and parts."""
    unclaimed: tuple[str, ...] = ()
    """Values of the transformed program that nothing relates to a result, so they were not compared."""
    not_widened: str | None = None
    """Why the programs could not be compared in Float64, where rounding hides nothing; None if they were."""

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

    Programs whose floats are Float32 run in Float64, if they can. `tolerance` is a part of a result's greatest element,
    by default as fits the element type; elements that are further off are right where rounding changes them as much,
    but not more than `most_rounding`. Of a program on a mesh that of every device is run.
    `bind` gives sizes to named dimensions, and values to host parameters; a program whose results take more than
    `max_bytes` at once is not run. Raises VerifyError where parameters or results do not belong together, ProgramError
    if one of the programs does not check, analysis.InputError where a parameter of the original has no type, or a named
    dimension no size, and for `max_bytes`.
    """
    original, transformed = erase(original), expand(transformed)
    inputs = random_inputs(original, seed, bind or {})
    inputs |= {name: value for name, value in (bind or {}).items() if name in inputs}
    runs = _Runs(original, transformed, inputs, load, max_bytes)
    if float_types(original) == float_types(transformed) == {FLOAT32}:
        try:
            return runs.in_float64().compared(tolerance)
        except (ProgramError, TooLargeError) as error:
            return replace(runs.compared(tolerance), not_widened=_why(error))
    return runs.compared(tolerance)


def _why(error: ProgramError | TooLargeError) -> str:
    """Why a program does not run in Float64: an op gives Float32 whatever it is given, or memory is too small."""
    return error.diagnostics[0].message if isinstance(error, ProgramError) else str(error)


@dataclass(frozen=True, slots=True)
class _Exact:
    """Two programs in Float64: how their results compare, and those of the original."""

    rows: tuple[Compared, ...]
    values: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Two programs on the same inputs."""

    original: Module
    transformed: Module
    inputs: Mapping[str, Any]
    load: Load | None
    max_bytes: int | None

    def in_float64(self) -> _Runs:
        """The same in Float64.

        What is known of host values is computed in its own type, as `fold` does, so that its rounding is that of both:
        without calls, as what is known may be an argument of one.
        """
        original, transformed = folded(without_calls(self.original)), folded(without_calls(self.transformed))
        load = None if self.load is None else loaded_in_float64(self.load, (original, transformed))
        inputs = {name: array_in_float64(value) for name, value in self.inputs.items()}
        return _Runs(in_float64(original), in_float64(transformed), inputs, load, self.max_bytes)

    def compared(self, tolerance: float | None) -> Verification:
        """What comparing their results finds. Raises VerifyError, ProgramError and InputError."""
        entry = entry_of(self.original)
        expected = self.expected(self.inputs)
        inputs = list(self.inputs.values())
        returned, found = _executed(self.transformed, inputs, entry, self.load, self.max_bytes)
        if len(found) != len(expected):
            message = f"expected {len(expected)} results, as `@{entry.name}` had, found {len(found)}"
            raise VerifyError(f"{message}; is `@{entry.name}.gather` missing?")
        self.check_overflow(entry, expected, found)
        relative = _tolerances(self.original, entry, expected) if tolerance is None else [tolerance] * len(expected)
        values = [(e.value, f.value) for e, f in zip(expected, found, strict=True)]
        exact = self.exact() if tolerance is None else None
        unrounded = [output.value for output in exact.values] if isinstance(exact, _Exact) else [None] * len(expected)
        rows = [_compared(e.name, *values[i], relative[i], exact=unrounded[i]) for i, e in enumerate(expected)]
        doubtful = [i for i, row in enumerate(rows) if not row.equal and row.max_abs_error < math.inf]
        if doubtful:
            narrowed = cast_to(self.original, entry)
            changed = (perturbed(self.inputs, units, seed, narrowed) for seed, units in enumerate(CHANGES))
            others = [self.expected(inputs) for inputs in changed]
            for i in doubtful:
                row = rows[i].name, *values[i], relative[i], [other[i].value for other in others], unrounded[i]
                rows[i] = _compared(*row)
        differing = exact.rows if isinstance(exact, _Exact) else ()
        for i, row in enumerate(differing):
            if not row.equal and rows[i].equal:
                rows[i] = replace(row, difference=f"in Float64, {row.difference}")
        held = copies(self.transformed, self.original)
        for claim, error, difference in self._drifting(held, inputs, returned, found, relative):
            if rows[claim.of].equal:
                rows[claim.of] = replace(rows[claim.of], max_abs_error=error, difference=difference)
        why = exact if isinstance(exact, str) else None
        return Verification(tuple(rows), len(held.claims), held.unclaimed, why)

    def _drifting(
        self,
        held: CopyClaims,
        inputs: Sequence[Any],
        returned: Sequence[Output],
        found: Sequence[Output],
        relative: Sequence[float],
    ) -> Iterator[tuple[CopyClaim, float, str]]:
        """Copies and parts that are not what is gathered: by how much, and what to say of them."""
        placed: Sequence[Any] = ()
        if any(claim.replaces is not None for claim in held.claims):
            placed = [found[held.updated[i]].value if i in held.updated else v for i, v in enumerate(inputs)]
            placed = _scattered(self.transformed, placed, entry_of(self.original), self.load, self.max_bytes)
        for claim in held.claims:
            values = placed if claim.replaces is not None else [output.value for output in returned]
            due = [values[i] for i in ((claim.replaces,) if claim.replaces is not None else claim.like)]
            copy, whole, tolerance = returned[claim.returned], found[claim.of].value, relative[claim.of]
            compared = [_compared(copy.name, value, copy.value, tolerance, whole=whole) for value in due]
            if not any(row.equal for row in compared):
                row = compared[0]
                yield claim, row.max_abs_error, f"its copy or part `%{copy.name}`: {row.difference}"

    def check_overflow(self, entry: Function, expected: Sequence[Output], found: Sequence[Output]) -> None:
        """Raises VerifyError where gradients overflow in one of the programs, which leaves out the step, alone."""
        left_out = [_is_left_out(entry, self.inputs, outputs) for outputs in (expected, found)]
        if left_out[0] != left_out[1]:
            which = "the original" if left_out[0] else "the transformed program"
            message = f"cannot be compared: gradients overflow in {which} alone, which leaves out its step"
            raise VerifyError(f"{message}; try another `--seed`, or a smaller `loss_scale`")

    def exact(self) -> _Exact | str | None:
        """What both programs compute without rounding, or why it is not computed; None where it is nothing else."""
        floats = float_types(self.original)
        if not floats & WIDENED or floats <= {FLOAT32, FLOAT64}:
            return None
        wide = self.in_float64()
        try:
            return _Exact(wide.compared(None).results, wide.expected(wide.inputs))
        except (ProgramError, TooLargeError) as error:
            return _why(error)

    def expected(self, inputs: Mapping[str, Any]) -> tuple[Output, ...]:
        return execute(self.original, inputs, entry_of(self.original).name, self.load, self.max_bytes)


def _is_left_out(entry: Function, inputs: Mapping[str, Any], outputs: Sequence[Output]) -> bool:
    """Whether a step with a loss scale changes no weight, or counts no step with finite gradients."""
    body = [*ops_in(entry)]
    if not any(s.op == "GradientFactor" and len(s.args) > 1 for s in body):
        return False
    values = dict(zip(entry.returned, (output.value for output in outputs), strict=True))
    counts = [s.results[1] for s in body if s.op == "LossScale" and s.results[1] in values]
    if counts:
        return all(values[name] == 0 for name in counts)
    trained = {p.name for p in entry.params if is_trained(p)}
    updates = [(s.args[0], s.results[0]) for s in body if s.args and s.args[0] in trained and s.results[0] in values]
    return bool(updates) and all(_difference(inputs[str(old)], values[new])[1] == 0 for old, new in updates)


def meant(
    module: Module, entry: str, inputs: Mapping[str, Any], load: Load | None = None, max_bytes: int | None = None
) -> tuple[Output, ...] | None:
    """What a program with narrow types gives in Float64; None where it has none, or that cannot be computed."""
    floats = float_types(module)
    if not floats & WIDENED or floats <= {FLOAT32, FLOAT64}:
        return None
    wide = {name: array_in_float64(value) for name, value in inputs.items()}
    loaded = None if load is None else loaded_in_float64(load, (module,))
    try:
        return execute(in_float64(module), wide, entry, loaded, max_bytes)
    except (ProgramError, TooLargeError):
        return None


def own_rounding(expected: Any, exact: Any) -> float:
    """How far rounding moves an element of a result, judged by how far it has moved the result itself."""
    return MARGIN * _difference(exact, expected)[1]


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
    return _executed(module, inputs, original, load, max_bytes)[1]


def _executed(
    module: Module, inputs: Sequence[Any], original: Function, load: Load | None, max_bytes: int | None
) -> tuple[tuple[Output, ...], tuple[Output, ...]]:
    """What the entry function returns on all devices, and what is gathered of it. Raises as `distributed`."""
    entry = module.entry(original.name) or entry_of(module)
    gather = f"{entry.name}.gather"
    collective = next((s.op for s in ops_in(module) if represented(s.op, s.attrs)), None)
    if collective is not None:
        message = f"one device represents others (`{collective}`), whose parts of parameters and results are not there"
        raise VerifyError(f"{message}; verify what the same steps give without `representative=true`")
    values = _scattered(module, inputs, original, load, max_bytes)
    if len(values) != len(entry.params):
        message = f"`@{entry.name}` expected {len(entry.params)} parameters, found {len(values)} values for them"
        raise VerifyError(f"{message}; is `@{entry.name}.scatter` missing?")
    outputs = execute(module, values, entry.name, load, max_bytes)
    if gather not in module.functions:
        return outputs, outputs
    return outputs, execute(module, [output.value for output in outputs], gather, load, max_bytes)


def _scattered(
    module: Module, inputs: Sequence[Any], original: Function, load: Load | None, max_bytes: int | None
) -> list[Any]:
    """The parameters of the entry function, for those of the program that it was made from."""
    scatter = f"{(module.entry(original.name) or entry_of(module)).name}.scatter"
    if scatter not in module.functions:
        return list(inputs)
    return [output.value for output in execute(module, list(inputs), scatter, load, max_bytes)]


def reference(original: Module, words: Sequence[str], keywords: Mapping[str, Any] | None = None) -> Module:
    """What the result of steps is to be compared with: the original, or what the last step made that changes meaning.

    Raises StepError for steps that do not exist.
    """
    from distir.transform.all_steps import parse_steps  # all steps are looked for only where words are read

    applications = parse_steps(words, keywords)
    changing = [i for i, application in enumerate(applications) if application.step.changes_results]
    return _applied(original, applications[: changing[-1] + 1] if changing else [])


def _applied(module: Module, applications: Sequence[Application]) -> Module:
    for application in applications:
        module = application(module)
    return module


def largest_difference(expected: Any, found: Any) -> tuple[float, float]:
    """Of two arrays: the greatest difference of two elements, and the greatest that needs no further question."""
    from distir.ops import dtype_of

    largest, difference = _difference(expected, found)
    return difference, TOLERANCES.get(dtype_of(expected).name, 0.0) * largest


def perturbed(
    values: Mapping[str, Any], units: int, seed: int, narrowed: Mapping[str, DType] = EMPTY
) -> dict[str, Any]:
    """The inputs with each floating-point element moved by up to `units` roundings, up or down.

    `narrowed`: by input, the narrower element type that the program casts it to: then the roundings are of that type.
    """
    from distir.ops import dtype_of, numpy_dtype
    from distir.ops.numeric import np

    draw: Any = np.random.default_rng(seed)

    def moved(value: Any, to: DType | None) -> Any:
        if isinstance(value, tuple):
            return tuple(moved(item, to) for item in cast("tuple[Any, ...]", value))
        if not hasattr(value, "shape") or dtype_of(value).kind != "float":
            return value
        unit = max(_rounding_unit(dtype) for dtype in (value.dtype, *(() if to is None else (numpy_dtype(to),))))
        step: Any = unit * units * draw.uniform(-1, 1, value.shape)
        return (value.astype(np.float64) * (1 + step)).astype(value.dtype)

    return {name: moved(value, narrowed.get(name)) for name, value in values.items()}


def with_rounding(expected: Any, found: Any, allowed: Any, moved: Any) -> Any:
    """By element: what is allowed of it with what rounding may be, if `allowed` is without that.

    `moved`: how far rounding moves an element, as was found. A term that it leaves out, as behind a ReLU, may move few
    elements far; of a chaotic program, nothing can be said.
    """
    from distir.ops.numeric import np

    far, near = most_rounding(expected, few=True), most_rounding(expected, few=False)
    little = allowed + np.minimum(moved, near)
    few = np.count_nonzero(_apart(expected, found) > little) <= FEW * expected.size
    return allowed + np.minimum(moved, far) if few else little


def most_rounding(expected: Any, *, few: bool) -> float:
    """The most by which rounding is said to move an element of a result: one of a few, or of many."""
    from distir.ops import dtype_of

    greatest, _ = _difference(expected, expected)
    return max(greatest if few else LITTLE * greatest, NOISE.get(dtype_of(expected).name, 0.0))


def too_sensitive(expected: Any, found: Any, others: Iterable[Any]) -> str:
    """What to say of results that are wrong, if changed inputs change them by more than what counts as rounding."""
    if expected.shape != found.shape:
        return ""
    moved, most = float(spread_of(expected, others).max(initial=0.0)), most_rounding(expected, few=False)
    if moved <= most:
        return ""
    said = (
        f"inputs changed in their last digits change it by up to {moved / MARGIN:.1e}, but of more than a few elements"
    )
    return f"{said} at most {most:.1e} counts as rounding; it cannot be distinguished from errors: try another --seed"


def spread_of(expected: Any, others: Iterable[Any]) -> Any:
    """By element: how far changed inputs move it, with a margin."""
    from distir.ops.numeric import np

    a = expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        spread = np.max([np.abs(other.astype(np.float64) - a) for other in others], axis=0)
    return MARGIN * np.where(np.isfinite(spread), spread, 0.0)


def _rounding_unit(dtype: Any) -> float:
    """Half of the distance from 1 to the next number of this type."""
    import ml_dtypes

    info = cast("Any", ml_dtypes.finfo(dtype))
    return float(info.eps) / 2


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


def _tolerances(module: Module, entry: Function, results: Sequence[Output]) -> list[float]:
    """By result of a program: what its tolerance is, which may follow from narrow weights."""
    weights = [leaf for p in entry.params if is_trained(p) for leaf in types.leaves(p.type)]
    computed = {*_dtypes(weights), *(dtype.name for dtype in cast_to(module, entry).values())}
    narrow = max((FROM_NARROW.get(name, 0.0) for name in computed), default=0.0)
    updated = {
        statement.results[i]
        for statement in ops_in(entry)
        if isinstance(inplace := OPS[statement.op].inplace, dict)
        for i in inplace
        if i < len(statement.results)
    }
    found: list[float] = []
    for arg, result in zip(entry.returned, results, strict=True):
        dtypes = _dtypes(types.leaves(result.type))
        own = [TOLERANCES.get(name, 0.0) for name in dtypes]
        if arg in updated:
            own = [FROM_NARROW.get(name, tolerance) for name, tolerance in zip(dtypes, own, strict=True)]
        else:
            own.append(narrow)
        found.append(max(own, default=0.0))
    return found


Origin = Union[str, "tuple[Origin | None, ...]", None]
"""The weight that a value is, or those of a tuple's items."""


def cast_to(module: Module, entry: Function) -> dict[str, DType]:
    """By weight of the entry function that is cast to a narrower floating-point type: the narrowest such type.

    Also where tuples hand weights on to functions, such as a pipeline's passes.
    """
    widths = {p.name: max((_bytes(leaf) for leaf in types.leaves(p.type)), default=0) for p in entry.params}
    found: dict[str, DType] = {}
    waiting: list[tuple[Function, dict[str, Origin]]] = [
        (entry, {p.name: p.name for p in entry.params if is_trained(p)})
    ]
    seen: set[tuple[str, tuple[Origin, ...]]] = set()
    while waiting:
        function, origins = waiting.pop()
        for statement in function.body:
            if not isinstance(statement, (Apply, Call)):
                continue
            given = tuple(origins.get(arg) if isinstance(arg, str) else None for arg in statement.args)
            if not any(given):
                continue
            if isinstance(statement, Call):
                if (statement.function, given) not in seen:
                    seen.add((statement.function, given))
                    callee = module.functions[statement.function]
                    waiting.append((callee, {p.name: of for p, of in zip(callee.params, given, strict=True)}))
                continue
            first, to = given[0], statement.attrs.get("to")
            if statement.op == "MakeTuple":
                origins[statement.results[0]] = given
            elif statement.op == "UnpackTuple":
                items = first if isinstance(first, tuple) else (first,) * len(statement.results)
                origins |= zip(statement.results, items, strict=True)
            elif statement.op == "Cast" and isinstance(first, str) and isinstance(to, DType):
                is_narrower = to.kind == "float" and to.bytes < widths[first]
                found |= {first: min(found.get(first, to), to, key=lambda dtype: dtype.bytes)} if is_narrower else {}
    return found


def _bytes(leaf: Type) -> int:
    return leaf.dtype.bytes if isinstance(leaf, TensorType) and leaf.dtype is not None else 0


def _dtypes(leaves: Iterable[Type]) -> list[str]:
    return [leaf.dtype.name for leaf in leaves if isinstance(leaf, TensorType) and leaf.dtype is not None]


def _compared(
    name: str,
    expected: Any,
    found: Any,
    relative: float,
    others: Sequence[Any] = (),
    exact: Any = None,
    whole: Any = None,
) -> Compared:
    """One result. `others`: what the original gives of perturbed inputs; `exact`: what it gives in Float64.

    `whole`: of a part, the value whose greatest element the tolerance is a part of.
    """
    error, most = 0.0, 0.0
    said: list[str] = []
    moved = [[part for _, part, _ in _parts(other, other)] for other in others]
    unrounded = None if exact is None else [part for _, part, _ in _parts(exact, exact)]
    wholes = None if whole is None else [part for _, part, _ in _parts(whole, whole)]
    for number, (path, a, b) in enumerate(_parts(expected, found)):
        largest, difference = _difference(a, b)
        if wholes is not None and a is not None:
            largest, _ = _difference(wholes[number], wholes[number])
        allowed: Any = relative * largest
        known = [parts[number] for parts in moved]
        if moved and difference > relative * largest:
            allowed = with_rounding(a, b, allowed, spread_of(a, known))
        if unrounded is not None and difference > relative * largest:
            allowed = with_rounding(a, b, allowed, own_rounding(a, unrounded[number]))
        error, most = max(error, difference), max(most, _greatest(allowed))
        if sentence := described(a, b, allowed):
            reason = too_sensitive(a, b, known) if moved else ""
            said.append(f"{path}{sentence}; {reason}" if reason else path + sentence)
    return Compared(name, error, most, "; ".join(said) or None)


def _greatest(allowed: Any) -> float:
    from distir.ops.numeric import np

    return float(np.max(allowed, initial=0.0))


def _difference(expected: Any, found: Any) -> tuple[float, float]:
    """Of two arrays: the greatest element, and the greatest difference."""
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
