"""Reading the next version of a text gives what reading it alone gives, and keeps what did not change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules
from thorough import most_examples

from distir.syntax import parse, print_module, reuse

PROGRAM = """\
// first
func @f(%x: D1) {
  %a = Relu(%x) // why
  %b = Concat([%a,
    %x])

  /* two
     lines */
  %c Broken(%b
  %d = Exp(%b) %e = Exp(%d)
  return %e
}

func @g(%x) { ... }
func @h(%x: Flaot32[1]) {
  %y = Relu(%x)
  return %y
} }
"""

PIECES = [
    "",
    "",
    "x",
    "\n",
    "\n\n",
    " ",
    "(",
    ")",
    "[",
    "}",
    "{",
    '"',
    "//",
    "/*",
    "*/",
    "%q = Relu(%x)\n",
    "  return %x\n",
]
PIECES += ["func @k() {\n", "func ", "}\n", "...", "=", ",", "%", "/* } */"]


def everything(syntax):
    """All that is known of a text, in comparable form."""
    functions = [
        (f.function, f.span, f.head, f.name, list(f.starts), list(f.ends), f.comments) for f in syntax.functions
    ]
    return syntax.module, functions, syntax.diagnostics, syntax.duplicates, syntax.comments


@st.composite
def edited(draw, text):
    """The text with a piece of it replaced."""
    start = draw(st.integers(0, len(text)))
    end = min(len(text), start + draw(st.sampled_from([0, 0, 0, 1, 2, 5, 20, 80])))
    return text[:start] + draw(st.sampled_from(PIECES)) + text[end:]


@given(st.data())
@settings(max_examples=most_examples(300), deadline=None)
def test_a_text_read_after_another_is_read_as_if_alone(data):
    text = PROGRAM
    syntax = parse(text)
    for _ in range(4):
        text = data.draw(edited(text))
        syntax = parse(text, previous=syntax)
        assert everything(syntax) == everything(parse(text))


@given(modules, st.data())
@settings(max_examples=most_examples(30), deadline=None)
def test_so_are_random_programs(module, data):
    text = print_module(module)
    other = data.draw(edited(data.draw(edited(text))))
    assert everything(parse(other, previous=parse(text))) == everything(parse(other))


def long(count):
    """Statements on one line and on several, with comments behind and inside them."""
    lines = ["func @long(%x: D1) {"]
    for i in range(count):
        lines.append(f"  %v{i} = Relu(%x) // {i}" if i % 5 else f"  %v{i} = Cat(%x,\n    dim=0) /* {i}\n */")
    return "\n".join([*lines, "  return %v0", "}", ""])


LONG = long(60)


@given(st.data(), st.sampled_from([1, 2, 7]), st.sampled_from([5, 60, 5_000]))
@settings(max_examples=most_examples(150), deadline=None)
def test_so_it_is_after_several_edits_at_once(data, lines, near):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reuse, "_LINES", lines)
        patch.setattr(reuse, "_NEAR", near)
        text = LONG
        syntax = parse(text)
        for _ in range(3):
            for _ in range(data.draw(st.integers(1, 5))):
                text = data.draw(edited(text))
            syntax = parse(text, previous=syntax)
            assert everything(syntax) == everything(parse(text))


def test_what_is_between_edits_is_the_same_object():
    before = parse(LONG)
    text = LONG.replace("%v1 = Relu", "%v1 = Exponential").replace("%v58 = Relu(%x)", "%v58 = Exp(%x) // newer")
    after = parse(text, previous=before)
    old, new = before.functions[0].function.body, after.functions[0].function.body
    assert sum(a is b for a, b in zip(old, new, strict=True)) > 20
    assert everything(after) == everything(parse(text))


def test_what_did_not_change_is_the_same_object():
    before = parse(PROGRAM)
    after = parse(PROGRAM.replace("Exp(%d)", "Log(%d)"), previous=before)
    assert after.functions[1].function is before.functions[1].function
    f, g = before.functions[0].function.body, after.functions[0].function.body
    assert f[0] is g[0]
    assert f[-1] is g[-1]
    assert f != g


def test_another_spelling_reads_again():
    before = parse(PROGRAM)
    after = parse(PROGRAM, spelling=lambda op, args, attrs: (args[:0], attrs), previous=before)
    assert after.functions[0].function.body[0].args == ()
