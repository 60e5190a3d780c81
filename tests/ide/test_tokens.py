"""Semantic tokens: what each word is; after any edit the same as for the text afresh."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_samples import PIPELINE, opened, viewed
from thorough import most_examples

from distir.ide import tokens
from distir.ide.instances import View
from distir.ide.tokens import MODIFIERS, TYPES, pieces


def decoded(view, start=0, end=None, units=len):
    """(word, type, modifiers) of every token, placed as the protocol places them."""
    text = view.document.text
    lines = re.split(r"\r\n|\n|\r", text)
    found = []
    for piece in pieces(view, start, len(text) if end is None else end, units):
        line = text.count("\n", 0, piece.offset)
        column = units(text[text.rfind("\n", 0, piece.offset) + 1 : piece.offset])
        rows = [int(number) for number in f"{piece.first},{piece.rest}".strip(",").split(",") if number]
        line, column = line + piece.ahead[0], piece.ahead[1] + (0 if piece.ahead[0] else column)
        groups = [(0, 0, *rows[:3]), *(tuple(rows[i : i + 5]) for i in range(3, len(rows), 5))]
        assert len(groups) == piece.count
        for ahead, columns, length, kind, modifiers in groups:
            line, column = line + ahead, columns + (0 if ahead else column)
            names = {name for bit, name in enumerate(MODIFIERS) if modifiers >> bit & 1}
            found.append((piece_of(lines[line], column, length, units), TYPES[kind], names))
    return found


def piece_of(line, column, length, units):
    """The characters that columns in units mean."""
    starts = [units(line[:i]) for i in range(len(line) + 1)]
    return line[starts.index(column) : starts.index(column + length)]


def utf16(text):
    return len(text.encode("utf-16-le")) // 2


def test_kinds_of_words_are_distinct():
    found = {word: (kind, modifiers) for word, kind, modifiers in decoded(viewed(PIPELINE))}
    assert found["func"][0] == "keyword"
    assert found["@main"] == ("function", {"declaration"})
    assert found["Send"][0] == "method"
    assert found["Tensor"][0] == found["Float32"][0] == found["D1"][0] == "type"
    assert found["dim"][0] == "property"
    assert found["200"][0] == "number"
    assert found["%w1"] == ("parameter", {"device1"})
    assert found["%ar_1"][1] >= {"device2"}


def test_long_heads_and_statements_are_coloured_to_their_end(monkeypatch):
    """A large plan has thousands of parameters. Of a line that is too long, as a constant's, the start is coloured."""
    monkeypatch.setattr(tokens, "LONGEST_LINE", 200)
    names = [f"%w{number}" for number in range(60)]
    head = ",\n".join(f"  {name}: Tensor[Float32, (4, 4), 1]" for name in names)
    long, last = ", ".join(["1.0"] * 200), ",\n    ".join(names)
    body = f"  %c = Constant[value = [{long}]]()\n  %t = MakeTuple({last},\n    %c)\n  return %t"
    words = [word for word, _, _ in decoded(viewed(f"func @main(\n{head}\n) {{\n{body}\n}}\n"))]
    assert {*names} <= {*words[: words.index("%c")]}
    assert words[-4:] == ["%w59", "%c", "return", "%t"]
    assert 30 < words.count("1.0") < 60


def test_values_have_their_device_and_what_is_critical_is_marked():
    text = PIPELINE.replace("  %p_2: D2", "  %unused = Relu(%p_1)\n  %p_2: D2")
    found = decoded(viewed(text))
    assert ("%unused", "variable", {"declaration", "unused", "device2"}) in [
        (w, k, m - {"critical"}) for w, k, m in found
    ]
    split = next(m for w, k, m in found if w == "Split")
    assert "critical" in split
    assert "critical" in next(m for w, k, m in found if w == "%ar_1" and "declaration" in m)


def test_values_over_several_devices_are_marked():
    text = "func @main(%x: Tuple[Tensor[Float32, (2,), 1], Tensor[Float32, (2,), 2]]) {\n  return %x\n}\n"
    assert ("%x", "parameter", {"multiDevice"}) in decoded(viewed(text))


def test_comments_strings_and_columns_of_other_alphabets():
    text = (
        "// für 𝄞 alle\n/* über\n   zwei */\nfunc @main(%x: Tensor[Float32, (2,), 1]) {\n"
        '  %y = Relu(/* 𝄞 */ %x) // ende\n  %z = Cast[to = "𝄞"](%y)\n  return %z\n}\n// nach\n'
    )
    for units in (len, utf16):
        found = decoded(viewed(text), units=units)
        words = [word for word, _, _ in found]
        assert words[:3] == ["// für 𝄞 alle", "/* über", "   zwei */"]
        assert "/* 𝄞 */" in words
        assert words.count("%x") == 2
        assert "// ende" in words
        assert words[-1] == "// nach"
        assert '"𝄞"' in words


@pytest.mark.parametrize("text", ["", "func", "func @f(", "%x", PIPELINE.replace("(", "", 2), "// only", "}{"])
def test_any_text_has_tokens(text):
    decoded(viewed(text))


EDITS = st.lists(
    st.tuples(
        st.integers(0, len(PIPELINE)),
        st.integers(0, 40),
        st.sampled_from(["", "%h", "\n", "Relu", "(", ")", "D2", "// c\n", "  %q = Relu(%x)\n", ", 2", "/*", "*/"]),
    ),
    min_size=1,
    max_size=6,
)


@given(EDITS)
@settings(max_examples=most_examples(60), deadline=None)
def test_after_edits_tokens_are_those_of_the_text_afresh(edits):
    document = opened(PIPELINE)
    for number, (at, length, new) in enumerate(edits):
        text = document.text
        at = min(at, len(text))
        document = document.edited(text[:at] + new + text[at + length :], number + 1)
        fresh = opened(document.text)
        assert decoded(View(document, document)) == decoded(View(fresh, fresh))


def test_a_range_has_the_tokens_of_its_lines():
    view = viewed(PIPELINE)
    start = PIPELINE.index("  %ar_1: D2 = Send")
    end = PIPELINE.index("\n", start)
    found = [word for word, _, _ in decoded(view, start=start, end=end)]
    assert found == ["%ar_1", "D2", "Send", "%as_1", "2"]
