"""What a program on a mesh means: its erasure, and its expansion, which compute the same on every device."""

import numpy as np
import pytest
from mesh_programs import ATTENTION, MLP, PROGRAMS
from random_mesh_programs import random_program

import distir
from distir.analysis import check
from distir.analysis.program import read
from distir.models import named
from distir.ops import canonical
from distir.simulate.simulation import simulate
from distir.syntax import parse, print_module, print_rolled
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

SIZES = {"B": 4}


def module(text):
    program = read(text)
    assert not program.errors, program.errors[0]
    return program.module


def agrees(placed):
    """Whether the expansion gives what the erasure gives, on every copy."""
    found = verify(erase(placed), expand(placed), bind=SIZES)
    assert not found.unclaimed
    wrong = [row for row in found.results if not row.max_abs_error <= row.tolerance]
    assert not wrong, wrong
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_by_hand_agrees_with_its_erasure_on_every_copy(name):
    assert agrees(module(PROGRAMS[name])).copies


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_by_hand_is_its_text(name):
    placed = module(PROGRAMS[name])
    assert module(print_rolled(placed)) == placed
    assert not check(expand(placed)).errors


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_agree_with_their_erasure_and_are_their_text(seed):
    placed = random_program(seed)
    assert not check(placed).errors
    again = parse(print_module(placed), spelling=canonical)
    assert not again.diagnostics
    assert again.module == placed
    agrees(placed)


def test_erasure_takes_placements_and_collectives_away():
    assert print_module(erase(module(MLP))) == (
        """\
func @mlp(
  %x: Tensor[Float32, (B, 12), 1] {batch = 0},
  %w1: Tensor[Float32, (12, 24), 1] {param},
  %w2: Tensor[Float32, (24, 12), 1] {param}
) {
  %h = MatMul(%x, %w1)
  %a = Relu(%h)
  %y = MatMul(%a, %w2)
  return %y
}
"""
    )


def test_the_first_axis_of_a_mesh_is_outermost_and_stages_follow_one_another():
    expanded = expand(module(MLP))
    assert "%y_1, %y_2 = MPIAllreduce(%p_1, %p_2)" in print_module(expanded)  # along `tp`, the last axis: neighbours
    gathered = expand(module(ATTENTION))
    assert "%wt_1, %wt_3 = MPIAllgather[axis = 0](%wte_1, %wte_3)" in print_module(gathered)
    assert "Send[device = 5]" in print_module(expand(module(PROGRAMS["stages"])))


def test_rows_that_two_axes_split_are_in_the_order_that_the_type_says():
    text = (
        "func @main(%x: Tensor[Float32, (8@(tp, dp),), 1]) mesh (dp = 2, tp = 2) {\n  %y = Relu(%x)\n  return %y\n}\n"
    )
    scatter = expand(module(text)).functions["main.scatter"]
    found = distir.run(distir.Module([scatter]), [np.arange(8, dtype=np.float32)])
    assert [list(part) for part in found.values()] == [[0, 1], [4, 5], [2, 3], [6, 7]]


def test_names_of_sizes_are_bound_where_the_program_is_expanded():
    named = module(MLP.replace("dp = 2", "dp = B"))
    assert print_module(named) == MLP.replace("dp = 2", "dp = B")
    assert expand(named, {"B": 4}) == expand(module(MLP.replace("dp = 2", "dp = 4")))
    assert distir.simulate(named, "dgx-a100", bind={"B": 4}).latency_s
    only = module(MLP.replace("dp = 2", "dp = D"))
    assert distir.simulate(only, "dgx-a100", bind={"B": 4, "D": 2}).latency_s


def test_a_program_without_a_mesh_is_its_own_erasure_and_expansion():
    plain = erase(module(MLP))
    assert erase(plain) is plain
    assert expand(plain) is plain


def test_steps_and_the_simulator_refuse_a_program_on_a_mesh_in_one_sentence():
    placed = module(MLP)
    for use in (lambda: distir.transform(placed, "grad"), lambda: simulate(placed, "dgx-a100", bind=SIZES)):
        with pytest.raises(distir.ProgramError) as caught:
            use()
        assert [d.code.number for d in caught.value.diagnostics] == ["DIR691"]


@pytest.mark.parametrize("strategy", ["dp=2", "dp=2 tp=2", "dp=2 tp=2 sequence zero=3", "dp=4 tp=2", "dp=2 cp=2 tp=2"])
def test_sizes_of_a_named_batch_are_those_of_all_devices(strategy):
    """The mean of a loss divides by the number of labels, which is read from what one device has."""
    sizes = {"layers": 1, "width": 32, "heads": 8, "kv_heads": 4, "ffn": 64, "vocabulary": 64}
    step = distir.transform(named("llama3-8b", None, 8, **sizes), "grad", "loss=cross_entropy", "optimizer=sgd")
    made = distir.transform(step, "mesh", *strategy.split())
    found = verify(step, made, bind={"B": 8})
    assert found.equal, [row for row in found.results if not row.equal]
