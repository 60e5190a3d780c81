"""Ops written out as others: what runs where there is no kernel for them."""

import pytest
from sharding_samples import assert_same, small_gpt2

from distir import simulate, transform
from distir.models import gpt2
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


def test_a_loss_written_by_hand_reads_logits_as_they_are_in_a_program_that_is_not_compiled():
    step = transform(small_gpt2(1, vocabulary=4000), "grad", "precision=bf16")
    loss = ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad")
    eager = transform(step, "fuse", "kernels=eager")
    by_hand = transform(step, "fuse", "kernels=eager", f"around={','.join(loss)}")
    assert_same(step, by_hand)
    fused = [f for f in by_hand if f.kernel]
    assert {s.op for f in fused for s in f.body if hasattr(s, "op")} <= {*loss, "Cast", "Flatten", "Reshape"}
    logits = 4 * 5 * 4000
    assert peak(eager) - peak(by_hand) > logits
    any_batch = transform(gpt2(1, 16, 2, 4, batch=None, vocabulary=400), "grad", "precision=bf16")
    by_hand = transform(any_batch, "fuse", "kernels=eager", f"around={','.join(loss)}")
    (forward, backward) = (f for f in by_hand if f.kernel)  # apart, as the scale follows from the batch
    for kernel in (forward, backward):
        assert kernel.params[0].name == "logits"
    assert all("wide" not in str(name) for name in forward.returned)
    with pytest.raises(StepError, match="`around` expected `kernels=eager`"):
        transform(step, "fuse", "around=SoftmaxCrossEntropyLoss")
    with pytest.raises(StepError, match="`around` expected names of ops, found `Loss`"):
        transform(step, "fuse", "kernels=eager", "around=Loss")


def test_blocks_are_compiled_each_by_itself():
    step = transform(small_gpt2(2), "grad", "precision=bf16")
    whole, blocks, eager = (transform(step, "fuse", f"kernels={kind}") for kind in ("compiled", "blocks", "eager"))
    assert_same(step, blocks)
    assert kernels(eager) == 0 < kernels(blocks)
    entry = blocks.entry()
    called = {s.function for s in entry.body if hasattr(s, "function")}
    assert not any(blocks.functions[name].kernel for name in called)
    assert simulate(whole, "dgx-a100").latency_s < simulate(blocks, "dgx-a100").latency_s
    assert simulate(blocks, "dgx-a100").latency_s < simulate(eager, "dgx-a100").latency_s


def kernels(module):
    return sum(f.kernel for f in module)


def test_between_products_all_is_computed_again():
    """The step gives the same; attention and every other product are saved, so that it takes less than `full`."""
    step = transform(small_gpt2(2), "grad")
    some, full = transform(step, "checkpoint=products"), transform(step, "checkpoint=full")
    assert_same(step, some)
    assert simulate(step, "dgx-a100").ops < simulate(some, "dgx-a100").ops < simulate(full, "dgx-a100").ops
