"""Definitions, references, the op that fixed a shape, symbols, calls, folding, selections, links."""

from itertools import pairwise
from pathlib import Path

import pytest
from editing_samples import at_cursor, marked, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

from distir.diagnostics import Span
from distir.ide.calls import incoming, outgoing, prepare_calls
from distir.ide.document import Document
from distir.ide.folding import folds
from distir.ide.links import links
from distir.ide.mentions import values_mentioned
from distir.ide.navigation import definition, highlights, references, type_definition
from distir.ide.selection import selections
from distir.ide.symbols import document_symbols, workspace_symbols
from distir.ir import names, operands, results
from distir.models import gpt2
from distir.syntax import print_module
from distir.transform import transform

PIPELINE = (Path(__file__).parents[2] / "examples/mlp_pipeline.dir").read_text()

TWO = """\
// %a and @f in a comment are no mentions
func @f(%a: D1, %b) {
  %c = Add(%a, %b) // %a
  return %c
}

func @main(%a: Tensor[Float32, (4, 4), 1]) {
  %b, _ = Split[axis = 0, num_outputs = 2](%a)
  %c = @f(%b, %b)
  %d = Relu(%c
  %e = @f(%c, /* %c */ %c)
  return %e
}
"""


def places(text, find):
    document, offset = at_cursor(text)
    return marked(document.text, find(document, offset))


def test_a_value_is_found_in_its_own_function_only():
    text = TWO.replace("%a, %b) // %a", "%<|>a, %b) // %a")
    assert places(text, references) == TWO.replace("@f(%a", "@f(<[%a]>").replace("Add(%a", "Add(<[%a]>")
    assert places(text, definition) == TWO.replace("@f(%a", "@f(<[%a]>")


def test_broken_statements_mention_values_too():
    text = TWO.replace("%c = @f(%b, %b)", "%c<|> = @f(%b, %b)")
    expected = TWO.replace("%c = @f(%b", "<[%c]> = @f(%b").replace("Relu(%c", "Relu(<[%c]>")
    expected = expected.replace("@f(%c, /* %c */ %c)", "@f(<[%c]>, /* %c */ <[%c]>)")
    assert places(text, references) == expected


def test_a_function_is_found_in_the_whole_text():
    text = TWO.replace("%e = @f", "%e = @<|>f")
    expected = TWO.replace("func @f", "func <[@f]>").replace("= @f", "= <[@f]>")
    assert places(text, references) == expected
    assert places(text, definition) == TWO.replace("func @f", "func <[@f]>")


def test_an_op_is_found_where_it_is_applied():
    document, offset = at_cursor("func @f(%x) {\n  %y = Re<|>lu(%x)\n  %Relu = Relu(%y)\n  return %Relu\n}\n")
    assert marked(document.text, references(document, offset)).count("<[Relu]>(") == 2
    assert len(references(document, offset)) == 2


def test_names_in_strings_are_no_mentions():
    text = 'func @f(%x) {\n  %y = Einsum[equation = "%x->@f"](%<|>x)\n  return %y\n}\n'
    document, offset = at_cursor(text)
    assert len(references(document, offset)) == 2


def test_highlights_tell_writing_from_reading():
    document, offset = at_cursor("func @f(%x) {\n  %y = Relu(%x)\n  return %<|>y\n}\n")
    assert [h.writes for h in highlights(document, offset)] == [True, False]


@settings(max_examples=most_examples(40), deadline=None)
@given(programs())
def test_mentions_are_those_of_the_program(program):
    document = opened(print_module(program.module))
    for written in document.program.syntax.functions:
        function = written.function
        defined = [p.name for p in function.params] + [n for s in function.body for n in results(s) if n]
        used = [n for s in function.body for n in names(operands(s))]
        for name in set(defined):
            found = values_mentioned(document.program.syntax, written, name)
            assert sum(m.defines for m in found) == defined.count(name)
            assert sum(not m.defines for m in found) == used.count(name)
            assert all(document.text[m.span.start : m.span.end] == f"%{name}" for m in found)


GEMM = """\
func @f(%x: Tensor[Float32, (4, 4), 1]) {
  %y = <[Gemm]>(%x, %x)
  %z = Send[device = 2](%y)
  %u = Relu(%z)
  return %<|>u
}
"""

PARAMETER = """\
func @f(%x: Tensor[Float32, (1, 2), 1], %y: <[Tensor[Float32, (4, 2), 1]]>) {
  %z = Add(%x, %y)
  return %<|>z
}
"""

INTO_A_CALL = """\
func @g(%x) {
  %s = <[Transpose]>(%x)
  %t = Tanh(%s)
  return %t
}

func @f(%x: Tensor[Float32, (4, 2), 1]) {
  %y = @g(%x)
  return %<|>y
}
"""

OUT_OF_A_CALL = """\
func @g(%x) {
  %t = Tanh(%x)
  return %t
}

func @f(%x: <[Tensor[Float32, (4, 2), 1]]>) {
  %y = @g(%x)
  return %<|>y
}
"""


@pytest.mark.parametrize("text", [GEMM, PARAMETER, INTO_A_CALL, OUT_OF_A_CALL])
def test_the_shape_comes_from_the_op_that_fixed_it(text):
    document, offset = at_cursor(text.replace("<[", "").replace("]>", ""))
    assert marked(document.text, type_definition(document, offset)) == text.replace("<|>", "")


def test_recursion_ends():
    document, offset = at_cursor("func @f(%x) {\n  %y = @f(%x)\n  return %<|>y\n}\n")
    assert marked(document.text, type_definition(document, offset)).count("<[") <= 1


# ---- symbols


def outline(symbols, depth=0):
    for s in symbols:
        yield f"{'  ' * depth}{s.name} [{s.kind.value}] {s.detail}"
        yield from outline(s.children, depth + 1)


def test_functions_hold_sections_microbatches_and_ops():
    document = opened(PIPELINE)
    lines = list(outline(document_symbols(document)))
    assert "    microbatch 2 on device 2 [group] 3 statements" in lines
    assert lines[lines.index("@mlpPP [function] 21 statements") + 1 :][:3] == [
        "  Split into microbatches 1 and 2 [section] 2 statements",
        "    %x_1, %x_2 [op] Split",
        "    %y_1, %y_2 [op] Split",
    ]


def test_symbols_hold_what_is_in_them():
    def check(symbol, text):
        assert symbol.span.start <= symbol.selection.start <= symbol.selection.end <= symbol.span.end <= len(text)
        at = symbol.span.start
        for child in symbol.children:
            assert at <= child.span.start <= child.span.end <= symbol.span.end
            at = child.span.end
            check(child, text)

    for text in (PIPELINE, TWO, "func", "func @", "func @f(", ""):
        for symbol in document_symbols(opened(text)):
            check(symbol, text)


def test_of_very_long_texts_the_ops_are_left_out():
    document = opened(PIPELINE)
    assert all(s.kind.value not in ("op", "call") for f in document_symbols(document, most=5) for s in f.children)


def test_functions_and_weights_are_found_by_name():
    syntax = opened(PIPELINE).program.syntax
    assert {s.name for s in workspace_symbols(syntax, "dg")} == {"@denseGrad"}
    assert {s.name for s in workspace_symbols(syntax, "w1")} == {"%w1"}


# ---- calls


def test_calls_tell_their_time():
    document = opened(PIPELINE)
    document.simulate()
    item = prepare_calls(document, PIPELINE.index("@dense("))
    assert item.name == "dense"
    (edge,) = incoming(document, "dense")
    assert edge.item.name == "mlpPP"
    assert [document.text[s.start : s.end] for s in edge.sites] == ["@dense"] * 4
    assert edge.item.detail.startswith("4 calls, ")
    assert edge.item.detail.endswith(" on 1, 2")
    assert {e.item.name for e in outgoing(document, "mlpPP")} == {"dense", "lossGrad", "denseGrad"}


def test_calls_are_found_in_programs_that_are_wrong():
    document = opened(TWO)
    assert [e.item.detail for e in incoming(document, "f")] == ["2 calls"]


# ---- folding, selections, links


def test_folds_are_of_several_lines_and_nested():
    for text in (PIPELINE, TWO):
        document = opened(text)
        position = document.program.source.position
        lines = [(position(f.span.start)[0], position(f.span.end)[0]) for f in folds(document)]
        assert all(first < last for first, last in lines)
        assert (27, 57) in lines or text is TWO


COPIES = """func @main(
  %ln_1.weight: Tensor[Float32, (4, 4), 1],
  %ln_2.weight: Tensor[Float32, (4, 4), 1],
  %x_1: Tensor[Float32, (4, 4), 1] {batch = 0},
  %x_2: Tensor[Float32, (4, 4), 2] {batch = 0}
) {
  %a_1 = Relu(%x_1)
  %a_2 = Relu(%x_2)
  %b_1 = MatMul(%a_1, %a_1)
  %b_2 = MatMul(%a_2, %a_2) // another one
  %s_1, %s_2 = MPIAllreduce(%a_1, %a_2)
  %u_1 = Relu(%s_1)
  %u_2 = Relu(%s_2)
  %t_1, %t_2 = MPIAllreduce(%b_1, %b_2)
  %v_1 = Relu(%t_1)
  %v_2 = Relu(%t_2)
  %p_1_s_1, %p_1_s_2 = MPIAllreduce(%a_1, %a_2)
  %p_1_1: D1 = Add(%p_1_s_1, %b_1)
  %p_2_s_1, %p_2_s_2 = MPIAllreduce(%a_1, %a_2)
  %p_2_1: D2 = Add(%p_2_s_1, %b_1)
  return %u_1, %v_1
}
"""


def copies_of(text):
    """By line, from 1, that is shown: the last of its copies, and how many there are."""
    document = opened(text)
    line = document.program.source.position
    return {line(f.span.start)[0]: (line(f.span.end)[0], f.times) for f in folds(document) if f.kind == "copies"}


def test_lines_for_several_devices_are_folded_and_others_are_not():
    assert copies_of(COPIES) == {4: (5, 2), 7: (8, 2), 12: (13, 2), 15: (16, 2), 18: (20, 2)}


@pytest.mark.parametrize(("words", "devices", "most"), [("dtp=2,2,1", 4, 0.5), ("dtp=2,4,1", 8, 0.5)])
def test_a_training_step_for_several_devices_reads_as_one_for_one(words, devices, most):
    model = gpt2(2, width=64, heads=8, sequence=32, batch=16)
    text = print_module(transform(model, "grad", "loss=cross_entropy", "optimizer=adam", words))
    found = copies_of(text)
    hidden = {line for first, (last, _) in found.items() for line in range(first + 1, last + 1)}
    assert len(found) == sum(f.kind == "copies" for f in folds(opened(text))), "one at each line"
    assert not hidden & found.keys(), "none begins in another"
    assert text.count("\n") - len(hidden) < most * text.count("\n")
    assert max(times for _, times in found.values()) == devices


@settings(max_examples=most_examples(60), deadline=None)
@given(st.integers(0, len(PIPELINE)))
def test_selections_grow_to_the_whole_text(offset):
    document = opened_pipeline()
    found = selections(document, offset)
    assert found[-1] == Span(0, len(PIPELINE))
    assert all(a.start >= b.start and a.end <= b.end and a != b for a, b in pairwise(found))
    assert all(s.start <= offset <= s.end for s in found)


def test_a_selection_grows_by_what_people_mean():
    document, offset = at_cursor("func @f(%x, %y) {\n  %z = Add[](%x, %<|>y)\n  return %z\n}\n")
    found = [document.text[s.start : s.end] for s in selections(document, offset)]
    assert found[:4] == ["%y", "%x, %y", "(%x, %y)", "Add[](%x, %y)"]


def test_links_are_files_of_tensors_and_addresses():
    text = (
        "// from model.onnx, see https://example.org/a.html.\nfunc @f(%x) {\n"
        '  %w = Constant[value = external<Float32, (2, 2), "w.safetensors#a">]()\n  return %w\n}\n'
    )
    found = [(link.target, link.certain) for link in links(opened(text).program.syntax)]
    assert found == [("model.onnx", False), ("https://example.org/a.html", True), ("w.safetensors", True)]


_kept: dict[str, Document] = {}


def opened_pipeline():
    return _kept.setdefault("pipeline", opened(PIPELINE))
