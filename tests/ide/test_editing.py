"""Completion, signature help, renaming and formatting, in whole and in broken text."""

import re
from dataclasses import replace

import pytest
from editing_samples import SETUP, after, at_cursor, marked, opened, with_selection
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

from distir.analysis.program import read
from distir.diagnostics import Severity
from distir.ide.completion import completions, documentation
from distir.ide.edits import Edit
from distir.ide.formatting import format_document, format_on_type, format_range
from distir.ide.instances import View
from distir.ide.rename import RenameError, prepare, rename
from distir.ide.signature_help import signature_help
from distir.ir import Apply, Call, Part, Site, results
from distir.ops import OPS
from distir.syntax import format as canonical_text
from distir.syntax import print_module

HEAD = """\
func @dense(%x, %w: Tensor[Float32, (8, 16)]) {
  %y = Gemm(%x, %w)
  return %y
}

func @main(%x: Tensor[Float32, (4, 8), 1], %w: Tensor[Float32, (8, 16), 1], %v: Tensor[Float32, (8, 16), 2]) {
  %h = Relu(%x)
  %i = Cast[to = Int64](%x)
"""
TAIL = """
  %z = Tanh(%h)
  return %z
}
"""


def offered(line, tail=TAIL):
    document, offset = at_cursor(f"{HEAD}  {line}{tail}")
    return [item.label for item in completions(document, offset).items]


@pytest.mark.parametrize(
    ("line", "fitting"),
    [
        ("%y = Add(<|>", ["%i", "%v", "%w", "%h", "%x"]),
        ("%y = Add(%h, <|>", ["%x", "%h"]),  # the shapes decide: (8, 16) does not broadcast to (4, 8)
        ("%y = Add(%w, <|>)", ["%w"]),
        ("%y = Gemm(%h, <|>)", ["%w"]),
        ("%y = Gemm(%h, %v<|>", []),
        ("%y = Send[device = 2](<|>)", ["%i", "%v", "%w", "%h", "%x"]),
        ("%y = Tanh(%<|>, ", ["%v", "%w", "%h", "%x"]),
        ("%y = @dense(%h, <|>", ["%w"]),
        ("%y = MPIAllreduce([%w, <|>", ["%v"]),
        ("%y = Tanh(%h, <|>", []),
        ("return <|>", ["%i", "%v", "%w", "%h", "%x"]),
    ],
)
def test_every_value_is_offered_and_those_that_fit_come_first(line, fitting):
    document, offset = at_cursor(f"{HEAD}  {line}{TAIL}")
    found = completions(document, offset).items
    typed = document.text[:offset].rpartition("%")[2] if document.text[offset - 1] not in "(, " else ""
    assert {i.label for i in found} == {f"%{n}" for n in ("i", "v", "w", "h", "x") if typed in n}
    assert sorted(i.label for i in found[: len(fitting)]) == sorted(fitting)
    assert not any(i.edits or "does not fit" in i.detail for i in found[: len(fitting)])
    assert all(i.edits or "does not fit" in i.detail for i in found[len(fitting) :])


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("%y = Add(%h <|>", []),
        ("%y = Gemm[<|>", ["alpha", "beta", "transA", "transB"]),
        ("%y = Gemm[transA = true, <|>](%h)", ["alpha", "beta", "transB"]),
        ("%y = Gemm[transA = <|>", ["true", "false"]),
        ("%y = Cast[<|>", ["to", "saturate"]),
        ("%y = Send[device = <|>](%h)", ["1", "2", "3"]),
        ("%y = MPIBroadcast[devices = <|>](%h)", ["[1, 2]"]),
        ("%y = Split[axis = <|>](%x)", ["0", "1"]),
        ("%y: Tensor[Float32, (2, 3), <|>", ["1", "2", "3", "host"]),
        ("<|>", ["return", "send", "allreduce", "split"]),
        ('%y = Einsum[equation = "<|>', []),
        ('%y = Split[axis = "<|>"](%x)', []),
        ('%y = Cast[to = Float32](%x, "<|>"', []),
        ("// %<|>", []),
        ("%y = @<|>", ["@dense"]),
    ],
)
def test_what_may_stand_there_is_offered(line, labels):
    assert offered(line) == labels


@pytest.mark.parametrize(
    "line", ["%y = Gemm(%h, %v<|>", "%y = Gemm(%h, %v<|>)", "%y = @dense(\n    %h,\n    %v<|>\n  )"]
)
def test_a_value_of_another_device_comes_with_its_send(line):
    document, offset = at_cursor(f"{HEAD}  {line}{TAIL}")
    found = completions(document, offset)
    (item,) = found.items
    assert (item.label, item.text) == ("%v", "%v.1")
    assert item.detail == "Tensor[Float32, (8, 16), 2], sent to device 1"
    text = after(document, [*item.edits, Edit(found.word, item.text)])
    written = f"  %v.1 = Send[device = 1](%v)\n  {line.replace('%v<|>', '%v.1')}"
    assert text == f"{HEAD}{written}{TAIL}"
    checked = opened(text if text.count("(") == text.count(")") else text.replace("%v.1\n", "%v.1)\n"))
    assert not [d for d in checked.program.diagnostics if d.severity is Severity.ERROR]


def test_what_was_sent_before_is_used_again_and_names_are_fresh():
    sent = "%v_1 = Send[device = 1](%v)\n  %y = Gemm(%h, <|>"
    document, offset = at_cursor(f"{HEAD}  {sent}{TAIL}")
    items = {i.label: i for i in completions(document, offset).items}
    assert (items["%v"].text, items["%v"].edits) == ("%v_1", ())
    document, offset = at_cursor(f"{HEAD}  %v.1 = Relu(%v)\n  %y = Gemm(%h, <|>{TAIL}")
    items = {i.label: i for i in completions(document, offset).items}
    assert items["%v"].text == "%v.1_1"


@settings(max_examples=most_examples(60), deadline=None)
@given(programs(), st.data())
def test_what_is_accepted_as_fitting_fits(program, data):
    """The last operand of some op is written anew: each value in scope is offered, and a fitting one fits."""
    document = opened(print_module(program.module))
    written = document.program.syntax.by_name["main"]
    body = written.function.body
    ops = [i for i, s in enumerate(body) if isinstance(s, (Apply, Call)) and s.args and isinstance(s.args[-1], str)]
    assume(ops)
    index = data.draw(st.sampled_from(ops))
    statement = written.statement(index)
    place = statement.start + document.text[statement.start : statement.end].rindex(f"%{body[index].args[-1]}")
    text = f"{document.text[:place]}{document.text[statement.end - 1 :]}"
    document = opened(text)
    found = completions(document, place)
    names = [p.name for p in written.function.params] + [n for s in body[:index] for n in results(s) if n]
    assert {i.label for i in found.items} == {f"%{n}" for n in names}
    fitting = [i for i in found.items if "does not fit" not in i.detail]
    assert found.items[: len(fitting)] == tuple(fitting)
    for item in fitting:
        checked = opened(after(document, [*item.edits, Edit(found.word, item.text)]))
        main = checked.program.syntax.by_name["main"]
        (there,) = (i for i, s in enumerate(main.function.body) if results(s) == results(body[index]))
        operand = len(body[index].args) - 1
        wrong = [d.site for d in checked.program.analysis.diagnostics if d.code.number in ("DIR401", "DIR311")]
        assert Site("main", there, Part("operand", operand)) not in wrong, item


def test_the_likeliest_value_comes_first():
    """What nobody used yet, and of that what was made last."""
    assert offered("return <|>")[0] == "%i"
    assert offered("%y = Tanh(<|>")[0] in ("%w", "%v")


def test_templates_stand_where_what_they_write_may_stand():
    assert {"func", "kernel", "main", "dense"} == {i.label for i in completions(*at_cursor("<|>")).items}
    for item in completions(*at_cursor("<|>")).items:
        plain = re.sub(r"\$\{\d+(?::|\|)([^},|]*)[^}]*\}", r"\1", item.snippet)
        plain = re.sub(r"\$([12])", lambda m: {"1": "Float32", "2": "1024"}[m[1]], plain).replace("$0\n", "\n")
        assert not [d for d in opened(plain).program.diagnostics if d.severity is Severity.ERROR], plain
    for line in ("%y = Gemm(se<|>", "%y = Gemm[se<|>", "%y: se<|>"):
        assert not {"send", "func", "dense", "split"} & set(offered(line))


def test_values_are_offered_once_they_are_defined():
    text = HEAD + "  %q = Relu(<|>)\n  %later = Relu(%x)\n  return %q, %later\n}\n"
    document, offset = at_cursor(text)
    assert "%later" not in [i.label for i in completions(document, offset).items]


def test_ops_and_functions_follow_the_results():
    found = offered("%y = <|>")
    assert found[0] == "@dense"
    assert set(OPS) <= set(found)
    assert "MatMulInteger" in found or "Det" in found  # ONNX's own, too
    assert offered("%y: D1, _ = Ge<|>") == found


def test_ops_of_the_program_come_first_and_products_before_tuples():
    ops = [label for label in offered("%y = Ma<|>") if not label.startswith("@")]
    assert {*ops[:4]} == {"Cast", "Gemm", "Relu", "Tanh"}
    assert ops.index("Mul") < ops.index("MatMul") < ops.index("MakeTuple") < ops.index("ReluGrad")
    head = "func @f(%x, %w) {\n  %t = MakeTuple(%x, %w)\n  %a, %b = UnpackTuple(%t)\n"
    document, offset = at_cursor(f"{head}  %y = Ma<|>\n  return %y\n}}\n")
    bundled = [item.label for item in completions(document, offset).items]
    assert bundled.index("MatMul") < bundled.index("MakeTuple"), "also where tuples are all that there is"


def test_types_of_values_are_those_of_the_call_that_is_shown():
    text = (
        "func @f(%x, %w) {\n  %y = MatMul(%x, %w)\n  %z = Relu(%y)\n  return %z\n}\n\n"
        "func @main(%x: Tensor[Float32, (4, 8), 1], %w: Tensor[Float32, (8, 8), 1]) {\n"
        "  %y = @f(%x, %w)\n  return %y\n}\n"
    )
    document = opened(text)
    broken = text.replace("%z = Relu(%y)", "%z = Gemm(%x, ")
    latest, offset = opened(broken), broken.index("Gemm(%x, ") + len("Gemm(%x, ")
    found = {i.label: i.detail for i in completions(latest, offset, View(latest, document)).items}
    assert found["%w"] == "Tensor[Float32, (8, 8), 1]"
    assert found["%y"] == "Tensor[Float32, (4, 8), 1], does not fit `Gemm`"
    assert "(a: Tensor[Float32, (4, 8), 1]," not in signature_help(latest, offset).label
    assert "(a: Tensor[Float32, (4, 8), 1]," in signature_help(latest, offset, View(latest, document)).label


def test_types_are_offered_where_types_stand():
    assert {"Tensor", "Tuple", "D1", "D2", "Float32"} <= set(offered("%y: <|>"))
    assert offered("%y: Tensor[<|>")[0] == "Bool"
    document, offset = at_cursor("func @f(%x: <|>")
    assert "Tensor" in [i.label for i in completions(document, offset).items]
    document, offset = at_cursor("func @f(%x: D1 {<|>")
    roles = ["batch", "param", "frozen", "buffer", "state", "context", "initial"]
    assert [i.label for i in completions(document, offset).items] == roles
    document, offset = at_cursor("fu<|>")
    assert [i.label for i in completions(document, offset).items] == ["func", "kernel", "main", "dense"]


def test_attributes_come_with_their_defaults():
    document, offset = at_cursor(f"{HEAD}  %y = Gemm[<|>{TAIL}")
    items = {i.label: i for i in completions(document, offset).items}
    assert items["transA"].snippet == "transA = ${1:false}"
    assert items["alpha"].detail == "float = 1.0"


def test_long_lists_say_that_there_is_more():
    body = "".join(f"  %v{i} = Relu(%x)\n" for i in range(500))
    document, offset = at_cursor(f"func @f(%x: Tensor[Float32, (4,), 1]) {{\n{body}  return %v1<|>\n}}\n")
    found = completions(document, offset)
    assert all("v1" in i.label for i in found.items)
    assert found.complete
    document, offset = at_cursor(f"func @f(%x: Tensor[Float32, (4,), 1]) {{\n{body}  return <|>\n}}\n")
    assert not completions(document, offset).complete


def test_ops_are_documented():
    assert "ONNX `Relu`" in documentation("Relu")
    assert documentation("Nothing") is None


@settings(max_examples=most_examples(60), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 12))
def test_nothing_fails_wherever_text_is_cut(offset, cut, length):
    text = HEAD + "  %y = Gemm[transA = true](%h, [%w, %v])" + TAIL
    cut %= len(text)
    document = opened(text[:cut] + text[cut + length :])
    offset %= len(document.text) + 1
    completions(document, offset)
    signature_help(document, offset)
    format_document(document)
    format_on_type(document, offset, "\n")
    format_on_type(document, offset, "}")


# ---- signatures


def shown(line):
    document, offset = at_cursor(f"{HEAD}  {line}{TAIL}")
    found = signature_help(document, offset)
    if found is None:
        return None
    at = found.parameters[found.active] if found.active is not None else None
    return marked(found.label, [at] if at is not None else [])


@pytest.mark.parametrize(
    ("line", "label"),
    [
        (
            "%y = MatMul(%h, <|>",
            "MatMul(a: Tensor[Float32, (4, 8), 1], <[b: Tensor[Float32, (..., 8, n), 1]]>) "
            "-> Tensor[Float32, (..., 4, n), 1]",
        ),
        ("%y = Send[device = <|>](%h)", "Send[<[device: int]>](x: Tensor[Float32, (4, 8), 1]) -> *"),
        ("%y = @dense(<|>", "@dense(<[%x: ?]>, %w: Tensor[Float32, (8, 16)]) -> *"),
        ("%y = Nothing(<|>", None),
        ("%y = <|>", None),
    ],
)
def test_signatures_show_what_is_known(line, label):
    found = shown(line)
    if label is not None and label.endswith("*"):
        assert found.startswith(label[:-1])
    else:
        assert found == label


def test_the_signature_of_a_whole_statement_shows_its_results():
    assert shown("%y = Gemm(%h, <|>%w)").endswith("-> Tensor[Float32, (4, 16), 1]")


# ---- renaming


def renamed(text, new):
    document, offset = at_cursor(text)
    return after(document, rename(document, offset, new))


def test_values_are_renamed_in_their_function():
    text = HEAD + TAIL[1:]
    expected = text.replace("%h", "%hidden")
    assert renamed(text.replace("%h =", "%<|>h ="), "%hidden") == expected
    assert renamed(text.replace("Tanh(%h", "Tanh(%<|>h"), "hidden") == expected


def test_functions_are_renamed_with_what_belongs_to_them():
    text = HEAD.replace("@dense", "@main.scatter") + TAIL[1:]
    assert renamed(text.replace("@main(", "@mai<|>n("), "net") == text.replace("@main", "@net")


@pytest.mark.parametrize(
    ("place", "new", "why"),
    [
        ("%<|>h = Relu", "x", "`%x` is taken in `@main`"),
        ("%<|>h = Relu", "a b", "no name"),
        ("%<|>h = Relu", "", "no name"),
        ("@<|>dense", "main", "`@main` is taken"),
    ],
)
def test_capture_is_refused(place, new, why):
    text = (HEAD + TAIL[1:]).replace(place.replace("<|>", ""), place, 1)
    with pytest.raises(RenameError, match=why):
        renamed(text, new)


def test_another_entry_is_refused():
    text = "func @f(%x) {\n  return %x\n}\n\nfunc @g(%x) {\n  return %x\n}\n"
    with pytest.raises(RenameError, match="`@main` would become the entry of the program, which is `@g`"):
        renamed(text.replace("@f", "@<|>f"), "main")
    assert "func @main" in renamed(text.replace("@g", "@<|>g"), "main")


def test_the_entry_of_the_settings_counts():
    text = "func @f(%x) {\n  return %x\n}\n\nfunc @g(%x) {\n  return %x\n}\n"
    document = opened(text, replace(SETUP, entry="f"))
    with pytest.raises(RenameError, match="the settings say that `@f` is the entry"):
        rename(document, text.index("@f"), "h")
    assert "func @main" in after(document, rename(document, text.index("@g"), "main"))  # `@f` stays the entry


def test_only_names_can_be_renamed():
    document, offset = at_cursor((HEAD + TAIL[1:]).replace("Relu(", "Re<|>lu("))
    with pytest.raises(RenameError):
        prepare(document, offset)
    document, offset = at_cursor((HEAD + TAIL[1:]).replace("%h = ", "%h<|> = "))
    span, name = prepare(document, offset)
    assert document.text[span.start : span.end] == name == "h"


@settings(max_examples=most_examples(40), deadline=None)
@given(programs(), st.data())
def test_a_renamed_program_is_the_same_but_for_the_name(program, data):
    text = print_module(program.module)
    document = opened(text)
    written = data.draw(st.sampled_from(document.program.syntax.functions))
    name = data.draw(st.sampled_from([p.name for p in written.function.params]))
    offset = text.index(f"%{name}", written.span.start)
    other = after(document, rename(document, offset, "fresh.name"))
    assert len(other) - len(text) == (len("fresh.name") - len(name)) * (len(other.split("%fresh.name")) - 1)
    back = opened(other)
    assert after(back, rename(back, offset, name)) == text
    assert [d.code for d in back.program.diagnostics] == [d.code for d in document.program.diagnostics]


# ---- formatting

MESSY = """\
func   @f( %x:D1 ) {
      %y=Relu( %x )   // behind
 // alone

  %z = Add(%y,
     %y)
  return   %z
}


func @g(%x) {
  %y = Tanh(%x)
  return %y
}
"""


def test_formatting_gives_the_canonical_text():
    document = opened(MESSY)
    edits = format_document(document)
    assert after(document, edits) == canonical_text(document.program.syntax)
    assert all(e.span.end <= MESSY.index("func @g") for e in edits)  # what is canonical is left alone


def test_a_canonical_text_needs_no_edits():
    text = canonical_text(opened(MESSY).program.syntax)
    assert format_document(opened(text)) == []


@settings(max_examples=most_examples(40), deadline=None)
@given(programs(most=6), st.data())
def test_minimal_edits_give_the_canonical_text(program, data):
    text = print_module(program.module)
    for _ in range(3):
        at = data.draw(st.sampled_from([i for i, c in enumerate(text) if c in " \n"]))
        text = text[:at] + data.draw(st.sampled_from(["  ", " // why", "\n", " /* a\n b */ "])) + text[at:]
    document = opened(text)
    assume(not document.program.syntax.diagnostics)
    found = after(document, format_document(document))
    assert found == canonical_text(document.program.syntax)


@settings(max_examples=most_examples(40), deadline=None)
@given(st.integers(0, len(MESSY)), st.integers(0, 40))
def test_formatting_a_part_keeps_the_program(start, length):
    from distir.diagnostics import Span

    document = opened(MESSY)
    found = read(after(document, format_range(document, Span(start, min(len(MESSY), start + length)))))
    assert not found.syntax.diagnostics
    assert found.module == document.program.module
    assert sum(len(f.comments) for f in found.syntax.functions) == 2


def test_formatting_a_part_leaves_the_rest():
    document, span = with_selection(MESSY.replace("%y=Relu( %x )", "<[%y=Relu( %x )]>"))
    found = after(document, format_range(document, span))
    assert found == MESSY.replace("      %y=Relu( %x )", "  %y = Relu(%x)")


def test_functions_beside_a_broken_one_are_formatted():
    document = opened(MESSY.replace("Tanh(%x)", "Tanh(%x"))
    found = after(document, format_document(document))
    assert found.startswith("func @f(%x: D1) {\n  %y = Relu(%x) // behind\n")
    assert "Tanh(%x\n" in found


def test_a_line_is_formatted_once_it_ends():
    document, offset = at_cursor("func @f(%x) {\n%y=Relu( %x )\n<|>\n  return %y\n}\n")
    found = after(document, format_on_type(document, offset, "\n"))
    assert found == "func @f(%x) {\n  %y = Relu(%x)\n  \n  return %y\n}\n"


def test_a_function_is_formatted_once_it_is_closed():
    document, offset = at_cursor(MESSY.replace("return   %z\n}", "return   %z\n}<|>"))
    found = after(document, format_on_type(document, offset, "}"))
    assert "  return %z\n}" in found
    assert format_on_type(document, offset - 3, "}") == []
