"""Advice over the wire: the lens, the findings, the request, and applying it as an edit that the client makes."""

from pathlib import Path

from server_session import PUSHED, Session

SWAPPED = (Path(__file__).parents[2] / "examples" / "mlp_pipeline_swapped.dir").read_text()
EDITS = {**PUSHED, "workspace": {"applyEdit": True, "codeLens": {"refreshSupport": True}}}


def after(text, edits):
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(position):
        return starts[position["line"]] + position["character"]

    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        start, end = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:start] + edit["newText"] + text[end:]
    return text


def lens(session, uri, command):
    for each in session.ask("textDocument/codeLens", {"textDocument": {"uri": uri}}):
        shown = session.ask("codeLens/resolve", each)["command"]
        if shown["command"] == command:
            return shown["title"]
    return None


def test_advice_is_listed_shown_above_the_entry_and_applied_by_an_edit(tmp_path):
    uri = (tmp_path / "mlp.dir").as_uri()
    with Session(EDITS) as session:
        session.open(uri, SWAPPED)
        found = session.ask("distir/advice", {"textDocument": {"uri": uri}})
        move = next(advice for advice in found["advice"] if advice["kind"] == "move")
        assert (move["title"], move["assurance"]) == ("move `%p_1` above `%ar_2`", "order")
        assert move["latency_s"] * move["speedup"] == found["program"]["latency_s"]
        assert lens(session, uri, "distir.advice") == "1.2× possible"

        number = session.request(
            "workspace/executeCommand", {"command": "distir.applyAdvice", "arguments": [uri, move["number"]]}
        )
        edit = session.wait(lambda m: m.get("method") == "workspace/applyEdit")["params"]
        assert edit["label"].startswith("move %p_1 above %ar_2: 1.08x")
        assert session.answer(number)
        made = after(SWAPPED, edit["edit"]["changes"][uri])
        assert made.index("%p_1: D2 =") < made.index("%ar_2: D2 =")

        # after an edit the numbers mean nothing
        session.change(uri, made)
        session.request("workspace/executeCommand", {"command": "distir.applyAdvice", "arguments": [uri, 0]})
        said = session.wait(lambda m: m.get("method") == "window/showMessage")["params"]["message"]
        assert "ask for advice again" in said


def test_findings_only_where_the_settings_ask_for_them_and_a_repair_beside_them(tmp_path):
    uri = (tmp_path / "mlp.dir").as_uri()
    with Session(EDITS, options={"advice": "problems"}) as session:
        session.open(uri, SWAPPED)

        def told(message):
            items = message.get("params", {}).get("diagnostics", []) if isinstance(message, dict) else []
            return any(item["code"] == "DIR515" for item in items)

        items = session.wait(told)["params"]["diagnostics"]
        move = next(item for item in items if "move `%p_1`" in item["message"])
        assert move["severity"] == 3
        asked = {"textDocument": {"uri": uri}, "range": move["range"], "context": {"diagnostics": []}}
        titles = [action["title"] for action in session.ask("textDocument/codeAction", asked)]
        assert any(title.startswith("move %p_1 above %ar_2: 1.08x") for title in titles)


def test_off_is_off(tmp_path):
    uri = (tmp_path / "mlp.dir").as_uri()
    with Session(EDITS, options={"advice": "off"}) as session:
        session.open(uri, SWAPPED)
        assert lens(session, uri, "distir.advice") is None
        refused = session.ask("distir/advice", {"textDocument": {"uri": "file:///nowhere.dir"}})
        assert "not open" in refused["error"]
