"""Training steps with mixtures of experts on gloo ranks."""

import pytest
from command_line import distir as command
from expert_programs import CAPACITY, LAYER, decoder

import distir
from distir.transform import transform

pytest.importorskip("torch")

__all__ = ["command"]  # a fixture


@pytest.mark.parametrize(
    ("layer", "words"),
    [(LAYER, ["optimizer=adam", "dp=2", "tp=2"]), (CAPACITY, ["tp=2"])],
    ids=["dropless", "capacity"],
)
def test_a_step_gives_what_the_reference_executor_does(command, tmp_path, layer, words):
    path = tmp_path / "step.dir"
    path.write_text(distir.format(transform(decoder(layer, batch=4), "grad", *words)))
    ended = command("launch", path, "--verify", "--timeout", "300s")
    assert ended.code == 0, ended.err
    assert "the results are those of the reference executor" in ended.err
