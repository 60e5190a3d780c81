"""What transforms make is proved, for all values, at the sizes that it has."""

from functools import cache
from pathlib import Path

import pytest
from proof_samples import CASES, distributed, sequential

import distir
from distir import models
from distir.prove import ProveError, prove

EXAMPLES = Path(__file__).parents[2] / "examples"

FAMILIES = {
    name: {"layers": 2, "batch": 4, "sequence": 8, "dtype": "Float32"}
    for name in ("mixtral-8x7b", "deepseek-v3", "qwen3-32b", "gemma2-27b", "gpt3-175b", "mpt-30b", "t5-11b")
}
FAMILIES["vit-h"] = {"layers": 2, "batch": 4, "dtype": "Float32"}
"""Published models at their real widths, with fewer layers."""


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words", "training"), CASES)
def test_what_a_transform_makes_is_proved(name, words, training):
    found = prove(distributed(name, words, training), sequential(name, training))
    assert found.failures == ()
    assert len(found.results) == len(sequential(name, training).entry().returned)


@cache
def family(name):
    loss = "mse" if name == "vit-h" else "cross_entropy"
    return distir.transform(models.named(name, **FAMILIES[name]), "grad", f"loss={loss}", "optimizer=adam")


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("words", ["dp=2", "tp=2", "pp=2 microbatches=2", "dp=2 zero=3", "dtp=2,2,2 microbatches=2"])
@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_is_proved_at_its_real_width(name, words):
    assert prove(distir.transform(family(name), *words.split()), family(name)).failures == ()


STRATEGIES = ("dp=2 overlap=gradients", "cp=2 cp_kind=a2a", "pp=2 microbatches=4 schedule=interleaved virtual=2")


@pytest.mark.parametrize("words", ["dp=2", "dp=2 zero=1", "fuse", "accumulate=2", *STRATEGIES])
def test_mixed_precision_with_clipping_is_proved(words):
    grad = ("grad", "loss=cross_entropy", "optimizer=adamw", "precision=mixed", "clip=1.0")
    step = distir.transform(sequential("llama"), *grad)
    assert prove(distir.transform(step, *words.split()), step).failures == ()


@pytest.mark.parametrize("ignored", ["", ", ignore_index = -100"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("words", ["tp=2", "dp=2", "tp=2 dp=2"])
def test_losses_over_a_split_vocabulary_are_proved(words, reduction, ignored):
    text = f"""
    func @main(
      %x: Tensor[Float32, (8, 4), 1] {{batch = 0}}, %w: Tensor[Float32, (4, 16), 1] {{param}},
      %l: Tensor[Int64, (8,), 1] {{batch = 0}}
    ) {{
      %s = MatMul(%x, %w)
      %loss = SoftmaxCrossEntropyLoss[reduction = "{reduction}"{ignored}](%s, %l)
      return %loss
    }}
    """
    forward = distir.parse(text)
    steps = [forward] if reduction == "none" else [forward, distir.transform(forward, "grad", "loss=none")]
    for step in steps:
        assert prove(distir.transform(step, *words.split()), step).failures == ()


@pytest.mark.parametrize("dtype", ["Float32", "Float64"])
@pytest.mark.parametrize("rows", [6, 14])
def test_factors_that_are_no_binary_fractions_are_the_same_in_parts(rows, dtype):
    """One row's share of the mean is 1/6, of which no digits after any are exact."""
    text = f"""
    func @main(
      %x: Tensor[{dtype}, ({rows}, 4), 1] {{batch = 0}}, %w: Tensor[{dtype}, (4, 16), 1] {{param}},
      %l: Tensor[Int64, ({rows},), 1] {{batch = 0}}
    ) {{
      %s = MatMul(%x, %w)
      %loss = SoftmaxCrossEntropyLoss[reduction = "sum"](%s, %l)
      %mean = Mul(%loss, {1 / (4 * rows)})
      return %mean
    }}
    """
    step = distir.transform(distir.parse(text), "grad", "loss=none")
    for words in ("tp=2", "dp=2", "tp=2 dp=2"):
        assert prove(distir.transform(step, *words.split()), step).failures == ()


@cache
def dropped():
    """A training step that drops weights of attention and elements, by a seed."""
    model = models.named("gpt3-125m", layers=1, width=8, heads=2, vocabulary=16, batch=4, sequence=4, dropout=0.1)
    return distir.transform(model, "grad", "loss=cross_entropy")


@pytest.mark.parametrize("words", ["dp=2", "tp=2", "dtp=2,2,1 microbatches=2", "accumulate=2", "dp=2 zero=3"])
def test_dropout_by_a_seed_is_proved(words):
    found = distir.transform(dropped(), *words.split())
    assert prove(found, dropped()).failures == ()


def test_a_part_that_is_dropped_as_another_part_is_not_proved():
    text = distir.format(distir.transform(dropped(), "tp=2"))
    assert "[value = [0, 0, 4]]" in text
    wrong = distir.parse(text.replace("[value = [0, 0, 4]]", "[value = [0, 0, 0]]"))
    first = prove(wrong, dropped()).diagnostics(wrong)[0]
    assert "begins at [0, 0, 0], not at [0, 0, 4]" in first.message


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("words", ["dp=2", "tp=2"])
def test_serving_is_proved(phase, words):
    sizes = {"sequence": 8} if phase == "prefill" else {}
    model = models.named("llama3-8b", layers=2, batch=4, context=16, phase=phase, **sizes)
    assert prove(distir.transform(model, *words.split()), model).failures == ()


OVERLAPS = (
    "dp=2 overlap=gradients",
    "tp=2 overlap=products",
    "dp=2 zero=3 overlap=weights",
    "pp=2 microbatches=2 overlap=transfers",
    "cp=2 cp_kind=ring overlap=context",
)


@pytest.mark.parametrize("words", OVERLAPS)
def test_overlap_is_proved(words):
    step = sequential("llama", True)
    assert prove(distir.transform(step, *words.split()), step).failures == ()


EQUAL = {
    "mlp_pipeline": "mlp_sequential",
    "mlp_pipeline_swapped": "mlp_sequential",
    "mlp_checkpointing": "mlp_no_checkpointing",
}
"""Examples that compute the same: by name, those on one device. `mlp_zero` takes other parameters than its like."""


def strategies():
    """The examples of strategies, with what they are made of."""
    for path in sorted((EXAMPLES / "strategies").glob("*_*.dir")):
        model, *rest = path.stem.split("_")
        sequential = f"{model}_training" if model == "mlp" or rest[0] == "training" else model
        if path.stem != sequential:
            yield f"strategies/{path.stem}", f"strategies/{sequential}"


@pytest.mark.parametrize(("distributed", "against"), [*EQUAL.items(), *strategies()])
def test_examples_are_proved(distributed, against):
    modules = [distir.parse((EXAMPLES / f"{name}.dir").read_text()) for name in (distributed, against)]
    assert prove(*modules).proved


def test_parameters_may_be_on_other_devices():
    """`tp` of a pipeline: stages begin at devices 1 and 3 instead of 1 and 2, and so do what `@mlpPP.scatter` takes."""
    pipeline = distir.parse((EXAMPLES / "mlp_pipeline.dir").read_text())
    assert prove(distir.transform(pipeline, "tp=2"), pipeline).proved


def test_sums_in_another_order_are_said():
    laws = prove(distributed("mlp", "tp=2"), sequential("mlp")).laws
    assert any("in any order" in law for law in laws)
    assert prove(sequential("mlp"), sequential("mlp")).laws == ()


def test_named_dimensions_need_sizes():
    text = """
    func @main(%x: Tensor[Float32, (B, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1] {param}) {
      %h = MatMul(%x, %w)
      %y = Relu(%h)
      return %y
    }
    """
    module = distir.parse(text)
    with pytest.raises(ProveError, match="--bind"):
        prove(distir.transform(module, "dp=2"), module)
    assert prove(distir.transform(module, "dp=2"), module, {"B": 8}).proved


def test_parameters_must_belong_together():
    with pytest.raises(ProveError, match="scatter"):
        prove(distir.parse("func @main(%x: Tensor[Float32, (8, 8), 1]) { return %x }"), sequential("mlp"))


def test_real_sizes_take_no_more_time():
    """Nothing is run: the weights of this layer alone would be 4 TB."""
    text = """
    func @main(
      %x: Tensor[Float32, (1048576, 1048576), 1] {batch = 0}, %w: Tensor[Float32, (1048576, 1048576), 1] {param}
    ) {
      %h = MatMul(%x, %w)
      %y = Relu(%h)
      return %y
    }
    """
    module = distir.parse(text)
    assert prove(distir.transform(module, "dp=64"), module).proved


def test_constants_that_are_lists_of_lists():
    step = distir.parse("""
    func @main(%x: Tensor[Float32, (4, 3), 1] {batch = 0}) {
      %y = Mul(%x, [[1.0, 2.0, 3.0]])
      %z = Add(%y, [[0.5], [0.25], [1.0], [2.0]])
      return %z
    }
    """)
    assert prove(distir.transform(step, "dp=2"), step).proved
    for old, new in (("[[1.0, 2.0, 3.0]]", "[[1.0, 3.0, 2.0]]"), ("[[1.0, 2.0, 3.0]]", "[[2.0, 2.0, 2.0]]")):
        wrong = distir.format(distir.transform(step, "dp=2")).replace(old, new, 1)
        assert not prove(distir.parse(wrong), step).proved


def test_a_mean_over_labels_of_a_split_vocabulary_whatever_their_number():
    """A share of 1 / 24, which Float32 rounds."""
    step = distir.transform(
        distir.parse("""
func @main(
  %e: Tensor[Float32, (32, 16), 1] {param},
  %x: Tensor[Int64, (24,), 1] {batch = 0},
  %labels: Tensor[Int64, (24,), 1] {batch = 0}
) {
  %h = Gather(%e, %x)
  %a = Tanh(%h)
  %et = Transpose[perm = [1, 0]](%e)
  %scores = MatMul(%a, %et)
  %loss = SoftmaxCrossEntropyLoss(%scores, %labels)
  return %loss
}
"""),
        "grad",
    )
    assert prove(distir.transform(step, "tp=2", "shard=e:0"), step).failures == ()
