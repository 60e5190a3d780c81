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

MORE = """
%c = Add(%a: Tensor[Float64, (2, 1, 3), 1], %b: Tensor[Float64, (4, 1), 1])
%c = Sub(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (2, 3), 1])
%c = Mul(%a: Tensor[Float64, (2, 3), 1], %a)
%c = Div(%a: Float64[1], %b: Tensor[Float64, (2, 3), 1])
%c = Pow(%a: Tensor[Float64, (2, 3), 1], 3.0)
%c = Pow(%a: Tensor[Float64, (2, 3), 1], 2)
%c = Max(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1], 0.5)
%c = Min(%a: Tensor[Float64, (2, 3), 1])
%c = Sum(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1], %a)
%c = Mean(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (1, 3), 1], %d: Float64[1])
%y = Clip(%x: Tensor[Float64, (2, 3), 1], %a: Float64[1], %b: Float64[1])
%y = Clip(%x: Tensor[Float64, (2, 3), 1], _, 0.6)
%y = Cast[to = Float64](%x: Tensor[Float64, (2, 3), 1])
%y = Identity(%x: Tuple[Tensor[Float64, (2, 3), 1], Float64[1]])
%y = Gelu[approximate = "tanh"](%x: Tensor[Float64, (5,), 1])
%y = Softmax[axis = 0](%x: Tensor[Float64, (3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (3, 4), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (3,), 1], %b: Tensor[Float64, (2, 3, 4), 1])
%c = MatMul(%a: Tensor[Float64, (5, 2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = MatMul(%a: Tensor[Float64, (2, 1, 2, 3), 1], %b: Tensor[Float64, (4, 3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (4, 3, 2), 1])
%c = MatMul(%a: Tensor[Float64, (2, 3, 4), 1], %b: Tensor[Float64, (1, 4, 2), 1])
%y = Gemm[alpha = 0.5, beta = 2.0](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3, 4), 1], %c: Tensor[Float64, (2, 1), 1])
%y = Gemm[transA = true, alpha = 0.5](%a: Tensor[Float64, (3, 2), 1], %b: Tensor[Float64, (3, 4), 1], %c: Float64[1])
%y = Gemm[transA = true, transB = true](%a: Tensor[Float64, (3, 2), 1], %b: Tensor[Float64, (4, 3), 1], %c: Tensor[Float64, (1, 4), 1])
%y = ReduceSum(%x: Tensor[Float64, (2, 3, 4), 1], [0, -1])
%y = ReduceSum[keepdims = false](%x: Tensor[Float64, (2, 3, 4), 1], [0, -1])
%y = ReduceSum[noop_with_empty_axes = true](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceMean[keepdims = false](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceMean[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [1])
%y = ReduceMax[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = ReduceMin(%x: Tensor[Float64, (2, 3), 1])
%y = ReduceProd[keepdims = false](%x: Tensor[Float64, (2, 3), 1])
%y = ReduceL2[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [1])
%y = ReduceLogSumExp[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = ReduceSumSquare[keepdims = false](%x: Tensor[Float64, (2, 3), 1], [0])
%y = CumSum[exclusive = true, reverse = true](%x: Tensor[Float64, (2, 3), 1], 1)
%v, %i = TopK[axis = 0, largest = false](%x: Tensor[Float64, (3, 2), 1], [2])
%y = Squeeze(%x: Tensor[Float64, (1, 3, 1), 1])
%y = Transpose[perm = [2, 0, 1]](%x: Tensor[Float64, (2, 3, 4), 1])
%y = Expand(%x: Tensor[Float64, (3, 1), 1], [2, 3, 4])
%y = Pad(%x: Tensor[Float64, (2, 3), 1], [1, -1, 0, 2], %v: Float64[1])
%y = Pad(%x: Tensor[Float64, (2, 3), 1], [1, 2], _, [-1])
%y = Slice(%x: Tensor[Float64, (5, 3), 1], [-3], [-1], [0])
%y = Slice(%x: Tensor[Float64, (5, 4), 1], [1, 3], [100, 0], [0, 1], [2, -1])
%y = Slice(%x: Tensor[Float64, (5,), 1], [3], [2])
%y = Slice(%x: Tensor[Float64, (1, 5, 1, 4), 1], [-1, 3], [-5, 0], [1, 3], [-2, -1])
%y = Concat[axis = 1](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 1), 1], %a)
%y = Concat[axis = -1](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 3), 1])
%y = Gather[axis = 1](%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (2, 2), 1])
%y = GatherElements[axis = 0](%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (4, 3), 1])
%y = GatherND(%x: Tensor[Float64, (2, 3), 1], %i: Tensor[Int64, (4, 2), 1])
%y = ScatterElements[reduction = "add"](%x: Tensor[Float64, (3, 3), 1], %i: Tensor[Int64, (2, 3), 1], %u: Tensor[Float64, (2, 3), 1])
%y = ScatterElements[reduction = "mul"](%x: Tensor[Float64, (3, 3), 1], %i: Tensor[Int64, (2, 3), 1], %u: Tensor[Float64, (2, 3), 1])
%y = ScatterND[reduction = "add"](%x: Tensor[Float64, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float64, (2, 5), 1])
%y = ScatterND(%x: Tensor[Float64, (4, 5), 1], [[0], [2]], %u: Tensor[Float64, (2, 5), 1])
%y = ScatterND[reduction = "max"](%x: Tensor[Float64, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float64, (2, 5), 1])
%y = OneHot[axis = 0](%i: Tensor[Int64, (2, 3), 1], 4, %v: Tensor[Float64, (2,), 1])
%w, %e = Route[top_k = 2, score = "sigmoid", scale = 2.0](%x: Tensor[Float64, (3, 6), 1], %b: Tensor[Float64, (6,), 1])
%w, %e = Route[top_k = 2, score = "sigmoid", normalize = false](%x: Tensor[Float64, (3, 6), 1])
%y = Permute(%x: Tensor[Float64, (3, 4), 1], [[0, -1], [1, 4], [3, 7]], %w: Tensor[Float64, (3, 2), 1], 8)
%y = Unpermute(%x: Tensor[Float64, (6, 4), 1], [[0, -1], [1, 4], [3, 5]], %w: Tensor[Float64, (3, 2), 1])
%y = Attention[q_num_heads = 2, kv_num_heads = 1, v_head_size = 2](%q: Tensor[Float64, (2, 2, 6), 1], %k: Tensor[Float64, (2, 3, 3), 1])
%y = RaggedMatMul[transW = true](%x: Tensor[Float64, (2, 5, 3), 1], %w: Tensor[Float64, (3, 2, 3), 1], [[2, 0, 2], [1, 4, 0]])
%y = RaggedMatMul[transW = true](%x: Tensor[Float64, (2, 6, 3), 1], %w: Tensor[Float64, (3, 2, 3), 1])
%y = RaggedExpand(%x: Tensor[Float64, (3, 2), 1], [[2, 0, 2], [1, 4, 0]], 5)
%y = RaggedSum(%x: Tensor[Float64, (2, 5, 3), 1], [[2, 0, 2], [1, 4, 0]])
%y = Where(%c: Tensor[Bool, (3,), 1], %x: Tensor[Float64, (2, 1), 1], %z: Float64[1])
%y = LayerNormalization[axis = 1](%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 4), 1])
%y = LayerNormalization[axis = 1](%x: Tensor[Float64, (2, 3, 4), 1], %s: Tensor[Float64, (3, 4), 1], %b: Tensor[Float64, (3, 4), 1])
%y = Attention(%q: Tensor[Float64, (1, 2, 3, 4), 1], %k: Tensor[Float64, (1, 2, 5, 4), 1], %v: Tensor[Float64, (1, 2, 5, 3), 1], %m: Tensor[Bool, (3, 5), 1])
%y = Attention[scale = 0.3, softcap = 2.0](%q: Tensor[Float64, (1, 4, 3, 2), 1], %k: Tensor[Float64, (1, 2, 3, 2), 1], %v: Tensor[Float64, (1, 2, 3, 2), 1])
%y = Attention[is_causal = true, window = 2](%q: Tensor[Float64, (2, 4, 5, 2), 1], %k: Tensor[Float64, (2, 2, 5, 2), 1], %v: Tensor[Float64, (2, 2, 5, 3), 1], _, %s: Tensor[Float64, (4,), 1])
%y = Attention(%q: Tensor[Float64, (1, 2, 3, 4), 1], %k: Tensor[Float64, (1, 2, 5, 4), 1], %v: Tensor[Float64, (1, 2, 5, 3), 1], %m: Tensor[Float64, (2, 1, 5), 1])
%y = RotaryEmbedding[interleaved = true, rotary_embedding_dim = 4](%x: Tensor[Float64, (2, 3, 2, 6), 1], %c: Tensor[Float64, (2, 2, 2), 1], %s: Tensor[Float64, (2, 2, 2), 1])
%y = RotaryEmbedding(%x: Tensor[Float64, (2, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])
%y = RotaryEmbedding[interleaved = true](%x: Tensor[Float64, (1, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])
%c = Einsum[equation = "...ij,...jk->...ik"](%a: Tensor[Float64, (2, 2, 3), 1], %b: Tensor[Float64, (2, 3, 4), 1])
%c = Einsum[equation = "ij,kl->il"](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (2, 3), 1])
%c = Einsum[equation = "bij,bij"](%a: Tensor[Float64, (2, 2, 3), 1], %a)
%c = Einsum[equation = "ij->"](%a: Tensor[Float64, (2, 3), 1])
%l = SoftmaxCrossEntropyLoss[reduction = "none"](%s: Tensor[Float64, (2, 3, 2), 1], %t: Tensor[Int64, (2, 2), 1])
%l, %p = SoftmaxCrossEntropyLoss[ignore_index = 0](%s: Tensor[Float64, (4, 3), 1], %t: Tensor[Int64, (4,), 1])
%l = MSELoss[reduction = "none"](%p: Tensor[Float64, (2, 3), 1], %t: Tensor[Float64, (2, 3), 1])
%y = Send[device = 2](%x: Tuple[Tensor[Float64, (2, 3), 1], Float64[1]])
%y_1, %y_2 = MPIAllreduce(%a: Tuple[Float64[1], Float64[1]], %b: Tuple[Float64[2], Float64[2]])
%y_1, %y_2 = MPIAlltoall[split_axis = 1](%x_1: Tensor[Float64, (2, 4), 1], %x_2: Tensor[Float64, (2, 4), 2])
%y = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q: Tensor[Float64, (2, 5, 8), 1], %k: Tensor[Float64, (2, 5, 8), 1], %v: Tensor[Float64, (2, 5, 8), 1])
%y = Attention[is_causal = true, window = 2](%q: Tensor[Float64, (2, 4, 3, 8), 1], %k: Tensor[Float64, (2, 2, 3, 8), 1], %v: Tensor[Float64, (2, 2, 3, 8), 1], _, %s: Tensor[Float64, (4,), 1])
%y = Clip(%x: Tensor[Float64, (2, 3), 1], -0.3, 0.4)
%y = CumSum[exclusive = true](%x: Tensor[Float64, (2, 3), 1], 1)
%c = Div(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%y = Elu[alpha = 0.7](%x: Tensor[Float64, (2, 3), 1])
%y = Gather[axis = 1](%x: Tensor[Float64, (3, 5), 1], [0, 2, 0])
%y = GatherElements[axis = 1](%x: Tensor[Float64, (2, 4), 1], [[0, 1, 0], [3, 3, 2]])
%y = GatherND(%x: Tensor[Float64, (4, 5), 1], [[0, 1], [3, 2], [0, 1]])
%y = Gemm[transB = true, alpha = 0.5, beta = 2.0](%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (4, 3), 1], %c: Tensor[Float64, (4,), 1])
%y = LogSoftmax[axis = 0](%x: Tensor[Float64, (2, 3), 1])
%c = Mean(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = Mod[fmod = true](%a: Tensor[Float64, (2, 3), 1], 0.3)
%loss = NegativeLogLikelihoodLoss(%p: Tensor[Float64, (2, 5), 1], [1, 4])
%z = Pow(%x: Tensor[Float64, (2, 3), 1], %y: Tensor[Float64, (3,), 1])
%y = RotaryEmbedding(%x: Tensor[Float64, (1, 2, 3, 4), 1], [[[0.6, 0.8], [0.1, 0.2], [0.0, 1.0]]], [[[0.8, 0.6], [0.3, 0.4], [1.0, 0.0]]])
%y = ScatterElements(%x: Tensor[Float64, (3, 3), 1], [[0, 2, 1]], %u: Tensor[Float64, (1, 3), 1])
%y = ScatterND[reduction = "add"](%x: Tensor[Float64, (4, 5), 1], [[0], [2]], %u: Tensor[Float64, (2, 5), 1])
%y = Slice(%x: Tensor[Float64, (4, 6), 1], [1, 0], [3, 6], [0, 1], [1, 2])
%loss = SoftmaxCrossEntropyLoss(%scores: Tensor[Float64, (2, 5), 1], [1, 4])
%c = Sub(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%c = Sum(%a: Tensor[Float64, (2, 3), 1], %b: Tensor[Float64, (3,), 1])
%v, _ = TopK(%x: Tensor[Float64, (2, 3), 1], [2])
%z = Where([[true, false, true]], %x: Tensor[Float64, (2, 3), 1], %y: Tensor[Float64, (3,), 1])
""".strip().splitlines()  # noqa: E501 - an example is one line
"""What examples of ops leave out: broadcasting, attributes, operands that are known."""


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
    found = operand_gradients(statement, [seeds.get(name) for name in statement.results], set(active), tape)
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


STATES = {
    "GatedLinearAttention": {"g": lambda x: -np.abs(x), "b": lambda x: 1 / (1 + np.exp(x))},
    "SelectiveScan": {"dt": np.abs, "a": lambda x: -np.abs(x)},
}
"""Of ops with states, operands with which these decay: grown ones are too large for differences."""


def prepared(text):
    """The parameters and the statement of an example, values, and gradients of its results."""
    params, statement = parsed(text)
    rng = np.random.default_rng(1)
    values = {p.name: random_value(p.type, rng) for p in params}
    if statement.op in ("Log", "Sqrt", "Pow"):
        values = {name: np.abs(value) for name, value in values.items()}
    for name, kept in STATES.get(statement.op, {}).items():
        if name in values:
            values[name] = kept(values[name])
    _, results = forward(params, statement, values)
    return params, statement, values, {n: _seed(y, rng) for n, y in results.items() if _has_floats(y)}


def _seed(y, rng):
    return tuple(_seed(item, rng) for item in y) if isinstance(y, tuple) else rng.normal(size=y.shape)


def _has_floats(y):
    return any(map(_has_floats, y)) if isinstance(y, tuple) else y.dtype == np.float64
