"""The formatter loses no comment, changes no meaning, and has nothing to do the second time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules
from thorough import most_examples

from distir.diagnostics import ProgramError
from distir.syntax import format, parse, print_module  # noqa: A004
from distir.syntax.tokens import TOKEN

GAPS = st.sampled_from([" ", " ", " ", "  ", "\t", "/* a */", " /* b\n   c */ ", "/**/"])
BREAKS = st.sampled_from(
    ["\n", "\n", "\n\n\n", " // x\n", "\n  // own\n\n", "\n/* own */\n", " /* y */ // z \n", "\n// 1\n// 2\n"]
)


@st.composite
def untidy(draw):
    """The text of a random module with other white space, and comments in it."""
    out = [draw(BREAKS)]
    depth = 0
    for line in print_module(draw(modules)).splitlines():
        for token in TOKEN.findall(line):
            depth += (token in ("(", "[")) - (token in (")", "]"))
            out += ["" if out[-1] == "/" else draw(GAPS), token]  # `/` and `/*` together would begin another comment
            if depth and token != "/":
                out.append(draw(st.sampled_from(["", "", "", "\n", " // in\n", "\n // in own\n\n"])))
        out.append(draw(BREAKS))
    return "".join(out)


def comments(text):
    """The words of all comments, whatever the order."""
    syntax = parse(text)
    spans = [*syntax.comments, *(span for function in syntax.functions for span in function.comments)]
    return sorted(" ".join(text[start:end].split()) for start, end in spans)


@given(untidy())
@settings(max_examples=most_examples(60), deadline=None)
def test_formatting_keeps_meaning_and_comments_and_is_stable(text):
    syntax = parse(text)
    assert syntax.diagnostics == ()
    once = format(syntax)
    again = parse(once)
    assert again.diagnostics == ()
    assert again.module == syntax.module
    assert comments(once) == comments(text)
    assert format(again) == once


@given(untidy(), st.sampled_from(["\r\n", "\r"]))
@settings(max_examples=most_examples(20), deadline=None)
def test_line_ends_do_not_matter_and_are_kept(text, end):
    other = "\ufeff" + text.replace("\n", end)
    assert parse(other).module == parse(text).module
    assert format(parse(other)) == format(parse(text)).replace("\n", end)


def test_comments_stand_where_they_stood():
    text = """\
// the file

// before
func @f( // the weights come first
  %w: Tensor[Float32, (8, 8), 1] {param}, // trained
  // the batch
  %x: Tensor[Float32, (B, 8), 1] {batch = 0}
) -> (Tensor[Float32, (B, 8), 1]) { // here it begins
  // multiply
  %y = MatMul(%x, // left
     %w) // right

  /* two
     lines */
  %z = Relu(%y)


  return %z // done
  // at the end
} // after
// last
"""
    assert (
        format(parse(text))
        == """\
// the file

// before
func @f(
  // the weights come first
  %w: Tensor[Float32, (8, 8), 1] {param}, // trained
  // the batch
  %x: Tensor[Float32, (B, 8), 1] {batch = 0}
) -> (Tensor[Float32, (B, 8), 1]) { // here it begins
  // multiply
  // left
  %y = MatMul(%x, %w) // right

  /* two
     lines */
  %z = Relu(%y)

  return %z // done
  // at the end
} // after

// last
"""
    )


def test_a_long_head_has_a_line_per_parameter():
    params = ", ".join(f"%parameter_{i}: Tensor[Float32, (8, 8), 1]" for i in range(3))
    text = format(parse(f"func @f({params}) -> D1 {{ return %parameter_0 }}"))
    assert text.splitlines()[0] == "func @f("
    assert text.splitlines()[4] == ") -> (D1) {"
    assert max(map(len, text.splitlines())) <= 100


def test_functions_are_one_line_apart():
    text = format(parse("func @f() { return }\nfunc @g() { return } func @h() {return}\n\n\nfunc @i() { return }"))
    assert re.findall(r"\}\n*", text) == ["}\n\n"] * 3 + ["}\n"]


def test_broken_text_is_refused():
    with pytest.raises(ProgramError):
        format(parse("func @f() { %x = }"))


def test_nothing_stays_nothing():
    assert format(parse("")) == ""
