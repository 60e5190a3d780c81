import io
import re

import pytest
from diagnostic_samples import MISMATCH, REPORTS, mlp
from hypothesis import given

from distir.diagnostics import Diagnostic, Note, Report, Source, Span
from distir.diagnostics.terminal import text, write

ESCAPE = re.compile("\x1b\\[[0-9;]*m")


def shown(program, *diagnostics, path="a.dir"):
    return text([Report(Source(path, program), diagnostics)])


def found(span, message="wrong", *notes, help=None):
    return Diagnostic(MISMATCH, span, message, notes, help)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def colour_terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")


def test_golden():
    assert (
        text([mlp()])
        == """\
error[DIR999]: `MatMul` operands disagree on dimension `k`: expected 65, found 64
  ┌─ examples/mlp.dir:3:19
1 │ func @f(%x: Tensor[Float32, (128, 65), 1], %w: Tensor[Float32, (64, 64), 1]) {
  │                                                ----------------------------
  │                                                `%w` has this type
  ⋮
3 │   %h = MatMul(%x, %w)
  │               --  ^^
  │               `k` is 65 here
  = note: `MatMul` multiplies matrices
  = help: transpose `%w`

warning[DIR998]: `%u` is never used
  ┌─ examples/mlp.dir:2:3
2 │   %u = Relu(%x)
  │   ^^

1 error, 1 warning in 1 file
"""
    )


def test_nothing_found_is_silent():
    stream = Terminal()
    write([Report(Source("a.dir", "func"))], stream)
    assert stream.getvalue() == text([]) == ""


def test_files_without_findings_are_not_counted():
    report = Report(Source("a.dir", "x"), (found(Span(0, 1)),))
    other = Report(Source("b.dir", "x"), (found(Span(0, 1)),))
    assert text([report, Report(Source("clean.dir", "")), other]).endswith("\n2 errors in 2 files\n")


def test_several_lines():
    program = "func @f() {\n  %a = Relu(\n    %x)\n}\n"
    assert (
        shown(program, found(Span(14, 32)))
        == """\
error[DIR999]: wrong
  ┌─ a.dir:2:3
2 │   %a = Relu(
  │   ^^^^^^^^^^
3 │     %x)
  │     ^^^

1 error in 1 file
"""
    )


def test_a_span_that_takes_in_the_line_end_stays_in_its_line():
    assert "2 │" not in shown("abc\ndef\n", found(Span(0, 4)))


@pytest.mark.parametrize("program", ["", "a", "a\n", "a\r\n", "\n\n"])
def test_end_of_file(program):
    line, column = Source("a.dir", program).position(len(program))
    output = shown(program, found(Span(len(program), len(program))))
    assert f"a.dir:{line}:{column}\n" in output
    assert output.splitlines()[3] == f"  │ {' ' * (column - 1)}^"


def test_no_place():
    assert shown("x", found(None)) == "error[DIR999]: wrong\n ┌─ a.dir\n\n1 error in 1 file\n"


def test_tabs_and_wide_characters_keep_underlines_in_place():
    output = shown("\t漢字 = %x\n", found(Span(6, 8), "wrong", Note("here", Span(2, 3)))).splitlines()
    assert output[2:5] == [
        "1 │     漢字 = %x",
        "  │       --   ^^",
        "  │       here",
    ]


def test_labels_below_one_another():
    output = shown("a b c\n", found(Span(4, 5), "wrong", Note("first", Span(0, 1)), Note("second", Span(2, 3))))
    assert output.splitlines()[3:6] == [
        "  │ - - ^",
        "  │ │ second",
        "  │ first",
    ]


def test_long_lines_are_clipped_around_the_span():
    program = "x" * 500_000 + "here" + "y" * 500_000
    line, underline = shown(program, found(Span(500_000, 500_004))).splitlines()[2:4]
    assert line.startswith("1 │ …x")
    assert line.endswith("y…")
    assert len(line) <= 170
    assert line[underline.index("^") : underline.rindex("^") + 1] == "here"


def test_far_apart_in_one_long_line():
    program = "note" + "x" * 1_000_000 + "here"
    lines = shown(program, found(Span(1_000_004, 1_000_008), "wrong", Note("label", Span(0, 4)))).splitlines()
    assert lines[3] == "  │ ----"
    assert lines[6].endswith("^^^^")
    assert lines[5].endswith("here")


def test_many_diagnostics_in_one_long_line():
    count = 2000
    program = "%x " * 400_000
    notes = tuple(Note("n", Span(3 * i, 3 * i + 2)) for i in range(count))
    diagnostics = [found(Span(300 * i, 300 * i + 2), "wrong") for i in range(count)]
    output = shown(program, *diagnostics, found(Span(0, 2), "all", *notes))
    assert output.count("error[") == count + 1
    assert len(output) < 400 * (2 * count)


def test_message_of_several_lines_cannot_pass_for_ours():
    output = shown("x", found(Span(0, 1), "bad\nerror[DIR000]: forged", Note("a\nb"), help="c\nd"))
    assert not re.search("^(error.DIR000|b|d)", output, re.MULTILINE)


def test_a_hostile_file_sends_nothing_to_the_terminal():
    program = "%\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u200b\u2028 = x\n"
    diagnostic = found(Span(0, 3), program, Note(program, Span(4, 9)), Note(program), help=program)
    stream = Terminal()
    write([Report(Source(program, program), (diagnostic,))], stream)
    visible = ESCAPE.sub("", stream.getvalue())
    assert "<U+001B>[2J<U+001B>]0;owned<U+0007><U+009B>31m<U+202E><U+200B><U+2028>" in visible
    assert visible.replace("\n", "").isprintable()


def test_colour_only_on_a_terminal():
    plain, terminal = io.StringIO(), Terminal()
    write([mlp()], plain)
    write([mlp()], terminal)
    assert plain.getvalue() == text([mlp()])
    assert ESCAPE.search(terminal.getvalue())
    assert ESCAPE.sub("", terminal.getvalue()) == text([mlp()])


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    stream = Terminal()
    write([mlp()], stream)
    assert stream.getvalue() == text([mlp()])


def test_a_pipe_does_not_wrap(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    write([mlp()], stream)
    assert stream.getvalue() == text([mlp()])


def test_excerpts_fit_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    write([mlp()], stream)
    rows = [line for line in ESCAPE.sub("", stream.getvalue()).splitlines() if re.match(r"\d+ │", line)]
    assert len(rows) == 3
    assert all(len(row) <= 60 for row in rows)


def test_streams_that_know_little():
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii", newline="\n")
    write([mlp(), Report(Source("漢.dir", "漢"), (found(Span(0, 1)),))], stream)
    stream.flush()
    output = buffer.getvalue().decode("ascii")
    assert "3 |   %h = MatMul(%x, %w)\n  |               --  ^^\n" in output
    assert "-> \\u6f22.dir:1:1" in output


@given(REPORTS)
def test_any_text_and_any_spans(reports):
    output = text(reports)
    assert output.replace("\n", "").isprintable()
    assert output.count("error[DIR999]") + output.count("warning[DIR998]") == sum(len(r.diagnostics) for r in reports)
    output.encode("utf-8")


def test_windows_and_unix_line_ends_look_the_same():
    unix = "a\nbc\nd"
    expected = shown(unix, found(Span(2, 4)))
    assert shown(unix.replace("\n", "\r\n"), found(Span(3, 5))) == expected
