from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from distir.diagnostics import Source, Span
from distir.diagnostics.snippet import Mark, rows
from distir.diagnostics.visible import cells, visible

LINES = st.text(st.sampled_from(list("ab %漢字\t\x1b\u202e\U0001f600")), min_size=1, max_size=40)


def character_at(text, column):
    """What stands in a cell."""
    before = next(i for i in range(len(text)) if cell_len(text[:i]) == column)
    return text[before:]


@given(st.lists(LINES, min_size=1, max_size=4), st.integers(1, 30), st.integers(40, 120), st.data())
def test_underlines_start_below_the_right_character(lines, repeated, limit, data):
    text = "\n".join(line * repeated for line in lines)
    start = data.draw(st.integers(0, len(text) - 1))
    assume(text[start] not in "\n ")
    end = data.draw(st.integers(start + 1, len(text)))
    first, *_ = rows(Source("a.dir", text), [Mark(Span(start, end), primary=True)], limit)
    assert first.line == text.count("\n", 0, start) + 1
    assert character_at(first.text, first.underlines[0].column).startswith(visible(text[start]))


@given(st.text(max_size=300), st.lists(st.tuples(st.integers(), st.integers()), max_size=6), st.integers(40, 120))
def test_rows_fit(text, spans, limit):
    for row in rows(Source("a.dir", text), [Mark(Span(*span), "label") for span in spans], limit):
        assert cells(row.text) <= limit
        assert all(0 <= u.column <= limit and 1 <= u.width <= limit for u in row.underlines)


@given(st.text(max_size=300), st.lists(st.tuples(st.integers(-2, 300), st.integers(-2, 300)), max_size=12))
def test_every_mark_is_shown_and_labelled_once(text, spans):
    marks = [Mark(Span(*span), str(i)) for i, span in enumerate(spans)]
    shown = rows(Source("a.dir", text), marks, 100)
    labels = [u.label for row in shown for u in row.underlines if u.label is not None]
    assert sorted(labels, key=int) == [mark.label for mark in marks]
    assert [row.line for row in shown] == sorted(row.line for row in shown)


def test_a_flood_of_combining_characters_is_clipped():
    text = "a" + "\u0301" * 1_000_000
    (row,) = rows(Source("a.dir", text), [Mark(Span(0, 1))], 80)
    assert len(row.text) <= 80


@given(st.text())
def test_visible_text_is_printable_and_keeps_what_is(text):
    assert visible(text).isprintable()
    assert visible(visible(text)) == visible(text)
