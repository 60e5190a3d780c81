"""Forward programs of several kinds, and the gradients of whole programs by differences along random directions."""

from __future__ import annotations

import numpy as np

import distir
from distir.analysis import random_inputs
from distir.diagnostics import Severity

MLP = """
func @dense(%w, %x) {
  %A, %b = UnpackTuple(%w)
  %h = Gemm(%x, %A, %b)
  %a = Relu(%h)
  return %a
}

func @main(
  %w1: Tuple[Tensor[Float64, (4, 5), 1], Tensor[Float64, (5,), 1]] {param},
  %w2: Tuple[Tensor[Float64, (5, 3), 1], Tensor[Float64, (3,), 1]] {param},
  %x: Tensor[Float64, (6, 4), 1] {batch = 0}
) {
  %as = @dense(%w1, %x)
  %p = @dense(%w2, %as)
  return %p
}
"""

BLOCK = """
func @block(%x: Tensor[Float64, (B, 3, 4)], %scale: Tensor[Float64, (4,)], %q, %kv, %out, %gate, %up, %down) {
  %n = RMSNormalization(%x, %scale)
  %qs = MatMul(%n, %q)
  %kvs = MatMul(%n, %kv)
  %ks, %vs = Split[axis = -1](%kvs)
  %mixed = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 1](%qs, %ks, %vs)
  %o = MatMul(%mixed, %out)
  %x1 = Add(%x, %o)
  %n1 = RMSNormalization(%x1, %scale)
  %g = MatMul(%n1, %gate)
  %s = Swish(%g)
  %u = MatMul(%n1, %up)
  %m = Mul(%s, %u)
  %d = MatMul(%m, %down)
  %y = Add(%x1, %d)
  return %y
}

func @main(
  %scale: Tensor[Float64, (4,), 1] {param},
  %q: Tensor[Float64, (4, 4), 1] {param},
  %kv: Tensor[Float64, (4, 4), 1] {param},
  %out: Tensor[Float64, (4, 4), 1] {param},
  %gate: Tensor[Float64, (4, 5), 1] {param},
  %up: Tensor[Float64, (4, 5), 1] {param},
  %down: Tensor[Float64, (5, 4), 1] {param},
  %x: Tensor[Float64, (B, 3, 4), 1] {batch = 0}
) {
  %x1 = @block(%x, %scale, %q, %kv, %out, %gate, %up, %down)
  %x2 = @block(%x1, %scale, %q, %kv, %out, %gate, %up, %down)
  return %x2
}
"""

VISION = """
func @patches(%image: Tensor[Float64, (2, 4, 6), 1], %w, %position) {
  %tiles = Reshape(%image, [2, 2, 2, 3, 2])
  %moved = Transpose[perm = [0, 1, 3, 2, 4]](%tiles)
  %rows = Reshape(%moved, [2, 6, 4])
  %e = MatMul(%rows, %w)
  %placed = Add(%e, %position)
  return %placed, %rows
}

func @main(
  %w: Tensor[Float64, (4, 3), 1] {param},
  %position: Tensor[Float64, (1, 6, 3), 1] {param},
  %class: Tensor[Float64, (1, 1, 3), 1] {param},
  %head: Tensor[Float64, (3, 2), 1] {param},
  %image: Tensor[Float64, (2, 4, 6), 1] {batch = 0}
) {
  %e, _ = @patches(%image, %w, %position)
  %classes = Expand(%class, [2, 1, 3])
  %tokens = Concat[axis = 1](%classes, %e)
  %t = Transpose[perm = [0, 2, 1]](%tokens)
  %scores = MatMul(%tokens, %t)
  %shares = Softmax(%scores)
  %mixed = MatMul(%shares, %tokens)
  %first = Slice(%mixed, [0], [1], [1])
  %flat = Squeeze(%first, [1])
  %logits = MatMul(%flat, %head)
  return %logits
}
"""

TIED = """
func @main(%wte: Tensor[Float64, (5, 4), 1] {param}, %unused: Float64[1] {param}, %ids: Tensor[Int64, (B, 3), 1] {batch = 0}) {
  %e = Gather(%wte, %ids)
  %h = Tanh(%e)
  %rows = Flatten[axis = 2](%h)
  %scores = Gemm[transB = true](%rows, %wte)
  %logits = Reshape(%scores, [-1, 3, 5])
  return %logits
}
"""  # noqa: E501

NESTED = """
func @inner(%a, %b) {
  %s = Mul(%a, %b)
  %t = Tanh(%s)
  %u = Exp(%t)
  return %t, %u
}

func @middle(%pair, %x) {
  %a, %b = UnpackTuple(%pair)
  %t, _ = @inner(%a, %x)
  _, %u = @inner(%b, %t)
  %both = MakeTuple(%t, %u)
  return %both, %x
}

func @main(%pair: Tuple[Tensor[Float64, (3,), 1], Tensor[Float64, (2, 3), 1]] {param}, %x: Tensor[Float64, (2, 3), 1]) {
  %both, %same = @middle(%pair, %x)
  %t, %u = UnpackTuple(%both)
  %again, _ = @middle([%t, %u], %same)
  %p, %q = UnpackTuple(%again)
  %y = Sum(%p, %q, %p)
  return %y
}
"""

PIPELINE = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Sigmoid(%h)
  return %a
}

func @main(
  %w1: Tensor[Float64, (3, 4), 1] {param},
  %w2: Tensor[Float64, (4, 2), 2] {param},
  %x: Tensor[Float64, (4, 3), 1] {batch = 0}
) {
  %x1, %x2 = Split[axis = 0](%x)
  %a1 = @dense(%w1, %x1)
  %s1 = Send[device = 2](%a1)
  %a2 = @dense(%w1, %x2)
  %s2 = Send[device = 2](%a2)
  %y1 = @dense(%w2, %s1)
  %y2 = @dense(%w2, %s2)
  %y = Concat[axis = 0](%y1, %y2)
  return %y
}
"""

TENSOR_PARALLEL = """
func @main(
  %a1: Tensor[Float64, (3, 2), 1] {param},
  %a2: Tensor[Float64, (3, 2), 2] {param},
  %b1: Tensor[Float64, (2, 3), 1] {param},
  %b2: Tensor[Float64, (2, 3), 2] {param},
  %x: Tensor[Float64, (4, 3), 1] {batch = 0}
) {
  %x1, %x2 = MPIBroadcast[devices = [1, 2]](%x)
  %h1 = MatMul(%x1, %a1)
  %h2 = MatMul(%x2, %a2)
  %g1 = Tanh(%h1)
  %g2 = Tanh(%h2)
  %p1 = MatMul(%g1, %b1)
  %p2 = MatMul(%g2, %b2)
  %r1, %r2 = MPIReduceScatter[axis = 0](%p1, %p2)
  %w1, %w2 = MPIAllgather[axis = 0](%r1, %r2)
  %s1, _ = MPIAllreduce(%w1, %w2)
  %y1, %y2 = MPIScatter[devices = [1, 2], axis = 0](%s1)
  %z1, %z2 = MPIAlltoall[split_axis = 0, concat_axis = 0](%y1, %y2)
  %y = MPIGather[root = 1, axis = 0](%z1, %z2)
  %t = MPIReduce[root = 1](%y, %w2)
  return %t
}
"""

NESTED_TUPLES = """
func @f(%p, %q) {
  %a, %b = UnpackTuple(%p)
  %c, %d = UnpackTuple(%a)
  %y = Mul(%b, %d)
  return %q, [%y, %b], 2.0, %c
}

func @main(
  %w: Tensor[Float64, (2,), 1] {param},
  %v: Tuple[Float64[1], Tensor[Float64, (2,), 1]] {param},
  %target: Tensor[Float64, (2,), 1]
) {
  %q, %t, %l, %c = @f([%v, %w], %w)
  %q2, %t2, _, _ = @f([[%c, %w], %w], %q)
  %y, %b = UnpackTuple(%t)
  %y2, _ = UnpackTuple(%t2)
  %z = Sum(%q, %y, %b, %q2, %y2)
  %u = Mul(%z, %l)
  %k = Add(%u, %c)
  %h = Mul(%k, %target)
  %row = Unsqueeze(%h, [0])
  return %row
}
"""

HOST_ARGUMENTS = """
func @f(%x, %n: Int64) {
  %s = Cast[to = Float64](%n)
  %y = Div(%x, %s)
  %z = Mul(%y, %x)
  return %z
}

func @main(%w: Tensor[Float64, (2, 3), 1] {param}) {
  %shape = Shape(%w)
  %k = Gather(%shape, 0)
  %a = @f(%w, %k)
  %b = @f(%a, 3)
  %i, _, %j = Split[axis = 1](%b)
  %y = Concat[axis = 1](%i, %j)
  return %y
}
"""

PROGRAMS = {
    "mlp": MLP,
    "block": BLOCK,
    "vision": VISION,
    "tied": TIED,
    "nested": NESTED,
    "nested_tuples": NESTED_TUPLES,
    "host_arguments": HOST_ARGUMENTS,
    "pipeline": PIPELINE,
    "tensor_parallel": TENSOR_PARALLEL,
}


def parsed(text):
    """The module of a text that is free of errors."""
    module = distir.parse(text)
    check(module)
    return module


def check(module):
    """Assert that a module checks without errors, and that its text is its own."""
    errors = [d for d in distir.check(module) if d.severity is Severity.ERROR]
    assert not errors, f"{errors}\n{distir.format(module)}"
    assert distir.parse(distir.format(module)) == module


def step_gradients(module, seed=0, sizes=None, **options):
    """The inputs, the loss and the gradients, by parameter, of the training step without updates."""
    step = distir.transform(module, "grad", optimizer="none", **options)
    check(step)
    inputs = random_inputs(step, seed, sizes or {"B": 2})
    loss, *found = distir.run(step, inputs).values()
    names = [p.name for p in module.entry().params if "param" in p.roles]
    return step, inputs, loss, dict(zip(names, found, strict=True))


def check_gradients(module, seed=0, sizes=None, **options):
    """Assert that the gradients are the slopes of the loss along random directions."""
    step, inputs, loss, found = step_gradients(module, seed, sizes, **options)
    rng = np.random.default_rng(seed)
    assert loss.shape == ()
    for name, gradient in found.items():
        direction = _like(inputs[name], rng)
        slope = _slope(step, inputs, name, direction)
        along = _along(gradient, direction)
        np.testing.assert_allclose(along, slope, rtol=1e-5, atol=1e-8, err_msg=name)
    return step


def _slope(step, inputs, name, direction, distance=1e-5):
    there, back = (
        next(iter(distir.run(step, {**inputs, name: _moved(inputs[name], direction, sign * distance)}).values()))
        for sign in (1, -1)
    )
    return (there - back) / (2 * distance)


def _like(value, rng):
    return tuple(_like(item, rng) for item in value) if isinstance(value, tuple) else rng.normal(size=value.shape)


def _moved(value, direction, distance):
    if isinstance(value, tuple):
        return tuple(_moved(v, d, distance) for v, d in zip(value, direction, strict=True))
    return value + distance * direction


def _along(gradient, direction):
    if isinstance(gradient, tuple):
        return sum(map(_along, gradient, direction))
    assert gradient.shape == direction.shape
    return np.sum(gradient * direction)
