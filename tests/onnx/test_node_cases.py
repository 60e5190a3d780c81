"""ONNX's backend node cases run as programs; what is left out is what `docs/onnx-ops.md` says is left out."""

import pytest
from left_out import PAGE, documented, may_differ, outcome, page_of_ops
from node_programs import node_cases, passes_reference

PARTS = 4
"""The cases are run in so many tests, for so many workers."""

OUTSIDE = "ops of the domain"
"""How the reasons begin that lie outside the standard domain."""


@pytest.mark.parametrize("part", range(PARTS))
def test_each_case_runs_or_is_documented_as_left_out(part):
    listed = documented()
    for case in list(node_cases().values())[part::PARTS]:
        found = outcome(case)
        if may_differ(case.name) is None:
            assert found == listed.get(case.name), f"{case.name}: `python tests/onnx/left_out.py` writes {PAGE.name}"
        else:
            assert listed[case.name] == may_differ(case.name)


def test_nineteen_of_twenty_cases_that_onnx_itself_passes_run():
    listed = documented()
    assert listed.keys() <= node_cases().keys()
    inside = [name for name, reason in listed.items() if not reason.startswith(OUTSIDE)]
    failed = [name for name in inside if passes_reference(node_cases()[name])]
    passed = len(node_cases()) - len(listed)
    assert passed / (passed + len(failed)) >= 0.95


def test_the_ops_left_out_are_documented():
    assert page_of_ops() in PAGE.read_text()
