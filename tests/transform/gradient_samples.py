"""Gradients found by rules, and by central differences, of one op at a time."""

from __future__ import annotations

import numpy as np

from distir.analysis import Values, interpret
from distir.ir import (
    DISCARD,
    HOST,
    UNKNOWN,
    Apply,
    Function,
    Literal,
    Module,
    Param,
    Return,
    TensorType,
    TupleType,
    dims,
    types,
)
from distir.ops import canonical, type_of
from distir.ops.backward import Tape, operand_gradients
from distir.syntax import parse_example


def parsed(text):
    """An example of an op in Float64: its parameters, and the statement with a name for every result."""
    params, statement = parse_example(text.replace("Float32", "Float64"), canonical)
    names = tuple(name or f"unnamed_{i}" for i, name in enumerate(statement.results))
    return params, Apply(names, statement.op, statement.args, statement.attrs)


def is_float(type):
    leaves = [leaf for leaf in types.leaves(type) if isinstance(leaf, TensorType) and leaf.device != HOST]
    return any(leaf.dtype is not None and leaf.dtype.kind == "float" for leaf in leaves)


def random_value(type, rng):
    """Numbers that are apart from each other and from the places where functions have kinks; indices 0 and 1."""
    if isinstance(type, TupleType):
        return tuple(random_value(item, rng) for item in type.items)
    size = int(np.prod(type.shape))
    if type.dtype.kind == "bool":
        return rng.random(type.shape) < 0.5
    if type.dtype.kind != "float":
        return rng.integers(0, 2, type.shape).astype(type.dtype.name.lower())
    spaced = np.linspace(0.35, 2.65, size) if size > 1 else np.array([0.7])
    signs = rng.choice([-1.0, 1.0], size)
    return (rng.permutation(spaced) * signs).reshape(type.shape)


def rule_gradients(params, statement, values, dys, weaken=lambda known: known):
    """The gradients of the parameters that are floats, by the op's rule, run on values.

    `weaken`: what the rule is told of a type.
    """
    tape = Tape({p.name: weaken(p.type) for p in params})
    _, results = forward(params, statement, values)
    devices = {p.type.device for p in params if isinstance(p.type, TensorType)} or {1}
    for name, value in results.items():
        tape.values[name] = weaken(_type(value, min(devices)))
    seeds = {name: f"d{name}" for name in dys}
    tape.values.update({seeds[name]: tape.values[name] for name in dys})
    active = [p.name for p in params if is_float(p.type)]
    found = operand_gradients(statement, [seeds.get(name) for name in statement.results], active, tape)
    by_param = {name: [] for name in active}
    for arg, gradient in zip(statement.args, found, strict=False):
        if isinstance(arg, str) and arg in by_param and gradient is not None:
            by_param[arg].append(gradient)
    body = tape.take([g for gradients in by_param.values() for g in gradients])
    inputs = {**values, **results, **{seeds[name]: dy for name, dy in dys.items()}}
    function = Function("back", tuple(Param(n, UNKNOWN) for n in inputs), (*body, Return(())))
    state = interpret(function, list(inputs.values()), Values(Module([function])))
    array = Values(Module()).array
    return {
        name: None if not gradients else _sum([array(state[g] if isinstance(g, str) else g) for g in gradients])
        for name, gradients in by_param.items()
    }


def forward(params, statement, values):
    """The results of the statement by name."""
    function = Function("there", params, (statement, Return(())))
    state = interpret(function, [values[p.name] for p in params], Values(Module([function])))
    return state, {name: state[name] for name in statement.results if name != DISCARD}


def numerical_gradients(params, statement, values, dys, step=1e-6):
    """The gradients of `sum(dy * y)` by central differences."""

    def loss(changed):
        _, results = forward(params, statement, changed)
        return sum(_dot(results[name], dy) for name, dy in dys.items())

    return {p.name: _slopes(loss, values, p.name, values[p.name], (), step) for p in params if is_float(p.type)}


def named_dims(type):
    """The type with a name for every dimension but 1."""
    return _each_dim(type, lambda dim: dims.named(f"n{dim}") if dim > 1 else dim)


def open_dims(type):
    """The type without its dimensions."""
    return _each_dim(type, lambda _: None)


def _each_dim(type, change):
    if isinstance(type, TupleType):
        return TupleType(tuple(_each_dim(item, change) for item in type.items))
    return TensorType(type.dtype, tuple(map(change, type.shape)), type.device)


def _slopes(loss, values, name, value, path, step):
    if isinstance(value, tuple):
        return tuple(_slopes(loss, values, name, item, (*path, i), step) for i, item in enumerate(value))
    slopes = np.zeros(value.shape)
    for index in np.ndindex(value.shape):
        if value.dtype.kind != "f":
            continue
        sides = []
        for sign in (1, -1):
            moved = value.copy()
            moved[index] += sign * step
            sides.append(loss({**values, name: _put(values[name], path, moved)}))
        slopes[index] = (sides[0] - sides[1]) / (2 * step)
    return slopes


def _put(whole, path, part):
    if not path:
        return part
    return tuple(_put(item, path[1:], part) if i == path[0] else item for i, item in enumerate(whole))


def _dot(y, dy):
    if isinstance(y, tuple):
        return sum(map(_dot, y, dy))
    return np.sum(np.where(np.isfinite(y), y, 0) * dy)


def _sum(values):
    if isinstance(values[0], tuple):
        return tuple(_sum(list(items)) for items in zip(*values, strict=True))
    return sum(values[1:], start=values[0])


def _type(value, device):
    if isinstance(value, tuple):
        return TupleType(tuple(_type(item, device) for item in value))
    described = type_of(_literal(value))
    return TensorType(described.dtype, described.shape, device)


def _literal(value):
    from distir.ops import to_dense

    return Literal(to_dense(np.asarray(value)))


def prepared(text):
    """The parameters and the statement of an example, values, and gradients of its results."""
    params, statement = parsed(text)
    rng = np.random.default_rng(1)
    values = {p.name: random_value(p.type, rng) for p in params}
    if statement.op in ("Log", "Sqrt", "Pow"):
        values = {name: np.abs(value) for name, value in values.items()}
    _, results = forward(params, statement, values)
    return params, statement, values, {n: _seed(y, rng) for n, y in results.items() if _has_floats(y)}


def _seed(y, rng):
    return tuple(_seed(item, rng) for item in y) if isinstance(y, tuple) else rng.normal(size=y.shape)


def _has_floats(y):
    return any(map(_has_floats, y)) if isinstance(y, tuple) else y.dtype == np.float64
