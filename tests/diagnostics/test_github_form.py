from diagnostic_samples import MISMATCH, REPORTS, mlp
from hypothesis import given
from hypothesis import strategies as st

from distir.diagnostics import Diagnostic, Report, Source, Span
from distir.diagnostics.github import github
from distir.diagnostics.visible import visible


def test_golden():
    assert github([mlp()]) == (
        "::warning file=examples/mlp.dir,line=2,col=3,endLine=2,endColumn=5,title=DIR998 some-waste::"
        "`%25u` is never used\n"
        "::error file=examples/mlp.dir,line=3,col=19,endLine=3,endColumn=21,title=DIR999 some-mismatch::"
        "`MatMul` operands disagree on dimension `k`: expected 65, found 64%0A"
        "note: `k` is 65 here (line 3)%0A"
        "note: `%25w` has this type (line 1)%0A"
        "note: `MatMul` multiplies matrices%0A"
        "help: transpose `%25w`\n"
    )


def test_several_lines_have_no_columns():
    report = Report(Source("a,b:c.dir", "ab\ncd"), (Diagnostic(MISMATCH, Span(1, 4), "wrong"),))
    assert github([report]) == "::error file=a%2Cb%3Ac.dir,line=1,endLine=2,title=DIR999 some-mismatch::wrong\n"


def test_paths_count_from_the_root_of_the_repository(monkeypatch, tmp_path):
    inside = tmp_path / "examples" / "a.dir"
    inside.parent.mkdir()
    monkeypatch.chdir(inside.parent)
    report = Report(Source("a.dir", ""), (Diagnostic(MISMATCH, None, "wrong"),))
    assert "file=a.dir," in github([report])
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert "file=examples/a.dir," in github([report])


@given(REPORTS)
def test_one_command_per_diagnostic(reports):
    output = github(reports)
    lines = output.split("\n")[:-1]
    assert len(lines) == sum(len(r.diagnostics) for r in reports)
    assert all(line.startswith(("::error file=", "::warning file=")) and line.isprintable() for line in lines)


@given(st.text(st.sampled_from(list("a%:,\r\n0AD\x1b"))))
def test_messages_survive_escaping(message):
    line = github([Report(Source("a.dir", ""), (Diagnostic(MISMATCH, None, message),))])
    escaped = line.removesuffix("\n").split("::", 2)[2]
    unescaped = escaped.replace("%0A", "\n").replace("%25", "%")
    assert unescaped == "\n".join(visible(part.removesuffix("\r")) for part in message.split("\n"))
