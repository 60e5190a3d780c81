"""Shapes that a program computes or states mean the whole value; split over devices, they fit each device's part."""

import pytest

import distir
from distir.diagnostics import Severity
from distir.transform import reference, transform, verify

HEAD = """func @main(
  %x: Tensor[Float64, (B, 8, 6), 1] {batch = 0},
  %w: Tensor[Float64, (6, 12), 1] {param},
  %v: Tensor[Float64, (12, 6), 1] {param}
) {
  %h = MatMul(%x, %w)
  %s = Shape(%h)
"""
TAIL = """
  %z = Reshape(%r, %s)
  %o = MatMul(%z, %v)
  return %o
}
"""
HEADS = "%r = Reshape(%h, %t)"
SHAPES = {
    "a quotient": "%n = Gather[axis = 0](%s, [2])\n%e = Div(%n, [4])\n%p = Slice(%s, [0], [2], [0])\n"
    "%t = Concat[axis = 0](%p, [4], %e)\n" + HEADS,
    "a quotient of a vector": "%q = Div(%s, [1, 1, 4])\n%p = Gather[axis = 0](%q, [0, 1])\n"
    "%l = Gather[axis = 0](%q, [2])\n%t = Concat[axis = 0](%p, [4], %l)\n" + HEADS,
    "products and differences": "%n = Gather[axis = 0](%s, [0])\n%m = Gather[axis = 0](%s, [1])\n"
    "%nm = Mul(%n, %m)\n%a = Sub(%nm, [0])\n%t = Concat[axis = 0](%a, [4], [3])\n" + HEADS,
    "a rounded quotient": "%n = Gather[axis = 0](%s, [2])\n%f = Cast[to = Float64](%n)\n%g = Div(%f, [5.0])\n"
    "%i = Floor(%g)\n%j = Cast[to = Int64](%i)\n%k = Mul(%j, [2])\n%p = Slice(%s, [0], [2], [0])\n"
    "%t = Concat[axis = 0](%p, %k, [3])\n" + HEADS,
    "a choice": "%c = Equal([1, 2, 3], [1, 0, 3])\n%q = Where(%c, %s, [8, 8, 8])\n%a = Slice(%q, [0], [2], [0])\n"
    "%t = Concat[axis = 0](%a, [2], [6])\n" + HEADS,
    "the rest": "%n = Gather[axis = 0](%s, [0])\n%t = Concat[axis = 0](%n, [8], [-1], [3])\n" + HEADS,
    "ones that keep": "%u = Unsqueeze(%h, [3])\n"
    "%e = Expand(%u, [1, 1, 1, 2])\n%r = ReduceMean[keepdims = false](%e, [3])",
    "fewer sizes": "%u = Unsqueeze(%h, [3])\n%e = Expand(%u, [2])\n%r = ReduceMean[keepdims = false](%e, [3])",
    "computed ones": "%n = Sub(%s, %s)\n%m = Add(%n, [1])\n%t = Concat[axis = 0](%m, [2])\n%u = Unsqueeze(%h, [3])\n"
    "%e = Expand(%u, %t)\n%r = ReduceMean[keepdims = false](%e, [3])",
    "the shape and one more": "%t = Concat[axis = 0](%s, [2])\n%u = Unsqueeze(%h, [3])\n%e = Expand(%u, %t)\n"
    "%r = ReduceMean[keepdims = false](%e, [3])",
    "a quotient of ones": "%t = Div([1, 1, 1, 2], [1, 1, 1, 1])\n%u = Unsqueeze(%h, [3])\n%e = Expand(%u, %t)\n"
    "%r = ReduceMean[keepdims = false](%e, [3])",
    "a new leading dimension": "%e = Expand(%h, [2, 1, 1, 1])\n%r = ReduceMean[keepdims = false](%e, [0])",
    "filled": "%k = ConstantOfShape[value = [2.0]](%s)\n%d = Cast[to = Float64](%k)\n%r = Mul(%h, 2.0)",
}
STEPS = [["dp=2"], ["tp=2"], ["dp=2", "tp=2"], ["tp=2", "dp=2"], ["dtp=2,2,1"], ["tp=3"], ["grad", "dtp=2,2,1"]]


def assert_verified(module, words, **sizes):
    made = transform(module, *words)
    assert not [d for d in distir.check(made) if d.severity is Severity.ERROR]
    assert distir.parse(distir.format(made)) == made
    found = verify(reference(module, words), made, tolerance=1e-9, bind=sizes)
    assert found.equal, found


@pytest.mark.parametrize("words", STEPS, ids=" ".join)
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_computed_of_a_split_value(name, words):
    assert_verified(distir.parse(HEAD + SHAPES[name] + TAIL), words, B=4)


@pytest.mark.parametrize("words", [["dp=2"], ["tp=2"], ["dtp=2,2,1"], ["grad", "dtp=2,2,1"]], ids=" ".join)
def test_the_same_in_a_function_that_is_called_with_the_shape(words):
    text = (
        """func @repeat(%x, %shape) {
  %u = Unsqueeze(%x, [3])
  %e = Expand(%u, %shape)
  %r = ReduceMean[keepdims = false](%e, [3])
  return %r
}

"""
        + HEAD
        + "%t = Concat[axis = 0](%s, [2])\n%r = @repeat(%h, %t)"
        + TAIL
    )
    assert_verified(distir.parse(text), words, B=4)


ONES = """func @main(%x: Tensor[Float64, (4, 1, 3), 1] {batch = 0}) {
  %e = Expand(%x, [1, 2, 1])
  %s = Softmax[axis = 2](%e)
  return %s
}
"""


def test_the_one_in_the_target_of_expand_keeps_the_batch():
    module = distir.parse(ONES)
    assert_verified(module, ["dp=2"])
    assert "Expand(%x_1, [1, 2, 1])" in distir.format(transform(module, "dp=2"))
    symbolic = distir.parse(ONES.replace("(4, 1, 3)", "(B, 1, 3)"))
    assert_verified(symbolic, ["dp=2"], B=4)
    assert "Expand(%x_1, [1, 2, 1])" in distir.format(transform(symbolic, "dp=2"))


GROUPED = """func @main(
  %x: Tensor[Float64, (B, 6, 16), 1] {batch = 0},
  %wq: Tensor[Float64, (16, 16), 1] {param},
  %wk: Tensor[Float64, (16, 8), 1] {param},
  %wo: Tensor[Float64, (16, 16), 1] {param}
) {
  %q1 = MatMul(%x, %wq)
  %q2 = Reshape(%q1, [0, 0, 4, 4])
  %q = Transpose[perm = [0, 2, 1, 3]](%q2)
  %k1 = MatMul(%x, %wk)
  %k2 = Reshape(%k1, [0, 0, 2, 4])
  %k3 = Transpose[perm = [0, 2, 1, 3]](%k2)
  %k4 = Unsqueeze(%k3, [2])
  %k5 = Expand(%k4, [1, 1, 2, 1, 1])
  %k = Reshape(%k5, [-1, 4, 6, 4])
  %kt = Transpose[perm = [0, 1, 3, 2]](%k)
  %scores = MatMul(%q, %kt)
  %p = Softmax[axis = -1](%scores)
  %a = MatMul(%p, %k)
  %a1 = Transpose[perm = [0, 2, 1, 3]](%a)
  %a2 = Reshape(%a1, [0, 0, 16])
  %o = MatMul(%a2, %wo)
  return %o
}
"""


HEAD_STEPS = [["tp=2"], ["dp=2"], ["dtp=2,2,1"], ["grad", "dtp=2,2,1"], ["grad", "tp=2", "sequence=true"]]


@pytest.mark.parametrize("words", HEAD_STEPS, ids=" ".join)
def test_heads_repeated_by_expand_are_split(words):
    module = distir.parse(GROUPED)
    assert_verified(module, words, B=4)
    if words == ["tp=2"]:
        text = distir.format(transform(module, *words))
        assert text.count("MPIAllreduce") == 1
        assert "[1, 1, 2, 1, 1]" in text


def test_a_shape_of_unknown_sizes():
    text = """func @main(%x: Tensor[Float64, (?, 6), 1] {batch = 0}, %w: Tensor[Float64, (6, 4), 1] {param}) {
  %s = Shape(%x)
  %n = Gather[axis = 0](%s, [0])
  %t = Concat[axis = 0](%n, [2], [2])
  %h = MatMul(%x, %w)
  %r = Reshape(%h, %t)
  return %r
}
"""
    made = transform(distir.parse(text), "dp=2")
    assert not [d for d in distir.check(made) if d.severity is Severity.ERROR]
