import io

import pytest

from distir.diagnostics import CODES
from distir.diagnostics.explain import explain
from distir.diagnostics.terminal import write_explanation


def test_by_number_and_by_name():
    expected = explain("DIR153")
    assert expected.startswith("# DIR153: unknown-setting\n\n*error*\n\n")
    assert explain(" dir153 ") == explain("unknown-setting") == expected


def test_every_code_can_be_explained():
    explain("DIR153")  # loads the others
    for number in CODES:
        stream = io.StringIO()
        write_explanation(number, stream)
        assert stream.getvalue() == explain(number)


def test_an_unknown_code_names_the_nearest():
    with pytest.raises(LookupError, match="did you mean `DIR153`"):
        explain("DIR1153")
    with pytest.raises(LookupError, match="did you mean `unknown-setting`"):
        explain("unknown-settings")


def test_on_a_terminal_it_is_laid_out(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = io.StringIO()
    stream.isatty = lambda: True
    write_explanation("DIR153", stream)
    assert "\x1b[" in stream.getvalue()
    assert "```" not in stream.getvalue()
