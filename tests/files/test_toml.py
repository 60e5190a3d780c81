"""Where keys and values of a TOML text stand, and that no text takes longer than its length allows."""

import tomllib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.cost import HardwareError
from distir.cost import parse as parse_profile
from distir.diagnostics import Span
from distir.files.toml import TomlError, parse, places

TEXT = '''\
title = "a # b"  # c
[kinds.gpu]
memory = "80GB"
flops.Float32 = { peak = "1TFLOP/s", "odd name" = [1, 2] }
sizes = [  # over lines
  1,
]
note = """
[no.table]
"""
[[groups]]
kind = "gpu"
[[groups]]
kind = "cpu"
[groups.more]
x = 1
'''


@pytest.mark.parametrize(
    ("key", "shown", "value"),
    [
        (("title",), "title", '"a # b"'),
        (("kinds",), "kinds.gpu", "[kinds.gpu]"),
        (("kinds", "gpu"), "kinds.gpu", "[kinds.gpu]"),
        (("kinds", "gpu", "memory"), "memory", '"80GB"'),
        (("kinds", "gpu", "flops", "Float32", "peak"), "peak", '"1TFLOP/s"'),
        (("kinds", "gpu", "flops", "Float32", "odd name"), '"odd name"', "[1, 2]"),
        (("kinds", "gpu", "sizes"), "sizes", "["),
        (("kinds", "gpu", "note"), "note", '"""'),
        (("groups", "0", "kind"), "kind", '"gpu"'),
        (("groups", "1", "kind"), "kind", '"cpu"'),
        (("groups", "1", "more", "x"), "x", "1"),
    ],
)
def test_where_a_key_and_its_value_stand(key, shown, value):
    place = parse(TEXT).places[key]
    assert TEXT[place.key.start : place.key.end] == shown
    assert TEXT[place.value.start : place.value.end] == value


def test_what_is_in_a_text_is_no_table():
    assert ("no", "table") not in parse(TEXT).places


def leaves(table, before=()):
    items = enumerate(table) if isinstance(table, list) else table.items()
    for name, value in items:
        key = (*before, str(name))
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield from leaves(value, key)
        elif isinstance(table, dict):
            yield key


LINES = [
    "a = 1",
    "b.c = 'x'",
    "[t]",
    "[[l]]",
    "[t.u]",
    "[l.v]",
    'd = {e = 1, "f" = [2, {g = 3}]}',
    "# [n]",
    "'q' = '''\n\n'''",
    "h = [\n{i=1},\n]",
]


@given(st.lists(st.sampled_from(LINES), max_size=12).map("\n".join))
def test_every_value_that_tomllib_reads_has_a_place(text):
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = places(text)
    for key in leaves(table):
        assert key in found


@given(st.text("[]{}=.,'\"\\#ab1 \n\r", max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse(text)
    except TomlError as error:
        span = error.span or Span(0, 0)
    else:
        span = Span(0, 0)
        assert found.table == tomllib.loads(text)
    assert 0 <= span.start <= span.end <= len(text)


LARGE = 200_000
HOSTILE = {
    "a dotted key": ".".join("a" * (LARGE // 2)) + " = 1",
    "a dotted table": "[" + ".".join("a" * (LARGE // 2)) + "]",
    "a dotted key in a table": "x = {" + ".".join("a" * (LARGE // 2)) + " = 1}",
    "lists": "a = " + "[" * LARGE,
    "tables": "a = " + "{a = " * (LARGE // 5),
    "escapes": 'a = "' + '\\"' * (LARGE // 2),
    "quotes": 'a = """' + '\\"""' * (LARGE // 4),
    "a list over lines": "a = [\n" + "1,\n" * (LARGE // 3) + "]",
    "lines": "\n" * LARGE,
    "bare words": "a = " + "b " * (LARGE // 2),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_long_texts_are_read_or_refused_at_once(text):
    """Without bounds some of these take minutes; there is no assertion on time, a hang is a failure."""
    with suppress(TomlError):
        parse(text)


def test_a_key_of_very_many_names_is_refused_where_it_is():
    with pytest.raises(TomlError, match="nested too deep") as caught:
        parse("title = 'x'\n" + HOSTILE["a dotted key"])
    assert caught.value.span.start == len("title = 'x'\n")
    with pytest.raises(HardwareError) as refused:
        parse_profile("title = 'x'\n" + HOSTILE["a dotted key"])
    assert refused.value.problems[0].line == 2
