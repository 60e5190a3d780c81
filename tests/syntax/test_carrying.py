"""Comments of a program in the text of another that was made of it: with what they stood with, none invented."""

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from test_formatter import comments, untidy
from thorough import most_examples

from distir.analysis.program import read
from distir.ir import Module
from distir.syntax import carried, format, parse, print_module  # noqa: A004
from distir.transform import transform

PROGRAM = """\
// Of the file.

// In front of @layer.
func @layer(%x, %w) { // opens @layer
  // above %h
  %h = MatMul(%x, %w) // behind %h
  %r = Relu(%h)
  return %r // what it gives
}

func @main( // not of a parameter
  // the batch
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}, // examples
  %w: Tensor[Float32, (4, 4), 1] {param}
) {
  %a = @layer(%x, %w)
  /* of several
     lines */
  %b = Relu(%a) // behind %b
  // at the end
  return %b
  // below
} // closes @main
// at the very end
"""


def after(*steps, text=PROGRAM):
    """The text of the program after steps, and what of its comments is left out."""
    program = read(text, "a.dir")
    made = transform(program.module, *steps)
    found = carried(made, program.syntax)
    again = parse(found.text, spelling=program.syntax.spelling)
    assert again.diagnostics == ()
    assert again.module.functions == parse(print_module(made), spelling=program.syntax.spelling).module.functions
    assert again.module.entry() == made.entry()
    assert sorted([*comments(found.text), *(" ".join(c.split()) for _, c in found.left_out)]) == comments(text)
    return found.text, found.left_out


def test_functions_that_stay_keep_their_order():
    """Callers may stand above what they call; and what becomes of a program is no other entry."""
    head, main = PROGRAM.split("// In front of @layer.")[0], PROGRAM[PROGRAM.index("func @main") :]
    text, _ = after("dp=2", text=f"{head}{main}{PROGRAM[len(head) : -len(main)]}")
    assert text.index("func @main(") < text.index("func @layer(")
    text, _ = after("dp=2", text=PROGRAM.replace("@main", "@other"))
    assert text.index("func @layer(") < text.index("func @other(")


def test_a_transform_leaves_comments_with_their_statements_parameters_and_functions():
    text, left_out = after("dp=2")
    assert left_out == ()
    for line in (
        "// In front of @layer.\nfunc @layer(%x, %w) { // opens @layer\n  // above %h\n  %h = ",
        " // behind %h\n  %r = Relu(%h)\n  return %r // what it gives\n}\n",
        "  // the batch\n  %x_1: Tensor[Float32, (4, 4), 1] {batch = 0}, // examples\n",
        "  /* of several\n     lines */\n  %b_1 = Relu(%a_1) // behind %b\n",
        "  // at the end\n  return ",
        "  // below\n} // closes @main\n",
        "\n// at the very end\n",
    ):
        assert line in text, text
    assert text.startswith("// Of the file.\n\n// In front")


def test_comments_of_what_is_inlined_stay_with_its_statements_and_those_of_what_is_gone_are_reported():
    text, left_out = after("inline")
    assert text.startswith("// Of the file.\n\n// In front of @layer.\n")
    assert "  // above %h\n  %h = MatMul(%x, %w) // behind %h\n" in text
    assert [comment for _, comment in left_out] == ["// opens @layer", "// what it gives"]
    unused = PROGRAM.replace("  // at the end\n", "  // nobody needs it\n  %c = Relu(%b)\n")
    assert after("dce", text=unused)[1] == (("main", "// nobody needs it"),)


def test_a_value_that_has_the_name_of_another_ones_copy_is_not_taken_for_it():
    both = PROGRAM.replace("  // at the end\n", "  // another\n  %b_1 = Gelu(%b)\n")
    text, _ = after("dp=2", text=both.replace("return %b", "return %b_1"))
    lines = text.splitlines()
    assert "Gelu(" in lines[lines.index("  // another") + 1]
    assert "Relu(" in next(line for line in lines if "// behind %b" in line)


@settings(max_examples=most_examples(100), deadline=None)
@given(untidy())
def test_what_did_not_change_has_its_canonical_text(text):
    syntax = parse(text)
    found = carried(syntax.module, syntax)
    assert found.left_out == ()
    assert comments(found.text) == comments(format(syntax))
    assert parse(found.text).module == syntax.module


def test_of_two_parameters_of_one_name_one_has_the_comments():
    syntax = parse("func @f(%x, // one\n %x) {\n  %y = Relu(%x)\n  return %y\n}\n")
    (function,) = syntax.module
    made = Module([type(function)(function.name, function.params, function.body[1:])])
    assert carried(made, syntax).text.count("// one") == 1


@settings(max_examples=most_examples(100), deadline=None)
@given(untidy(), st.data())
def test_no_comment_is_lost_or_invented_whatever_is_left_of_a_program(text, data):
    syntax = parse(text)
    kept = []
    for function in syntax.module:
        if data.draw(st.booleans()):
            body = function.body
            if len(body) > 1 and data.draw(st.booleans()):
                at = data.draw(st.integers(0, len(body) - 2))
                body = body[:at] + body[at + 1 :]
            kept.append(type(function)(function.name, function.params, body, function.result_types))
    made = Module(kept)
    found = carried(made, syntax)
    assert parse(found.text).module == made
    told = [" ".join(comment.split()) for _, comment in found.left_out]
    assert sorted([*comments(found.text), *told]) == comments(text)
