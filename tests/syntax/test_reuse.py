"""Reading the next version of a text gives what reading it alone gives, and keeps what did not change."""

from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import modules

from distir.syntax import parse, print_module

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
@settings(max_examples=300, deadline=None)
def test_a_text_read_after_another_is_read_as_if_alone(data):
    text = PROGRAM
    syntax = parse(text)
    for _ in range(4):
        text = data.draw(edited(text))
        syntax = parse(text, previous=syntax)
        assert everything(syntax) == everything(parse(text))


@given(modules, st.data())
@settings(max_examples=30, deadline=None)
def test_so_are_random_programs(module, data):
    text = print_module(module)
    other = data.draw(edited(data.draw(edited(text))))
    assert everything(parse(other, previous=parse(text))) == everything(parse(other))


def test_what_did_not_change_is_the_same_object():
    before = parse(PROGRAM)
    after = parse(PROGRAM.replace("Exp(%d)", "Log(%d)"), previous=before)
    assert after.functions[1].function is before.functions[1].function
    f, g = before.functions[0].function.body, after.functions[0].function.body
    assert f[0] is g[0]
    assert f[-1] is g[-1]
    assert f != g


def test_another_spelling_reads_anew():
    before = parse(PROGRAM)
    after = parse(PROGRAM, spelling=lambda op, args, attrs: (args[:0], attrs), previous=before)
    assert after.functions[0].function.body[0].args == ()
