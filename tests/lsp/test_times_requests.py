"""What each line takes, how that differs between two texts, the way along the critical path, and links in hovers."""

from pathlib import Path

from server_session import Session

PIPELINE = (Path(__file__).parents[2] / "examples" / "mlp_pipeline.dir").read_text()
LINES = PIPELINE.split("\n")


def line_of(text):
    return next(number for number, line in enumerate(LINES) if text in line)


def test_times_of_lines_and_the_way_from_op_to_op(tmp_path):
    uri = (tmp_path / "mlp größer.dir").as_uri()
    about = {"textDocument": {"uri": uri}}
    with Session() as session:
        session.open(uri, PIPELINE)
        times = session.ask("distir/lineTimes", about)
        assert (times["devices"], times["stale"]) == (2, False)
        critical = {line for line, is_critical in zip(times["line"], times["critical"], strict=True) if is_critical}
        assert line_of("%ar_1: D2 = Send") in critical

        start = {"line": line_of("%ar_1: D2 = Send"), "character": 0}
        there = session.ask("distir/goTo", {**about, "position": start, "to": "nextCritical"})
        assert there["range"]["start"]["line"] in critical
        assert there["range"]["start"]["line"] != start["line"]
        at = {"line": there["range"]["start"]["line"], "character": 0}
        back = session.ask("distir/goTo", {**about, "position": at, "to": "previousCritical"})
        assert back["range"]["start"]["line"] == start["line"]
        refused = session.ask("distir/goTo", {**about, "position": start, "to": "sideways"})
        assert "nextCritical" in refused["error"]

        changed = PIPELINE.replace("  %ar_1: D2 =", "  %more = Relu(%as_1)\n  %ar_1: D2 =")
        found = session.ask("distir/diffTimes", {**about, "other": {"text": PIPELINE}, "this": {"text": changed}})
        assert found["this"]["line"] == [line_of("%ar_1: D2 = Send")]
        assert found["this"]["change_s"] == [None]
        assert found["other"]["line"] == []
        assert "`text`" in session.ask("distir/diffTimes", {**about, "other": {}})["error"]
        broken = session.ask("distir/diffTimes", {**about, "other": {"text": "func"}})
        assert "cannot be simulated" in broken["error"]


def test_why_the_statement_under_the_cursor_is_slow(tmp_path):
    uri = (tmp_path / "mlp.dir").as_uri()
    about = {"textDocument": {"uri": uri}}
    with Session() as session:
        session.open(uri, PIPELINE)
        at = {"line": line_of("%a = Relu(%h)"), "character": 0}
        found = session.ask("distir/why", {**about, "position": at})
        assert (found["roof"], found["stale"], found["function"]) == ("memory", False, "dense")
        assert found["range"]["start"] == {"line": at["line"], "character": 2}
        assert found["waits"][0].startswith("device 2 waits **1.01ms** before `%ar_1`")
        assert found["won_s"] < found["latency_s"]
        assert len(found["lane"]["computes"]) == 120
        assert found["advice"] == []
        nowhere = {"line": line_of("return %a"), "character": 0}
        assert "no statement" in session.ask("distir/why", {**about, "position": nowhere})["error"]
        session.change(uri, PIPELINE.replace("Relu(%h)", "Relu(%h"))
        late = session.ask("distir/why", {**about, "position": {"line": line_of("%p_1: D2"), "character": 0}})
        assert (late["stale"], late["name"]) == (True, "`@dense` `%p_1`, [line 40](#L40)")


MESH = (Path(__file__).parents[2] / "examples" / "mlp_mesh.dir").read_text()


def test_placements_are_shown_and_marked_as_the_setting_says(tmp_path):
    uri = (tmp_path / "mesh.dir").as_uri()
    about = {"textDocument": {"uri": uri}}
    lines = MESH.split("\n")
    for shown, pending in (("changes", "f32[512@dp,256] Σtp"), ("off", "f32[512,256]")):
        with Session(options={"placements": shown}) as session:
            session.open(uri, MESH)
            session.until(uri, lambda status: status["state"] == "simulated")
            (line,) = (number for number, text in enumerate(lines) if "%p = MatMul" in text)
            there = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
            labels = [hint["label"] for hint in session.ask("textDocument/inlayHint", {**about, "range": there})]
            assert labels[0] == f": {pending}"
            marks = session.ask("distir/placements", about)
            marked = [lines[place["start"]["line"]] for place in marks["resharding"]]
            assert [("AllReduce" in text) for text in marked] == ([True] * 4 if shown == "changes" else [])
            assert len(marks["pending"]) == (8 if shown == "changes" else 0)
            start = {"line": line, "character": 0}
            found = session.ask("distir/goTo", {**about, "position": start, "to": "nextResharding"})
            assert found["range"]["start"]["line"] == line + 1
            assert found["duration_s"] > 0
            end = {"line": len(lines), "character": 0}
            assert (
                "no further" in session.ask("distir/goTo", {**about, "position": end, "to": "nextResharding"})["error"]
            )


def test_lines_in_hovers_are_links_into_the_document(tmp_path):
    uri = (tmp_path / "mlp größer.dir").as_uri()
    with Session() as session:
        session.open(uri, PIPELINE)
        session.until(uri, lambda status: status["state"] == "simulated")
        line = line_of("%ar_1: D2 = Send")
        asked = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 4}}
        said = session.ask("textDocument/hover", asked)["contents"]["value"]
        assert f"made by `Send`, [line {line + 1}](<{uri}#L{line + 1}>)" in said
