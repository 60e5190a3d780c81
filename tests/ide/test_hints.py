"""Inlay hints: golden files, and laws: room on a line, times apart, ranges, switches, what accepting a hint does."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import programs
from reading_samples import MACHINE, PIPELINE, drawn, opened, viewed
from thorough import most_examples

from distir.config import Hints
from distir.cost import load
from distir.diagnostics import Span
from distir.ide.compact import compact, shortened
from distir.ide.document import Setup, open_document
from distir.ide.edits import applied
from distir.ide.hints import PARAMETER, hints, inserted, tooltip
from distir.ide.instances import View
from distir.ir import DTYPES, HOST, TensorType, TupleType
from distir.models import gpt2
from distir.ops import type_of
from distir.syntax import print_module
from distir.transform import transform

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
        f"## tooltip of `{hint.label.strip()}`\n\n{told(view, hint)}"
        for hint in all_hints(view)
        if hint.label.startswith(("wait", "=", "+4.80us @2.60"))
    )
    found = f"{head}```dir\n{program.rstrip()}\n```\n\n## Shown\n\n```text\n{shown}\n```\n\n{tips}\n"
    if request.config.getoption("--bless"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


SHORTEST = 25
"""What the signs of a type, a value, a time and a wait take that are all left out."""


@given(programs(), st.integers(SHORTEST, 90), st.integers(0, 120))
@settings(max_examples=most_examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_line_has_more_than_the_budget_and_nothing_is_dropped_in_silence(module, length, columns):
    text = print_module(getattr(module, "module", module))
    document = open_document(text, "random.dir", Setup(MACHINE))
    view = View(document, document)
    found = all_hints(view, Hints(length=length, columns=columns))
    used = Counter()
    for hint in found:
        used[text.count("\n", 0, hint.offset)] += len(hint.label)
        assert told(view, hint)
    assert max(used.values(), default=0) <= length
    assert [h.offset for h in found] == sorted(h.offset for h in found)
    for full in all_hints(view, Hints(length=0)):
        (shown,) = (h for h in found if (h.function, h.index, h.kind) == where(full) and covers(h, full))
        assert shown.label == full.label or "…" in shown.label
        if full.kind in ("time", "wait") and document.simulation.devices:
            assert "takes **" in told(view, shown) or "@" in told(view, shown)
        elif full.kind == "type" and full.count == 1 and full.index != PARAMETER:
            name = view.document.program.module.functions[full.function].body[full.index].results[full.part]
            assert compact(type_of(view.value(full.function, name))) == full.label.strip(": ")
            assert f"%{name}: " in told(view, shown)


WEIGHT, BIAS = (TensorType(DTYPES["Float16"], shape, 1) for shape in ((768, 2304), (768,)))


@pytest.mark.parametrize(
    ("type", "text", "short"),
    [
        (WEIGHT, "f16[768,2304]@1", "f16[…]@1"),
        (TensorType(DTYPES["Float16"], (), 1), "f16@1", "f16@1"),
        (TensorType(DTYPES["Float16"], (4,), HOST), "f16[4]", "f16[…]"),
        (TupleType((WEIGHT, BIAS)), "(f16[768,2304], f16[768])@1", "(…2)@1"),
        (TupleType((BIAS, BIAS, BIAS, WEIGHT)), "(3×f16[768], f16[768,2304])@1", "(…4)@1"),
        (TupleType((TupleType((BIAS, BIAS)), WEIGHT)), "((2×f16[768]), f16[768,2304])@1", "(…3)@1"),
        (TupleType((BIAS, TensorType(DTYPES["Float16"], (768,), 2))), "(f16[768]@1, f16[768]@2)", "(…2)"),
        (TupleType((WEIGHT, BIAS) * 6), f"({'f16[768,2304], f16[768], ' * 4}…4 more)@1", "(…12)@1"),
    ],
)
def test_types_in_few_characters(type, text, short):
    assert (compact(type), shortened(type)) == (text, short)


def where(hint):
    return hint.function, hint.index, hint.kind


def covers(hint, other):
    return hint.part <= other.part < hint.part + hint.count


def told(view, hint):
    return tooltip(view, hint.function, hint.kind, hint.index, hint.part, hint.count)


@pytest.fixture(scope="module")
def training():
    """A step of GPT-2's training, written out, as it is met in an editor."""
    model = gpt2(12, width=768, heads=12, sequence=1024, batch=8)
    text = print_module(transform(model, "grad", "loss=cross_entropy", "optimizer=adam", "inline"))
    document = open_document(text, "training.dir", Setup(load("dgx-a100")))
    return View(document, document)


def columns_of(view, found):
    """For each hint, the column where its last character stands."""
    text, ends, shift, line = view.document.text, [], 0, -1
    for hint in found:
        start = text.rfind("\n", 0, hint.offset) + 1
        shift = shift if start == line else 0
        line, shift = start, shift + len(hint.text)
        ends.append(hint.offset - start + shift)
    return ends


def test_every_time_of_a_training_step_is_on_the_screen(training):
    found = all_hints(training)
    ends = columns_of(training, found)
    times = [(h, end) for h, end in zip(found, ends, strict=True) if h.kind == "time"]
    assert len(times) > 800
    assert all("@" in h.label and "…" not in h.label for h, _ in times)
    assert max(end for _, end in times) <= 120
    at_end = all_hints(training, Hints(columns=0))
    assert max(columns_of(training, at_end)) > 200


def time_columns(view, found):
    """By function, the columns where its times begin, and those of the `@` in them."""
    columns = {}
    for hint, end in zip(found, columns_of(view, found), strict=True):
        if hint.kind == "time":
            begin, at = columns.setdefault(hint.function, (Counter(), Counter()))
            begin[end - len(hint.label)] += 1
            at[end - len(hint.label.partition("@")[2])] += 1
    return columns


@pytest.mark.parametrize("columns", [0, 72, 120])
def test_times_of_a_function_stand_in_one_column_whatever_the_length_of_its_lines(columns):
    for text in (PIPELINE, PIPELINE.replace("%as_1", "%as_1_of_a_longer_name"), LATE):
        view = viewed(text)
        found = all_hints(view, Hints(columns=columns))
        assert found
        for begin, at in time_columns(view, found).values():
            assert len(begin) == len(at) == 1, (view.document.text, begin)


def test_times_beyond_the_screen_follow_the_first_results_of_a_function_all_of_them(training):
    view = training
    ((begin, _),) = time_columns(view, all_hints(view)).values()
    ((column, count),) = begin.most_common(1)
    assert count > 0.99 * begin.total(), begin
    assert column < 50
    behind = [h for h in all_hints(view) if h.kind == "time"]
    assert all(view.document.text.startswith((" = ", ", "), h.offset) for h in behind)


def test_while_one_types_times_stay_in_their_column():
    before = opened(PIPELINE)
    shown = all_hints(View(before, before))
    after = before.edited(PIPELINE.replace("%as_1", "%as_1_with_longer"), 1)
    view = View(after, before)
    was, now = time_columns(View(before, before), shown), time_columns(view, all_hints(view))
    assert now["dense"] == was["dense"]
    assert list(was["main"][0]) == list(now["main"][0])


def test_starts_of_neighbouring_lines_differ_and_are_short(training):
    found = [h for h in all_hints(training) if h.kind == "time"]
    starts = [h.label.partition("@")[2] for h in found]
    moments = [training.moment(training.document.entry, h.index).start for h in found]
    for (a, b), (x, y) in zip(pairwise(starts), pairwise(moments), strict=True):
        assert (a == b) == (x == y)
    assert max(map(len, starts)) <= 9  # `79.412ms`


def test_every_result_of_a_training_step_has_its_type(training):
    """None is left out for want of room: what three results share is told once."""
    found = [h for h in all_hints(training) if h.kind == "type"]
    assert not [h for h in found if "…" in h.label]
    (three,) = {h.label for h in found if h.count == 3 and h.index < 40}
    assert three == ": 3×f16[8,1024,768]@1"


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
        edits = inserted(view, hint.function, hint.index, hint.part, hint.count) if hint.kind == "type" else ()
        assert not edits or hint.index != PARAMETER
        text = applied(text, edits)
    plain = "func @main(%x: Tensor[Float32, (4, 8), 1]) {\n  %a, %b = Split[num_outputs = 2](%x)\n  return %a, %b\n}\n"
    view = viewed(plain)
    written = plain
    for hint in reversed(all_hints(view)):
        if hint.kind == "type":
            assert hint.label == ": 2×f32[2,8]@1"
            written = applied(written, inserted(view, hint.function, hint.index, hint.part, hint.count))
    assert "%a: Tensor[Float32, (2, 8), 1], %b: Tensor[Float32, (2, 8), 1] = Split" in written
    assert not opened(text).program.errors
    assert not opened(written).program.errors


def test_what_only_one_call_knows_is_not_offered_to_be_written():
    view = viewed(PIPELINE)
    hint = next(h for h in all_hints(view) if h.function == "dense" and h.kind == "type")
    assert inserted(view, hint.function, hint.index, hint.part) == ()


def test_hints_of_an_edited_text_stay_where_its_statements_are_and_are_marked():
    before = opened(PIPELINE)
    assert before.simulation is not None
    edited = PIPELINE.replace("  %as_2: D1", "  %new = Relu(%x_1)\n  %as_2: D1")
    after = before.edited(edited, 1)
    old = drawn(edited, all_hints(View(after, before))).splitlines()
    fresh = drawn(PIPELINE, all_hints(View(before, before))).splitlines()
    at = next(i for i, line in enumerate(old) if "%new" in line)
    marked = [re.sub(r"⟦(wait (?=[\d.]+[mun]?s⟧)|\+(?=[^⟧@]*@))", lambda m: f"⟦{m[1][:-1]}~", line) for line in fresh]
    assert [line.replace(":~", ": ") for line in old[:at] + old[at + 1 :]] == marked
    assert any(":~" in line for line in old)
    assert old[at] == "  %new⟦: f32[100,100]@1⟧ = Relu(%x_1)"
    assert not after.is_simulated, "asking must not simulate"


def test_after_a_syntax_error_no_figure_looks_live():
    before = opened(PIPELINE)
    assert before.simulation is not None
    broken = before.edited(PIPELINE.replace("@dense(%w2, %ar_2)", "@dense(%w2 %ar_2)"), 3)
    view = View(broken, before)
    live, old = all_hints(View(before, before)), all_hints(view)
    assert {"time", "wait", "type"} <= {h.kind for h in old} & {h.kind for h in live}
    assert not [h for h in live if "~" in h.label]
    for hint in old:
        if hint.kind in ("time", "wait"):
            assert "~" in hint.label
            assert "+" not in hint.label
        if "~" in hint.label:
            assert "*stale, simulated 3 edits ago: the program has errors (line 19, " in told(view, hint)
    # what the function says by itself is not the call's, and so not of an earlier version
    assert any(h.label == " f32[100,100]@2" for h in old if h.function == "main")
    assert all(h.label.startswith(":~") for h in old if h.kind == "type" and h.function == "dense")


def test_the_mark_of_an_earlier_version_moves_no_hint():
    """Each keystroke would push what stands on the right of a hint there and back."""
    text = PIPELINE.replace("  return %p_1", "  %s = Shape(%p_1)\n  return %s, %p_1") + LATE.replace("@main", "@other")
    before = opened(text)
    live = {(*where(h), h.part): h.label for h in all_hints(View(before, before))}
    after = before.edited(f"// a comment\n{text}".replace("return %a", "return  %a"), 1)
    old = all_hints(View(after, before))
    assert any("~" in h.label for h in old)
    for hint in old:
        assert len(hint.label) == len(live[*where(hint), hint.part])


def test_starts_of_a_function_have_one_unit_and_one_number_of_digits(training):
    for view in (training, viewed(PIPELINE), viewed(LATE)):
        by_function = {}
        for hint in all_hints(view):
            if hint.kind == "time" and "@+" not in hint.label:
                by_function.setdefault(hint.function, []).append(hint.label.partition("@")[2])
        assert by_function
        for starts in by_function.values():
            assert len({re.sub(r"\d", "0", start.lstrip("0123456789")) for start in starts}) == 1


def test_nothing_is_said_of_a_type_that_is_not_known():
    text = "func @main(%x: D1, %y: Tensor[Float32, (2,), 1]) {\n  %z = Relu(%x)\n  %v = Relu(%y)\n  return %z, %v\n}\n"
    view = viewed(text)
    assert [hint.label for hint in all_hints(view) if hint.kind == "type"] == [": f32[2]@1"]
    assert not [hint for hint in all_hints(view) if "?" in hint.label]
    open_shape = viewed("func @main(%x, %w) {\n  %y = Gemm(%x, %w)\n  return %y\n}\n")
    assert str(type_of(open_shape.value("main", "y"))) != "Any", "that it is a matrix is known"
    assert not all_hints(open_shape), "but neither what of, nor how large"


LATE = """func @late(%x: Tensor[Float32, (64, 64), 1]) {
  %a = Relu(%x)
  %b = Relu(%a)
  %c = Relu(%b)
  return %c
}

func @main(%w: Tensor[Float32, (8192, 8192), 1], %x: Tensor[Float32, (64, 64), 1]) {
  %v = MatMul(%w, %w)
  %y = @late(%x)
  %z = Relu(%y)
  return %v, %z
}
"""


def test_late_in_a_program_starts_are_counted_from_the_function():
    view = viewed(LATE)
    function = view.document.program.module.functions["late"]
    labels = {(h.function, h.index): h.label for h in all_hints(view) if h.kind == "time"}
    starts = [view.moment(function, index).start for index in range(3)]
    assert len(labels["late", 0]) > len("+1.00us @1.00us"), "the first says when the function begins"
    for index in (1, 2):
        offset = float(re.search(r"@\+([\d.]+)us$", labels["late", index])[1]) * 1e-6
        assert offset == pytest.approx(starts[index] - starts[0], rel=0.01)
    assert "@+" not in labels["main", 1] + labels["main", 2], "of the entry function both are one"
