"""Losses whose means are not the means of the parts of a batch: ignored labels, weights of classes, masks by hand."""

import numpy as np
import pytest

import distir
from distir.analysis import random_inputs
from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.transform import transform, verify

LOSSES = {
    "ignored labels": "%loss = SoftmaxCrossEntropyLoss[ignore_index = -100](%scores, %labels)",
    "weights": "%loss = SoftmaxCrossEntropyLoss(%scores, %labels, %weights)",
    "both": "%loss = SoftmaxCrossEntropyLoss[ignore_index = 2](%scores, %labels, %weights)",
    "logarithms": """%logs = LogSoftmax[axis = 1](%scores)
  %loss = NegativeLogLikelihoodLoss[ignore_index = -1](%logs, %labels, %weights)""",
    "two results": """%loss, %logs = SoftmaxCrossEntropyLoss[ignore_index = -100](%scores, %labels)""",
    "by hand": """%left = Equal(%labels, 3)
  %counts = Not(%left)
  %mask = Cast[to = Float64](%counts)
  %each = SoftmaxCrossEntropyLoss[reduction = "none"](%scores, %labels)
  %own = Mul(%each, %mask)
  %sum = ReduceSum[keepdims = false](%own)
  %number = ReduceSum[keepdims = false](%mask)
  %loss = Div(%sum, %number)""",
    "in a function": "%loss = @criterion(%scores, %labels)",
}

CRITERION = """
func @criterion(%scores, %labels) {
  %loss = SoftmaxCrossEntropyLoss[ignore_index = -100](%scores, %labels)
  return %loss
}
"""


def program(loss, dtype="Float64"):
    text = f"""
func @layer(%w, %x) {{
  %h = MatMul(%x, %w)
  %y = Tanh(%h)
  return %y
}}
{CRITERION if "@criterion" in loss else ""}
func @main(
  %w1: Tensor[{dtype}, (6, 6), 1] {{param}},
  %w2: Tensor[{dtype}, (6, 6), 1] {{param}},
  %weights: Tensor[{dtype}, (6,), 1] {{buffer}},
  %x: Tensor[{dtype}, (B, 6), 1] {{batch = 0}},
  %labels: Tensor[Int64, (B,), 1] {{batch = 0}}
) {{
  %a = @layer(%w1, %x)
  %scores = @layer(%w2, %a)
  {loss}
  return %loss
}}
"""
    return distir.parse(text)


def uneven(step):
    """Whether the parts of the batch that are drawn count differently."""
    found = random_inputs(step, 0, {"B": 16})["labels"]
    return len({(part < 0).sum() for part in np.split(found, 4)}) > 1


STRATEGIES = [
    *(f"pp=2 microbatches=4 schedule={name}" for name in ("gpipe", "1f1b", "interleaved", "zb-h1")),
    "pp=2 microbatches=2 dp=2",
    "dtp=2,1,2 microbatches=2",
    "dp=2 zero=1",
    "dp=2 zero=3",
    "checkpoint=2 pp=2 microbatches=2",
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_mean_over_what_counts_is_that_of_the_whole_batch(loss, strategy):
    virtual = ["virtual=1"] if "interleaved" in strategy else []
    step = transform(program(LOSSES[loss]), "grad")
    assert loss != "ignored labels" or uneven(step)
    found = verify(step, transform(step, *strategy.split(), *virtual), bind={"B": 16})
    assert found.equal, found


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_alone_goes_by_microbatches(loss):
    forward = program(LOSSES[loss])
    assert verify(forward, transform(forward, "pp=2", "microbatches=4"), bind={"B": 16}).equal


def test_a_narrow_loss_is_summed_wide():
    step = transform(program(LOSSES["both"], "Float16"), "grad")
    made = transform(step, "pp=2", "microbatches=4")
    assert verify(step, made, bind={"B": 16}).equal
    sums = [s for f in made for s in f.body if getattr(s, "op", "") == "ReduceSum"]
    assert sums


def test_what_labels_weigh_together_is_found_once_and_ahead():
    step = transform(program(LOSSES["ignored labels"]), "grad")
    made = transform(step, "pp=2", "microbatches=4")
    main = [s.op for s in made.functions["main"].body if hasattr(s, "op")]
    assert main.count("Equal") == 1
    assert main.index("Equal") < main.index("Send")


def test_a_sum_that_weights_are_in_is_known_too_late():
    with pytest.raises(ProgramError) as caught:
        transform(program("%sum = ReduceSum(%scores)\n  %own = Div(%scores, %sum)\n  %loss = ReduceSum(%own)"), "pp=2")
    (found,) = caught.value.diagnostics
    assert found.code.number == "DIR641"
    assert "a sum over the whole batch together with the batch itself" in found.message
    assert "`grad mode=eval`" in found.help


EMBEDDING = """
func @main(
  %table: Tensor[Float32, (9, 4), 1] {param},
  %w: Tensor[Float32, (4, 4), 1] {param},
  %tokens: Tensor[Int64, (8, 3), 1] {batch = 0}
) {
  %x = Gather(%table, %tokens)
  %y = MatMul(%x, %w)
  %wt = Transpose[perm = [1, 0]](%w)
  %dx = MatMul(%y, %wt)
  %places = Unsqueeze(%tokens, [-1])
  %zeros = ConstantOfShape[value = 0.0]([9, 4])
  %dtable = ScatterND[reduction = "add"](%zeros, %places, %dx)
  return %y, %dtable
}
"""


def test_what_is_added_to_zeros_is_added_up_over_microbatches():
    step = distir.parse(EMBEDDING)
    assert verify(step, transform(step, "pp=2", "microbatches=4")).equal


@pytest.mark.parametrize("words", ["dp=2", "cp=2 zigzag=false", "dtp=2,1,1", "dtp=1,1,1 context=2 zigzag=false"])
def test_a_mean_without_ignored_labels_gathers_no_logits(words):
    """As the losses of `transformers` models are: parts add up sums, and numbers of labels."""
    model = distir.parse("""
        func @main(
          %x: Tensor[Float64, (4, 6, 8), 1] {batch = 0}, %labels: Tensor[Int64, (4, 6), 1] {batch = 0},
          %w: Tensor[Float64, (8, 24), 1] {param}, %head: Tensor[Float64, (8, 5), 1] {param}
        ) {
          %qkv = MatMul(%x, %w)
          %q, %k, %v = Split[axis = 2](%qkv)
          %a = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q, %k, %v)
          %logits = MatMul(%a, %head)
          %flat = Reshape(%logits, [-1, 5])
          %targets = Reshape(%labels, [-1])
          %loss = SoftmaxCrossEntropyLoss[ignore_index = 2](%flat, %targets)
          return %loss
        }
    """)
    step = transform(model, "grad", "optimizer=sgd")
    made = transform(step, *words.split())
    assert verify(step, made).equal
    gathered = [s for s in made.entry().body if isinstance(s, Apply) and s.op == "MPIAllgather"]
    assert not [s for s in gathered if "flat" in str(s.args) or "logits" in str(s.args)]


@pytest.mark.parametrize("words", ["dp=2", "cp=2 zigzag=false", "dtp=2,1,1", "pp=2 microbatches=2 dp=2"])
def test_a_mean_in_a_called_function_gathers_no_logits(words):
    model = distir.parse("""
        func @loss(%scores: Tensor[BFloat16, (4, 6, 5)], %labels: Tensor[Int64, (4, 6)]) {
          %flat = Reshape(%scores, [-1, 5])
          %targets = Reshape(%labels, [-1])
          %loss = SoftmaxCrossEntropyLoss[ignore_index = 2](%flat, %targets)
          return %loss
        }

        func @main(
          %x: Tensor[BFloat16, (4, 6, 8), 1] {batch = 0}, %labels: Tensor[Int64, (4, 6), 1] {batch = 0},
          %w: Tensor[BFloat16, (8, 24), 1] {param}, %head: Tensor[BFloat16, (8, 5), 1] {param}
        ) {
          %qkv = MatMul(%x, %w)
          %q, %k, %v = Split[axis = 2](%qkv)
          %a = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q, %k, %v)
          %logits = MatMul(%a, %head)
          %loss = @loss(%logits, %labels)
          return %loss
        }
    """)
    step = transform(model, "grad", "optimizer=sgd")
    made = transform(step, *words.split())
    assert verify(step, made).equal
    gathered = [s for f in made for s in f.body if isinstance(s, Apply) and s.op == "MPIAllgather"]
    assert not [s for s in gathered if "flat" in str(s.args) or "logits" in str(s.args) or "scores" in str(s.args)]


@pytest.mark.parametrize("ignored", ["", ", ignore_index = -100"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_shards_compute_the_loss_of_their_part_of_the_vocabulary(reduction, ignored):
    forward = distir.parse(f"""func @main(
      %x: Tensor[Float64, (32, 6), 1] {{batch = 0}}, %w: Tensor[Float64, (6, 16), 1] {{param}},
      %labels: Tensor[Int64, (32,), 1] {{batch = 0}}
    ) {{
      %logits = MatMul(%x, %w)
      %loss = SoftmaxCrossEntropyLoss[reduction = "{reduction}"{ignored}](%logits, %labels)
      return %loss
    }}""")
    step = forward if reduction == "none" else transform(forward, "grad", "loss=none")
    sharded = transform(step, "tp=2")
    assert verify(step, sharded).equal
    assert not ignored or (random_inputs(step, 0, {})["labels"] < 0).any()
    assert [p.type.shape for p in sharded.entry().params if p.name.startswith("w")] == [(6, 8)] * 2
    ops = {s.op for f in sharded for s in f.body if isinstance(s, Apply)}
    assert not ops & {"AllGather", "SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad"}


HEADS = """
func @main(
  %x: Tensor[DTYPE, (B, 3, 4), 1] {batch = 0}, %labels: Tensor[Int64, (B, 3), 1] {batch = 0},
  %head: Tensor[DTYPE, (8, 4), 1] {param}
) {
  %columns = Transpose[perm = [1, 0]](%head)
  %logits = MatMul(%x, %columns)
  %flat = Reshape(%logits, [-1, 8])
  %targets = Reshape(%labels, [-1])
  %loss = SoftmaxCrossEntropyLoss[ATTRS](%flat, %targets)
  return %loss
}
"""


@pytest.mark.parametrize("dtype", ["Float64", "BFloat16"])
@pytest.mark.parametrize("attrs", ["ignore_index = -100", "ignore_index = 3", ""])
def test_classes_are_split_where_labels_are_ignored_and_the_batch_has_no_size(attrs, dtype):
    """The output layer of every imported language model with labels: its weights and logits are not whole."""
    text = HEADS.replace("DTYPE", dtype).replace("[ATTRS]", f"[{attrs}]" if attrs else "")
    step = transform(distir.parse(text), "grad", "optimizer=sgd")
    assert "-100" not in attrs or (random_inputs(step, 0, {"B": 4})["labels"] < 0).any()
    for words, rows in (("tp=4", 2), ("tp=2 dp=2", 4), ("accumulate=2 tp=2", 4)):
        made = transform(step, *words.split())
        assert {p.type.shape for p in made.entry().params if p.name.startswith("head")} == {(rows, 4)}
        gathered = [s for s in made.entry().body if isinstance(s, Apply) and s.op == "MPIAllgather"]
        assert not [s for s in gathered if "flat" in str(s.args) or "logits" in str(s.args)]
        found = verify(step, made, bind={"B": 4})
        assert found.equal, found
