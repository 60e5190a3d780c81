"""Data and tensor parallelism: the results stay, the communication is what is published, refusals say what would do."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharding_samples import (
    VIT,
    assert_same,
    llama,
    mlp_with_tuples,
    pipelined_mlp,
    small_gpt2,
    statements,
)
from thorough import most_examples

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import types
from distir.models import mlp, named
from distir.ops import OPS, op, type_of
from distir.prove import prove
from distir.transform import transform, verify


def split(module, *steps):
    for step in steps:
        module = transform(module, *step.split())
    return module


MODELS = {
    "mlp with tuples": mlp_with_tuples,
    "mlp training": lambda: mlp(3, 8, 16, "Float64", training=True),
    "mlp inference": lambda: mlp(4, 8, 16, "Float64", bias=False),
    "a pipeline": pipelined_mlp,
    "gpt-2": small_gpt2,
    "gpt-2 training": lambda: transform(small_gpt2(positions=5), "grad", optimizer="adam"),
    "llama": llama,
    "llama training": lambda: transform(llama(), "grad"),
    "vision transformer": lambda: distir.parse(VIT),
    "vision transformer training": lambda: transform(distir.parse(VIT), "grad", optimizer="momentum"),
}


@pytest.mark.each_once
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [("dp=2",), ("tp=2",), ("dp=2", "tp=2"), ("tp=2", "dp=2")], ids=" ".join)
def test_results_stay(name, steps):
    module = MODELS[name]()
    assert_same(module, split(module, *steps))


@pytest.mark.each_once
@pytest.mark.parametrize("steps", [("dp=4",), ("tp=4",), ("dp=2", "dp=2"), ("tp=2", "tp=2"), ("dp=4", "tp=2")])
@pytest.mark.parametrize("name", ["mlp with tuples", "mlp training", "gpt-2"])
def test_results_stay_on_more_devices(name, steps):
    module = MODELS[name]()
    assert_same(module, split(module, *steps))


def test_one_device_is_the_module_itself():
    module = MODELS["mlp training"]()
    assert split(module, "dp=1", "tp=1") == module


@settings(max_examples=most_examples(25), deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 6, 8]), min_size=2, max_size=5),
    batch=st.sampled_from([2, 4, 6]),
    bias=st.booleans(),
    activation=st.sampled_from(["Relu", "Gelu", "Tanh", "Softmax"]),
    residual=st.booleans(),
    steps=st.sampled_from([("dp=2",), ("tp=2",), ("tp=2", "dp=2"), ("grad", "dp=2"), ("grad", "tp=2")]),
)
def test_results_stay_for_any_perceptron(widths, batch, bias, activation, residual, steps):
    """Widths may be unequal, an activation may need its dimension whole, and layers may be skipped."""
    params, body, x = [], [], "x"
    for i, (n, m) in enumerate(pairwise(widths)):
        params.append(f"%w{i}: Tensor[Float64, ({n}, {m}), 1] {{param}}")
        body.append(f"%h{i} = MatMul(%{x}, %w{i})")
        x = f"h{i}"
        if bias:
            params.append(f"%b{i}: Tensor[Float64, ({m},), 1] {{param}}")
            body.append(f"%k{i} = Add(%{x}, %b{i})")
            x = f"k{i}"
        body.append(f"%a{i} = {activation}(%{x})")
        if residual and n == m and i:
            body.append(f"%r{i} = Add(%a{i}, %{'r' if f'%r{i - 1} =' in ''.join(body) else 'a'}{i - 1})")
        x = body[-1].split(" ")[0][1:]
    params.append(f"%x: Tensor[Float64, ({batch}, {widths[0]}), 1] {{batch = 0}}")
    module = distir.parse(f"func @main({', '.join(params)}) {{\n" + "\n".join(body) + f"\nreturn %{x}\n}}")
    if steps[0] == "grad":
        module, steps = transform(module, "grad"), steps[1:]
    try:
        found = split(module, *steps)
    except ProgramError as error:
        assert {d.code.number for d in error.diagnostics} <= {"DIR620", "DIR623"}  # noqa: PT017
    else:
        assert_same(module, found)


# What the programs look like


def test_replicas_share_their_functions():
    module = MODELS["mlp training"]()
    found = split(module, "dp=4")
    kept = {f.name for f in module} - {"main"}
    assert {f.name for f in found} - {"main", "main.scatter", "main.gather"} == kept
    assert all(found.functions[name] == module.functions[name] for name in kept)


def test_a_layer_called_often_is_one_sharded_function_called_as_often():
    small, large = (split(small_gpt2(layers), "tp=2") for layers in (2, 9))
    assert [f for f in small if not f.name.startswith("main")] == [f for f in large if not f.name.startswith("main")]


def test_devices_are_numbered_with_tensor_parallelism_innermost():
    module = MODELS["mlp training"]()
    for steps in (("dp=2", "tp=2"), ("tp=2", "dp=2")):
        found = split(module, *steps)
        inputs = [p for p in found.functions["main"].params if p.name.startswith("x_")]
        assert sorted(types.device_of(p.type) for p in inputs) == [1, 2, 3, 4]
        groups = [tuple(sorted(types.device_of(type_of(v)) for v in args)) for _, args in sums(found) if len(args) == 2]
        assert {(1, 3), (2, 4)} <= set(groups)  # gradients, over replicas
        assert set(groups) <= {(1, 2), (3, 4), (1, 3), (2, 4)}


# Communication, by the published formulas


def sums(module):
    """Every all-reduce that the entry function does, inside calls too: its op and the types of its operands."""
    analysis = check(module)
    entry = module.entry()

    def inside(name, args):
        state = analysis.domain.instance(name, args).state
        for s in module.functions[name].body:
            if getattr(s, "function", None):
                yield from inside(s.function, state(s.args))
            elif getattr(s, "op", "").startswith("MPI"):
                yield s.op, state(s.args)

    return list(inside(entry.name, tuple(p.type for p in entry.params)))


def volume(module):
    """Bytes summed, each counted once."""
    return sum(types.nbytes(type_of(args[0])) for op, args in sums(module) if op == "MPIAllreduce")


def parameter_bytes(module):
    return sum(types.nbytes(p.type) for p in module.entry().params if "param" in p.roles)


@pytest.mark.parametrize("name", ["mlp training", "gpt-2 training", "llama training", "mlp with tuples"])
def test_data_parallelism_sums_every_gradient_once(name):
    """And the loss, where it is returned."""
    module = MODELS[name]()
    found = split(module, "dp=2")
    loss = 8 if "loss" in "".join(map(str, module.entry().returned)) else 0
    assert volume(found) == parameter_bytes(module) + loss
    assert {op for op, _ in sums(found)} == {"MPIAllreduce"}


@pytest.mark.parametrize("layers", [1, 3])
def test_tensor_parallelism_sums_twice_per_layer_forward_and_twice_backward(layers):
    """Megatron-LM, section 3: of activations (batch, sequence, width), each time."""
    activation = 4 * 5 * 12 * 8
    inference = split(small_gpt2(layers, vocabulary=13), "tp=2")
    assert volume(inference) == 2 * layers * activation
    training = split(transform(small_gpt2(layers, vocabulary=13), "grad"), "tp=2")
    assert volume(training) == 4 * layers * activation
    assert {op for op, _ in sums(inference) + sums(training)} == {"MPIAllreduce"}


def test_layers_that_normalise_their_sums_are_summed_as_often():
    """Of a gradient that meets another one behind a norm, parts are added up first: it was summed 4 times, not 2."""

    def count(layers):
        sizes = {"width": 16, "heads": 4, "ffn": 32, "vocabulary": 32, "layers": layers}
        bert = named("bert-base", batch=4, sequence=8, dtype="Float32", **sizes)
        return len(sums(split(transform(bert, "inline", "grad", "loss=cross_entropy"), "tp=2")))

    assert count(3) - count(2) == 4


def test_a_vocabulary_that_divides_is_split_with_one_sum_for_the_embedding():
    found = split(small_gpt2(2), "tp=2")
    table = next(p for p in found.functions["main"].params if p.name == "wte.weight_1")
    assert table.type.shape == (6, 12)
    assert volume(found) == (2 * 2 + 1) * 4 * 5 * 12 * 8


def test_scores_over_a_split_vocabulary_are_not_brought_together_for_the_loss():
    """A sum twice per layer each way, for the embedding, and for its gradient; of the scores, of their exponentials.

    The gradient of the loss takes that of the loss itself.
    """
    layers, activation, examples = 2, 4 * 5 * 12 * 8, 4 * 5
    found = split(transform(small_gpt2(layers), "grad"), "tp=2")
    sum_of_exponentials, loss = examples * 8, 8
    assert volume(found) == (4 * layers + 2) * activation + sum_of_exponentials + loss
    gathered = [types.nbytes(type_of(args[0])) for op, args in sums(found) if op == "MPIAllgather"]
    assert gathered == [examples * 8]  # the greatest score of each example


DIFFERENTIATED = """
func @main(
  %e: Tensor[Float32, (32, 16), 1] {param},
  %x: Tensor[Int64, (B, 6), 1] {batch = 0},
  %y: Tensor[Int64, (B, 6), 1] {batch = 0}
) {
  %h = Gather[axis = 0](%e, %x)
  %rows = Reshape(%h, [-1, 16])
  %et = Transpose[perm = [1, 0]](%e)
  %scores = MatMul(%rows, %et)
  %logs = LogSoftmax[axis = 1](%scores)
  %labels = Reshape(%y, [-1, 1])
  %at = GatherElements[axis = 1](%logs, %labels)
  %loss = ReduceSum[keepdims = false](%at)
  %shape = Shape(%logs)
  %zeros = Expand([[0.0]], %shape)
  %labels_shape = Shape(%labels)
  %ones = Expand([[1.0]], %labels_shape)
  %dlogs = ScatterElements[axis = 1](%zeros, %labels, %ones)
  %softmax = Exp(%logs)
  %total = ReduceSum(%dlogs, [1])
  %share = Mul(%softmax, %total)
  %dscores = Sub(%dlogs, %share)
  %dt = Transpose[perm = [1, 0]](%dscores)
  %de_out = MatMul(%dt, %rows)
  %drows = MatMul(%dscores, %e)
  %dh = Reshape(%drows, [-1, 6, 16])
  %table = Expand([[0.0]], [32, 16])
  %places = Unsqueeze(%x, [-1])
  %de_in = ScatterND[reduction = "add"](%table, %places, %dh)
  %de = Add(%de_out, %de_in)
  return %loss, %de
}
"""
"""What PyTorch writes of a tied embedding and its gradient, without an op for the loss."""


@pytest.mark.parametrize("steps", [["tp=2 shard=e:0"], ["tp=4 shard=e:0"], ["tp=2"], ["tp=2 shard=e:0", "dp=2"]])
def test_a_vocabulary_is_split_in_a_step_that_another_program_differentiated(steps):
    module = distir.parse(DIFFERENTIATED)
    made = split(module, *steps)
    assert verify(module, made, bind={"B": 8}).equal
    assert prove(made, module, {"B": 8}).failures == ()
    if steps == ["tp=2 shard=e:0"]:
        assert len(statements(made, "MPIAllgather")) == 1, "of the greatest scores alone"


def test_heads_that_a_reshape_leaves_inside_are_split():
    """Queries, keys and values in one matrix, cut by a reshape to (batch, sequence, 3, heads, size)."""
    module, activation = distir.parse(VIT), 8 * 5 * 8 * 8
    assert volume(split(module, "tp=2")) == 2 * activation
    assert volume(split(transform(module, "grad"), "tp=2")) == 4 * activation


def test_heads_of_an_attention_op_are_split_with_their_number():
    text = """func @main(
      %wq: Tensor[Float64, (8, 8), 1] {param}, %wk: Tensor[Float64, (8, 4), 1] {param},
      %wv: Tensor[Float64, (8, 4), 1] {param}, %wo: Tensor[Float64, (8, 8), 1] {param},
      %x: Tensor[Float64, (4, 5, 8), 1] {batch = 0}
    ) {
      %q = MatMul(%x, %wq)
      %k = MatMul(%x, %wk)
      %v = MatMul(%x, %wv)
      %a = Attention[q_num_heads = 4, kv_num_heads = 2, is_causal = true](%q, %k, %v)
      %y = MatMul(%a, %wo)
      return %y
    }"""
    module = distir.parse(text)
    for steps in (("tp=2",), ("dp=2", "tp=2")):
        found = split(module, *steps)
        assert_same(module, found)
        assert statements(found, "Attention")[0].attrs["kv_num_heads"] == 1
    assert refusal(module, "tp=4").help.startswith("2 would do, beside `cp`")


def test_results_may_be_parameters_constants_and_the_same_value_twice():
    text = """func @main(%w: Tensor[Float64, (4, 4), 1] {param}, %x: Tensor[Float64, (4, 4), 1] {batch = 0}) {
      %y = MatMul(%x, %w)
      %s = Shape(%y)
      %t = MakeTuple(%y, %w)
      return %x, %y, %y, 3, %s, %w, %t
    }"""
    module = distir.parse(text)
    for steps in (("dp=2",), ("dp=2", "dp=2"), ("tp=2",), ("tp=2", "dp=2")):
        assert_same(module, split(module, *steps))


def test_a_perceptron_is_split_by_columns_then_rows():
    module = mlp(2, 8, 16, "Float64")
    found = split(module, "tp=2").functions["main"]
    shapes = {p.name: p.type.shape for p in found.params}
    assert (shapes["w1_1"], shapes["b1_1"], shapes["w2_1"]) == ((8, 4), (4,), (4, 8))
    assert shapes["b2_1"] == (8,)
    assert shapes["x_1"] == (16, 8)


def test_buckets_join_sums():
    module = MODELS["mlp training"]()
    plain, joined = split(module, "dp=2"), split(module, "dp=2 bucket_bytes=1000000")
    assert_same(module, joined)
    assert volume(plain) == volume(joined)
    assert len(statements(joined, "MPIAllreduce")) == 1
    some = split(module, "dp=2 bucket_bytes=1024")
    assert 1 < len(statements(some, "MPIAllreduce")) < len(statements(plain, "MPIAllreduce"))
    assert_same(module, some)


# What a mean over the batch becomes


@pytest.mark.parametrize(
    "loss",
    [
        "%l = ReduceMean[keepdims = false](%p)",
        "%l = MSELoss(%p, %y)",
        '%l = MSELoss[reduction = "sum"](%p, %y)',
        "%l = SoftmaxCrossEntropyLoss(%p, %labels)",
        "%l = SoftmaxCrossEntropyLoss[ignore_index = 1](%p, %labels)",
        "%l, %p2 = SoftmaxCrossEntropyLoss(%p, %labels)",
        "%l = MSELossGrad(2.0, %p, %y)",
        "%l = SoftmaxCrossEntropyLossGrad(1.0, %p, %labels)",
        "%m = ReduceMean[keepdims = false](%p, [0])\n%l = Exp(%m)",
        "%m = ReduceMax[keepdims = false](%p, [0])\n%l = Exp(%m)",
        "%n = Size(%p)\n%f = Cast[to = Float64](%n)\n%t = ReduceSum[keepdims = false](%p)\n%l = Div(%t, %f)",
        "%q = Softmax[axis = 0](%p)\n%l = MatMul(%q, %w)",
        "%s = Gemm[transB = true](%p, %y)\n%q = Softmax(%s)\n%l = MatMul(%q, %y)",
        "%t = Transpose(%p)\n%g = Gemm[beta = 3.0](%t, %x, %w)\n%l = Exp(%g)",
    ],
)
def test_what_is_said_of_the_batch_is_said_of_the_whole(loss):
    module = distir.parse(
        f"""func @main(
          %w: Tensor[Float64, (6, 6), 1] {{param}}, %x: Tensor[Float64, (8, 6), 1] {{batch = 0}},
          %y: Tensor[Float64, (8, 6), 1] {{batch = 0}}, %labels: Tensor[Int64, (8,), 1] {{batch = 0}}
        ) {{
          %p = MatMul(%x, %w)
          {loss}
          return %l, %p
        }}"""
    )
    for size in (2, 4):
        assert_same(module, split(module, f"dp={size}"))


def test_batches_and_widths_may_have_names():
    module = mlp(2, 8, None, "Float64", training=True)
    found = split(module, "dp=2")
    assert not distir.check(found)
    (x,) = (p for p in found.functions["main"].params if p.name == "x_1")
    assert str(x.type) == "Tensor[Float64, (B/2, 8), 1]"
    assert distir.parse(distir.format(found)) == found
    assert not distir.check(split(module, "dp=2", "tp=2"))


# By hand


def test_a_split_is_stated_by_hand():
    module = mlp(2, 8, 16, "Float64", training=True)
    for words in ("shard=w2:1,b2:0", "shard=w1:0", "shard=w1:1"):
        found = split(module, f"tp=2 {words}")
        assert_same(module, found)
    shapes = {p.name: p.type.shape for p in split(module, "tp=2 shard=w2:0").functions["main"].params}
    assert (shapes["w1_1"], shapes["w2_1"]) == ((8, 8), (4, 8))


# Refusals


def refusal(module, step):
    with pytest.raises(ProgramError) as caught:
        split(module, step)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_a_batch_that_does_not_divide_is_refused_with_what_would():
    found = refusal(mlp(2, 8, 18, training=True), "dp=4")
    assert found.code.number == "DIR620"
    assert re.search(r"`%x` dimension 0 is 18", found.message)
    assert found.help == "2, 3, 6, 9, 18 would do"


def test_heads_that_do_not_divide_are_refused_with_what_would():
    found = refusal(small_gpt2(), "tp=3")
    assert found.code.number == "DIR620"
    common = math.gcd(4, 12, 36, 48)
    assert found.help == f"2, {common} would do"


@pytest.mark.parametrize(
    ("text", "step", "code"),
    [
        ("func @main(%x: Tensor[Float32, (8, 8), 1]) {\n%y = Relu(%x)\nreturn %y\n}", "dp=2", "DIR621"),
        ("func @main(%x: Tensor[Float32, (8, 8), 1] {batch = 0}) {\n%y = Relu(%x)\nreturn %y\n}", "tp=2", "DIR623"),
        ("func @main(%x: Tensor[Float32, (8, 8), 1] {batch = 0}) {\n%y = Relu(%x)\nreturn %y\n}", "dp=65537", "DIR624"),
    ],
)
def test_what_cannot_be_split_is_refused(text, step, code):
    assert refusal(distir.parse(text), step).code.number == code


def test_an_op_of_which_nothing_says_how_it_is_split_is_refused_where_it_meets_a_part():
    @op("Tensor[t, s, d] -> Tensor[t, _, d]", flops=0)
    def Doubled(x):
        return np.concatenate([x, x])

    try:
        found = refusal(
            distir.parse("func @main(%x: Tensor[Float32, (8, 8), 1] {batch = 0}) {\n%y = Doubled(%x)\nreturn %y\n}"),
            "dp=2",
        )
    finally:
        del OPS["Doubled"]
    assert found.code.number == "DIR622"
    assert "`Doubled`" in found.message


@pytest.mark.parametrize("words", ["shard=w1", "shard=w1:2", "shard=v1:0", "shard=b1:x"])
def test_a_split_that_does_not_exist_is_refused(words):
    assert refusal(mlp(2, 8, 16), f"tp=2 {words}").code.number == "DIR624"


def test_a_module_that_does_not_check_is_not_split():
    broken = distir.parse("func @main(%x: Tensor[Float32, (8, 8), 1] {batch = 0}) {\n%y = Rleu(%x)\nreturn %y\n}")
    assert refusal(broken, "dp=2").code.name == "unknown-op"


# What goes into calls, and out of them


def test_partial_sums_that_a_call_passes_on_are_not_taken_before_it():
    """The half of a backward pass that is for weights gets some gradients from the other: once per microbatch."""
    module = transform(small_gpt2(4), "grad")
    once = split(module, "pp=2 microbatches=2 schedule=1f1b", "dp=2")
    halves = split(module, "pp=2 microbatches=2 schedule=zb-h1", "dp=2")
    assert len(sums(halves)) == len(sums(once))
    assert volume(halves) == volume(once)


def test_sums_that_a_call_needs_whole_are_taken_once_before_it():
    text = """
func @bent(%x) {
  %y = Relu(%x)
  return %y
}

func @main(%v: Tensor[Float64, (8, 4), 1] {param}, %x: Tensor[Float64, (6, 8), 1] {batch = 0}) {
  %h = MatMul(%x, %v)
  %a = @bent(%h)
  %b = @bent(%h)
  return %a, %b
}
"""
    module = distir.parse(text)
    found = split(module, "tp=2 shard=v:0")
    assert_same(module, found)
    assert [op for op, _ in sums(found)] == ["MPIAllreduce"]


def test_host_values_among_the_results_of_a_call():
    text = """
func @sized(%x) {
  %n = Shape[start = 0, end = 1](%x)
  %y = Relu(%x)
  return %n, %y
}

func @main(%w: Tensor[Float64, (4, 4), 1] {param}, %x: Tensor[Float64, (8, 4), 1] {batch = 0}) {
  %n, %y = @sized(%x)
  %shape = Concat[axis = 0](%n, [2, 2])
  %z = MatMul(%y, %w)
  %r = Reshape(%z, %shape)
  return %r
}
"""
    module = distir.parse(text)
    assert_same(module, split(module, "dp=2"))
    assert_same(module, split(module, "pp=1 microbatches=2", "dp=2"))


def test_tuples_in_tuples_are_sent():
    text = """
func @main(%v: Tensor[Float64, (4, 6), 1] {param}, %w: Tensor[Float64, (6, 4), 1] {param},
           %x: Tensor[Float64, (8, 4), 1] {batch = 0}) {
  %h = MatMul(%x, %v)
  %inner = MakeTuple(%h, %w)
  %outer = MakeTuple(%inner, %x)
  %there = Send[device = 2](%outer)
  %again, %y = UnpackTuple(%there)
  %a, %b = UnpackTuple(%again)
  %z = MatMul(%a, %b)
  return %z, %y
}
"""
    module = distir.parse(text)
    for steps in (("dp=2",), ("tp=2",), ("dp=2", "tp=2")):
        assert_same(module, split(module, *steps))


def test_a_shape_with_a_named_batch_is_stated_as_the_op_takes_it():
    """`Reshape` takes -1 for what is left, `Expand` does not."""
    text = """
func @main(%w: Tensor[Float64, (4,), 1] {param}, %x: Tensor[Float64, (B, 3, 4), 1] {batch = 0}) {
  %n = Shape[start = 0, end = 1](%x)
  %mean = ReduceMean(%x, [1])
  %shape = Concat[axis = 0](%n, [3, 4])
  %every = Expand(%mean, %shape)
  %y = Mul(%every, %w)
  %rows = Concat[axis = 0](%n, [12])
  %z = Reshape(%y, %rows)
  return %z
}
"""
    module = distir.parse(text)
    found = split(module, "dp=2")
    assert not check(found).errors
    assert verify(module, found, bind={"B": 4}).equal


POST_NORM = """
func @main(
  %x: Tensor[Float64, (4, 3, 8), 1] {batch = 0},
  %s: Tensor[Float64, (8,), 1] {param},
  %q: Tensor[Float64, (8, 32), 1] {param},
  %k: Tensor[Float64, (8, 32), 1] {param},
  %v: Tensor[Float64, (8, 32), 1] {param},
  %o: Tensor[Float64, (32, 8), 1] {param}
) {
  %n = Mul(%x, %s)
  %a = MatMul(%n, %q)
  %b = MatMul(%n, %k)
  %c = MatMul(%n, %v)
  %m = Mul(%a, %b)
  %l = Mul(%m, %c)
  %h = MatMul(%l, %o)
  %y = Add(%n, %h)
  return %y
}
"""


def test_partial_gradients_are_added_before_they_meet_a_residual():
    """One all-reduce in each direction, as in Megatron, where the residual branches off behind the norm."""
    step = transform(distir.parse(POST_NORM), "grad", "loss=mse")
    sharded = transform(step, "tp=2")
    assert_same(step, sharded)
    assert len(statements(sharded, "MPIAllreduce")) == 2


def test_what_nothing_can_be_split_of_says_what_each_dimension_meets():
    text = """
    func @main(%x: Tensor[Int64, (4, 6), 1] {batch = 0}, %e: Tensor[Float32, (32, 16), 1] {param}) {
      %table = Mul(%e, 2.0)
      %s = Softmax[axis = 0](%table)
      %t = Softmax[axis = 1](%s)
      %y = Gather[axis = 0](%t, %x)
      return %y
    }
    """
    with pytest.raises(ProgramError) as caught:
        transform(distir.parse(text), "tp=2")
    found = caught.value.diagnostics[0]
    assert found.code.number == "DIR623"
    assert [note.message for note in found.notes] == ["`%e`: dimension 0 and 1: `Softmax` needs it whole"]
    assert found.help == "state a split by hand, as in `shard=e:0`"
