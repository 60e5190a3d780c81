"""Proofs of programs on a mesh: by their types, and by their erasures, of which no device is written out."""

import pytest
from mesh_programs import ATTENTION, MLP, PROGRAMS, STAGES, TRAINING
from random_mesh_programs import random_program

from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ide.document import Setup, open_document
from distir.ide.instances import calls_shown
from distir.ide.proofs import Prover, SequentialFile
from distir.prove import ProveError, prove
from distir.syntax import print_module
from distir.transform import transform
from distir.transform.mesh import erase, expand

LAYERS = """\
func @layer(%x, %w, %v) {{
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %p = MatMul(%a, %v)
  %s = AllReduce[axis = "tp"](%p)
  %y = Add(%x, %s)
  return %y
}}

func @main(
  %x: Tensor[Float32, (B@dp, 4096), 1] {{batch = 0}},
  [%w_{{1..126}}: Tensor[Float32, (4096, 8192@tp), 1] {{param}},
   %v_{{1..126}}: Tensor[Float32, (8192@tp, 4096), 1] {{param}}]
) mesh (dp = {dp}, tp = {tp}) {{
  %y = @layer(%x then %y, [%w_{{1..126}}], [%v_{{1..126}}]) 126 times
  return %y
}}
"""

SQUARES = """\
func @main(
  %x: Tensor[Float32, (8@dp, 4), 1] {batch = 0},
  %t: Tensor[Float32, (8@dp, 4), 1] {batch = 0},
  %w: Tensor[Float32, (4, 4), 1] {param}
) mesh (dp = 2) {
  %y = MatMul(%x, %w)
  %own = MSELoss(%y, %t)
  %loss = AllReduce[axis = "dp"](%own)
  %dy = MSELossGrad(%loss, %y, %t)
  %dw_own = Gemm[transA = true](%x, %dy)
  %dw = AllReduce[axis = "dp"](%dw_own)
  %w_new = SGD(%w, %dw)
  return %loss, %w_new
}
"""


def module(text):
    program = read(text)
    assert not program.errors, program.errors[0]
    return program.module


def blamed(text, sequential, sizes=None):
    """The line at which it is not proved, and why."""
    program = read(text)
    assert not program.errors, program.errors[0]
    proof = prove(program.module, sequential, sizes)
    assert not proof.proved
    found = program.located(proof.diagnostics(program.module))
    number, _ = program.source.position(found[0].site.start)
    return program.source.line(number).strip(), found[0].message.removeprefix("not proved: ")


@pytest.mark.parametrize("text", [*PROGRAMS.values(), SQUARES], ids=[*PROGRAMS, "squares"])
def test_a_program_is_proved_against_its_erasure_for_all_sizes_and_the_other_way_round(text):
    placed = module(text)
    proof = prove(placed, erase(placed))
    assert proof.proved
    assert proof.any_size
    assert proof.meshes == placed.meshes
    assert prove(erase(placed), placed).proved
    assert prove(placed, placed).proved


def test_what_devices_do_with_a_loss_of_parts_is_proved_on_the_mesh_alone():
    assert not prove(expand(module(SQUARES)), erase(module(SQUARES))).proved


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_functions_begin_does_not_matter(name):
    placed = module(PROGRAMS[name])
    inlined = transform(erase(placed), "inline")
    assert prove(placed, inlined).any_size
    assert prove(inlined, placed).any_size


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_are_proved(seed):
    placed = random_program(seed)
    assert prove(placed, erase(placed)).any_size


def test_a_mesh_of_any_size_is_proved_and_its_layers_once():
    sequential = erase(module(LAYERS.format(dp=1, tp=1)))
    assert prove(module(LAYERS.format(dp=2048, tp=8)), sequential).any_size
    first = LAYERS.format(dp=2048, tp=8).replace("[%w_{1..126}], ", "[%w_1, %w_1, %w_{3..126}], ")
    assert blamed(first, sequential)[1] == "`@layer` is given `%w_1`, and in the sequential program `%w_2`"


@pytest.mark.parametrize(
    ("text", "edit", "line", "reason"),
    [
        (
            TRAINING,
            ("(%w1, %dw1,", "(%w1, %w1,"),
            "= Adam(",
            "is given `%w1`, and in the sequential program `%dw1_own`",
        ),
        (
            TRAINING,
            ("(%dy, %w2t)", "(%d, %w2t)"),
            "%da = MatMul",
            "given `%d`, of `Sub`, and in the sequential program `%dy`",
        ),
        (TRAINING, ("0.015625", "0.03125"), "%dy = Mul", "given `0.03125`, and in the sequential program `0.015625`"),
        (TRAINING, ("%loss, %w1_new", "%loss, %w1"), "return", "expected `%w1_new`, of `Adam`, found `%w1`"),
        (TRAINING, ("%a = Relu", "%a = Tanh"), "%a = Tanh", "the sequential program has no `Tanh`"),
        (
            ATTENTION,
            ("is_causal = 1", "is_causal = 0"),
            "%a = Attention",
            "has `is_causal = false`, and in the sequential",
        ),
        (
            ATTENTION,
            ("(%q, %k, %v)", "(%q, %v, %k)"),
            "%a = Attention",
            "is given `%v`, of `Split`, and in the sequential",
        ),
        (STAGES, ("[%w_{1..4}],", "[%w_1, %w_2, %w_2, %w_4],"), "4 times", "`@layer` is given `%w_2`"),
    ],
)
def test_the_first_statement_whose_value_differs_is_named(text, edit, line, reason):
    assert text.count(edit[0]) == 1
    found = blamed(text.replace(*edit), erase(module(text)))
    assert line in found[0]
    assert reason in found[1]


def test_what_is_written_otherwise_is_proved_by_equal_terms_at_sizes_that_are_known():
    twice = MLP.replace("return %y", "%z = Add(%y, %y)\n  %half = Mul(%z, 0.5)\n  return %half")
    twice = erase(module(twice))
    unknown = prove(module(MLP), twice)
    assert not unknown.proved
    assert unknown.any_size
    known = prove(module(MLP), twice, {"B": 8})
    assert known.proved
    assert not known.any_size


def test_a_program_that_does_not_check_is_not_proved():
    wrong = read(MLP.replace('AllReduce[axis = "tp"](%p)', "Relu(%p)")).module
    with pytest.raises(ProgramError):
        prove(wrong, erase(module(MLP)))


def test_programs_of_other_parameters_or_results_are_not_compared():
    sequential = print_module(erase(module(MLP)))
    with pytest.raises(ProveError, match="`%w2`, in its place in the sequential program"):
        prove(module(MLP), module(sequential.replace("24, 12", "24, 6")))
    with pytest.raises(ProveError, match="expected 2 results, as `@mlp` has, found 1"):
        prove(module(MLP), module(sequential.replace("return %y", "return %y, %h")))
    with pytest.raises(ProveError, match="expected 3 parameters"):
        prove(module(ATTENTION), module(sequential))


def test_the_editor_proves_a_program_on_a_mesh():
    document = open_document(TRAINING, "mesh.dir", Setup(load("dgx-a100")))
    against = SequentialFile("sequential.dir", read(TRAINING))
    assert not Prover().prove(document, against, calls_shown(document)).unlocated
    wrong = open_document(TRAINING.replace("0.015625", "0.5"), "mesh.dir", Setup(load("dgx-a100")))
    assert Prover().prove(wrong, against, calls_shown(wrong)).unlocated


def test_prove_says_what_it_claims(distir, tmp_path):
    path, against = tmp_path / "mlp.dir", tmp_path / "sequential.dir"
    path.write_text(MLP)
    distir("erase", path, "-o", against)
    ended = distir("prove", path, "--against", against)
    assert ended.code == 0, ended.err
    assert (
        "proved: 1 result, for all values and sizes, each copy and part of them on each device of "
        "`mesh (dp = 2, tp = 2)`"
    ) in ended.err + ended.out
    assert "each device adds its terms of a sum before they are added up" in ended.err + ended.out


def test_placements_are_not_stated_a_second_time(distir, tmp_path):
    path, where = tmp_path / "mlp.dir", tmp_path / "where.toml"
    path.write_text(MLP)
    where.write_text("")
    ended = distir("prove", path, "--against", path, "--where", where)
    assert ended.code != 0
    assert "leave out what states it besides" in ended.err


UNKNOWN = {
    "size": """func @main(%x: Tensor[Float32, (?@dp, 8), 1]) mesh (dp = 2) {
  %y = Softmax[axis = 0](%x)
  return %y
}
""",
    "type": """func @main(%x: D1, %w: Tensor[Float32, (8@dp, 8), 1]) mesh (dp = 2) {
  %y = MatMul(%x, %w)
  return %y
}
""",
    "called and claimed": """func @layer(%x) {
  %y = Softmax[axis = 0](%x)
  return %y
}

func @main(%x: Tensor[Float32, (?@dp, 8), 1]) mesh (dp = 2) {
  %y: Tensor[Float32, (?@dp, 8), 1] = @layer(%x)
  return %y
}
""",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_is_proved_where_it_is_not_known_where_parts_are(text):
    """A size that is not known may hide that rows are split which an op needs whole."""
    program = read(text)
    (found,) = program.diagnostics
    assert found.code.number == "DIR427"
    plain = text.replace(" mesh (dp = 2)", "").replace("@dp", "")
    with pytest.raises(ProgramError, match="DIR427"):
        prove(program.module, read(plain).module)


def test_sizes_that_are_not_known_are_no_error_where_no_row_is_split_that_is_needed_whole():
    text = UNKNOWN["size"].replace("Softmax[axis = 0]", "Relu")
    assert not read(text).diagnostics
