"""The step `grad`: gradients of whole programs, the functions it writes, and the training step around them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gradient_programs import BLOCK, MLP, NESTED, PROGRAMS, TIED, check, check_gradients, parsed, step_gradients
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import programs
from thorough import most_examples

import distir
from distir.analysis import random_inputs
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, HOST, Apply, Attributes, Call, Function, Module, Param, TensorType, types
from distir.models import gpt2
from distir.simulate import simulate
from distir.transform import StepError


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_slopes_of_the_loss(name, loss):
    check_gradients(parsed(PROGRAMS[name]), loss=loss)


@pytest.mark.parametrize("batch", [None, 2])
def test_gradients_of_gpt2_are_slopes_of_the_loss(batch):
    model = gpt2(layers=2, width=8, heads=2, sequence=3, batch=batch, vocabulary=5, positions=4, dtype="Float64")
    step = check_gradients(model)
    assert list(step.functions) == ["layer", "layerGrad", "main"]


@given(programs(most=8), st.integers(0, 9))
@settings(max_examples=most_examples(40), deadline=None)
def test_gradients_of_random_programs_are_slopes_of_the_loss(program, seed):
    first = program.main.returned[0]
    assume(isinstance(first, str) and isinstance(program.env[first], TensorType))
    marked = tuple(Param(p.name, p.type, Attributes({"param": True})) for p in program.main.params)
    main = Function("main", marked, program.main.body)
    module = Module([*(f for f in program.module if f.name != "main"), main])
    check_gradients(module, seed, loss="mse")


# The functions that are written.


def test_a_deep_model_has_one_backward_function():
    model = gpt2(layers=12, width=8, heads=2, sequence=2, batch=1, vocabulary=3, positions=2)
    step = distir.transform(model, "grad")
    calls = [s.function for s in step.entry().body if isinstance(s, Call)]
    assert list(step.functions) == ["layer", "layerGrad", "main"]
    assert calls == ["layer"] * 12 + ["layerGrad"] * 12


def test_the_backward_function_of_a_dense_layer_is_what_a_person_would_write():
    step = distir.transform(parsed(MLP), "grad")
    text = distir.format(step)
    assert (
        """
func @denseGrad(%w, %x, %a, %da) backward {
  %A, _ = UnpackTuple(%w)
  %dh = ReluGrad(%da, %a)
  %dx = Gemm[transB = true](%dh, %A)
  %dA = Gemm[transA = true](%x, %dh)
  %db = ReduceSum[keepdims = false](%dh, [0])
  %dw = MakeTuple(%dA, %db) {of = %w}
  return %dw, %dx
}
"""
        in text
    )
    assert step.functions["dense"] == parsed(MLP).functions["dense"]  # it keeps nothing but what it returns anyway
    assert "%dw1 = @denseGrad_1(%x, %as, %das)" in text  # nobody wants the gradient of the data


def test_a_function_that_gives_residuals_is_extended_once():
    step = distir.transform(parsed(NESTED), "grad")
    middle = step.functions["middle"]
    assert middle.returned[:2] == parsed(NESTED).functions["middle"].returned
    for function in step:
        for call in (s for s in function.body if isinstance(s, Call)):
            assert len(call.results) == len(step.functions[call.function].returned)
            assert len(call.args) == len(step.functions[call.function].params)


def test_a_long_chain_of_calls_can_be_followed():
    depth = 600
    calls = "".join(f"func @f{i}(%w, %x) {{\n  %y = @f{i - 1}(%w, %x)\n  return %y\n}}\n" for i in range(1, depth))
    text = f"""
func @f0(%w, %x) {{
  %p = Mul(%x, %w)
  %y = Tanh(%p)
  return %y
}}
{calls}
func @main(%w: Tensor[Float64, (2,), 1] {{param}}, %x: Tensor[Float64, (2,), 1]) {{
  %y = @f{depth - 1}(%w, %x)
  return %y
}}
"""
    step = distir.transform(parsed(text), "grad")
    check(step)
    assert len(step.functions) == 2 * depth + 1


def test_functions_stay_polymorphic_in_their_devices():
    text = MLP.replace(
        "%w2: Tuple[Tensor[Float64, (5, 3), 1], Tensor[Float64, (3,), 1]]",
        "%w2: Tuple[Tensor[Float64, (5, 3), 2], Tensor[Float64, (3,), 2]]",
    )
    text = text.replace("%p = @dense(%w2, %as)", "%sent = Send[device = 2](%as)\n  %p = @dense(%w2, %sent)")
    step = check_gradients(parsed(text))
    assert [name for name in step.functions if "Grad" in name] == ["denseGrad", "denseGrad_1"]
    for name in ("dense", "denseGrad", "denseGrad_1"):
        assert all(not types.devices(p.type) for p in step.functions[name].params)
    assert "Send[device = 1](" in distir.format(step)


@pytest.mark.parametrize("words", ["clip=1", "loss_scale=2", "loss_scale=dynamic", "precision=fp16"])
def test_what_all_gradients_decide_together_is_refused_over_several_devices(words):
    text = """
func @main(%w: Tensor[Float32, (3,), 1] {param}, %v: Tensor[Float32, (3,), 2] {param}, %x: Tensor[Float32, (2, 3), 1]) {
  %h = Mul(%x, %w)
  %sent = Send[device = 2](%h)
  %y = Mul(%sent, %v)
  return %y
}
"""
    distir.transform(parsed(text), "grad")
    with pytest.raises(ProgramError) as caught:
        distir.transform(parsed(text), "grad", words)
    (found,) = caught.value.diagnostics
    option = words.split("=")[0] if "precision" not in words else "loss_scale"
    assert found.code.number == "DIR605"
    assert found.message.startswith(f"`{option}` is for gradients on one device; `@main` is distributed already, over")
    assert found.help == "apply `grad` before it is"


def test_only_what_depends_on_weights_is_differentiated():
    text = """
func @main(%w: Tensor[Float64, (3,), 1] {param}, %x: Tensor[Float64, (2, 3), 1]) {
  %frozen = Sin(%x)
  %y = Mul(%frozen, %w)
  %_other = Cos(%y)
  return %y
}
"""
    step = check_gradients(parsed(text))
    assert not [s for s in step.entry().body if isinstance(s, Apply) and s.op == "Cos"]


def test_without_marks_all_numbers_are_weights():
    step = distir.transform(parsed(MLP.replace("{param}", "").replace("{batch = 0}", "")), "grad")
    assert [p.name for p in step.entry().params] == ["w1", "w2", "x", "target"]
    assert step.entry().returned[1:] == ("w1_new", "w2_new", "x_new")


def test_a_weight_that_nothing_uses_has_gradient_zero():
    _, _, _, found = step_gradients(parsed(TIED))
    np.testing.assert_array_equal(found["unused"], 0)


def test_values_used_several_times_have_the_sum_of_their_gradients():
    step = distir.transform(parsed(TIED), "grad")
    assert "%dwte = Sum(%dwte_1, %dwte_2)" in distir.format(step)


def test_two_calls_with_different_sizes():
    text = """
func @dense(%w, %b, %x) {
  %p = MatMul(%x, %w)
  %h = Add(%p, %b)
  return %h
}
func @main(
  %w: Tensor[Float64, (3, 3), 1] {param}, %b: Tensor[Float64, (3,), 1] {param}, %c: Tensor[Float64, (2, 1, 3), 1] {param},
  %x: Tensor[Float64, (2, 4, 3), 1]
) {
  %h = @dense(%w, %b, %x)
  %g = @dense(%w, %c, %h)
  return %g
}
"""  # noqa: E501
    step = check_gradients(parsed(text))
    assert [name for name in step.functions if "Grad" in name] == ["denseGrad", "denseGrad_1"]


BROADCAST = """func @main(%x: Tensor[Float64, (64, {x}), 1] {{batch = 0}}, %w: Tensor[Float64, {w}, 1] {{param}}) {{
  %y = MatMul({operands})
  %z = Mul(%y, %y)
  %loss = ReduceSum[keepdims = false](%z)
  return %loss
}}
"""


@pytest.mark.parametrize(
    ("x", "w", "operands"),
    [("2, 32", "(1, 32, 24)", "%x, %w"), ("32, 2", "(24, 32)", "%w, %x"), ("3, 2, 32", "(3, 32, 24)", "%x, %w")],
)
def test_the_gradient_of_matrices_that_examples_share_holds_no_copy_for_each(x, w, operands):
    step = check_gradients(parsed(BROADCAST.format(x=x, w=w, operands=operands)))
    copies = 64 * 32 * 24 * 8 * (3 if x.startswith("3") else 1)
    assert max(simulate(step).peaks.values()) < copies


# Refusals.


REFUSED = {
    """
func @inner(%x) {
  %y, _, _ = LayerNormalization(%x, [1.0, 1.0])
  %m, _ = TopK(%y, [1])
  %k = Optimizer(%m, %m)
  return %k
}
func @main(%w: Tensor[Float32, (2, 2), 1] {param}) {
  %y = @inner(%w)
  return %y
}
""": ("DIR601", "`Optimizer` has no gradient", "inner", 2),
    """
func @main(%w: Tensor[Float32, (2, 2), 1] {param}) {
  %y = Pad[mode = "edge"](%w, [1, 1, 1, 1])
  return %y
}
""": ("DIR601", '`mode = "edge"`', "main", 0),
    "func @main(%w: Tensor[Int64, (2,), 1] {param}) {\n  return %w\n}\n": ("DIR603", "no parameter", "main", None),
    "func @main(%w: Tensor[Int64, (2,), 1]) {\n  return %w\n}\n": ("DIR603", "no parameter", "main", None),
    "func @main(%w: Float32[1] {param}) {\n  return\n}\n": ("DIR604", "no value", "main", 0),
    "func @main(%w: Tuple[Float32[1]] {param}) {\n  return %w\n}\n": ("DIR604", "one tensor", "main", 0),
    """
func @main(%w: Float32[1] {param}) {
  %y = Relu(%w)
  return %y
}
func @main.scatter(%w: Float32[1]) {
  return %w
}
""": ("DIR605", "distributed already", "main.scatter", None),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_differentiated_is_refused_with_its_place(text):
    number, message, function, index = REFUSED[text]
    with pytest.raises(ProgramError) as caught:
        distir.transform(parsed(text), "grad")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code.number == number
    assert re.search(re.escape(message), diagnostic.message)
    assert (diagnostic.site.function, diagnostic.site.index) == (function, index)


def test_a_refusal_inside_a_call_says_how_it_was_reached():
    with pytest.raises(ProgramError) as caught:
        distir.transform(parsed(next(iter(REFUSED))), "grad")
    (note,) = caught.value.diagnostics[0].notes
    assert (note.site.function, note.site.index) == ("main", 0)


def test_a_loss_that_does_not_fit_is_refused():
    module = parsed(MLP)
    with pytest.raises(ProgramError, match="scalar"):
        distir.transform(module, "grad", loss="none")
    with pytest.raises(StepError, match="did you mean `cross_entropy`"):
        distir.transform(module, "grad", loss="cross_entrpy")
    with pytest.raises(StepError, match="expected one of sgd, momentum, lion, adam, adamw, adafactor, muon, none"):
        distir.transform(module, "grad", optimizer="lamb")


def test_a_broken_program_is_refused():
    with pytest.raises(ProgramError):
        distir.transform(distir.parse("func @f(%x) {\n  %y = Rely(%x)\n  return %y\n}"), "grad")


# The training step.


def test_losses_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    module = parsed(MLP)
    step = distir.transform(module, "grad", loss="mse")
    inputs = random_inputs(step, 0, {})
    (p,) = distir.run(module, {n: inputs[n] for n in ("w1", "w2", "x")}).values()
    loss = next(iter(distir.run(step, inputs).values()))
    np.testing.assert_allclose(loss, np.mean((p - inputs["target"]) ** 2), rtol=1e-12)

    step = distir.transform(module, "grad", "loss=cross_entropy", "reduction=sum")
    labels = rng.integers(0, 3, 6)
    loss = next(iter(distir.run(step, {**inputs, "target": labels}).values()))
    expected = np.sum(np.log(np.sum(np.exp(p), axis=1)) - p[np.arange(6), labels])
    np.testing.assert_allclose(loss, expected, rtol=1e-12)


def test_a_scalar_result_is_the_loss():
    text = """
func @main(%w: Tensor[Float64, (3,), 1] {param}, %x: Tensor[Float64, (2, 3), 1] {batch = 0}) {
  %y = Mul(%x, %w)
  %loss = ReduceSumSquare[keepdims = false](%y)
  return %loss
}
"""
    step, inputs, loss, found = step_gradients(parsed(text))
    assert [p.name for p in step.entry().params] == ["w", "x"]
    np.testing.assert_allclose(loss, np.sum((inputs["w"] * inputs["x"]) ** 2))
    np.testing.assert_allclose(found["w"], np.sum(2 * inputs["w"] * inputs["x"] ** 2, axis=0))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_updates_are_those_of_the_optimizer(optimizer):
    module = parsed(BLOCK)
    _, inputs, _, gradients = step_gradients(module)
    step = distir.transform(module, "grad", f"optimizer={optimizer}", "lr=0.5")
    check(step)
    entry = step.entry()
    states = [p for p in entry.params if "state" in p.roles]
    given = random_inputs(step, 1, {"B": 2}) | inputs
    _, *found = distir.run(step, given).values()
    weights = [p for p in entry.params if "param" in p.roles]
    assert len(found) == len(weights) + len(states)
    for p, array in zip([*weights, *states], found, strict=True):  # what comes out can go in again
        assert array.shape == np.shape(given[p.name])
    new = dict(zip([p.name for p in [*weights, *states]], found, strict=True))
    for w, dw in gradients.items():
        old = given[w]
        if optimizer == "sgd":
            expected = old - 0.5 * dw
        elif optimizer == "momentum":
            expected = old - 0.5 * (0.9 * given[f"{w}.m"] + dw)
        else:
            m, v = 0.9 * given[f"{w}.m"] + 0.1 * dw, 0.999 * given[f"{w}.v"] + 0.001 * dw**2
            np.testing.assert_allclose(new[f"{w}.m"], m, rtol=1e-9)
            expected = old - 0.5 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)
        np.testing.assert_allclose(new[w], expected, rtol=1e-7)
    if optimizer == "adam":
        assert states[-1].type == TensorType(DTYPES["Int64"], (), HOST)
        assert new["step"] == given["step"] + 1


def test_a_narrow_model_has_a_wide_loss_and_wide_state():
    step = distir.transform(parsed(MLP.replace("Float64", "BFloat16")), "grad", "optimizer=adam")
    check(step)
    entry = step.entry()
    described = {p.name: str(p.type) for p in entry.params}
    assert described["target"] == "Tensor[Float32, (6, 3), 1]"
    assert described["w1.m"] == "Tuple[Tensor[Float32, (4, 5), 1], Tensor[Float32, (5,), 1]]"
    loss, new, *_ = distir.run(step, random_inputs(step, 0, {})).values()
    assert loss.dtype == np.float32
    assert new[0].dtype.name == "bfloat16"


def test_training_lowers_the_loss():
    step = distir.transform(parsed(BLOCK), "grad", "optimizer=adam", "lr=0.01")
    values = list(random_inputs(step, 0, {"B": 2}).values())
    names = [p.name for p in step.entry().params]
    kept = [i for i, p in enumerate(step.entry().params) if p.roles.keys() & {"param", "state"}]
    losses = []
    for _ in range(20):
        loss, *new = distir.run(step, dict(zip(names, values, strict=True))).values()
        losses.append(loss)
        for i, value in zip(kept, new, strict=True):
            values[i] = value
    assert losses[-1] < losses[0]
    assert names[kept[-1]] == "step"


def test_the_entry_keeps_its_name_and_other_functions_stay():
    text = MLP.replace("@main", "@forward").replace("func @dense", "func @lonely(%x) {\n  return %x\n}\n\nfunc @dense")
    step = distir.transform(parsed(text), "grad")
    assert list(step.functions) == ["lonely", "dense", "denseGrad", "denseGrad_1", "forward"]


def test_the_training_step_can_be_simulated():
    model = gpt2(layers=2, width=64, heads=2, sequence=4, batch=2, vocabulary=5, positions=4)
    for optimizer in ("sgd", "adam"):
        bind = {"step": 1} if optimizer == "adam" else None
        assert distir.simulate(distir.transform(model, "grad", optimizer=optimizer), bind=bind).latency_s > 0


def test_the_target_has_the_batch_where_the_result_has_it():
    module = distir.parse("""
func @main(%w: Tensor[Float64, (1, 20, 3), 1] {param}, %r: Tensor[Float64, (1, 20, 5), 1] {param},
           %x: Tensor[Float64, (4, 4, 3), 1] {batch = 1}) {
  %y, _, _ = LSTM[hidden_size = 5](%x, %w, %r)
  return %y
}
""")
    (target,) = (p for p in distir.transform(module, "grad", loss="mse").entry().params if p.name == "target")
    assert target.roles["batch"] == 2
