"""The steps that keep what a program computes: dce, cse, fold, inline, outline."""

from __future__ import annotations

import numpy as np
import pytest
from gradient_programs import NESTED, PROGRAMS, check, parsed
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

import distir
from distir.analysis import random_inputs
from distir.ir import Apply, Call, Literal, names, operands, results
from distir.models import gpt2
from distir.transform import StepError

STEPS = ("dce", "cse", "fold", "inline", "outline=2")
LAW = settings(max_examples=most_examples(60), deadline=None)


def outputs(module, inputs):
    return [leaf for value in distir.run(module, inputs).values() for leaf in _leaves(value)]


def _leaves(value):
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, tuple) else [value]


def check_same(before, after, inputs):
    """Assert that two programs check and give exactly the same."""
    check(after)
    for a, b in zip(outputs(before, inputs), outputs(after, inputs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@given(programs(), st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
@LAW
def test_results_are_kept_by_any_chain_of_steps(program, words):
    after = distir.transform(program.module, *words)
    check_same(program.module, after, list(random_inputs(program.module, 0, {}).values()))


@pytest.mark.by_turns
@pytest.mark.parametrize("words", [(step,) for step in STEPS] + [STEPS, STEPS[::-1]], ids="+".join)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_of_training_steps_are_kept(name, words):
    before = distir.transform(parsed(PROGRAMS[name]), "grad", loss="mse")
    after = distir.transform(before, *words)
    check_same(before, after, random_inputs(before, 0, {"B": 2}))


@given(programs(), st.sampled_from(["dce", "cse", "fold", "inline"]))
@LAW
def test_a_step_applied_twice_does_nothing_more(program, word):
    once = distir.transform(program.module, word)
    again = distir.transform(once, word)
    assert again == once or word == "cse"  # what was computed twice may have been used to compute something twice


@given(programs())
@LAW
def test_dce_leaves_no_value_unused(program):
    after = distir.transform(program.module, "dce")
    for function in after:
        used = {name for s in function.body for name in names(operands(s))}
        defined = {name for s in function.body for name in results(s) if name}
        assert defined <= used


@given(programs())
@LAW
def test_inline_leaves_one_function(program):
    after = distir.transform(program.module, "inline")
    assert not [s for f in after if f.name == "main" for s in f.body if isinstance(s, Call)]
    called = {s.function for s in program.module.functions["main"].body if isinstance(s, Call)}
    assert not called & set(after.functions)


def test_dce_shrinks_functions_from_both_ends():
    text = """
func @f(%x, %y) {
  %a = Relu(%x)
  %b = Tanh(%y)
  %c, %d = Split(%a)
  return %a, %b, %d
}
func @main(%x: Tensor[Float64, (2,), 1], %y: Tensor[Float64, (2,), 1]) {
  %a, %b, %d = @f(%x, %y)
  %dead = Exp(%b)
  return %a
}
"""
    after = distir.transform(parsed(text), "dce")
    assert (
        distir.format(after)
        == """func @f(%x) {
  %a = Relu(%x)
  return %a
}

func @main(%x: Tensor[Float64, (2,), 1], %y: Tensor[Float64, (2,), 1]) {
  %a = @f(%x)
  return %a
}
"""
    )


def test_dce_leaves_the_functions_around_the_entry_as_they_are():
    text = """
func @main.scatter(%x: Tensor[Float64, (2,), 1], %unused: Float64[1]) {
  return %x
}
func @main(%x: Tensor[Float64, (2,), 1]) {
  %y = Relu(%x)
  return %y
}
"""
    module = parsed(text)
    assert distir.transform(module, "dce") == module


def test_cse_names_what_the_first_computation_discarded():
    text = """
func @main(%x: Tensor[Float64, (4,), 1]) {
  %a, _ = Split[num_outputs = 2](%x)
  _, %b = Split[num_outputs = 2](%x)
  %c = Add(%a, %b)
  %d = Add(%a, %b)
  %e = Mul(%c, %d)
  return %e, %d
}
"""
    after = distir.transform(parsed(text), "cse")
    assert "%a, %b = Split[num_outputs = 2](%x)" in distir.format(after)
    assert len(after.entry().body) == 4
    assert after.entry().returned == ("e", "c")


def test_cse_keeps_statements_with_other_attributes_or_claims_apart():
    text = """
func @main(%x: Tensor[Float64, (4, 2), 1]) {
  %a = Softmax[axis = 0](%x)
  %b = Softmax[axis = 1](%x)
  %c: D1 = Softmax[axis = 1](%x)
  return %a, %b, %c
}
"""
    module = parsed(text)
    assert distir.transform(module, "cse") == module


def test_fold_writes_numbers_where_they_are_known():
    text = """
func @main(%x: Tensor[Float32, (4, 6), 1], %n: Tensor[Float32, (N, 2), 1]) {
  %shape = Shape(%x)
  %rows = Gather(%shape, [0])
  %half = Div(%rows, 2)
  %wanted = Concat[axis = 0](%half, [-1])
  %y = Reshape(%x, %wanted)
  %scale = Cast[to = Float32](%half)
  %z = Mul(%y, %scale)
  %open = Shape(%n)
  %m = Reshape(%n, %open)
  return %z, %m, %rows
}
"""
    after = distir.transform(parsed(text), "fold")
    statements = {s.results[0]: s for s in after.entry().body if isinstance(s, Apply)}
    assert statements["y"].args == ("x", Literal((2, -1)))
    assert set(statements) == {"rows", "y", "z", "open", "m"}
    check_same(parsed(text), after, {"x": np.ones((4, 6), np.float32), "n": np.ones((3, 2), np.float32)})


def test_fold_leaves_large_values_alone():
    model = gpt2(layers=1, width=8, heads=2, sequence=16, batch=1, vocabulary=3, positions=16)
    assert "LessOrEqual" in distir.format(distir.transform(model, "fold"))


def test_inline_takes_the_functions_that_are_named():
    module = parsed(NESTED)
    after = distir.transform(module, "inline=inner")
    assert list(after.functions) == ["middle", "main"]
    assert [s.function for s in after.functions["main"].body if isinstance(s, Call)] == ["middle", "middle"]
    with pytest.raises(StepError, match="did you mean `inner`"):
        distir.transform(module, "inline=iner")


def test_inline_keeps_names_where_it_can():
    text = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  return %a
}
func @main(%w: Tensor[Float64, (2, 2), 1], %x: Tensor[Float64, (2, 2), 1]) {
  %y = @dense(%w, %x)
  %z = @dense(%w, %y)
  return %z
}
"""
    assert (
        distir.format(distir.transform(parsed(text), "inline"))
        == """func @main(%w: Tensor[Float64, (2, 2), 1], %x: Tensor[Float64, (2, 2), 1]) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  %h_1 = MatMul(%y, %w)
  %z = Relu(%h_1)
  return %z
}
"""
    )


def test_inline_drops_claims_in_terms_of_the_callees_dimensions():
    text = """
func @f(%x: Tensor[Float64, (N, 2)]) {
  %y: Tensor[Float64, (N, 2)] = Relu(%x)
  %z: Tensor[Float64, (??)] = Tanh(%y)
  return %z
}
func @main(%x: Tensor[Float64, (4, 2), 1]) {
  %y = @f(%x)
  return %y
}
""".replace("(??)", "??")
    after = distir.transform(parsed(text), "inline")
    check(after)
    assert "(N, 2)" not in distir.format(after)
    assert "??" in distir.format(after)


def test_inline_puts_what_a_callee_returns_unchanged_in_its_place():
    text = """
func @f(%pair, %x) {
  %a, %b = UnpackTuple(%pair)
  return %x, %a, %a, [%b, %x], 2.0
}
func @main(%x: Tensor[Float64, (2,), 1], %y: Tensor[Float64, (2,), 1]) {
  %p, %q, %r, %s, %t = @f([%x, %y], %x)
  %u, %v = UnpackTuple(%s)
  %w = Sum(%p, %q, %r, %u, %v)
  %z = Mul(%w, %t)
  return %z, %p
}
"""
    module = parsed(text)
    check_same(module, distir.transform(module, "inline"), {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 4.0])})


def test_outline_finds_the_layers_of_an_unrolled_model():
    model = gpt2(layers=5, width=8, heads=2, sequence=2, batch=1, vocabulary=3, positions=2)
    after = distir.transform(model, "inline", "outline")
    assert list(after.functions) == ["block", "main"]
    assert [s.function for s in after.entry().body if isinstance(s, Call)] == ["block"] * 5
    assert len(after.functions["block"].body) == len(model.functions["layer"].body)
    check_same(model, after, random_inputs(model, 0, {}))


def test_outline_leaves_what_does_not_repeat():
    module = parsed(PROGRAMS["vision"])
    assert distir.transform(module, "outline") == module


def test_outline_keeps_apart_what_is_wired_differently():
    lines = []
    for i in range(6):
        other = "x" if i == 3 else f"b{i}"
        lines += [
            f"%a{i} = Relu(%c{i})",
            f"%b{i} = Tanh(%a{i})",
            f"%d{i} = Exp(%{other})",
            f"%c{i + 1} = Mul(%b{i}, %d{i})",
        ]
    body = "\n  ".join(lines)
    text = f"func @main(%x: Tensor[Float64, (2,), 1]) {{\n  %c0 = Neg(%x)\n  {body}\n  return %c6\n}}\n"
    module = parsed(text)
    after = distir.transform(module, "outline=2")
    assert [s.function for s in after.entry().body if isinstance(s, Call)] == ["block"] * 5
    check_same(module, after, {"x": np.array([0.5, 0.25])})
