"""What each line takes, how that differs between versions, and the way from op to op along the critical path."""

from dataclasses import replace
from pathlib import Path

import pytest
from editing_samples import SETUP, opened

from distir.ide.actions.transforms import transformed
from distir.ide.call_choice import numbers_on
from distir.ide.document import open_document
from distir.ide.going import goal
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.line_times import line_changes, line_times, statement_times

EXAMPLES = Path(__file__).parents[2] / "examples"
ONE = "func @main(%x: Tensor[Float32, (8192, 1024), 1]) {\n  BODY\n}\n"
PIPELINE = (EXAMPLES / "mlp_pipeline.dir").read_text()
SWAPPED = (EXAMPLES / "mlp_pipeline_swapped.dir").read_text()


def starts(text):
    return [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]


@pytest.mark.parametrize("name", ["mlp_pipeline", "mlp_sequential", "mlp_checkpointing", "mlp_zero"])
def test_the_lines_of_the_entry_function_add_up_to_the_devices_busy_time(name):
    document = opened((EXAMPLES / f"{name}.dir").read_text())
    entry = statement_times(document.simulation)[document.entry.name]
    busy = sum(use.busy_s for use in document.simulation.devices.values())
    assert sum(taken.device_s for taken in entry.values()) == pytest.approx(busy)


def test_a_function_that_is_called_often_counts_as_often():
    document = opened(PIPELINE)
    times = statement_times(document.simulation)
    calls = [i for i, s in enumerate(document.entry.body) if getattr(s, "function", None) == "dense"]
    assert len(calls) > 1
    inside = sum(taken.device_s for taken in times["dense"].values())
    assert inside == pytest.approx(sum(times[document.entry.name][i].device_s for i in calls))


def test_lines_have_shares_and_the_critical_path():
    document = opened(PIPELINE)
    found = line_times(document, starts(PIPELINE))
    lines = PIPELINE.split("\n")
    assert list(found.line) == sorted(found.line)
    by_line = dict(zip(found.line, zip(found.share, found.critical, strict=True), strict=True))
    sends = [number for number, line in enumerate(lines) if "= Send" in line]
    assert sends
    assert any(by_line[number][1] for number in sends)
    assert all(0 <= share <= 1 for share, _ in by_line.values())


def test_of_two_versions_only_the_lines_that_differ_have_a_change():
    before = opened(PIPELINE)
    slower = PIPELINE.replace("%p_1: D2 = @dense(%w2, %ar_1)", "%p_0: D2 = @dense(%w2, %ar_1)\n  %p_1: D2 = Relu(%p_0)")
    after = opened(slower)
    assert not after.program.errors
    mine = line_changes(after, starts(slower), before)
    lines = slower.split("\n")
    changed = {
        lines[line].split(" =")[0].strip(): change for line, change in zip(mine.line, mine.change_s, strict=True)
    }
    assert changed["%p_0: D2"] is None  # it is new
    assert changed["%p_1: D2"] < 0  # a Relu takes less than the product that had this result
    assert len(changed) == 2
    theirs = line_changes(before, starts(PIPELINE), after)
    assert [c > 0 for c in theirs.change_s] == [True]


def test_statements_that_only_move_do_not_differ():
    assert line_changes(opened(SWAPPED), starts(SWAPPED), opened(PIPELINE)).line == []


def test_a_line_that_is_shared_among_devices_is_faster_on_each_though_not_in_sum():
    before = opened((EXAMPLES / "mlp_sequential.dir").read_text())
    text = transformed(before, "mlp", ["dp=2"]).text
    found = line_changes(opened(text), starts(text), before)
    lines = text.split("\n")
    rows = {
        lines[line].split(" = ")[0].strip(): (each, change, together)
        for line, each, change, together in zip(
            found.line, found.each_s, found.change_s, found.device_change_s, strict=True
        )
    }
    for name in ("%dp", "%dA", "%dp_1", "%dp_2"):
        each, change, together = rows[name]
        assert change == pytest.approx(-each, rel=0.5)
        assert 0 < together < 0.2 * each
    assert {name for name, (_, change, _) in rows.items() if change is None} == {
        "%dw1_sum_1, %dw1_sum_2",
        "%dw2_sum_1, %dw2_sum_2",
    }
    assert set(found.devices) == {2}
    assert None not in line_changes(before, starts(before.text), opened(text)).change_s  # nothing is gone


def test_parts_of_one_device_are_compared_together():
    """Two halves take together what the whole did: neither is faster."""
    whole = opened(ONE.replace("BODY", "%y = Relu(%x)\n  return %y"))
    halves = ONE.replace(
        "BODY", "%x_1, %x_2 = Split[num_outputs = 2](%x)\n  %y_1 = Relu(%x_1)\n  %y_2 = Relu(%x_2)\n  return %y_1, %y_2"
    )
    found = line_changes(opened(halves), starts(halves), whole)
    (first, second) = (found.change_s[i] for i, line in enumerate(found.line) if "Relu" in halves.split("\n")[line])
    assert first == second
    assert 0 < first < 0.2 * found.each_s[-1]  # each has its launch


def walked(document, kind):
    """All ops of a kind, each from the one before, as an editor goes: it shows the calls that lead there."""
    found = []
    offset = document.text.index("func @mlpPP") if kind.startswith("next") else document.text.rindex("return")
    while (there := goal(document, offset, kind)) is not None:
        found.append(there)
        numbers = {**document.setup.picked, **numbers_on(document, there.path)}
        document = document.under(replace(document.setup, picked=numbers))
        offset = there.span.start
    return found


def test_walking_along_the_critical_path_passes_each_of_its_ops_once_and_back():
    document = opened(PIPELINE)
    path = document.simulation.timeline().critical_path()
    assert [each.event for each in walked(document, "nextCritical")] == path
    assert [each.event for each in walked(document, "previousCritical")] == path[::-1]


def test_waits_are_met_in_order_with_how_long_they_are():
    document = opened(PIPELINE)
    waits = document.simulation.timeline().waits
    found = walked(document, "nextWait")
    assert [each.event for each in found] == sorted({wait.event for wait in waits})
    assert all(each.wait_s == max(w.seconds for w in waits if w.event == each.event) for each in found)


@pytest.mark.parametrize("before", [": D", "Send[device = "])
def test_a_device_says_what_it_does(before):
    document = opened(PIPELINE)
    view = View(document, document)
    offset = PIPELINE.index(f"{before}2") + len(before)
    said = hover(view, offset)
    use = document.simulation.devices[2]
    assert said.markdown.startswith("device 2 of dgx-a100")
    assert f"{use.idle_s / document.simulation.latency_s:.0%}" in said.markdown
    assert "peak memory" in said.markdown


def test_sizes_are_no_devices():
    text = "func @main(%x: Tensor[Float32, (2, 3), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    document = open_document(text, "x.dir", SETUP)
    view = View(document, document)
    assert hover(view, text.index("(2, 3)") + 1) is None
    assert hover(view, text.index("3)")) is None
    assert hover(view, text.index("1]")).markdown.startswith("device 1")
