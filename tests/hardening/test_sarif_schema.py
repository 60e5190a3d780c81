"""What `check --format sarif` writes, against the schema of SARIF 2.1.0, and against what GitHub says it accepts."""

import json
from pathlib import Path

import jsonschema
import pytest

from distir.analysis.program import read
from distir.diagnostics import CODES, Diagnostic, Report, Source, Span
from distir.diagnostics.sarif import sarif

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())

HOSTILE = "%x</script><img src=x onerror=alert(1)>`\"'&amp;\x1b[31m\u202e${{ github.token }}\n::error::"

GITHUB_RESULTS, GITHUB_LOCATIONS, GITHUB_RULES = 25_000, 1_000, 25_000
"""The most that GitHub takes of a run (code scanning, SARIF support: limits)."""


def valid(text):
    log = json.loads(text)
    assert not list(VALIDATOR.iter_errors(log))
    (run,) = log["runs"]
    assert len(run["results"]) <= GITHUB_RESULTS
    assert len(run["tool"]["driver"]["rules"]) <= GITHUB_RULES
    for result in run["results"]:
        assert 0 < len(result["locations"]) <= GITHUB_LOCATIONS
        assert result["message"]["text"]
        assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
    return run


def test_the_schema_is_strict():
    """It is this schema that judges, and it says no."""
    assert "SARIF" in SCHEMA["title"]
    wrong = json.loads(sarif(_reports("x")))
    wrong["runs"][0]["results"][0]["message"] = "text"
    assert list(VALIDATOR.iter_errors(wrong))


def _reports(text, path="a.dir"):
    program = read(text, path)
    return [Report(program.source, program.diagnostics)]


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "check").glob("*.dir")), ids=lambda path: path.stem)
def test_all_that_the_checker_finds(path):
    reports = _reports(path.read_text(), str(path))
    assert len(valid(sarif(reports))["results"]) == len(reports[0].diagnostics)


def test_every_code():
    diagnostics = tuple(Diagnostic(code, Span(0, 4), "message") for code in CODES.values())
    assert len(valid(sarif([Report(Source("a.dir", "func"), diagnostics)]))["results"]) == len(CODES)


def test_hostile_texts_stay_texts():
    code = next(iter(CODES.values()))
    report = Report(Source(HOSTILE, HOSTILE), (Diagnostic(code, Span(0, 3), HOSTILE),))
    (result,) = valid(sarif([report]))["results"]
    assert result["message"]["text"] == HOSTILE
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert not set(uri) & set('<>"` \n\x1b{}')
