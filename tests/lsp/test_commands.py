"""The commands behind lenses, and what requests answer while the text has errors: over the wire, as an editor asks."""

import json

import pytest
from server_session import PUSHED, Session

PROGRAM = """func @half(%x: Tensor[Float32, (8, 8), 1]) {
  %h = Relu(%x)
  return %h
}

func @main(%x: Tensor[Float32, (8, 8), 1]) {
  %a = @half(%x)
  %b = @half(%a)
  return %b
}
"""
SHOWING = {**PUSHED, "window": {"showDocument": {"support": True}}}


@pytest.fixture
def opened(tmp_path):
    file = tmp_path / "p.dir"
    file.write_text(PROGRAM, "utf-8")
    with Session(SHOWING) as session:
        session.open(file.as_uri(), PROGRAM)
        session.diagnostics(file.as_uri())
        session.until(file.as_uri(), lambda status: status["state"] == "simulated")
        yield session, file


def command(session, name, *arguments):
    return session.answer(session.request("workspace/executeCommand", {"command": name, "arguments": [*arguments]}))


def sent(session, method):
    return session.wait(lambda message: message.get("method") == method)["params"]


def test_the_timeline_is_written_and_shown(opened):
    session, file = opened
    number = session.request("workspace/executeCommand", {"command": "distir.timeline", "arguments": [file.as_uri()]})
    shown = sent(session, "window/showDocument")
    assert shown["external"]
    assert shown["uri"].startswith("file:")
    assert session.answer(number)["result"] is None


def test_comparing_with_the_file_is_said_in_one_line(opened):
    session, file = opened
    command(session, "distir.compare", file.as_uri())
    assert "the file → the document" in sent(session, "window/showMessage")["message"]
    file.unlink()
    command(session, "distir.compare", file.as_uri())
    assert "nothing to compare" in sent(session, "window/showMessage")["message"]


def test_hardware_is_asked_for_and_chosen(opened):
    session, file = opened
    session.choice = {"title": "dgx2-v100"}
    command(session, "distir.hardware", file.as_uri())
    session.until(file.as_uri(), lambda status: (status["hardware"], status["state"]) == ("dgx2-v100", "simulated"))


def test_a_program_that_is_too_large_for_a_machine_is_simulated_on_one_that_is_large_enough(opened):
    session, file = opened
    uri = file.as_uri()
    session.change(uri, PROGRAM.replace("return %b", "%c = Send[device = 60](%b)\n  return %c"))
    (found,) = session.diagnostics(uri, lambda found: [d["code"] for d in found] == ["DIR504"])
    assert found["message"].endswith("help: `dgx-a100x8` is large enough: 8 nodes, 64 devices")
    assert session.ask("distir/status", {"textDocument": {"uri": uri}})["enough"] == "dgx-a100x8"
    context = {"diagnostics": [found], "only": ["quickfix"]}
    asked = {"textDocument": {"uri": uri}, "range": found["range"], "context": context}
    (action,) = session.ask("textDocument/codeAction", asked)
    assert (action["title"], action["diagnostics"]) == ("simulate on `dgx-a100x8`", [found])
    assert "edit" not in action
    command(session, action["command"]["command"], *action["command"]["arguments"])
    session.until(uri, lambda status: (status["hardware"], status["state"]) == ("dgx-a100x8", "simulated"))


def test_showing_calls_goes_to_the_first(opened):
    session, file = opened
    command(session, "distir.showCalls", file.as_uri(), "half")
    shown = sent(session, "window/showDocument")
    assert shown["uri"] == file.as_uri()
    assert shown["selection"]["start"]["line"] == PROGRAM[: PROGRAM.index("%a = @half")].count("\n")


@pytest.mark.parametrize("name", ["distir.timeline", "distir.compare", "distir.showCalls", "distir.nextCall"])
def test_commands_for_what_is_not_open_end_nothing(opened, name):
    session, file = opened
    command(session, name, "file:///not/open.dir", "half", 1)
    assert session.ask("distir/status", {"textDocument": {"uri": file.as_uri()}})["state"] == "simulated"


def test_views_stay_while_the_text_has_errors(opened):
    session, file = opened
    document = {"uri": file.as_uri()}
    before = session.ask("distir/timeline", {"textDocument": document})
    assert before["stale"] is False
    session.change(file.as_uri(), (6, 0, 6, 0, "  %broken = (\n"))
    session.diagnostics(file.as_uri(), bool)
    for name in ("timeline", "memory", "compare"):
        answer = session.ask(f"distir/{name}", {"textDocument": document})
        assert (answer["stale"], answer["version"]) == (True, 1), name
    after = session.ask("distir/timeline", {"textDocument": document})
    assert json.dumps(after["bars"]) == json.dumps(before["bars"])


def test_devices_that_are_none_are_refused_in_words(opened):
    session, file = opened
    answer = session.ask("distir/timeline", {"textDocument": {"uri": file.as_uri()}, "devices": ["x"]})
    assert answer["error"] == "expected a list of integers as `devices`, found `['x']`"


RESOLVING = {"codeAction": {"dataSupport": True, "resolveSupport": {"properties": ["edit"]}}}


@pytest.mark.parametrize("resolving", [True, False])
def test_what_changes_very_much_is_sent_when_it_is_chosen(resolving):
    """To who can wait till then; who cannot is not sent as much for every place that the cursor rests at."""
    uri = "file:///nowhere/long.dir"
    text = PROGRAM.replace("  %h = Relu(%x)\n", "  %h = Relu(%x)\n" + "  %y = Relu(%h)\n" * 3000)
    capabilities = {"textDocument": PUSHED["textDocument"] | (RESOLVING if resolving else {})}
    with Session(capabilities) as session:
        session.open(uri, text.replace("%y", "_"))
        at = {"line": 1, "character": 3}
        asked = {"range": {"start": at, "end": at}, "context": {"diagnostics": [], "triggerKind": 1}}
        found = session.ask("textDocument/codeAction", {"textDocument": {"uri": uri}} | asked)
        assert "state the type" in [action["title"] for action in found]
        offered = [action for action in found if action["title"] == "state all types in `@half`"]
        assert len(offered) == resolving
        for action in offered:
            assert "edit" not in action
            edit = session.ask("codeAction/resolve", action)["edit"]
            assert [e["newText"] for e in edit["changes"][uri]] == [": Tensor[Float32, (8, 8), 1]"]
