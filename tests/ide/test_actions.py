"""Code actions: what they offer, and that the program checks and gives the same results after each of them."""

import pytest
from editing_samples import after, only, opened, with_selection
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

from distir.diagnostics import Severity, Span
from distir.ide.actions import annotations, fixes, functions, recompute, schedule, transforms
from distir.ide.edits import rewritten
from distir.ir import Apply, Call, Function, Module, names, operands, results
from distir.ir.rewrite import with_operands
from distir.syntax import parse, print_module
from distir.transform import verify


def refactorings(document, span):
    yield from annotations.state_types(document, span)
    yield from functions.inline_call(document, span)
    yield from functions.outline_selection(document, span)
    yield from schedule.faster_moves(document, span)
    yield from recompute.recomputations(document, span)


def errors(document):
    return [d for d in document.program.diagnostics if d.severity is Severity.ERROR]


# ---- laws


@settings(max_examples=most_examples(40), deadline=None)
@given(programs(), st.data())
def test_refactorings_keep_the_results(program, data):
    document = opened(print_module(program.module))
    written = data.draw(st.sampled_from(document.program.syntax.functions))
    first = data.draw(st.integers(0, len(written.starts) - 1))
    last = data.draw(st.integers(first, len(written.starts) - 1))
    for span in (Span(written.starts[first], written.starts[first]), Span(written.starts[first], written.ends[last])):
        for action in refactorings(document, span):
            changed = opened(after(document, action.edits))
            assert not errors(changed), action.title
            assert verify(program.module, changed.program.module).equal, action.title


@settings(max_examples=most_examples(40), deadline=None)
@given(programs(), st.data())
def test_moves_and_recomputations_keep_the_results_whatever_they_gain(program, data):
    document = opened(print_module(program.module))
    written = data.draw(st.sampled_from(document.program.syntax.functions))
    start = written.starts[data.draw(st.integers(0, len(written.starts) - 1))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "LEAST_GAIN", 0.0)
        patch.setattr(schedule, "CONFIRMED", 20)
        patch.setattr(recompute, "saved", lambda *_: data.draw(st.sampled_from([{1: 1}, {1: -1}])))
        for offers in (schedule.faster_moves, recompute.recomputations):
            for action in offers(document, Span(start, start)):
                changed = opened(after(document, action.edits))
                assert not errors(changed), action.title
                assert verify(program.module, changed.program.module).equal, action.title


@settings(max_examples=most_examples(40), deadline=None)
@given(programs())
def test_removing_everything_unused_keeps_the_results(program):
    document = opened(print_module(program.module))
    action = fixes.remove_unused(document)
    if action is not None:
        changed = opened(after(document, action.edits))
        assert not errors(changed)
        assert fixes.remove_unused(changed) is None
        assert verify(program.module, changed.program.module).equal


@settings(max_examples=most_examples(60), deadline=None)
@given(programs(), st.data())
def test_repairs_of_devices_repair(program, data):
    """An operand is replaced by a value of another device: whatever is offered brings them together again.

    Where that moves the result, what uses it may be wrong then instead.
    """
    main, body = program.main, list(program.main.body)
    index = data.draw(st.sampled_from([i for i, s in enumerate(body) if isinstance(s, (Apply, Call))]))
    used = [n for n in names(operands(body[index])) if n in program.env]
    assume(used)
    defined = {p.name for p in main.params} | {n for s in body[:index] for n in getattr(s, "results", ())}
    name = data.draw(st.sampled_from(used))
    like = [
        n
        for n, t in program.env.items()
        if n in defined and getattr(t, "shape", None) == getattr(program.env[name], "shape", ()) and n != name
    ]
    assume(like)
    body[index] = with_operands(body[index], {name: data.draw(st.sampled_from(like))})
    changed = Function(main.name, main.params, tuple(body), main.result_types)
    document = opened(print_module(Module([*(f for f in program.module if f.name != "main"), changed])))
    written = document.program.syntax.by_name["main"]
    for action in fixes.quick_fixes(document, written.statement(index)):
        if action.title.startswith(("send", "cast", "use")):
            repaired = opened(after(document, action.edits))
            main = repaired.program.syntax.by_name["main"]
            (there,) = (i for i, s in enumerate(main.function.body) if results(s) == results(body[index]))
            here = [e for e in errors(repaired) if main.starts[there] <= e.site.start < main.ends[there]]
            assert not {e.code.number for e in here} & {e.code.number for e in action.fixes}, action.title


@settings(max_examples=most_examples(60), deadline=None)
@given(programs(), st.data())
def test_edits_give_the_body_that_is_wanted(program, data):
    text = (
        print_module(program.module)
        .replace(" = Relu", " = /* inside */ Relu")
        .replace("\n  %v1", "\n  // on v1\n  %v1")
    )
    syntax = parse(text)
    written = data.draw(st.sampled_from(syntax.functions))
    body = data.draw(st.permutations(written.function.body[:-1]))
    kept = body[: data.draw(st.integers(0, len(body)))]
    new = (Apply(("added",), "Relu", ("x",)), *kept, written.function.body[-1])
    from distir.ide.edits import applied

    found = parse(applied(text, rewritten(syntax, written, new)))
    assert not found.diagnostics
    assert found.by_name[written.function.name].function.body == new
    others = [f.function for f in syntax.functions if f is not written]
    assert [f.function for f in found.functions if f.function.name != written.function.name] == others


# ---- repairs

MIXED = """\
func @main(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float16, (4, 4), 1], %z: Tensor[Float32, (4, 4), 2],
           %input: Tensor[Float32, (4, 4), 1]) {
  %a = Relu(%x) // a
  %b = <BODY>
  return %a, %b
}
"""


def fixed(statement, beginning):
    document = opened(MIXED.replace("<BODY>", statement))
    start = document.text.index("  %b")
    action = only(fixes.quick_fixes(document, Span(start, start + 5)), beginning)
    text = after(document, action.edits)
    assert not errors(opened(text))
    return text.split("// a\n")[1].split("  return")[0], action


def test_the_missing_send_is_inserted():
    text, action = fixed("Add(%a, %z) // why", "send `%z` to device 1")
    assert text == "  %z.1 = Send[device = 1](%z)\n  %b = Add(%a, %z.1) // why\n"
    assert action.preferred
    assert action.fixes[0].code.number == "DIR401"
    text, action = fixed("Add(%a, %z) // why", "send `%a` to device 2")
    assert not action.preferred


def test_what_was_sent_is_used():
    statement = "Send[device = 1](%z)\n  %c = Add(%a, %z)\n  %d = Add(%b, %c)"
    document = opened(MIXED.replace("<BODY>", statement).replace("return %a, %b", "return %d"))
    start = document.text.index("  %c")
    action = only(fixes.quick_fixes(document, Span(start, start)), "use what device 1 has of `%z`")
    assert "%c = Add(%a, %b)" in after(document, action.edits)


def test_calls_are_repaired_too():
    call = "func @add(%p, %q) {\n  %r = Add(%p, %q)\n  return %r\n}\n\n"
    document = opened(call + MIXED.replace("<BODY>", "@add(%a, %z)"))
    start = document.text.index("  %b")
    action = only(fixes.quick_fixes(document, Span(start, start + 4)), "send `%z` to device 1")
    assert not errors(opened(after(document, action.edits)))


def test_element_types_are_cast():
    text, action = fixed("Add(%a, %y)", "cast `%y` to Float32")
    assert text == "  %y_f32 = Cast[to = Float32](%y)\n  %b = Add(%a, %y_f32)\n"
    assert action.preferred
    fixed("Add(%a, %y)", "cast `%a` to Float16")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Reul(%a)", "Relu(%a)"),
        ("Relu(%inptu)", "Relu(%input)"),
        ("Gemm[trnsA = true](%a, %a)", "Gemm[transA = true](%a, %a)"),
        ("Concat[axis = 0]([%a, %inpt])", "Concat[axis = 0]([%a, %input])"),
    ],
)
def test_the_nearest_name_is_written(wrong, right):
    text, action = fixed(wrong, "write `")
    assert text == f"  %b = {right}\n"
    assert action.preferred


def test_names_of_functions_and_types_are_written_too():
    text = "func @dense(%x: Tensor[Flaot32, (2,), 1]) {\n  return %x\n}\n"
    document = opened(text)
    action = only(fixes.quick_fixes(document, Span(0, len(text))), "write `")
    assert "Tensor[Float32" in after(document, action.edits)
    document = opened("func @dense(%x) {\n  return %x\n}\n\nfunc @main(%x) {\n  %y = @dnse(%x)\n  return %y\n}\n")
    action = only(fixes.quick_fixes(document, Span(0, len(document.text))), "write `")
    assert "%y = @dense(%x)" in after(document, action.edits)


def test_what_is_unused_goes():
    document = opened(
        MIXED.replace("<BODY>", "Neg(%x) // gone\n  %c, %d = Split[num_outputs = 2](%x)").replace("%b\n}", "%c\n}")
    )
    actions = fixes.quick_fixes(document, Span(0, len(document.text)))
    assert "gone" not in after(document, only(actions, "remove `%b`").edits)
    assert "%c, _ = Split" in after(document, only(actions, "write `_` for `%d`").edits)
    both = after(document, fixes.remove_unused(document).edits)
    assert "%b" not in both
    assert "%c, _" in both


def test_a_stream_on_which_nothing_runs_goes():
    document = opened(MIXED.replace("<BODY>", "Identity(%x) on side // a view"))
    found = after(document, only(fixes.quick_fixes(document, Span(0, len(document.text))), "remove `on side`").edits)
    assert "Identity(%x) // a view" in found


def test_of_very_much_that_is_unused_what_comes_first_is_offered():
    lines = "".join(f"  %a{i} = Relu(%x)\n" for i in range(1000))
    document = opened(f"func @f(%x: Tensor[Float32, (4, 4), 1]) {{\n{lines}  return %x\n}}\n")
    actions = fixes.quick_fixes(document, Span(0, len(document.text)))
    assert [a.title for a in actions] == [f"remove `%a{i}`" for i in range(fixes.MOST_REPAIRED)]
    start = document.text.index("%a900")
    assert [a.title for a in fixes.quick_fixes(document, Span(start, start))] == ["remove `%a900`"]


# ---- types


def test_types_are_stated_where_they_are_not():
    document, span = with_selection(MIXED.replace("<BODY>", "Add<|>(%a, %x)"))
    statement, whole = annotations.state_types(document, span)
    assert "%b: Tensor[Float32, (4, 4), 1] = Add" in after(document, statement.edits)
    assert after(document, whole.edits).count(": Tensor[Float32, (4, 4), 1] = ") == 2


def test_what_is_open_is_not_stated():
    document, span = with_selection("func @f(%x) {\n  %y = Re<|>lu(%x)\n  return %y\n}\n")
    assert list(annotations.state_types(document, span)) == []


# ---- functions

NESTED = """\
// the layer
func @layer(%x, %w) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

// all of it
func @main(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %h = @layer(%x, %w) // first
  // second
  %y = @layer(%h, %w)
  %z = Tanh(%y)
  return %z
}
"""


def test_one_call_is_inlined():
    document, span = with_selection(NESTED.replace("%y = @lay", "%y = @<|>lay"))
    text = after(document, only(functions.inline_call(document, span), "inline this call of `@layer`").edits)
    assert text == NESTED.replace("  %y = @layer(%h, %w)\n", "  %h_1 = MatMul(%h, %w)\n  %y = Relu(%h_1)\n")


def test_what_the_call_claims_is_kept():
    text = NESTED.replace("%y = @layer", "%y: Tensor[Float32, (4, 4), 1] = @layer")
    document, span = with_selection(text.replace("= @layer(%h", "= @<|>layer(%h"))
    changed = after(document, only(functions.inline_call(document, span), "inline this call of `@layer`").edits)
    assert "  %y: Tensor[Float32, (4, 4), 1] = Relu(%h_1)\n" in changed
    said = NESTED.replace("%y = Relu", "%y: D1 = Relu").replace("%y = @layer", "%y: Tensor[Float32, ??] = @layer")
    document, span = with_selection(said.replace("= @layer(%h", "= @<|>layer(%h"))
    changed = after(document, only(functions.inline_call(document, span), "inline this call of `@layer`").edits)
    assert "  %y: Tensor[Float32, ??, 1] = Relu(%h_1)\n" in changed


def test_a_selection_is_outlined():
    marked = NESTED.replace("%h = @layer(%x, %w) // first", "<[%h = @layer(%x, %w) // first")
    document, span = with_selection(marked.replace("%y = @layer(%h, %w)", "%y = @layer(%h, %w)]>"))
    text = after(document, only(functions.outline_selection(document, span), "outline 2 statements").edits)
    assert "func @block(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {" in text
    assert text.index("@block") < text.index("// all of it") < text.index("func @main")
    assert "  %y = @block(%x, %w)" in text
    assert verify(document.program.module, opened(text).program.module).equal


def test_the_text_keeps_its_line_ends():
    text = NESTED.replace("\n", "\r\n")
    document, span = with_selection(text.replace("%y = @lay", "%y = @<|>lay"))
    for action in (*functions.inline_call(document, span), *annotations.state_types(document, span)):
        changed = after(document, action.edits)
        assert not errors(opened(changed))
        assert changed.count("\n") == changed.count("\r\n")


def test_a_return_cannot_be_outlined():
    document, span = with_selection(NESTED.replace("%z = Tanh(%y)\n  return %z", "<[%z = Tanh(%y)\n  return %z]>"))
    assert list(functions.outline_selection(document, span)) == []


# ---- transforms


def test_a_function_is_transformed_into_a_new_file():
    document = opened(NESTED)
    start = NESTED.index("func @main")
    offers = transforms.offers(document, Span(start, start))
    assert {offer.function for offer in offers} == {"main"}
    made = opened(transforms.transformed(document, "main", ("inline",)).text)
    assert not errors(made)
    assert "@layer" not in made.text
    assert verify(document.program.module, made.program.module).equal
    assert transforms.new_path("/a/mlp.dir", ("pp=2", "microbatches=4")) == "/a/mlp.pp2.dir"


def test_a_step_that_cannot_be_applied_says_why():
    document = opened(MIXED.replace("<BODY>", "Relu(%z)"))
    with pytest.raises(transforms.CannotTransform, match=r"\w"):
        transforms.transformed(document, "main", ("pp=2", "microbatches=4"))


def test_another_function_than_the_entry_is_transformed_alone():
    document = opened(NESTED)
    module = transforms.alone(document.program.module, "layer")
    assert list(module.functions) == ["layer"]
    assert transforms.alone(document.program.module, "main").entry().name == "main"


def test_a_machine_that_is_large_enough_is_offered_where_one_is_too_small():
    text = "func @main(%x: Tensor[Float32, (8,), 1]) {\n  %a = Relu(%x)\n  %y = Send[device = 9](%a)\n  return %y\n}\n"
    document = opened(text)
    document.simulate()
    (found,) = document.findings
    (action,) = fixes.larger_machines(document, found.site)
    assert (action.title, action.hardware, action.edits) == ("simulate on `dgx-a100x2`", "dgx-a100x2", ())
    assert action.fixes == (found,)
    assert action.preferred
    assert f"`{action.hardware}`" in found.help
    assert not list(fixes.larger_machines(document, Span(0, 0)))
