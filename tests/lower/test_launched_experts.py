"""Training steps with mixtures of experts on gloo ranks."""

import pytest
from expert_programs import CAPACITY, LAYER, decoder

from distir.transform import transform

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("layer", "words"),
    [(LAYER, ["optimizer=adam", "dp=2", "tp=2"]), (CAPACITY, ["tp=2"])],
    ids=["dropless", "capacity"],
)
def test_a_step_gives_what_the_reference_executor_does(ranks, tmp_path, layer, words):
    ranks.largest_error(transform(decoder(layer, batch=4), "grad", *words), tmp_path)
