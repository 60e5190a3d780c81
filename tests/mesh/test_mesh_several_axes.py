"""Collectives over several axes of a mesh at once: one collective of all devices along them."""

import pytest
from mesh_programs import OVER_AXES

from distir.analysis.program import read
from distir.diagnostics import Severity, Span
from distir.ide.actions.fixes import quick_fixes
from distir.ide.completion import completions
from distir.ir import ops_in
from distir.syntax import print_module
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify
from tests.ide.editing_samples import after, opened

GRADIENT = '%dw = ReduceScatter[axis = ["dp", "cp"], dim = 0](%dw_own)'
BIAS = '%db = AllReduce[axis = ["dp", "cp"]](%db_own)'


def errors(text):
    return [d for d in read(text).diagnostics if d.severity is Severity.ERROR]


def test_it_is_one_collective_of_the_devices_along_all_of_them():
    expanded = print_module(expand(read(OVER_AXES).module))
    assert "%db_1, %db_2, %db_5, %db_6 = MPIAllreduce(%db_own_1, %db_own_2, %db_own_5, %db_own_6)" in expanded
    assert "%dw_1, %dw_2, %dw_5, %dw_6 = MPIReduceScatter[axis = 0](%dw_own_1" in expanded
    assert "%w_all_1, %w_all_2, %w_all_5, %w_all_6 = MPIAllgather[axis = 0](%w_1, %w_2, %w_5, %w_6)" in expanded


def test_the_first_of_its_axes_is_outermost():
    text = (
        "func @main(%x: Tensor[Float32, (8@(tp, dp),), 1]) mesh (dp = 2, tp = 2) {\n"
        '  %y = AllGather[axis = ["tp", "dp"]](%x)\n  return %y\n}\n'
    )
    assert "= MPIAllgather[axis = 0](%x_1, %x_3, %x_2, %x_4)" in print_module(expand(read(text).module))


@pytest.mark.parametrize(
    ("old", "new", "code", "help"),
    [
        (
            GRADIENT,
            GRADIENT.replace('["dp", "cp"]', '["dp", "tp"]'),
            "DIR424",
            'write `axis = "dp"`, along which it is pending',
        ),
        (
            '%w_all = AllGather[axis = ["dp", "cp"]',
            '%w_all = AllGather[axis = ["cp", "dp"]',
            "DIR424",
            'write `axis = ["dp", "cp"]`, in the order in which they split dimension 0',
        ),
        (
            '%w_all = AllGather[axis = ["dp", "cp"]',
            '%w_all = AllGather[axis = "dp"',
            "DIR424",
            "gather along `cp` first, the innermost axis of dimension 0",
        ),
        (BIAS, BIAS.replace('"cp"]', '"dp"]'), "DIR424", "name each axis once"),
        (BIAS, BIAS.replace('["dp", "cp"]', "[]"), "DIR424", "name each axis once"),
        (BIAS, BIAS.replace('["dp", "cp"]', '["dp", "cpu"]'), "DIR421", "did you mean `cp`?"),
        (BIAS, BIAS.replace('["dp", "cp"]', '["dp", 2]'), "DIR210", None),
        (
            GRADIENT,
            GRADIENT.replace('["dp", "cp"]', '["cp", "dp"]'),
            "DIR423",
            "write the axes in one order, the outermost first",
        ),
        (
            "SGD(%b, %db)",
            "SGD(%b, %db_own)",
            "DIR423",
            'insert `AllReduce[axis = ["dp", "cp"]]` for `%db_own`',
        ),
        (
            "SGD(%w, %dw)",
            "SGD(%w, %dw_own)",
            "DIR423",
            'insert `ReduceScatter[axis = ["dp", "cp"], dim = 0]` for `%dw_own`',
        ),
        (
            "return %loss",
            "return %own",
            "DIR426",
            'insert `AllReduce[axis = ["cp", "dp"]]` for `%own`',
        ),
    ],
)
def test_what_does_not_fit_is_refused_once(old, new, code, help):
    assert old in OVER_AXES
    (found,) = errors(OVER_AXES.replace(old, new))
    assert found.code.number == code
    assert help is None or found.help == help


def test_a_claim_that_several_axes_part_from_a_value_names_one_collective():
    claim = "%db: Tensor[Float32, (8,), 1] = Neg(%db_own)"
    found = errors(OVER_AXES.replace(BIAS, claim))[0]
    assert found.help == '`AllReduce[axis = ["cp", "dp"]]` brings it there'


def test_the_collective_that_is_missing_along_two_axes_is_one_quick_fix():
    text = OVER_AXES.replace("SGD(%w, %dw)", "SGD(%w, %dw_own)")
    (action,) = (a for a in quick_fixes(opened(text), Span(0, len(text))) if a.title.startswith("insert"))
    assert not errors(after(opened(text), action.edits))


@pytest.mark.parametrize("written", ['["dp", |]', "[|]"])
def test_axes_are_completed_in_a_list(written):
    text = OVER_AXES.replace(BIAS, BIAS.replace('["dp", "cp"]', written))
    found = completions(opened(text.replace("|", "")), text.index("|"))
    assert [item.label for item in found.items] == ['"dp"', '"tp"', '"cp"']


def test_one_axis_may_be_written_as_a_list():
    text = OVER_AXES.replace('axis = "tp"', 'axis = ["tp"]')
    assert not errors(text)


@pytest.mark.parametrize("axes", ["(dp, tp)", "(tp, dp)"])
def test_what_an_update_gathers_of_a_dimension_is_joined_once_over_all_axes_that_split_it(axes):
    text = f"""
        func @main(
          %w: Tensor[Float32, (8@{axes}, 16), 1] {{param}},
          %dw: Tensor[Float32, (8@{axes}, 16), 1],
          %m: Tensor[Float32, (8@{axes}, 16), 1] {{state}}
        ) mesh (dp = 2, tp = 2) {{
          %w_new, %m_new = Muon(%w, %dw, %m)
          return %w_new, %m_new
        }}
    """
    module = read(text).module
    assert len([*ops_in(expand(module), "MPIAllgather")]) == 1
    assert verify(erase(module), module).equal
