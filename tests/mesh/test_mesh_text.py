"""Meshes and placements as they are written."""

import pytest

from distir.analysis.program import read
from distir.ir import PendingAlong, SplitAlong, TensorType
from distir.ops import canonical
from distir.syntax import SyntaxProblem, parse, parse_type, print_module

TYPES = [
    "Tensor[Float32, (B@dp, 4096), 1]",
    "Tensor[Float32, (64@(tp, dp), 32), 1]",
    "Tensor[Float32, ((B+1)@dp, 8*B@tp, (B+1)/2@cp), 1]",
    "Tensor[Float32, (96@tp[32, whole 32, 32], 4), 1]",
    "Tensor[Float32, (96@tp[each 32],), 1]",
    f"Tensor[Float32, (600@(dp, tp[{', '.join(['2'] * 300)}]),), 1]",
    "Tensor[Float32, (8@zigzag(cp), 4@zigzag), 1]",
    "Tensor[Float32, (32@(dp, zigzag(cp[8, 8, 8, 8])), (B+1)@zigzag(tp[each 4])), 1]",
    "Tensor[Float32, (4,), 1, sum tp]",
    "Tensor[Float32, (4@ep, 4), 1, on dp 2]",
    "Tensor[Float32, (4,), 1, offloaded, on cp 1, on dp 2, sum tp]",
    "Tensor[Float32, (), 1, sum (cp, dp)]",
    "Tensor[Float32, (4@dp,), 2, offloaded, max tp]",
    "Tensor[Float32, (4,), ?, sum dp]",
    "Tuple[Tensor[Float32, (4@dp,), 1], Float32[1]]",
]


@pytest.mark.parametrize("text", TYPES)
def test_a_placed_type_is_its_text(text):
    assert str(parse_type(text)) == text


def test_a_placement_is_the_same_however_it_is_written():
    found = parse_type("Tensor[Float32, (64@(tp, dp), 32@( ep ,)), 1, max b, sum (y, x)]")
    assert isinstance(found, TensorType)
    order = (PendingAlong("x"), PendingAlong("y"), PendingAlong("b", "max"))
    assert found.places == (SplitAlong(0, "tp"), SplitAlong(0, "dp"), SplitAlong(1, "ep"), *order)
    assert str(found) == "Tensor[Float32, (64@(tp, dp), 32@ep), 1, sum (x, y), max b]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Tensor[Float32, (4@dp, 4@dp), 1]", "a value is placed along the axis `dp` twice"),
        ("Tensor[Float32, (4@dp,), 1, sum dp]", "a value is placed along the axis `dp` twice"),
        ("Tensor[Float32, (4@dp,), host]", "a host value, which is on no device, cannot be placed on a mesh"),
        ("Tensor[Float32, (4,), 1, min dp]", "expected `offloaded` behind a tensor's device, found `min`"),
        ("Tensor[Float32, (4,), 1, on dp]", "expected an axis and a number behind `on`"),
        ("Tensor[Float32, (4,), 1, on (dp, tp) 2]", "expected an axis and a number behind `on`"),
        ("Tensor[Float32, (4,), 1, sum dp 2]", "expected `offloaded` behind a tensor's device, found `sum`"),
        ("Tensor[Float32, (4@dp,), 1, on dp 2]", "a value is placed along the axis `dp` twice"),
        ("Tensor[Float32, (4@dp.x,), 1]", "expected the name of an axis, found `dp.x`"),
        ("Tensor[Float32, (4@dp[half 2],), 1]", "expected `whole` or `each` before the size of a block, found `half`"),
        (f"Tensor[Float32, (4@dp[{'2, ' * 200}2.5],), 1]", "expected the size of a block, found `2.5`"),
        ("Tensor[Float32, (4@zag(dp),), 1]", "expected an axis, or `zigzag` of one, found `zag(dp)`"),
        ("Tensor[Float32, (4@zigzag(zigzag(dp)),), 1]", "or `zigzag` of one, found `zigzag(zigzag(dp))`"),
        ("Tensor[Float32, (4@(tp, zigzag(dp, cp)),), 1]", "expected `)`"),
        ("Tensor[Float32, (@dp,), 1]", "expected"),
    ],
)
def test_a_placement_that_is_none_is_refused(text, message):
    with pytest.raises(SyntaxProblem) as caught:
        parse_type(text)
    assert message in caught.value.message


def of_head(marks, shape="(8, 4)"):
    end = "" if "max" in shape else ", 1"
    return f"func @main(%x: Tensor[Float32, {shape}{end}]){marks} {{\n  %y = Relu(%x)\n  return %y\n}}\n"


@pytest.mark.parametrize("marks", [" mesh (dp = 2)", "\n mesh (dp = 2, tp = 2,)", " forward, mesh (dp = 2), stage = 1"])
def test_a_mesh_is_stated_behind_the_head(marks):
    found = parse(of_head(marks), spelling=canonical)
    assert not found.diagnostics
    assert found.module.mesh[0] == ("dp", 2)
    assert parse(print_module(found.module), spelling=canonical).module == found.module


@pytest.mark.parametrize(
    ("marks", "shape", "code"),
    [
        (" mesh (dp = 2, dp = 4)", "(8@dp, 4)", "DIR420"),
        (" mesh (dp = 0)", "(8, 4)", "DIR420"),
        (" mesh (dp = 2), mesh (dp = 2)", "(8, 4)", "DIR116"),
        (" mesh ()", "(8, 4)", "DIR101"),
        (" mesch (dp = 2)", "(8, 4)", "DIR120"),
        ("", "(8@dp, 4)", "DIR421"),
        (" mesh (dp = 3)", "(8@dp, 4)", "DIR422"),
        (" mesh (dp = 4, tp = 4)", "(8@(dp, tp), 4)", "DIR422"),
        (" mesh (tp = 2)", "(8@tp[4, 2], 4)", "DIR422"),
        (" mesh (tp = 4)", "(8@tp[6, 2], 4)", "DIR422"),
        (" mesh (dp = 2, tp = 2)", "(8@(tp[4, 4], dp), 4)", "DIR422"),
        (" mesh (dp = 2, tp = 2)", "(8, 4), 1, sum dp, max tp", "DIR422"),
        (" mesh (dp = 1000000000000000000000)", "(8, 4)", "DIR111"),
    ],
)
def test_a_mesh_that_cannot_be_is_refused_once(marks, shape, code):
    errors = [d for d in read(of_head(marks, shape)).diagnostics if d.severity.value == "error"]
    assert [d.code.number for d in errors] == [code], errors
    assert errors[0].help or code in ("DIR101", "DIR111")


def test_a_number_of_devices_that_does_not_divide_is_refused_once_with_what_would_do_for_all():
    text = """
        func @f(%x: Tensor[Float32, (8@dp, 8@tp), 1], %w: Tensor[Float32, (12@tp, 4), 1]) mesh (dp = 3, tp = 8) {
          %y = Relu(%x)
          return %y, %w
        }

        func @g(%v: Tensor[Float32, (20@tp,), 1]) {
          return %v
        }
    """
    first, second = read(text).errors
    assert (first.message, first.help) == (
        "`%x`: dimension 0, which is 8, does not split over 3 devices (dp = 3)",
        "1, 2, 4 or 8 would do",
    )
    assert (second.message, second.help) == (
        "`%w`: dimension 0, which is 12, does not split over 8 devices (tp = 8); nor does another parameter",
        "1, 2 or 4 would do",
    )


def test_a_module_has_one_mesh():
    text = of_head(" mesh (dp = 2)") + of_head(" mesh (dp = 4)").replace("@main", "@other")
    assert [d.code.number for d in read(text).diagnostics] == ["DIR420"]


def test_a_mesh_is_known_while_another_part_of_the_head_is_being_written():
    text = of_head(" mesh (dp = 2)").replace("(8, 4)", "(8@, 4)")
    assert parse(text).module.mesh == (("dp", 2),)


def test_mesh_is_a_name_like_others_elsewhere():
    text = "func @mesh(%mesh: Tensor[Float32, (mesh, sum), 1]) {\n  %max = Relu(%mesh)\n  return %max\n}\n"
    assert not read(text).diagnostics


def test_an_edit_of_the_mesh_is_seen():
    first = read(of_head(" mesh (dp = 2)", "(8@dp, 4)"))
    assert not first.diagnostics
    assert [d.code.number for d in first.edited(of_head(" mesh (dp = 3)", "(8@dp, 4)")).diagnostics] == ["DIR422"]
    assert [d.code.number for d in first.edited(of_head(" mesh (tp = 2)", "(8@dp, 4)")).diagnostics] == ["DIR421"]
