"""Inlay hints: a golden file, and laws: room on a line, ranges, switches, what accepting a hint does."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from programs import programs
from reading_samples import MACHINE, PIPELINE, drawn, opened, viewed

from distir.config import Hints
from distir.diagnostics import Span
from distir.ide.document import Setup, open_document
from distir.ide.hints import MOST_CHARACTERS, PARAMETER, hints, inserted, tooltip
from distir.ide.instances import View
from distir.syntax import print_module

GOLDEN = Path(__file__).parent / "golden" / "hints.md"
ALL = Hints()
KINDS = {"types": "type", "values": "value", "times": "time", "waits": "wait"}


def all_hints(view, kinds=ALL):
    return hints(view, Span(0, len(view.document.text)), kinds)


def test_golden(request):
    head, _, rest = GOLDEN.read_text().partition("```dir\n")
    program = rest.partition("\n```\n")[0] + "\n"
    view = viewed(program)
    shown = drawn(program, all_hints(view)).rstrip()
    tips = "\n\n".join(
        f"## tooltip of `{hint.label.strip()}`\n\n{tooltip(view, hint.function, hint.kind, hint.index, hint.part)}"
        for hint in all_hints(view)
        if hint.label.startswith(("wait", "=", "+4.80us @2.60"))
    )
    found = f"{head}```dir\n{program.rstrip()}\n```\n\n## Shown\n\n```text\n{shown}\n```\n\n{tips}\n"
    if request.config.getoption("--bless"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


@given(programs())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_line_has_more_than_an_editor_shows_and_every_hint_has_a_tooltip(module):
    text = print_module(getattr(module, "module", module))
    document = open_document(text, "random.dir", Setup(MACHINE))
    view = View(document, document)
    found = all_hints(view)
    used = Counter()
    for hint in found:
        used[text.count("\n", 0, hint.offset)] += len(hint.label)
        assert tooltip(view, hint.function, hint.kind, hint.index, hint.part)
    assert max(used.values(), default=0) <= MOST_CHARACTERS
    assert [h.offset for h in found] == sorted(h.offset for h in found)


def test_a_range_has_the_hints_of_its_lines():
    view = viewed(PIPELINE)
    whole = all_hints(view)
    offset = 0
    for line in PIPELINE.splitlines(keepends=True):
        here = hints(view, Span(offset + 1, offset + 2), ALL)
        assert here == [h for h in whole if offset <= h.offset < offset + len(line)]
        offset += len(line)


@pytest.mark.parametrize(("switch", "kind"), KINDS.items())
def test_each_kind_can_be_switched_off(switch, kind):
    text = PIPELINE.replace("  return %p_1", "  %s = Shape(%p_1)\n  return %s, %p_1")
    view = viewed(text)
    assert kind in {h.kind for h in all_hints(view)}
    assert kind not in {h.kind for h in all_hints(view, replace(ALL, **{switch: False}))}


def test_an_accepted_hint_is_an_annotation_that_checks():
    view = viewed(PIPELINE)
    text = PIPELINE
    for hint in reversed(all_hints(view)):
        writes = inserted(view, hint.function, hint.index, hint.part) if hint.kind == "type" else None
        if writes is not None:
            assert hint.index != PARAMETER
            text = text[: hint.offset] + writes + text[hint.offset :]
    plain = "func @main(%x: Tensor[Float32, (4, 8), 1]) {\n  %a, %b = Split[num_outputs = 2](%x)\n  return %a, %b\n}\n"
    view = viewed(plain)
    written = plain
    for hint in reversed(all_hints(view)):
        if hint.kind == "type":
            writes = inserted(view, hint.function, hint.index, hint.part)
            written = written[: hint.offset] + writes + written[hint.offset :]
    assert "%a: Tensor[Float32, (2, 8), 1], %b: Tensor[Float32, (2, 8), 1] = Split" in written
    assert not opened(text).program.errors
    assert not opened(written).program.errors


def test_what_only_one_call_knows_is_not_offered_to_be_written():
    view = viewed(PIPELINE)
    hint = next(h for h in all_hints(view) if h.function == "dense" and h.kind == "type")
    assert inserted(view, hint.function, hint.index, hint.part) is None


def test_hints_of_an_edited_text_stay_where_its_statements_are():
    before = opened(PIPELINE)
    assert before.simulation is not None
    edited = PIPELINE.replace("  %as_2: D1", "  %new = Relu(%x_1)\n  %as_2: D1")
    after = before.edited(edited, 1)
    stale = drawn(edited, all_hints(View(after, before))).splitlines()
    fresh = drawn(PIPELINE, all_hints(View(before, before))).splitlines()
    at = next(i for i, line in enumerate(stale) if "%new" in line)
    assert stale[:at] + stale[at + 1 :] == fresh
    assert stale[at] == "  %new⟦: f32[100,100]@1⟧ = Relu(%x_1)"
    assert not after.is_simulated, "asking must not simulate"
