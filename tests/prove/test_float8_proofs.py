"""Scales of 8-bit floats: the greatest magnitude of a tensor is that of its parts, and blocks lie within parts."""

from functools import cache
from random import Random

import pytest
from program_mutations import mutants
from proof_samples import sequential
from thorough import ALL

import distir
from distir.analysis import check
from distir.prove import ProveError, prove
from distir.transform import transform, verify

CASES = {
    "fp8=tensor": ("dp=2", "tp=2", "dtp=2,2,1", "dtp=2,2,1 representative=true", "dp=2 zero=3 partition=split"),
    "fp8=mx block=2": ("cp=2", "tp=2 sequence=true", "dtp=1,2,2 microbatches=2 context=2 cp_kind=ring"),
    "fp8=tensor micro_batch=1": ("tp=2 sequence=true", "dtp=2,2,2 microbatches=2", "accumulate=2 dp=2 zero=3"),
}


@cache
def on_one_device(kind):
    return transform(sequential("llama"), *kind.split(), "grad", "loss=cross_entropy")


@cache
def split(kind, words):
    return transform(on_one_device(kind), *words.split())


@pytest.mark.by_turns
@pytest.mark.parametrize(("kind", "words"), [(kind, words) for kind, several in CASES.items() for words in several])
def test_what_a_transform_makes_is_proved(kind, words):
    assert prove(split(kind, words), on_one_device(kind)).proved


def test_the_least_of_the_parts_is_not_the_greatest():
    text = distir.format(split("fp8=tensor", "tp=2"))
    wrong = distir.parse(text.replace("ReduceMax(%every_1_1, [0])", "ReduceMin(%every_1_1, [0])", 1))
    assert not prove(wrong, on_one_device("fp8=tensor")).proved


def test_scales_of_larger_blocks_than_those_of_the_whole_are_not_proved():
    """Of the parts 0 and 3 of four, in zig-zag, each of two places: one scale for both."""
    text = distir.format(split("fp8=mx block=2", "cp=2"))
    gradient = text[text.index("func @LlamaDecoderLayerGrad") : text.index("func @main")]
    own = [
        line.replace("[2, 1]", "[4, 1]") if "transA" in line or "QuantizeFloat8" in line else line
        for line in gradient.splitlines(keepends=True)
    ]
    wrong = distir.parse(text.replace(gradient, "".join(own)))
    assert not check(wrong).errors
    assert not prove(wrong, on_one_device("fp8=mx block=2")).proved


@pytest.mark.parametrize(("kind", "words"), [("fp8=tensor", "tp=2"), ("fp8=mx block=2", "cp=2")])
def test_no_wrong_program_is_proved(kind, words):
    random, tried, proved = Random(8), 0, 0
    while tried < (100 if ALL else 6):
        ((_, mutant),) = mutants(split(kind, words), random, 1)
        if check(mutant).errors:
            continue
        tried += 1
        try:
            is_proved = prove(mutant, on_one_device(kind)).proved
        except ProveError:
            continue
        proved += is_proved
        assert not is_proved or verify(on_one_device(kind), mutant).equal
    assert proved < tried / 2
