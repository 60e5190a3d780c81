"""Programs as a framework without a compiler, or without a kernel, runs them: the same values, by more ops."""

import numpy as np
import pytest

from distir.analysis import execute
from distir.analysis.executor import random_inputs
from distir.cost import load
from distir.ir import Apply
from distir.models import named
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.steps import StepError
from distir.transform.unfusing import decomposed

SIZES = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24, "vocabulary": 32}


def llama(dtype="Float32"):
    return named("llama3-8b", 2, 8, dtype, **SIZES)


def same_values(before, after, **tolerance):
    inputs = random_inputs(before, 0, {})
    for expected, found in zip(execute(before, inputs), execute(after, inputs), strict=True):
        np.testing.assert_allclose(found.value, expected.value, **tolerance)


def ops(module):
    return {s.op for f in module for s in f.body if isinstance(s, Apply)}


@pytest.mark.parametrize("op", ["RMSNormalization", "RotaryEmbedding"])
def test_an_op_that_is_written_out_gives_the_same(op):
    whole = llama()
    written = decomposed(whole, op)
    assert op in ops(whole)
    assert op not in ops(written)
    same_values(whole, written, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["RMSNormalization", "RotaryEmbedding"])
def test_what_is_written_out_trains_in_any_layout(op):
    step = transform(decomposed(llama(), op), "grad", "optimizer=adam")
    assert transform(step, "tp=2")
    assert transform(transform(step, "dp=2"), "zero=3", "partition=split")


def test_statistics_are_in_float32():
    written = decomposed(llama("BFloat16"), "RMSNormalization")
    casts = [s for f in written for s in f.body if isinstance(s, Apply) and s.op == "Cast"]
    assert {s.attrs["to"].name for s in casts} >= {"Float32", "BFloat16"}


def test_eager_kernels_are_ops_with_views():
    step = transform(llama(), "grad", "optimizer=adam")
    eager = transform(step, "fuse", "kernels=eager")
    assert not any(function.kernel for function in eager)
    same_values(step, eager, rtol=0)
    times = [simulate(m, load("dgx-h100")).latency_s for m in (transform(step, "fuse"), eager, step)]
    assert times == sorted(times)


def test_other_kernels_are_refused():
    with pytest.raises(StepError, match="`kernels` expected one of compiled, blocks, eager, found `lazy`"):
        transform(llama(), "fuse", "kernels=lazy")
