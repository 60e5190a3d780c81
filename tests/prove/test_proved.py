"""What transforms make is proved, for all values, at the sizes that it has."""

import pytest
from proof_samples import CASES, distributed, sequential

import distir
from distir.prove import ProveError, prove

STRATEGIES = "examples/strategies"


@pytest.mark.parametrize(("name", "words", "training"), CASES)
def test_what_a_transform_makes_is_proved(name, words, training):
    found = prove(distributed(name, words, training), sequential(name, training))
    assert found.failures == ()
    assert len(found.results) == len(sequential(name, training).entry().returned)


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


def test_a_representative_is_no_program_of_all_devices():
    step = distir.transform(sequential("mlp", True), "dtp=2,1,1", "representative=true")
    with pytest.raises(ProveError, match="represents"):
        prove(step, sequential("mlp", True))


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
