"""A program beside the sequential one that `distir.toml` names, over the wire."""

import time

import pytest
from server_session import PULLED, Session

from distir import format, parse  # noqa: A004
from distir.transform import transform

SEQUENTIAL = """\
func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 6), 1], %v: Tensor[Float32, (6, 2), 1]) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %y = MatMul(%a, %v)
  %p = Relu(%y)
  return %p
}
"""
SHARDS = format(transform(parse(SEQUENTIAL), "tp=2", "shard=w:1,v:0"))
WRONG = SHARDS.replace("Relu(%y_sum_1)", "Relu(%y_1)")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.dir").write_text(SEQUENTIAL)
    (tmp_path / "distir.toml").write_text('sequential = "model.dir"\n')
    return tmp_path


def said(session, uri, text, word):
    """What hover says of a word, once the program was compared."""
    line = next(i for i, written in enumerate(text.split("\n")) if written.strip().startswith(word))
    place = {"line": line, "character": text.split("\n")[line].index("%") + 1}
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        hover = session.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": place})
        found = [part for part in hover["contents"]["value"].split("\n") if "sequential" in part]
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("nothing is said of the sequential program")


def test_placements_what_is_not_proved_and_its_repair(folder):
    uri = (folder / "shards.dir").as_uri()
    with Session() as session:
        session.open(uri, WRONG)
        found = session.diagnostics(uri, lambda ds: any(d["code"] == "DIR801" for d in ds))
        (wrong,) = [d for d in found if d["code"] == "DIR801"]
        assert (wrong["range"]["start"]["line"], wrong["severity"]) == (line_of(WRONG, "%p_1 ="), 2)
        assert (
            "`%y_1` is a partial sum over 2 shards, and `Relu` needs the sum: an all-reduce is missing"
            in wrong["message"]
        )
        assert "rows" not in said(session, uri, WRONG, "%y_1 =")
        assert "a partial sum of `%y` over devices 1, 2" in said(session, uri, WRONG, "%y_1 =")
        asked = {"textDocument": {"uri": uri}, "range": wrong["range"], "context": {"diagnostics": [wrong]}}
        repairs = [a for a in session.ask("textDocument/codeAction", asked) if a["kind"] == "quickfix"]
        assert [a["title"] for a in repairs] == ["use `%y_sum_1`, the sum", "all-reduce `%y_1`, `%y_2`"]
        (edit,) = repairs[0]["edit"]["changes"][uri]
        start, end = edit["range"]["start"], edit["range"]["end"]
        session.change(uri, (start["line"], start["character"], end["line"], end["character"], edit["newText"]))
        session.diagnostics(uri, lambda ds: all(d["code"] != "DIR801" for d in ds))


def test_while_typing_the_mark_moves_with_its_statement(folder):
    uri = (folder / "shards.dir").as_uri()
    with Session() as session:
        session.open(uri, WRONG)
        session.diagnostics(uri, lambda ds: any(d["code"] == "DIR801" for d in ds))
        session.change(uri, (1, 0, 1, 0, "  // a comment\n"))
        at = line_of(WRONG, "%p_1 =") + 1
        session.diagnostics(uri, lambda ds: [d["range"]["start"]["line"] for d in ds if d["code"] == "DIR801"] == [at])


def test_clients_that_pull_are_told_to(folder):
    uri = (folder / "shards.dir").as_uri()
    with Session(PULLED) as session:
        session.open(uri, WRONG)
        for _ in range(50):
            session.wait(lambda m: m.get("method") == "workspace/diagnostic/refresh")
            found = session.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            if any(d["code"] == "DIR801" for d in found["items"]):
                return
        raise AssertionError("it is not said")


def test_hints_of_placements_where_they_are_wanted(folder):
    uri = (folder / "shards.dir").as_uri()
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 60, "character": 0}}
    for wanted in (False, True):
        with Session(options={"hints": {"sequential": wanted}}) as session:
            session.open(uri, SHARDS)
            said(session, uri, SHARDS, "%y_1 =")
            hints = session.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": whole})
            placed = [hint for hint in hints if hint["label"].lstrip().startswith("≡")]
            assert bool(placed) is wanted
            if wanted:
                assert "≡ columns 3–5 of %h" in [hint["label"].lstrip() for hint in placed]
                resolved = session.ask("inlayHint/resolve", placed[0])
                assert "of the sequential program" in resolved["tooltip"]["value"]


@pytest.mark.parametrize(
    ("setting", "content", "message"),
    [
        ("missing.dir", None, "cannot read `missing.dir`: no such file or directory"),
        ("wrong.dir", "func @main(%x) {\n  %y = Reul(%x)\n  return %y\n}\n", "`wrong.dir` has errors: "),
        (".", None, "cannot read"),
    ],
)
def test_a_bad_path_is_reported_in_the_settings_file(tmp_path, setting, content, message):
    toml = f'entry = "main"\nsequential = "{setting}"\n'
    (tmp_path / "distir.toml").write_text(toml)
    if content is not None:
        (tmp_path / setting).write_text(content)
    uri = (tmp_path / "shards.dir").as_uri()
    with Session() as session:
        session.open(uri, SHARDS)
        (found,) = session.diagnostics((tmp_path / "distir.toml").as_uri(), bool)
        assert message in found["message"]
        assert found["range"]["start"] == {"line": 1, "character": len("sequential = ")}


def test_the_sequential_program_itself_is_not_compared(folder):
    uri = (folder / "model.dir").as_uri()
    with Session() as session:
        session.open(uri, SEQUENTIAL)
        session.until(uri, lambda status: status["state"] == "simulated")
        time.sleep(0.5)
        session.change(uri, (0, 0, 0, 0, "\n"))
        assert all(not d["code"].startswith("DIR8") for d in session.diagnostics(uri))


def line_of(text, word):
    return next(i for i, line in enumerate(text.split("\n")) if line.strip().startswith(word))
