"""Streams through the transforms: what replaces an op runs where that ran."""

from collections import Counter
from dataclasses import replace

import pytest

import distir
from distir.analysis import check
from distir.ir import Apply, Call, Module
from distir.lower import project

ONE_DEVICE = """\
func @fused(%x, %y) kernel {
  %a = Add(%x, %y)
  %b = Tanh(%a)
  return %b
}

func @layer(%x, %w) {
  %h = MatMul(%x, %w) on products
  %y = Relu(%h)
  return %y
}

func @main(%w: Tensor[Float32, (8, 8), 1] {param}, %x: Tensor[Float32, (4, 8), 1] {batch = 0}) {
  %y = @layer(%x, %w)
  %z = @layer(%y, %w)
  %k = @fused(%z, %y) on side
  %dead = Exp(%k) on side
  %s = Sqrt(%k) on side
  %t = Sqrt(%k)
  %u = Sqrt(%k) on side
  %r = Add(%s, %t)
  %o = Add(%r, %u)
  return %o
}
"""

REPLICAS = """\
func @main(%x: Tensor[Float32, (8,), 1], %y: Tensor[Float32, (8,), 2]) {
  %a, %b = MPIAllreduce(%x, %y) on reduce
  %c = Tanh(%a)
  %d = Send[device = 1](%b) on copy
  %e = Add(%c, %d)
  return %e
}
"""


def streams(module, function=None):
    """How many statements of each op, or calls of each function, are on each stream."""
    body = [s for f in module if function in (None, f.name) for s in f.body if isinstance(s, (Apply, Call))]
    return Counter((s.op if isinstance(s, Apply) else f"@{s.function}", s.stream) for s in body)


def transformed(text, *steps):
    return distir.transform(distir.parse(text), *steps)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["dce"], {("Sqrt", "side"): 2, ("Sqrt", ""): 1, ("@fused", "side"): 1, ("MatMul", "products"): 1}),
        (["cse"], {("Sqrt", "side"): 1, ("Sqrt", ""): 1}),
        (["inline"], {("Add", "side"): 1, ("Tanh", "side"): 1, ("MatMul", "products"): 2, ("Relu", ""): 2}),
        (["dp=2"], {("@fused", "side"): 2, ("Sqrt", "side"): 4, ("Sqrt", ""): 2}),
        (["inline", "outline"], {("Sqrt", "side"): 2, ("Sqrt", ""): 1}),
    ],
    ids=lambda words: "+".join(words) if isinstance(words, list) else "",
)
def test_what_remains_or_is_copied_keeps_its_stream(steps, expected):
    found = streams(transformed(ONE_DEVICE, *steps))
    assert expected.items() <= found.items(), found


def test_a_kernel_fuses_what_is_on_one_stream():
    text = """\
func @main(%x: Tensor[Float32, (64, 64), 1]) {
  %a = Tanh(%x) on side
  %b = Relu(%a) on side
  %c = Exp(%b)
  %d = Neg(%c)
  return %d
}
"""
    module = transformed(text, "fuse")
    assert sorted(stream for (op, stream), _ in streams(module, "main").items()) == ["", "side"]
    assert all(s.stream == "" for f in module if f.kernel for s in f.body if isinstance(s, Apply))


def test_a_gradient_is_on_the_stream_of_what_it_is_of():
    text = REPLICAS.replace("(8,), 1]", "(8,), 1] {param}", 1).replace(
        "Add(%c, %d)", "Add(%c, %d)\n  %l = ReduceSum(%e)"
    )
    module = transformed(text.replace("return %e", "return %l"), "grad")
    found = streams(module)
    assert found["MPIAllreduce", "reduce"] == 2, found
    assert found["MPIAllreduce", ""] == 0
    assert found["Send", "copy"] == 2


def test_a_rank_keeps_the_streams_of_its_statements():
    analysis = check(distir.parse(REPLICAS))
    main = analysis.module.functions["main"]
    ranks = project(analysis, analysis.instance(main, [p.type for p in main.params]))
    for device, expected in ((1, {"MPIAllreduce": "reduce", "Send": "copy"}), (2, {"MPIAllreduce": "reduce"})):
        found = {op: stream for (op, stream), _ in streams(ranks[device]).items()}
        assert expected.items() <= found.items()


def test_sums_that_zero_cuts_stay_where_they_were():
    text = """\
func @main(%w: Tensor[Float32, (8, 8), 0] {param}, %x: Tensor[Float32, (4, 8), 0] {batch = 0}) {
  %y = MatMul(%x, %w)
  return %y
}
"""
    module = transformed(text, "grad", "loss=mse", "dp=2")
    aside = Module(
        replace(
            f,
            body=tuple(replace(s, stream="reduce") if getattr(s, "op", "") == "MPIAllreduce" else s for s in f.body),
        )
        for f in module
    )
    found = streams(distir.transform(aside, "zero=2"))
    assert found["MPIReduceScatter", "reduce"] + found["MPIReduce", "reduce"] > 0, found
    assert found["MPIReduceScatter", ""] + found["MPIReduce", ""] == 0
