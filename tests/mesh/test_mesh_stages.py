"""Stages whose meshes differ: their devices, and what is sent between them."""

import pytest

import distir
from distir.analysis.program import read
from distir.diagnostics import Severity
from distir.ide.hover import hover
from distir.ops import canonical
from distir.syntax import parse, print_module, print_rolled
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify
from tests.ide.reading_samples import viewed

STAGED = """\
func @stage(%x, %w, %v) {
  %h = MatMul(%x, %w)
  %r = Relu(%h)
  %p = MatMul(%r, %v)
  %y = AllReduce[axis = "tp"](%p)
  return %y
}

func @main(
  %x: Tensor[Float32, (8@dp, 8), 1] {batch = 0},
  %w1: Tensor[Float32, (8, 16@tp), 1] {param},
  %v1: Tensor[Float32, (16@tp, 8), 1] {param},
  %w2: Tensor[Float32, (8, 16@tp), 2] {param},
  %v2: Tensor[Float32, (16@tp, 8), 2] {param}
) mesh (dp = 4, tp = 2), mesh 2 (dp = 2, tp = 2) {
  %y1 = @stage(%x, %w1, %v1)
  %sent = Send[device = 2](%y1)
  %y2 = @stage(%sent, %w2, %v2)
  return %y2
}
"""

SENT = """\
func @main(%x: Tensor[Float32, ({shape}), 1{pending}]) mesh ({here}), mesh 2 ({there}) {{
  %y = Send[device = 2](%x)
  %z = Neg(%y)
  return %z
}}
"""


def errors(text):
    return [d for d in read(text).diagnostics if d.severity is Severity.ERROR]


def agrees(text):
    """Whether the expansion gives what the erasure gives, on every copy; the expansion."""
    assert not errors(text)
    module = read(text).module
    expanded = expand(module)
    assert read(print_module(expanded)).module == expanded
    assert not errors(print_rolled(expanded))
    found = verify(erase(module), expanded)
    assert not found.unclaimed
    assert all(row.max_abs_error <= row.tolerance for row in found.results)
    return expanded


def test_stages_of_different_meshes_agree_with_the_sequential_program():
    expanded = agrees(STAGED)
    devices = {param.type.device for param in expanded.functions["main"].params}
    assert devices == {*range(1, 13)}  # 8 of the first stage, and 4 of the second
    assert distir.simulate(read(STAGED).module, "dgx2-v100").latency_s > 0


def test_meshes_of_stages_are_their_text():
    found = parse(STAGED, spelling=canonical).module
    assert found.functions["main"].stages == ((2, (("dp", 2), ("tp", 2))),)
    assert print_module(found) == STAGED


@pytest.mark.parametrize(
    ("shape", "here", "there"),
    [
        ("8@dp, 8", "dp = 4", "dp = 2"),
        ("8@dp, 8", "dp = 2", "dp = 4, tp = 2"),
        ("8@(tp, dp), 4@cp", "dp = 2, tp = 2, cp = 2", "cp = 4, dp = 1, tp = 2"),
        ("8@(tp, dp), 4@cp", "tp = 2, dp = 1, cp = 2", "dp = 4, tp = 2, cp = 4"),
        ("8@dp, 4@cp", "dp = 4, cp = 2", "cp = 4, dp = 2"),
        ("8, 8", "dp = 4", "dp = 2, tp = 2"),
        ("16@tp[8, 8], 4", "dp = 4, tp = 2", "dp = 1, tp = 2"),
        ("8, 8", "dp = 1", "dp = 1, tp = 1"),
    ],
)
def test_each_device_of_the_next_stage_gets_its_part(shape, here, there):
    agrees(SENT.format(shape=shape, here=here, there=there, pending=""))


def test_a_sum_is_sent_along_an_axis_of_as_many_devices():
    text = STAGED.replace('  %y = AllReduce[axis = "tp"](%p)\n', "").replace("return %y\n", "return %p\n", 1)
    text = text.replace("(%sent, %w2", "(%whole, %w2").replace("return %y2", "return %end")
    text = text.replace("  %y2 =", '  %whole = AllReduce[axis = "tp"](%sent)\n  %y2 =')
    agrees(text.replace("  return %end", '  %end = AllReduce[axis = "tp"](%y2)\n  return %end'))


@pytest.mark.parametrize(
    ("shape", "here", "there", "message", "help"),
    [
        (
            "8@tp, 8",
            "tp = 2",
            "dp = 2",
            "the mesh of stage 2 has no axis `tp`",
            'insert `AllGather[axis = "tp", dim = 0]` for `%x`',
        ),
        (
            "24@tp, 8",
            "tp = 4",
            "tp = 6",
            "4 parts of dimension 0 do not make up 6",
            'insert `AllGather[axis = "tp", dim = 0]` for `%x`',
        ),
        (
            "16@tp[8, 8], 8",
            "tp = 2",
            "tp = 4",
            "dimension 0 is split in blocks, over `tp = 2` here and `tp = 4` there",
            'insert `AllGather[axis = "tp", dim = 0]` for `%x`',
        ),
    ],
)
def test_what_no_device_there_can_put_together_is_refused_with_what_brings_it(shape, here, there, message, help):
    (found,) = errors(SENT.format(shape=shape, here=here, there=there, pending=""))
    assert found.code.number == "DIR423"
    assert found.message.endswith(message)
    assert found.help == help


def test_a_pending_sum_over_other_devices_is_summed_before_it_is_sent():
    text = STAGED.replace("mesh 2 (dp = 2, tp = 2)", "mesh 2 (dp = 2, tp = 4)")
    text = text.replace(
        "  %sent = Send[device = 2](%y1)",
        "  %p = MatMul(%x, %w1)\n  %q = MatMul(%p, %v1)\n  %sent = Send[device = 2](%q)",
    )
    found = errors(text)[0]
    assert "the terms of a pending sum are on 2 devices along `tp`, and stage 2 has 4" in found.message
    assert found.help == 'insert `AllReduce[axis = "tp"]` for `%q`'


@pytest.mark.parametrize(
    ("meshes", "code"),
    [
        ("mesh 2 (dp = 2, tp = 2)", "DIR420"),
        ("mesh (dp = 4, tp = 2), mesh 2 (dp = 2, tp = 2), mesh 2 (dp = 2, tp = 2)", "DIR116"),
        ("mesh (dp = 4, tp = 2), mesh 0 (dp = 2, tp = 2)", "DIR420"),
        ("mesh (dp = 4, tp = 2), mesh 7 (dp = 2, tp = 2)", "DIR420"),
        ("mesh (dp = 4, tp = 2), mesh 2 (dp = 3, tp = 2)", "DIR310"),
        ("mesh (dp = 4, tp = 2), mesh 2 (dp = 2, tp = 3)", "DIR422"),
    ],
)
def test_meshes_of_stages_that_cannot_be_are_refused(meshes, code):
    found = errors(STAGED.replace("mesh (dp = 4, tp = 2), mesh 2 (dp = 2, tp = 2)", meshes))
    assert code in {d.code.number for d in found} or (code == "DIR310" and found)


def test_hover_says_what_is_along_an_axis_in_each_stage_and_what_a_device_holds():
    said = hover(viewed(STAGED), STAGED.index("@dp") + 1).markdown
    assert "axis `dp` of `mesh (dp = 4, tp = 2)`: groups of 4 devices, 2 apart" in said
    assert "axis `dp` of `mesh 2 (dp = 2, tp = 2)`: groups of 2 devices, 2 apart" in said
    assert (
        "each of 4 devices holds `Tensor[Float32, (4, 8), 2]`"
        in hover(viewed(STAGED), STAGED.index("%sent") + 1).markdown
    )


def test_an_edit_of_the_mesh_of_a_stage_is_seen():
    first = read(STAGED)
    assert not first.errors
    assert first.edited(STAGED.replace("mesh 2 (dp = 2, tp = 2)", "mesh 2 (dp = 2, tp = 3)")).errors


def test_a_tuple_of_stages_whose_meshes_differ_is_refused():
    text = STAGED.replace("  return %y2", "  %both = MakeTuple(%y1, %y2)\n  return %both")
    (found,) = errors(text)
    assert "whose meshes differ" in found.message
