"""Programs of one representative of each group of devices: what is proved of one is so of all that it represents."""

from random import Random

import pytest
from program_mutations import OF_REPRESENTATIVES, mutants
from proof_samples import distributed, is_proved, sequential
from represented import written_out
from thorough import ALL

import distir
from distir.analysis import check
from distir.prove import ProveError, prove
from distir.transform import verify

STRATEGIES = {
    "mlp": (
        "dtp=2,1,1 representative=true",
        "dtp=2,2,2 microbatches=2 representative=true",
        "dtp=2,2,2 microbatches=2 schedule=zb-h1 layout=tpd representative=true",
        "dtp=4,1,2 microbatches=2 layout=dpt representative=true zero=1 partition=split",
        "dtp=2,2,1 representative=true zero=2 partition=split",
        "dtp=4,1,1 representative=true zero=3 partition=split",
    ),
    "gpt2": ("dtp=2,2,2 microbatches=2 representative=true",),
    "llama": (
        "dtp=2,2,1 representative=true",
        "dtp=2,2,2 microbatches=2 sequence=true representative=true",
        "dtp=2,2,2 microbatches=2 representative=true zero=1 partition=split",
        "dtp=2,1,1 representative=true zero=3 partition=split",
    ),
    "experts": (
        "dtp=2,2,1 experts=2 representative=true",
        "ep=2 representative=true",
        "dtp=2,2,1 experts=2 etp=1 sequence=true representative=true",
    ),
}
COUNT = 2000 if ALL else 12
"""How many mutants that check are tried."""

CASES = [(name, words) for name, strategies in STRATEGIES.items() for words in strategies]


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words"), CASES)
def test_what_a_transform_makes_is_proved(name, words):
    module = distributed(name, words, True)
    assert prove(module, sequential(name, True)).proved
    assert distir.parse(distir.format(module)) == module


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words"), CASES)
def test_so_is_what_it_means(name, words):
    for device in (0, -1):
        whole = written_out(distributed(name, words, True), device)
        assert not check(whole).errors
        assert verify(sequential(name, True), whole).equal
    assert prove(whole, sequential(name, True)).proved


def test_no_wrong_program_is_proved():
    """Of those that are proved, the executor runs all devices: each must give what the sequential program gives."""
    random = Random(22)
    slipped, refused, tried = [], 0, 0
    while tried < COUNT:
        name, words = random.choice(CASES)
        original = sequential(name, True)
        ((kind, mutant),) = mutants(distributed(name, words, True), random, 1, OF_REPRESENTATIVES)
        if check(mutant).errors:
            continue
        tried += 1
        if not is_proved(mutant, original):
            refused += 1
        elif not all(is_right(written_out(mutant, device), original) for device in (0, -1)):
            slipped.append((name, words, kind))
    assert slipped == []
    assert refused > COUNT / 2


def is_right(module, original):
    return not check(module).errors and verify(original, module).equal


MEAN = """\
func @main(%x: Tensor[Float32, (4, 2), 1]) {
  %s = ReduceSum[keepdims = false](%x, [0])
  return %s
}
"""
HALF = """\
func @main(%x: Tensor[Float32, (2, 2), 1]) {
  %s = ReduceSum[keepdims = false](%x, [0])
  %t = GroupAllreduce[size = SIZE, stride = STRIDE](%s)
  return %t
}

func @main.scatter(%x: Tensor[Float32, (4, 2), 1]) {
  %p, _ = Split[axis = 0, num_outputs = 2OWN](%x)
  return %p
}
"""


def proof_of_half(size, stride, own=4):
    text = (
        HALF.replace("SIZE", str(size))
        .replace("STRIDE", str(stride))
        .replace("OWN", f", stride = {own}" if own else "")
    )
    return prove(distir.parse(text), distir.parse(MEAN))


def test_each_device_adds_its_own_rows():
    assert proof_of_half(2, 4).proved


def test_a_sum_over_other_devices_counts_the_same_rows_again():
    assert not proof_of_half(2, 1).proved
    assert not proof_of_half(4, 4).proved


def test_the_first_rows_on_each_device_are_not_all_rows():
    proof = proof_of_half(2, 4, own=0)
    assert not proof.proved
    assert "addends" in proof.failures[0].reason


def test_groups_that_are_no_mesh():
    with pytest.raises(ProveError, match="devices 2 apart, and devices 3 apart, are groups of no mesh"):
        proof_of_half(3, 2, own=3)


def test_two_devices_that_represent_the_same_one():
    text = HALF.replace("SIZE", "2").replace("STRIDE", "4").replace("OWN", ", stride = 4")
    both = text.replace("(2, 2), 1])", "(2, 2), 1], %y: Tensor[Float32, (2, 2), 5])")
    with pytest.raises(ProveError, match="devices 1 and 5 both represent device 5"):
        prove(distir.parse(both), distir.parse(MEAN))
