"""Comparing a transformed program with its original."""

from __future__ import annotations

import numpy as np
import pytest
from gradient_programs import BLOCK, MLP, parsed

import distir
from distir.analysis import InputError
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Function, Module
from distir.models import mlp
from distir.transform import StepError, VerifyError, reference, transform, verify
from distir.transform.verification import cast_to, described

SEQUENTIAL = """
func @main(%w: Tensor[Float64, (3, 2), 1] {param}, %x: Tensor[Float64, (4, 3), 1] {batch = 0}) {
  %y = MatMul(%x, %w)
  %s = ReduceSum(%y, [0])
  return %y, %s
}
"""

DISTRIBUTED = """
func @main.scatter(%w: Tensor[Float64, (3, 2), 1], %x: Tensor[Float64, (4, 3), 1]) {
  %w_1, %w_2 = MPIBroadcast[devices = [1, 2]](%w)
  %x_1, %x_2 = MPIScatter[devices = [1, 2], axis = 0](%x)
  return %w_1, %w_2, %x_1, %x_2
}

func @main(
  %w_1: Tensor[Float64, (3, 2), 1] {param}, %w_2: Tensor[Float64, (3, 2), 2] {param},
  %x_1: Tensor[Float64, (2, 3), 1] {batch = 0}, %x_2: Tensor[Float64, (2, 3), 2] {batch = 0}
) {
  %y_1 = MatMul(%x_1, %w_1)
  %y_2 = MatMul(%x_2, %w_2)
  %p_1 = ReduceSum(%y_1, [0])
  %p_2 = ReduceSum(%y_2, [0])
  %s_1, %s_2 = MPIAllreduce(%p_1, %p_2)
  return %y_1, %y_2, %s_1, %s_2
}

func @main.gather(%y_1, %y_2, %s_1, %s_2) {
  %y = MPIGather[root = 1, axis = 0](%y_1, %y_2)
  return %y, %s_1
}
"""


def test_a_distributed_program_is_compared_through_scatter_and_gather():
    found = verify(parsed(SEQUENTIAL), parsed(DISTRIBUTED))
    assert found.equal
    assert found.max_abs_error < 1e-12
    assert [result.name for result in found.results] == ["y", "s"]


def test_a_wrong_program_is_found_out_with_the_result_that_is_wrong():
    wrong = DISTRIBUTED.replace("MPIAllreduce(%p_1, %p_2)", "MPIAllreduce(%p_1, %q)").replace(
        "  %s_1, %s_2 =", "  %q = Neg(%p_2)\n  %s_1, %s_2 ="
    )
    found = verify(parsed(SEQUENTIAL), parsed(wrong))
    assert not found.equal
    assert [result.equal for result in found.results] == [True, False]
    assert found.max_abs_error == found.results[1].max_abs_error > found.results[1].tolerance
    assert found.results[0].difference is None
    assert "differ" in found.results[1].difference


def test_what_differs_is_said_with_its_place_and_both_values():
    expected, found = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    found[2, 1] += 0.5
    found[0, 3] -= 0.25
    assert described(expected, found, 0.0) == (
        "2 of 12 elements differ by up to 5.0e-01, most at [2, 1]: expected 9.0, found 9.5"
    )
    assert described(expected, found, 0.3).startswith("1 of 12 elements differ")
    assert described(expected, found, 1.0) == ""
    assert described((expected, (expected, expected)), (expected, (expected, found)), 0.3).startswith("part 1.1: 1 of")
    assert described(expected, found[:2], 1.0) == "expected the shape (3, 4), found (2, 4)"
    assert described((expected, expected), (expected,), 1.0) == "expected a tuple of as many parts"
    found[1, 1] = np.nan
    assert "by up to inf, most at [1, 1]: expected 5.0, found nan" in described(expected, found, 1.0)


def test_a_small_error_is_within_a_tolerance_that_is_given():
    near = SEQUENTIAL.replace("MatMul(%x, %w)", "MatMul(%x, %v)").replace("  %y =", "  %v = Mul(%w, 1.0001)\n  %y =")
    assert not verify(parsed(SEQUENTIAL), parsed(near)).equal
    assert verify(parsed(SEQUENTIAL), parsed(near), tolerance=1e-3).equal


def test_results_of_another_shape_or_that_are_no_numbers_are_not_equal():
    other = SEQUENTIAL.replace("ReduceSum(", "ReduceSum[keepdims = false](")
    assert [r.equal for r in verify(parsed(SEQUENTIAL), parsed(other)).results] == [True, False]
    nothing = SEQUENTIAL.replace("  return", "  %z = Sub(%s, %s)\n  %q = Div(%z, %z)\n  return").replace(
        "%y, %s\n", "%y, %q\n"
    )
    found = verify(parsed(SEQUENTIAL), parsed(nothing))
    assert found.results[1].max_abs_error == np.inf
    assert verify(parsed(nothing), parsed(nothing)).equal


def test_the_same_seed_gives_the_same_errors():
    near = parsed(
        SEQUENTIAL.replace("MatMul(%x, %w)", "MatMul(%x, %v)").replace("  %y =", "  %v = Mul(%w, 1.1)\n  %y =")
    )
    one, two, other = (verify(parsed(SEQUENTIAL), near, seed=seed).max_abs_error for seed in (1, 1, 2))
    assert one == two != other


def test_programs_that_do_not_belong_together_are_refused():
    main = parsed(DISTRIBUTED)
    bare = Module([f for f in main if f.name == "main"])
    with pytest.raises(VerifyError, match=r"`@main.scatter` missing"):
        verify(parsed(SEQUENTIAL), bare)
    half = Module([f for f in main if f.name != "main.gather"])
    with pytest.raises(VerifyError, match=r"`@main.gather` missing"):
        verify(parsed(SEQUENTIAL), half)
    with pytest.raises(ProgramError):
        verify(parsed(SEQUENTIAL), distir.parse("func @main(%w, %x) {\n  %y = Nothing(%w)\n  return %y, %x\n}"))


def test_named_dimensions_need_sizes():
    module = parsed(BLOCK)
    with pytest.raises(InputError, match="bind"):
        verify(module, module)
    assert verify(module, module, bind={"B": 3}).equal


def test_narrow_numbers_have_more_tolerance():
    narrow = parsed(SEQUENTIAL.replace("Float64", "Float16"))
    found = verify(narrow, narrow)
    assert found.equal
    assert found.results[0].tolerance > verify(parsed(SEQUENTIAL), parsed(SEQUENTIAL)).results[0].tolerance


NARROW = """
func @main(%x: Tensor[BFloat16, (4, 3), 1] {batch = 0}) {
  %y = Mul(%x, dense<BFloat16, 3.0>)
  %z = Sub(%y, dense<BFloat16, 1.0>)
  return %z
}
"""


def test_narrow_programs_with_typed_literals_are_compared_in_float64():
    wrong = parsed(NARROW.replace("dense<BFloat16, 3.0>", "dense<BFloat16, 3.015625>"))
    found = verify(parsed(NARROW), wrong)
    assert found.not_widened is None
    assert [r.difference is not None and r.difference.startswith("in Float64, ") for r in found.results] == [True]


def test_it_is_said_if_programs_cannot_be_compared_in_float64():
    program = parsed("""
        func @main(%x: Tensor[BFloat16, (4, 3), 1], %s: Tensor[BFloat16, (3,), 1], %c: Tensor[Float32, (4, 1), 1]) {
          %y, %mean = LayerNormalization(%x, %s)
          %z = Add(%mean, %c)
          return %y, %z
        }
    """)
    found = verify(program, program)
    assert found.equal
    assert found.not_widened is not None
    assert "expected Float" in found.not_widened


def test_steps_behind_the_gradient_are_compared_with_the_training_step():
    module = parsed(MLP)
    words = ["fold", "grad", "optimizer=adam", "inline", "cse"]
    before = reference(module, words)
    assert before == distir.transform(module, "fold", "grad", optimizer="adam")
    found = verify(before, distir.transform(module, *words))
    assert found.equal
    assert len(found.results) == len(before.entry().returned)
    assert reference(module, ["inline", "cse"]) is module
    with pytest.raises(StepError):
        reference(module, ["gard"])


def test_the_entry_may_be_called_anything():
    def renamed(text):
        return parsed(text.replace("@main", "@forward"))

    assert verify(renamed(SEQUENTIAL), renamed(DISTRIBUTED)).equal
    assert isinstance(renamed(SEQUENTIAL).entry(), Function)


SMALL = """
func @main(%w: Tensor[Float32, (8, 4), 1] {param}, %x: Tensor[Float32, (16, 8), 1] {batch = 0}) {
  %y = MatMul(%x, %w)
  %z = Mul(%y, 1e-7)
  %s = ReduceSum[keepdims = false](%z)
  return %s
}
"""
"""Gradients are a millionth of the weights, and less."""


@pytest.mark.parametrize("wrong", ["Mul(%{}, 0.0)", "Mul(%{}, 1.01)", "Neg(%{})"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw", "lion"])
def test_a_wrong_update_of_a_small_gradient_is_found(optimizer, wrong):
    if optimizer == "lion" and "1.01" in wrong:
        optimizer = "adam epsilon=1e-3"  # the sign is the same
    step = distir.transform(parsed(SMALL), *f"grad loss=none optimizer={optimizer}".split())
    assert verify(step, distir.transform(step, "dp=2")).equal
    update = next(line for line in distir.format(step).splitlines() if "%w_new" in line)
    bad = f"  %bad = {wrong.format('dw')}\n{update.replace('%dw', '%bad')}"
    found = verify(step, parsed(distir.format(step).replace(update, bad)))
    assert not found.equal
    assert all(r.max_abs_error < 1e-4 for r in found.results if optimizer == "sgd")


def test_what_rounding_may_change_is_no_difference():
    """The sum of what cancels is rounding alone, in another order another."""
    text = """
        func @main(%x: Tensor[Float64, (64, 8), 1] {batch = 0}) {
          %m = ReduceMean[keepdims = true](%x, [0])
          %c = Sub(%x, %m)
          %s = ReduceSum[keepdims = false](%c, [0])
          return %s
        }"""
    found = verify(parsed(text), distir.transform(parsed(text), "dp=4"))
    assert found.equal
    assert 0 < found.max_abs_error < 1e-12
    ten = text.replace("return %s", "%t = Add(%s, 1e-9)\nreturn %t")
    assert not verify(parsed(text), parsed(ten)).equal


CHAOTIC = """
func @main(%x: Tensor[Float64, (64,), 1]) {
  %large = Mul(%x, 1e17)
  %y = Sin(%large)
  return %y
}
"""
"""A change in the last digit of its input changes all of its result."""


def test_a_result_that_rounding_could_explain_is_refused_if_it_moves_most_elements_far():
    wrong = CHAOTIC.replace("return %y", "%z = Mul(%y, 1.5)\n  return %z")
    found = verify(parsed(CHAOTIC), parsed(wrong))
    assert not found.equal
    (result,) = found.results
    assert "of more than a few elements at most 1.0e-01 counts as rounding" in result.difference
    assert result.tolerance <= 0.1001
    assert verify(parsed(CHAOTIC), parsed(CHAOTIC)).equal


def test_rounding_may_move_few_elements_as_far_as_the_greatest_and_no_further():
    few = f"%y = Concat[axis = 0](%wave, {', '.join(['%x'] * 20)})"
    text = CHAOTIC.replace("(64,)", "(4,)").replace("%y = Sin(%large)", f"%wave = Sin(%large)\n  {few}")
    for factor, equal in ((1.05, True), (-9.0, False)):
        wrong = text.replace("  %y =", f"  %off = Mul(%wave, {factor})\n  %y =").replace("(%wave, %x", "(%off, %x")
        assert verify(parsed(text), parsed(wrong)).equal is equal, factor


@pytest.mark.parametrize(
    "chain", ["dp=2 zero=3", "accumulate=2 dp=2 zero=3", "dtp=2,1,2 microbatches=4 zero=3", "pp=2"]
)
def test_weights_that_are_cast_where_they_are_used_are_found(chain):
    """Also in functions that take them in tuples: results are as precise as the narrow type."""
    step = transform(mlp(4, 8, 16, "Float32"), "grad", "precision=mixed", "master=only", "loss=mse")
    program = transform(step, *chain.split())
    entry = program.entry()
    weights = {p.name for p in entry.params if "param" in p.roles}
    assert cast_to(program, entry) == dict.fromkeys(weights, DTYPES["BFloat16"])


FOLDED = """
func @main(%x: Tensor[Float32, (4, 3), 1]) {
  %angle = Sqrt([0.3, 0.7, 1.1])
  %y = Mul(%x, %angle)
  %scale = Div(1.0, 3.0)
  %z = Add(%y, %scale)
  return %z
}
"""


@pytest.mark.parametrize("steps", ["fold", "inline fold"])
def test_what_folding_rounds_is_rounding(steps):
    program = parsed(FOLDED)
    folded = distir.transform(program, *steps.split())
    assert len(folded.entry().body) < len(program.entry().body)
    assert verify(program, folded).equal
    assert not verify(program, parsed(distir.format(folded).replace("Add", "Sub"))).equal


def scaled_step(product, update):
    return parsed(f"""
        func @main(
          %w: Tensor[Float32, (64,), 1] {{param}}, %g: Tensor[Float16, (64,), 1], %scale: Float32[1], %steps: Int64[1]
        ) {{
          {product}
          %dw = Cast[to = Float32](%dw_narrow)
          %squares = SquaredNorm(%dw)
          %factor = GradientFactor(%squares, %scale)
          {update}
        }}
    """)


@pytest.mark.parametrize(
    "update",
    [
        "%w_new = SGD(%w, %dw, 0.01, %factor)\n%scale_new, %steps_new = LossScale(%scale, %steps, %factor)\n"
        "return %w_new, %scale_new, %steps_new",
        "%w_new = SGD(%w, %dw, 0.01, %factor)\nreturn %w_new, %scale, %steps",
    ],
    ids=["dynamic", "fixed"],
)
def test_gradients_that_overflow_in_one_program_are_no_difference(update):
    large = "dense<Float16, 60000.0>"
    fits = scaled_step("%dw_narrow = Mul(%g, dense<Float16, 0.5>)", update)
    overflows = scaled_step(f"%more = Mul(%g, {large})\n%dw_narrow = Mul(%more, {large})", update)
    assert verify(fits, fits).equal
    assert verify(overflows, overflows).equal
    with pytest.raises(VerifyError, match="cannot be compared: gradients overflow in the transformed program alone"):
        verify(fits, overflows)
    with pytest.raises(VerifyError, match="gradients overflow in the original alone"):
        verify(overflows, fits)
