"""The reference executor: a program run as a sequential one, on numpy arrays (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from distir.analysis.checking import check, check_entry
from distir.analysis.footprint import footprint
from distir.analysis.indices import Bounds, Leaf, index_bounds
from distir.analysis.initial import deviation, near_one
from distir.analysis.interpreter import interpret
from distir.analysis.size import MOST_RUN, refuse_beyond
from distir.analysis.values import Values, abstract
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import types as codes
from distir.diagnostics.quantities import show_bytes
from distir.ir import (
    HOST,
    AnyType,
    Apply,
    DType,
    External,
    Function,
    Module,
    Param,
    Site,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.calls import inlined_sizes
from distir.ir.errors import DistirError
from distir.ops import Reject, Value, dtype_of, numpy_dtype, to_dense, type_of
from distir.ops.numeric import np

Inputs = Mapping[str, Any] | Sequence[Any]
"""Arrays by parameter, or in the order of the parameters; tuples of arrays for parameters that are tuples."""

Load = Callable[[External], Any]
"""From a reference to a tensor beside the program to its array. Raises InputError where there is none."""


class InputError(DistirError, ValueError):
    """Inputs that do not fit the entry function's parameters."""


class TooLargeError(InputError):
    """Results that would take more memory than is allowed."""


@dataclass(frozen=True, slots=True)
class Output:
    """One result: its type, which tells where it lives, and its value, an array or a tuple of values."""

    name: str
    type: Type
    value: Any


def execute(
    module: Module,
    inputs: Inputs,
    function: str | None = None,
    load: Load | None = None,
    max_bytes: int | None = None,
) -> tuple[Output, ...]:
    """Run the entry function (or `function`) on inputs.

    A result has the name of the value returned; one that is returned again, or is a literal, gets a number. With
    `max_bytes`, nothing is computed if the results would take more memory at once. Raises ProgramError if the module
    does not check for these inputs, InputError if they do not fit the parameters, TooLargeError for `max_bytes`,
    LookupError if there is no such function.
    """
    entry, analysis = check_entry(module, function)
    refuse_beyond(inlined_sizes(module)[entry.name], MOST_RUN, entry.name, "the reference executor runs")
    vs = _arrays(entry, inputs)
    instance = analysis.instance(entry, [_described(p.type, v) for p, v in zip(entry.params, vs, strict=True)])
    if max_bytes is not None and (needed := footprint(analysis.domain, instance)) > max_bytes:
        raise TooLargeError(
            f"`@{entry.name}` needs {show_bytes(needed)} of memory, {show_bytes(max_bytes)} are allowed"
        )
    domain = _Located(module, load)
    rho = interpret(entry, vs, domain)
    returned = zip(result_names(entry), instance.state.returned, rho.returned, strict=True)
    return tuple(Output(name, type_of(w), domain.array(v)) for name, w, v in returned)


class _Located(Values):
    """The concrete domain; what an op finds wrong with its operands' values is said with its place."""

    def apply(self, op: Apply, vs: tuple[Any, ...]) -> Sequence[Any]:
        try:
            return super().apply(op, vs)
        except InputError:
            raise
        except (IndexError, ValueError, ArithmeticError, TypeError) as error:  # numpy's word on values it cannot take
            reject = Reject(codes.BAD_VALUE, f"`{op.op}` cannot be computed: {error}")
        except Reject as rejection:
            reject = rejection
        sites = (Site(f.name, i) for f in self.module for i, s in enumerate(f.body) if s is op)
        raise ProgramError([Diagnostic(reject.code, next(sites), reject.message, (), reject.help)])


def result_names(function: Function) -> list[str]:
    """A name for each result, all different."""
    found: dict[str, None] = {}
    for arg in function.returned:
        hint = arg if isinstance(arg, str) else "result"
        name, number = hint, 0
        while name in found:
            number += 1
            name = f"{hint}_{number}"
        found[name] = None
    return list(found)


def random_inputs(
    module: Module,
    seed: int,
    sizes: Mapping[str, int],
    function: str | None = None,
    given: Collection[str] = (),
) -> dict[str, Any]:
    """Inputs for every parameter of the entry function (or `function`) that is not `given`, the same for the same seed.

    Floats are normal: weights such that values keep their size through any depth (`initial.deviation`), scales and
    variances of normalisation near 1, others of deviation 0.1, what is `{state}` or `{buffer}` not negative. Integers
    that are indices or labels are any of what they choose from, as is found by following them through the program; an
    eighth of labels is ignored where the loss says how. Others of one byte are any number, wider ones 0 or 1, as masks
    are; scalars that are `{state}` are 1, for they may be step counts. Raises InputError where a parameter's type
    leaves something open, LookupError if there is no such function.
    """
    entry = module.entry(function)
    if entry is None:
        raise LookupError("the module has no function" if function is None else f"there is no function `@{function}`")
    stated = {p: types.substitute(p.type, sizes) for p in entry.params if p.name not in given}
    for param, found in stated.items():
        _require_shapes(param, found)
    generator = np.random.default_rng(seed)
    bounds, ones = _bounds(module, entry, sizes), near_one(module, entry)
    values = {p.name: _random(generator, p, t, 1.0 if p.name in ones else 0.0, bounds) for p, t in stated.items()}
    first = {p.name: _initial(p, t, values) for p, t in stated.items() if "initial" in p.roles}
    return {**values, **first}


def _initial(param: Param, type: Type, values: Mapping[str, Any]) -> Any:
    """What state begins as: a number, or a weight of the program; as it was drawn where there is no such weight."""
    first = param.roles["initial"]
    if isinstance(first, str):
        return _converted(values[first], type) if first in values else values[param.name]
    assert isinstance(type, TensorType)
    assert type.dtype is not None
    return np.full([dim for dim in type.shape or () if isinstance(dim, int)], first).astype(numpy_dtype(type.dtype))


def _converted(value: Any, type: Type) -> Any:
    """The value in the element types of a type."""
    if isinstance(type, TupleType):
        return tuple(_converted(item, inner) for item, inner in zip(value, type.items, strict=True))
    assert isinstance(type, TensorType)
    assert type.dtype is not None
    return value.astype(numpy_dtype(type.dtype))


def _bounds(module: Module, function: Function, sizes: Mapping[str, int]) -> Mapping[Leaf, Bounds]:
    """What integers may be; nothing is known of a program that does not check."""
    try:
        analysis = check(module, late=True)
        args = [types.substitute(p.type, sizes) for p in function.params]
        return index_bounds(analysis.domain, analysis.instance(function, args))
    except ProgramError:
        return {}


def _require_shapes(param: Param, type: Type) -> None:
    for leaf in types.leaves(type):
        if not isinstance(leaf, TensorType) or leaf.dtype is None or leaf.shape is None:
            raise InputError(f"`%{param.name}` needs a type to be given random values, found `{leaf}`")
        if not all(isinstance(dim, int) for dim in leaf.shape):
            raise InputError(f"`%{param.name}` needs a size for each dimension, found `{leaf}`; bind the named ones")


def _random(
    generator: Any, param: Param, type: Type, centre: float, bounds: Mapping[Leaf, Bounds], path: tuple[int, ...] = ()
) -> Any:
    """Numbers for a parameter, or for a part of it that is a tuple; floats around `centre`."""
    if isinstance(type, TupleType):
        items = enumerate(type.items)
        return tuple(_random(generator, param, item, centre, bounds, (*path, k)) for k, item in items)
    assert isinstance(type, TensorType)
    assert type.dtype is not None
    shape = [dim for dim in type.shape or () if isinstance(dim, int)]
    state = not {"state", "buffer"}.isdisjoint(param.roles)
    if type.dtype.kind == "float":
        values = generator.normal(centre, deviation(param, shape), shape)
        return np.asarray(np.abs(values) if state else values).astype(numpy_dtype(type.dtype))
    return _integers(generator, type.dtype, shape, state, bounds.get((param.name, path)))


IGNORED = 1 / 8
"""Of labels: how many are ignored."""


def _integers(generator: Any, dtype: DType, shape: Sequence[int], state: bool, bound: Bounds | None) -> Any:
    if state and not shape:
        return np.ones(shape, numpy_dtype(dtype))
    bound = bound or _any(dtype)
    values = np.asarray(generator.integers(bound.low, bound.high, size=shape))
    if bound.also:
        ignored = np.asarray(generator.random(shape) < IGNORED)
        ignored.flat[:1] = False  # a mean over no labels is no number
        values[ignored] = generator.choice(sorted(bound.also))
    return values.astype(numpy_dtype(dtype))


def _any(dtype: DType) -> Bounds:
    """What integers are of which nothing is known."""
    if dtype.kind == "bool" or dtype.bytes > 1:
        return Bounds(0, 2)
    bits = int("".join(filter(str.isdigit, dtype.name)))
    return Bounds(0, 1 << bits) if dtype.kind == "uint" else Bounds(-(1 << bits - 1), 1 << bits - 1)


def _arrays(function: Function, inputs: Inputs) -> list[Any]:
    """The inputs in the order of the parameters, of their element types and shapes."""
    names = [p.name for p in function.params]
    if isinstance(inputs, Mapping):
        by_name = {name.removeprefix("%"): value for name, value in inputs.items()}
        unknown = [name for name in by_name if name not in names]
        missing = [name for name in names if name not in by_name]
        if unknown or missing:
            expected = ", ".join(f"`{name}`" for name in names)
            problem = f"there is no `{unknown[0]}`" if unknown else f"`{missing[0]}` is missing"
            raise InputError(f"`@{function.name}` expected inputs {expected}: {problem}")
        values = [by_name[name] for name in names]
    else:
        values = list(inputs)
        if len(values) != len(names):
            raise InputError(f"`@{function.name}` expected {len(names)} inputs, found {len(values)}")
    return [_array(p.name, p.type, v) for p, v in zip(function.params, values, strict=True)]


def _array(name: str, type: Type, value: Any) -> Any:
    if isinstance(type, TupleType):
        items = cast("Sequence[Any]", value) if isinstance(value, (tuple, list)) else ()
        if len(items) != len(type.items):
            raise InputError(f"`%{name}` expected a tuple of {len(type.items)}")
        return tuple(_array(name, t, v) for t, v in zip(type.items, items, strict=True))
    if isinstance(type, AnyType):
        return tuple(cast("Sequence[Any]", value)) if isinstance(value, tuple) else np.asarray(value)
    if isinstance(value, (bool, int, float, list, tuple)) and type.dtype is not None:
        value = np.asarray(value, dtype=numpy_dtype(type.dtype))
    array = np.asarray(value)
    try:
        found = TensorType(dtype_of(array), tuple(array.shape), None)
    except KeyError:
        raise InputError(f"`%{name}` expected `{type}`, found an array of {array.dtype}") from None
    if types.meet(_unnamed(type), found) is None:
        raise InputError(f"`%{name}` expected `{type}`, found `{found}`")
    return array


def _unnamed(type: TensorType) -> TensorType:
    """The type with named dimensions open: whether they agree is for the checker to say."""
    shape = None if type.shape is None else tuple(d if isinstance(d, int) else None for d in type.shape)
    return TensorType(type.dtype, shape, None)


def _described(stated: Type, value: Any) -> Value:
    """What the checker gets of an input: its type, or its value where that is known before the program runs."""
    return to_dense(value) if types.device_of(stated) == HOST and not isinstance(value, tuple) else abstract(value)
