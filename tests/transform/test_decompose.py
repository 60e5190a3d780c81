"""Ops written out as others: what runs where there is no kernel for them."""

import pytest
from sharding_samples import assert_same, small_gpt2

from distir import simulate, transform
from distir.transform.steps import StepError


def ops(module):
    return {s.op for f in module for s in f.body if hasattr(s, "op")}


def test_a_cross_entropy_is_a_log_softmax_and_a_likelihood():
    step = transform(small_gpt2(1), "grad")
    written = transform(step, "decompose=SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad")
    assert {"LogSoftmax", "LogSoftmaxGrad", "NegativeLogLikelihoodLoss"} <= ops(written)
    assert not any(op.startswith("SoftmaxCrossEntropyLoss") for op in ops(written))
    assert sum(s.op == "LogSoftmax" for s in written.entry().body if hasattr(s, "op")) == 1
    assert_same(step, written)


def test_written_out_the_logits_of_all_shards_are_brought_together():
    step = transform(small_gpt2(1), "grad")
    written = transform(step, "decompose=SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad", "tp=2")
    assert_same(step, written)
    assert peak(written) > peak(transform(step, "tp=2"))


def peak(module):
    return max(use.peak_memory_bytes for use in simulate(module, "dgx-a100").devices.values())


def test_what_has_no_decomposition_is_refused():
    with pytest.raises(StepError, match="`MatMul` is not made of other ops"):
        transform(small_gpt2(1), "decompose=MatMul")
    with pytest.raises(StepError, match="did you mean `Attention`"):
        transform(small_gpt2(1), "decompose=Atention")


def test_a_loss_that_is_apart_reads_a_copy_of_the_logits_in_float32():
    """Where one kernel makes their gradient of them, these are 2 bytes each, and the peak is somewhere else."""
    step = transform(small_gpt2(1, vocabulary=4000), "grad", "precision=bf16")
    alone = transform(step, "fuse")
    apart = transform(step, "fuse", "apart=SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad")
    logits = 4 * 5 * 4000
    assert peak(apart) - peak(alone) > 2 * logits
    with pytest.raises(StepError, match="`apart` expected names of ops, found `Loss`"):
        transform(step, "fuse", "apart=Loss")
