"""Experts of which each is on one device whole: the device takes their rows out of those of all tokens."""

import pytest
from proof_samples import distributed, is_proved, sequential

import distir
from distir.ir import TensorType
from distir.ops import type_of
from distir.prove import follow, prove, reference
from distir.prove.pieces import TermPiece
from distir.prove.placements import Placements
from distir.transform import verify

EXPERTS = """
func @main(
  %x: Tensor[Float32, (2, 4, 3), 1] {batch = 0}, %w: Tensor[Float32, (3, 6), 1] {param},
  %v: Tensor[Float32, (6, 3), 1] {param}, %router: Tensor[Float32, (3, 4), 1] {param},
  %up: Tensor[Float32, (4, 3, 5), 1] {param}, %down: Tensor[Float32, (4, 5, 3), 1] {param}
) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %t = MatMul(%a, %v)
  %logits = MatMul(%t, %router)
  %weights, %experts = Route[top_k = 2](%logits)
  %places, %counts = Dispatch[num_experts = 4](%experts)
  %rows = Permute(%t, %places)
  %u = RaggedMatMul(%rows, %up, %counts)
  %e = RaggedMatMul(%u, %down, %counts)
  %y = Unpermute(%e, %places, %weights)
  return %y
}
"""

WRONG = {
    "the rows of the first device": ("%first_2 = Constant[value = 8]", "%first_2 = Constant[value = 0]"),
    "some of the rows": ("Less(%sub_2, 8)", "Less(%sub_2, 4)"),
    "rows in another place": ("Sub(%mod_2, %first_2)", "Add(%mod_2, 8)"),
    "another remainder": ("Mod(%places_2, 16)", "Mod(%places_2, 8)"),
    "the first row for those that are elsewhere": ("%where_2, -1)", "%where_2, 0)"),
    "a row too many": ("Permute(%t_sum_2, %where_1_2, _, 8)", "Permute(%t_sum_2, %where_1_2, _, 9)"),
    "places of the other device": ("Unpermute(%e_2, %where_1_2,", "Unpermute(%e_2, %where_1_1_1,"),
    "rows of the other device": ("Permute(%t_sum_2, %where_1_2,", "Permute(%t_sum_2, %where_1_1_1,"),
    "counts of the other device": ("_, %counts_part_2 = Split", "%counts_part_2, _ = Split"),
    "weights forgotten": ("%where_1_2, %weights_2)", "%where_1_2)"),
    "a sum of nothing": ("%y_sum_1, %y_sum_2 = MPIAllreduce(%y_1, %y_2)", "%y_sum_1 = Identity(%y_1)"),
}


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_rows_that_a_device_takes(wrong):
    module = distir.parse(EXPERTS)
    text = distir.format(distir.transform(module, "tp=2", "etp=1", "shard=w:1,v:0"))
    if wrong is None:
        assert is_proved(distir.parse(text), module)
        return
    old, new = WRONG[wrong]
    assert old in text
    if wrong == "a sum of nothing":
        new += "\n  %y_sum_2 = Identity(%y_2)"
    assert not is_proved(distir.parse(text.replace(old, new, 1)), module)


def test_rows_that_are_not_added_up_are_no_microbatches():
    text = distir.format(distributed("experts", "tp=2 etp=1"))
    old = "%routed_sum_1, %routed_sum_2 = MPIAllreduce(%routed_1, %routed_2)"
    assert old in text
    new = "%routed_sum_1 = Identity(%routed_1)\n  %routed_sum_2 = Identity(%routed_2)"
    wrong = distir.parse(text.replace(old, new, 1))
    message = prove(wrong, sequential("experts")).diagnostics(wrong)[0].message
    assert "an all-reduce is missing" in message


@pytest.mark.parametrize(
    "change",
    [
        ("= Or(", "= And("),
        ("Constant[value = 24]()", "Constant[value = 8]()"),
        ("= Add(%sub_1_2, 8)", "= Add(%sub_1_2, 7)"),
    ],
)
def test_a_part_in_two_runs_is_counted_run_after_run(change):
    text = distir.format(distributed("experts", "cp=2 cp_experts=true"))
    assert change[0] in text
    assert not is_proved(distir.parse(text.replace(*change, 1)), sequential("experts"))


@pytest.mark.parametrize("words", ["tp=2 etp=1", "cp=2 cp_experts=true", "ep=2"])
def test_what_is_said_of_a_value_has_its_shape(words):
    """Places among rows are as many as choices, whatever is computed of them; they are no rows with room."""
    followed = follow(distributed("experts", words), reference(sequential("experts")))
    for state in Placements(followed, {}).states.values():
        for name, piece in state.items():
            known = type_of(piece.value) if isinstance(piece, TermPiece) else None
            if isinstance(known, TensorType):
                assert piece.shape == known.shape, name


@pytest.mark.parametrize("words", ["ep=2", "tp=2 etp=1"])
def test_experts_with_a_capacity_that_take_rows_of_others_are_not_proved(words):
    """Without counts each expert has equally many rows: a device has those of its experts."""
    module, text = sequential("capacity"), distir.format(distributed("capacity", words))
    assert is_proved(distir.parse(text), module)
    old = "%down0_1, %down0_2 = MPIScatter[devices = [1, 2]"
    assert old in text
    wrong = distir.parse(text.replace(old, "%down0_2, %down0_1 = MPIScatter[devices = [2, 1]", 1))
    assert not verify(module, wrong).equal
    assert not is_proved(wrong, module)


@pytest.mark.parametrize("words", ["ep=2 skew=1", "tp=2 etp=1 skew=1"])
def test_there_may_be_as_many_rows_with_room_as_without(words):
    """The gradient then states no number of rows; whether there is room enough is known when the program runs."""
    assert is_proved(distributed("experts", words, True), sequential("experts", True))
