"""Where offsets stand in the protocol's terms, in every encoding and after any edits."""

import pytest
from distir_lsp.positions import UTF8, UTF16, UTF32, Positions
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from distir.diagnostics import Span

texts = st.text(alphabet=st.sampled_from("ab%\n\r é😀\u2028"), max_size=30)
encodings = st.sampled_from([UTF8, UTF16, UTF32])


@given(texts, encodings)
def test_offsets_come_back(text, encoding):
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        position = positions.position(offset)
        inside_line_end = text[offset - 1 : offset + 1] == "\r\n"
        assert positions.offset(position) == offset - inside_line_end


@given(texts, encodings)
def test_columns_are_those_of_another_implementation(text, encoding):
    positions = Positions(text, encoding)
    codec = PositionCodec(encoding=types.PositionEncodingKind(encoding))
    for offset in range(len(text) + 1):
        line, column = positions.place(offset)
        before = text[positions.starts[line] : offset]
        assert column == codec.client_num_units(before)


@given(texts, encodings, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), texts), max_size=8))
def test_edits_leave_the_lines_of_the_new_text(text, encoding, edits):
    positions = Positions(text, encoding)
    for start, length, new in edits:
        start = min(start, len(text))
        end = min(start + length, len(text))
        text = text[:start] + new + text[end:]
        positions = positions.edited(Span(start, end), new)
        assert positions.text == text
        assert positions.starts == Positions(text, encoding).starts


@given(texts, encodings, st.integers(0, 50), st.integers(0, 50))
def test_every_position_is_somewhere(text, encoding, line, column):
    assert 0 <= Positions(text, encoding).offset(types.Position(line, column)) <= len(text)


@pytest.mark.parametrize(("text", "expected"), [("", [0]), ("a\r\nb\rc\n", [0, 3, 5, 7])])
def test_line_ends(text, expected):
    assert list(Positions(text).starts) == expected
