"""Lowered folders that were changed by hand: ranks that would not meet are refused before anything is sent."""

import importlib.util
import json
import sys

import pytest
from communicating_programs import random_program
from lowering_samples import entry, load_runtime

from distir.lower import Launch, LaunchError, launch, lower
from distir.syntax import parse

torch = pytest.importorskip("torch")

TEXT = """\
func @main(
  %w_1: Tensor[Float32, (8, 8), 1] {param},
  %w_2: Tensor[Float32, (8, 8), 2] {param},
  %x: Tensor[Float32, (4, 8), 1]
) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2]](%x)
  %y_1 = MatMul(%x_1, %w_1)
  %y_2 = @layer(%x_2, %w_2)
  %z_1, %z_2 = MPIAllreduce(%y_1, %y_2)
  %b = Send[device = 1](%z_2)
  %r = Add(%z_1, %b)
  return %r
}

func @layer(%x: Tensor[Float32, (2, 8), 2], %w: Tensor[Float32, (8, 8), 2]) {
  %y = MatMul(%x, %w)
  return %y
}
"""


def rehearse(folder, monkeypatch):
    """What `rehearsal.check` says of a folder to all ranks, without starting any."""
    runtime = load_runtime(folder)
    monkeypatch.setitem(sys.modules, "runtime", runtime)
    spec = importlib.util.spec_from_file_location("rehearsal", folder / "rehearsal.py")
    rehearsal = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rehearsal)
    manifest = json.loads((folder / "program.json").read_text())
    notes, programs = [], []
    for rank in range(len(manifest["devices"])):
        program = runtime.LoweredProgram(folder)
        program.rank = rank
        for ranks in manifest["groups"]:
            program.module.GROUP[tuple(ranks)] = object()
        program.module.C[:] = program._constants(torch.device("cpu"))
        notes.append(rehearsal.communications(program, "main"))
        programs.append(program)
    monkeypatch.setattr(runtime, "exchanged", lambda own: notes)
    for program in programs:
        rehearsal.check(program, "main")
    return notes


def changed(folder, old, new):
    lower([entry(parse(TEXT).module)]).write(folder)
    text = (folder / "program.py").read_text()
    head, mark, tail = text.partition("def f_main_rank_1")
    assert old in tail
    (folder / "program.py").write_text(head + mark + tail.replace(old, new))


def test_the_compiler_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    lower([entry(parse(TEXT).module)]).write(tmp_path)
    assert all(rehearse(tmp_path, monkeypatch))
    assert "torch._dynamo" not in sys.modules


@pytest.mark.parametrize("seed", range(12))
def test_what_is_lowered_is_not_refused(tmp_path, monkeypatch, seed):
    lower([entry(random_program(seed))]).write(tmp_path)
    notes = rehearse(tmp_path, monkeypatch)
    assert None not in notes
    assert any(notes)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    z_2 = all_reduce(", "    all_reduce(y_2, GROUP[0, 1])\n    z_2 = all_reduce(", "rank 0 is at line"),
        ("    send(z_2, 0)", "    pass", "rank 1 has ended"),
        ("    send(z_2, 0)", "    send(z_2[:1], 0)", "send of 8 float32"),
        ("    send(z_2, 0)", "    send(z_2.double(), 0)", "send of 16 float64"),
    ],
)
def test_ranks_that_would_not_meet_are_refused(tmp_path, monkeypatch, old, new, told):
    changed(tmp_path, old, new)
    with pytest.raises(Exception, match="the ranks would deadlock") as caught:
        rehearse(tmp_path, monkeypatch)
    assert told in str(caught.value)


def test_a_change_that_keeps_the_order_is_run(tmp_path, monkeypatch):
    changed(tmp_path, "    send(z_2, 0)", "    send(z_2 * 2, 0)")
    assert [len(own) for own in rehearse(tmp_path, monkeypatch)] == [3, 3]


def test_what_cannot_be_foreseen_is_run(tmp_path, monkeypatch):
    changed(tmp_path, "    send(z_2, 0)", "    send(z_2 * z_2.sum().item(), 0)")
    assert rehearse(tmp_path, monkeypatch)[1] is None


def test_a_changed_folder_is_refused_when_it_is_started(tmp_path):
    changed(tmp_path, "    send(z_2, 0)", "    pass")
    with pytest.raises(LaunchError, match=r"rank 1 has ended") as caught:
        launch(Launch(tmp_path, (1, 2), timeout_s=300))
    assert "line" in str(caught.value)
    assert "receive((2, 8), torch.float32, 1)" in str(caught.value)
