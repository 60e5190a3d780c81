"""What tensor parallelism says of itself: each device's share of FLOPs and weights, and what stays whole and why."""

import re

import pytest

import distir as api
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ide.actions.transforms import transformed
from distir.ide.document import Document, Setup
from distir.models import gpt2, mlp
from distir.models import named as published
from distir.search import Space
from distir.transform import listening, tensor_shares, transform
from distir.transform.counting import percent

NORMALISED = """func @main(
  %x: Tensor[Float32, (B, 64, 512), 1] {batch = 0},
  %wq: Tensor[Float32, (512, 512), 1] {param},
  %scale: Tensor[Float32, (512,), 1] {param},
  %wo: Tensor[Float32, (512, 512), 1] {param},
  %w1: Tensor[Float32, (512, 2048), 1] {param},
  %w2: Tensor[Float32, (2048, 512), 1] {param}
) {
  %q = MatMul(%x, %wq)
  %n = RMSNormalization[axis = -1](%q, %scale)
  %q4 = Reshape(%n, [0, 0, 16, 32])
  %qt = Transpose[perm = [0, 2, 1, 3]](%q4)
  %m = Reshape(%qt, [-1, 64, 32])
  %mt = Transpose[perm = [0, 2, 1]](%m)
  %s = MatMul(%m, %mt)
  %p = Softmax[axis = -1](%s)
  %a = MatMul(%p, %m)
  %a4 = Reshape(%a, [-1, 16, 64, 32])
  %at = Transpose[perm = [0, 2, 1, 3]](%a4)
  %h = Reshape(%at, [0, 0, 512])
  %o = MatMul(%h, %wo)
  %u = MatMul(%o, %w1)
  %r = Relu(%u)
  %y = MatMul(%r, %w2)
  return %y
}
"""


def test_an_even_split():
    shares = tensor_shares(mlp(4, 1024, batch=64, bias=False), 4)
    assert (shares.flops, shares.weights) == pytest.approx((0.25, 0.25), rel=1e-2)
    assert not shares.heavy
    assert not shares.whole


def test_heads_that_are_normalised_together_are_named():
    module = api.parse(NORMALISED)
    shares = tensor_shares(module, 4)
    whole, split = 512**2 + 512, 512**2 + 2 * 512 * 2048
    assert shares.weights == pytest.approx((whole + split / 4) / (whole + split))
    assert 0.25 < shares.flops < 1
    assert {name for whole in shares.whole for name in whole.names} == {"wq", "scale"}
    assert "MatMul" in shares.ops
    with listening() as said:
        transform(module, "tp=4")
    assert said == shares.lines
    assert "of the FLOPs and" in said[0]
    assert any("`%wq`" in line and "dimension 1: `RMSNormalization` needs it whole" in line for line in said)


def test_strict_refuses_it():
    module = api.parse(NORMALISED)
    for words in (["tp=4", "strict"], ["dtp=2,4,1", "strict=true"]):
        with pytest.raises(ProgramError) as caught:
            transform(module, *words)
        (found,) = caught.value.diagnostics
        assert found.code.number == "DIR625"
        assert any("`%wq`" in note.message for note in found.notes)
    even = mlp(4, 1024, batch=64, bias=False)
    assert transform(even, "tp=4", "strict=true") == transform(even, "tp=4")


def test_a_vocabulary_that_does_not_divide_is_named():
    shares = tensor_shares(gpt2(2, 64, 4, 8, vocabulary=101), 4)
    (reason,) = {whole.why for whole in shares.whole if "wte.weight" in whole.names}
    assert reason.startswith("dimension 0: 4 does not divide 101")


def test_the_same_for_all_replicas_and_stages():
    """`dtp` says of its shards what `tp` says, for a pipeline has the same FLOPs and weights in all."""
    module = mlp(4, 64, batch=64, training=True)
    with listening() as alone:
        transform(module, "tp=2")
    for words in (["dtp=1,2,1"], ["dtp=2,2,1"], ["dtp=2,2,1", "representative=true"]):
        with listening() as said:
            transform(module, *words)
        assert said == alone
    with listening() as said:
        transform(module, "dtp=1,2,2", "microbatches=2")
    assert any(re.match(r"each device has 5\d\.?\d* % of the FLOPs and 50", line) for line in said)


@pytest.mark.parametrize("words", ["tp=4", "dp=2 tp=4 zero=3", "tp=4 split=wq:1"])
def test_a_mesh_says_which_weights_shards_have_whole(words):
    module = api.parse(NORMALISED)
    step = " ".join(word for word in words.replace("split", "shard").split() if word[:2] in ("tp", "sh"))
    with listening() as alone:
        transform(module, *step.split())
    with listening() as said:
        transform(module, "mesh", *words.split())
    of_weights = [line.replace("`shard`", "`split`") for line in alone if "of the weights:" in line]
    assert of_weights
    assert [line for line in said if "of the weights:" in line] == of_weights
    share = re.search(r"and (\S+ % of the weights, where .*)", alone[0])
    assert f"each shard has {share[1]}" in said


def test_the_command_prints_it_and_has_a_flag(distir, tmp_path):
    program = tmp_path / "normalised.dir"
    program.write_text(NORMALISED)
    ended = distir("transform", "tp=4", program)
    assert ended.code == 0
    assert "tp: each device has" in ended.err
    assert "`%wq`" in ended.err
    strict = distir("transform", "tp=4", "--strict", program)
    assert (strict.code, strict.out) == (1, "")
    assert "error[DIR625]" in strict.err
    assert distir("transform", "cse", "--strict", program).code == 2


def test_the_editor_writes_it_above_the_program():
    text = transformed(Document(read(NORMALISED), Setup(load("dgx-a100"))), "main", ["tp=4"]).text
    assert text.startswith("// each device has")
    assert "`%wq`" in text[: text.index("func")]
    assert api.parse(text) == transform(api.parse(NORMALISED), "tp=4")


def test_a_search_has_columns_for_it():
    module = api.parse(NORMALISED)
    table = api.search(module, space=Space(4, (8,), (2,)))
    shares = {size: tensor_shares(module, size) for size in (2, 4)}
    assert {row.plan.tensor for row in table} == {1, 2, 4}
    for row in table:
        expected = (
            (shares[row.plan.tensor].flops, shares[row.plan.tensor].weights) if row.plan.tensor > 1 else (None, None)
        )
        assert (row.flops_share, row.weights_share) == expected


OF_NO_EXAMPLE = """func @main(
  %x: Tensor[Float32, (8, 16, 8), 1] {batch = 0}, %a: Tensor[Float32, (8, 64), 1] {param},
  %b: Tensor[Float32, (64, 24), 1] {param}, %router: Tensor[Float32, (8, 4), 1] {param},
  %up: Tensor[Float32, (4, 8, 8), 1] {param}
) {
  %w = MatMul(%a, %b)
  %qkv = MatMul(%x, %w)
  %q, %k, %v = Split[axis = 2](%qkv)
  %h = Attention[is_causal = true, q_num_heads = 2, kv_num_heads = 2](%q, %k, %v)
  %logits = MatMul(%h, %router)
  %weights, %experts = Route[top_k = 1](%logits)
  %places, %counts = Dispatch[num_experts = 4](%experts)
  %rows = Permute(%h, %places)
  %product = RaggedMatMul[top_k = 1](%rows, %up, %counts)
  %y = Unpermute(%product, %places, %weights)
  return %y
}"""
"""One of its weights is a product of two others, which is of no example and no token."""


@pytest.mark.parametrize(
    ("chain", "devices"), [("dp=2", 2), ("ep=4", 4), ("cp=2 cp_experts=true", 2), ("dtp=2,1,1", 2)]
)
def test_work_that_is_not_shared_is_reported(chain, devices):
    shared, alone = 2 * 8 * 16 * 8 * (24 + 4), 2 * 8 * 64 * 24
    with listening() as lines:
        transform(api.parse(OF_NO_EXAMPLE), *chain.split())
    share = percent((shared / devices + alone) / (shared + alone))
    assert f"`MatMul`: each device does {share} of its FLOPs" in lines
    assert any(
        re.fullmatch(f"each device has .* % of the FLOPs, where {100 // devices} % is an even part", x) for x in lines
    )


def test_nothing_is_reported_where_all_work_is_shared():
    with listening() as lines:
        transform(published("llama3-8b", 8, 32, layers=1, width=64, heads=4, kv_heads=2, vocabulary=64), "cp=2", "dp=2")
    assert not lines
