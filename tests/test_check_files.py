"""The checker on files that state what they expect, and on every documented example of every code."""

import re
from collections import Counter
from pathlib import Path

import pytest
from expectations import codes_in, expected_diagnostics, surprises

import distir
from distir.diagnostics import CODES, Severity
from distir.diagnostics import codes as families

FILES = sorted((Path(__file__).parent / "check").glob("*.dir"), key=lambda path: path.name)

NOT_OF_TEXTS = {"DIR118": "100 brackets on a line", "DIR119": "bytes that are no text"}
"""Codes that no file here can show well; tests/test_bad_input.py does."""

NEVER_RAISED = "DIR117"
"""Declared, but no op's spelling rejects anything: the checker says what is wrong with such statements (DIR206)."""

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_the_diagnostics_that_it_states(path):
    assert "\n".join(surprises(path.read_text())) == ""


def test_every_code_of_the_checker_is_shown_in_several_ways():
    shown = sum((codes_in(path.read_text()) for path in FILES), Counter())
    checked = {n for n in CODES if re.match(r"DIR([234]\d\d|9\d\d|1[0-4]\d)", n)}
    assert {n for n in shown if n not in CODES} == set()
    few = {n for n in checked - NOT_OF_TEXTS.keys() - {NEVER_RAISED} if shown[n] < 2}
    assert few == set()


def test_all_families_are_imported_with_the_registry():
    folder = Path(families.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} <= set(vars(families))


def documented():
    for number, code in sorted(CODES.items()):
        for index, (language, text) in enumerate(BLOCK.findall(code.documentation)):
            if language == "dir":
                never = [pytest.mark.xfail(strict=True, reason="never raised")] if number == NEVER_RAISED else []
                yield pytest.param(code, text, id=f"{number}-{index}", marks=never if "// error" in text else ())


@pytest.mark.parametrize(("code", "text"), list(documented()))
def test_a_documented_example_shows_its_code_and_nothing_else(code, text):
    found = simulated(code) if code.number.startswith("DIR5") else None
    assert "\n".join(surprises(text, found)) == ""
    assert {e.code for e in expected_diagnostics(text)} <= {code.number}


BUDGETS = {"DIR506": {"max_latency_s": 1e-3}, "DIR507": {"max_memory_bytes": 10**9}}
"""What the documentation of these codes says."""

MACHINES = {"DIR513": distir.cost.parse('extends = "dgx-a100"\n[kinds.a100]\nstreams = 1'), "DIR516": "dgx2-v100"}
"""The machines that the documentation of these codes describes; others are of `dgx-a100`."""


def simulated(code):
    def found(program):
        """What simulation finds. Named dimensions have a size, but where the lack of one is to be shown."""
        try:
            bind = {"B": 64} if "(B," in program.source.text and code.number != "DIR508" else {}
            simulation = distir.simulate(program.module, MACHINES.get(code.number, "dgx-a100"), bind=bind)
        except distir.ProgramError as error:
            return program.located(error.diagnostics)
        return program.located(simulation.findings(**BUDGETS.get(code.number, {})))

    return found


@pytest.mark.parametrize("code", [c for c in CODES.values() if c.number not in NOT_OF_TEXTS], ids=str)
def test_a_code_that_a_program_can_show_is_shown_in_its_documentation(code):
    if re.match(r"DIR([234]\d\d|9\d\d|1[0-4]\d)", code.number):
        blocks = [text for language, text in BLOCK.findall(code.documentation) if language == "dir"]
        assert any(list(expected_diagnostics(text)) for text in blocks)


@pytest.mark.parametrize("code", CODES.values(), ids=str)
def test_a_code_says_what_it_means(code):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code.name)
    assert code.title
    assert code.documentation.count("```") % 2 == 0
    assert isinstance(code.severity, Severity)
