"""In which element types training steps hold weights, compute and add up gradients; what that takes of memory."""

import numpy as np
import pytest
from thorough import also
from training_samples import WEIGHTS, batches, first_values, model, trained

import distir
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Apply, TensorType, types
from distir.models import gpt2, mlp
from distir.simulate import simulate
from distir.simulate.composition import compositions
from distir.transform import StepError, transform, verify

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PARAMETERS = 16 * 256 * 256


def wide_model():
    """A model that is nearly all matrices, with few activations: 16 layers."""
    text = ["func @main("]
    text += [f"  %w{i}: Tensor[Float32, (256, 256), 1] {{param}}," for i in range(16)]
    text += ["  %x: Tensor[Float32, (8, 256), 1] {batch = 0}", ") {", "  %a0 = Relu(%x)"]
    for i in range(16):
        text += [f"  %h{i} = MatMul(%a{i}, %w{i})", f"  %a{i + 1} = Relu(%h{i})"]
    return distir.parse("\n".join([*text, "  return %a16", "}"]))


def per_parameter(module):
    """Bytes per parameter of weights, gradients and optimizer state at the peak of the first device, and of all."""
    found = compositions(simulate(module))[0]
    kinds = {kind: found.get(kind, 0) / PARAMETERS for kind in ("weights", "gradients", "optimizer state")}
    return kinds, sum(kinds.values())


@pytest.mark.parametrize(
    ("words", "weights", "gradients", "state"),
    [
        ("optimizer=adam", 4, 4, 8),
        ("optimizer=adam precision=fp32", 4, 4, 8),
        ("optimizer=adamw precision=mixed", 2, 4, 12),  # Megatron: 18
        ("optimizer=adamw precision=fp16", 2, 4, 12),
        ("optimizer=adamw precision=mixed gradients=bf16", 2, 2, 12),  # 16
        ("optimizer=adamw precision=mixed master=only", 4, 4, 8),  # FSDP2 and autocast: 16
        ("optimizer=adamw precision=fp16 master=only", 4, 4, 8),
        ("optimizer=adam precision=bf16", 2, 2, 8),
        ("optimizer=lion precision=mixed", 2, 4, 8),
        ("optimizer=sgd precision=mixed", 2, 4, 4),
    ],
)
def test_bytes_per_parameter(words, weights, gradients, state):
    step = transform(wide_model(), "grad", *words.split(), "clip=1.0")  # then all gradients are there at once
    kinds, total = per_parameter(step)
    assert kinds == pytest.approx({"weights": weights, "gradients": gradients, "optimizer state": state}, rel=0.01)
    assert total == pytest.approx(weights + gradients + state, rel=0.01)


@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("partition", ["owner", "split"])
def test_zero_1_takes_6_bytes_and_12_divided_by_the_replicas(replicas, partition):
    step = transform(wide_model(), "grad", "optimizer=adam", "precision=mixed", "clip=1.0")
    found = transform(step, f"dp={replicas}", "zero=1", f"partition={partition}")
    kinds, _ = per_parameter(found)
    assert kinds["optimizer state"] == pytest.approx(12 / replicas, rel=0.01)
    assert kinds["weights"] + kinds["gradients"] == pytest.approx(6, rel=0.35)  # gathers and reductions beside it
    held = {"weights": 0.0, "optimizer state": 0.0}
    for p in found.entry().params:
        if types.device_of(p.type) == 1 and p.roles.keys() & {"param", "state"}:
            held["weights" if "param" in p.roles else "optimizer state"] += types.nbytes(p.type) / PARAMETERS
    assert held == pytest.approx({"weights": 2, "optimizer state": 12 / replicas}, rel=0.01)


FULL = {"precision=mixed": (2, 4, 12), "precision=mixed gradients=bf16": (2, 2, 12), "precision=fp32": (4, 4, 8)}
"""Bytes per parameter of weights, gradients and optimizer state."""


@pytest.mark.each_once
@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("words", FULL)
def test_zero_divides_one_after_the_other_of_state_gradients_and_weights(words, partition, replicas):
    """ZeRO-1: 6 + 12/D bytes in mixed precision; 2: 2 + 16/D; 3, as FSDP does it: 18/D, and 16/D with 16-bit gradients.

    No weight is there twice. Beside that are three layers of 16 at most: as they are gathered, or as gradients that are
    still to be reduced.
    """
    step = transform(wide_model(), "grad", "optimizer=adam", *words.split(), "clip=1.0")
    weights, gradients, state = FULL[words]
    d, layer = replicas, 1 / 16
    expected = {
        1: weights + gradients + state / d,
        2: weights + (gradients + state) / d,
        3: (weights + gradients + state) / d,
    }
    for stage, least in expected.items():
        kinds, total = per_parameter(transform(step, f"dp={d}", f"zero={stage}", f"partition={partition}"))
        assert kinds["optimizer state"] == pytest.approx(state / d, rel=0.01)
        assert least * 0.99 <= total <= least + 3 * layer * max(weights, gradients), (stage, kinds)


@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("partition", ["owner", "split"])
def test_with_no_weights_but_master_weights_zero_3_takes_16_divided_by_the_replicas(replicas, partition):
    """As FSDP2 with gradients in Float32: 4 + 4 + 8, beside three layers of 16 in BFloat16 or as gradients, at most."""
    step = transform(wide_model(), "grad", "optimizer=adamw", "precision=mixed", "master=only", "clip=1.0")
    kinds, total = per_parameter(transform(step, f"dp={replicas}", "zero=3", f"partition={partition}"))
    assert kinds["optimizer state"] == pytest.approx(8 / replicas, rel=0.01)
    assert kinds["weights"] <= 4 / replicas + 3 * 2 / 16
    assert 16 / replicas * 0.99 <= total <= 16 / replicas + 3 * 4 / 16


@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("words", ["dp=2", "dtp=2,2,1", "dtp=2,1,2 microbatches=4"])
def test_master_weights_are_cast_before_they_are_gathered(words, partition):
    """By each device what it holds, with an owner by it alone: half of the bytes are sent."""
    step = transform(mlp(4, 8, 16, "Float32"), "grad", "optimizer=adamw", "precision=mixed", "master=only")
    made = transform(step, *words.split(), "zero=3", f"partition={partition}")
    found = transform(made, "inline")
    state = distir.analysis.check(found).states["main"]
    held = {p.name: p.type for p in found.entry().params if "param" in p.roles}
    makers = {name: s for s in found.entry().body if isinstance(s, Apply) for name in s.results}
    sent = [s for s in makers.values() if s.op in ("MPIAllgather", "MPIBroadcast", "Send")]
    cast = [makers[arg] for s in sent for arg in s.args if arg in makers and makers[arg].op == "Cast"]

    def unpacked(name):
        maker = makers.get(name)
        if maker is None or maker.op != "UnpackTuple":
            return name
        return makers[maker.args[0]].args[maker.results.index(name)]

    assert {unpacked(s.args[0]) for s in cast} == set(held)
    for s in cast:
        assert state[s.results[0]].dtype.name == "BFloat16"
        assert state[s.results[0]].shape == held[unpacked(s.args[0])].shape
    assert not [s for s in sent if held.keys() & set(s.args)]


def test_weights_are_cast_once_for_all_microbatches():
    step = transform(mlp(4, 8, 16, "Float32"), "grad", "precision=mixed", "master=only")
    for words in ("accumulate=4", "pp=2 microbatches=4"):
        body = transform(step, *words.split()).entry().body
        cast = [s.args[0] for s in body if isinstance(s, Apply) and s.op == "Cast" and s.args[0][0] in "wb"]
        assert sorted(cast) == ["b1", "b2", "b3", "b4", "w1", "w2", "w3", "w4"], words


# What is computed.


def dtypes(module):
    """By op of a module: the element types of its results, wherever it stands."""
    found = {}
    analysis = distir.analysis.check(module)
    assert not analysis.errors
    for function in module:
        state = analysis.states[function.name]
        for s in function.body:
            if isinstance(s, Apply):
                leaves = [leaf for name in s.results if name for leaf in types.leaves(distir.ops.type_of(state[name]))]
                found.setdefault(s.op, set()).update(
                    leaf.dtype.name for leaf in leaves if isinstance(leaf, TensorType) and leaf.dtype is not None
                )
    return found


@pytest.mark.parametrize(("word", "dtype"), [("fp32", "Float32"), ("bf16", "BFloat16"), ("fp16", "Float16")])
@pytest.mark.parametrize("written", ["Float32", "BFloat16", "Float16", "Float64"])
def test_the_model_is_computed_in_the_precision_however_it_is_written(written, word, dtype):
    forward = gpt2(2, 16, 2, 4, batch=2, vocabulary=8, positions=4, dtype=written)
    step = transform(forward, "grad", f"precision={word}")
    found = dtypes(step)
    for op in ("MatMul", "Gemm", "LayerNormalization", "LayerNormalizationGrad", "Softmax", "Gelu", "Gather"):
        assert found[op] == {dtype}, op
    assert found["SoftmaxCrossEntropyLoss"] == {"Float32"}


def test_what_a_program_computes_in_float32_itself_stays():
    text = """
func @main(%w: Tensor[BFloat16, (4, 4), 1] {param}, %x: Tensor[BFloat16, (2, 4), 1] {batch = 0}) {
  %h = MatMul(%x, %w)
  %wide = Cast[to = Float32](%h)
  %s = Softmax(%wide)
  %narrow = Cast[to = BFloat16](%s)
  %y = MatMul(%narrow, %w)
  return %y
}
"""
    found = transform(distir.parse(text), "grad", "precision=fp16")
    kinds = dtypes(found)
    assert (kinds["Softmax"], kinds["MatMul"]) == ({"Float32"}, {"Float16"})


def test_what_is_computed_of_positions_is_cast_where_it_meets_an_activation():
    text = """
func @scaled(%x: Tensor[Float32, (2, 300)], %c: Tensor[Float32, (300,)]) {
  %y = Mul(%x, %c)
  return %y
}

func @main(%w: Tensor[Float32, (4, 300), 1] {param}, %x: Tensor[Float32, (2, 4), 1] {batch = 0},
  %positions: Tensor[Int64, (300,), 1]) {
  %h = MatMul(%x, %w)
  %p = Cast[to = Float32](%positions)
  %c = Cos(%p)
  %y = @scaled(%h, %c)
  return %y
}
"""
    found = transform(distir.parse(text), "grad", "precision=bf16")
    kinds = dtypes(found)
    assert (kinds["Cos"], kinds["MatMul"]) == ({"Float32"}, {"BFloat16"})
    assert "Float32" not in distir.format(found).partition("func @main")[0]


def test_an_op_that_lacks_a_precision_is_named():
    from distir.ops import OPS, op

    @op("Tensor[Float32, s, d] -> Tensor[Float32, s, d]", flops=1, non_differentiable="it is a test")
    def OnlySingle(x):
        """The operand."""
        return x

    text = """
func @main(%w: Tensor[Float32, (4, 4), 1] {param}, %x: Tensor[Float32, (2, 4), 1] {batch = 0}) {
  %v = OnlySingle(%w)
  %y = MatMul(%x, %v)
  return %y
}
"""
    try:
        with pytest.raises(ProgramError) as caught:
            transform(distir.parse(text), "grad", "precision=bf16")
    finally:
        del OPS["OnlySingle"]
    (found,) = caught.value.diagnostics
    assert found.code.number == "DIR607"
    assert "`OnlySingle` cannot be computed in BFloat16" in found.message


# Values.


def test_mixed_precision_is_that_of_a_plain_loop():
    """Weights and computation in BFloat16, gradients, master weights and Adam in Float32."""
    step = transform(model("Float32"), "grad", *["optimizer=adamw", "precision=mixed", "lr=0.05", "weight_decay=0.1"])
    values = first_values(step)
    master = {n: torch.tensor(values[n].astype(np.float32), requires_grad=True) for n in WEIGHTS}
    for name in WEIGHTS:
        np.testing.assert_array_equal(values[f"{name}.master"], values[name].astype(np.float32))
    chosen = torch.optim.AdamW(master.values(), lr=0.05, weight_decay=0.1)
    for batch in batches(6):
        batch = {name: value.astype(np.float32) for name, value in batch.items()}
        (loss,), values = trained(step, [batch], values)
        narrow = {n: w.detach().bfloat16().requires_grad_() for n, w in master.items()}
        x, target = torch.as_tensor(batch["x"]).bfloat16(), torch.as_tensor(batch["target"])
        h = torch.tanh(torch.addmm(narrow["b1"], x, narrow["w1"]))
        y = torch.addmm(narrow["b2"], h, narrow["w2"])
        expected = torch.nn.functional.mse_loss(y.float(), target)
        expected.backward()
        for name in WEIGHTS:
            master[name].grad = narrow[name].grad.float()
        chosen.step()
        assert loss == pytest.approx(expected.item(), rel=2e-2)
        for name in WEIGHTS:
            np.testing.assert_allclose(values[f"{name}.master"], master[name].detach().numpy(), atol=2e-2)
            np.testing.assert_array_equal(
                values[name].astype(np.float32), torch.tensor(values[f"{name}.master"]).bfloat16().float().numpy()
            )


def test_weights_that_are_master_weights_alone_train_as_those_beside_16_bit_weights():
    words = ["optimizer=adamw", "lr=0.05", "weight_decay=0.1", "clip=0.5", "precision=mixed"]
    beside, only = (transform(model("Float32"), "grad", *words, master=word) for word in ("beside", "only"))
    given = [{name: value.astype(np.float32) for name, value in batch.items()} for batch in batches(6)]
    first = first_values(beside)
    expected, last = trained(beside, given, first)
    start = {p.name: first.get(f"{p.name}.master", first.get(p.name)) for p in only.entry().params}
    found, values = trained(only, given, {name: value for name, value in start.items() if value is not None})
    assert found == expected
    for name in WEIGHTS:
        np.testing.assert_array_equal(values[name], last[f"{name}.master"])


def test_master_weights_keep_steps_that_are_smaller_than_a_unit_in_the_last_place():
    """Which is what they are for: pure BFloat16 weights stay where they are."""
    found = {}
    for precision in ("bf16", "mixed"):
        step = transform(model("Float32"), "grad", f"precision={precision}", "lr=0.0001")
        before = first_values(step)
        given = [{n: v.astype(np.float32) for n, v in b.items()} for b in batches(1)] * 200
        losses, _ = trained(step, given, before)
        found[precision] = losses[0] - losses[-1]
    assert found["mixed"] > 2 * max(0.0, found["bf16"])


def test_microbatches_add_up_in_float32():
    """1 + 2⁻⁹ + … is 1 in BFloat16, where the terms are added one by one."""
    text = """
func @main(%w: Tensor[BFloat16, (1, 1), 1] {param}, %x: Tensor[BFloat16, (8, 1), 1] {batch = 0}) {
  %h = MatMul(%x, %w)
  %loss = ReduceSum[keepdims = false](%h, [0, 1])
  return %loss
}
"""
    x = np.array([[1.0], *[[2.0**-9]] * 7], np.float32)
    exact = 1 + 7 * 2.0**-9
    found = {}
    for gradients in ("fp32", "bf16"):
        words = ["loss=none", "optimizer=none", f"gradients={gradients}"]
        step = transform(distir.parse(text), "grad", *words, "pp=1", "microbatches=8")
        values = first_values(step) | {"x": x.astype(distir.ops.numpy_dtype(DTYPES["BFloat16"]))}
        _, dw = distir.run(step, values).values()
        found[gradients] = float(np.asarray(dw).item())
    assert found == {"fp32": exact, "bf16": 1.0}


@pytest.mark.parametrize(("gradients", "dtype"), [("fp32", "Float32"), ("bf16", "BFloat16")])
def test_gradients_are_reduced_in_the_stated_type(gradients, dtype):
    step = transform(mlp(4, 8, 16, "Float32"), "grad", "precision=mixed", f"gradients={gradients}", "dp=2")
    assert not distir.check(step)
    state = distir.analysis.check(step).states["main"]
    reduced = [s for s in step.entry().body if isinstance(s, Apply) and s.op == "MPIAllreduce"]
    found = {state[s.results[0]].dtype.name for s in reduced if state[s.results[0]].shape != ()}
    assert found == {dtype}


MODELS = {
    "mlp": lambda: mlp(4, 8, 16, "Float32"),
    "gpt-2": lambda: gpt2(4, 16, 4, 4, batch=8, vocabulary=8, positions=4, dtype="Float32"),
}

WAYS = [
    "dp=2",
    "tp=2",
    "pp=2 microbatches=2",
    "dp=2 zero=1 partition=split",
    "dp=2 zero=2",
    "dp=2 zero=3",
    "dp=2 zero=3 partition=split",
    "dtp=2,2,2 microbatches=2 zero=1",
    "dtp=2,2,2 microbatches=2 zero=3 partition=split",
    "dtp=2,1,4 microbatches=2 schedule=zb-h1 zero=2",
]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize(
    "precision", ["mixed", "mixed gradients=bf16", "mixed master=only", "bf16", "fp16 loss_scale=64"]
)
@pytest.mark.parametrize("name", ["mlp", "gpt-2"])
def test_results_stay_when_distributed(name, precision, words):
    step = transform(MODELS[name](), "grad", "optimizer=adam", "clip=0.01", *f"precision={precision}".split())
    found = verify(step, transform(step, *words.split()))
    assert found.equal, [r for r in found.results if not r.equal]


LISTS = """
func @main(%w: Tensor[Float32, (4, 8), 1] {param}, %x: Tensor[Float32, (4, 4), 1] {batch = 0}) {
  %h = MatMul(%x, %w)
  %s = Add(%h, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
  %q = Reshape(%s, [0, 1, 2, 4])
  %m = Attention(%q, %q, %q, [[0.0, -1.0], [0.5, 0.0]])
  %y = Reshape(%m, [0, 8])
  return %y
}
"""
"""Lists of numbers among the operands: a bias, which is cut where weights are, and a mask that is added."""


@pytest.mark.parametrize("words", ["dp=2", "tp=2", "dp=2 zero=3"])
@pytest.mark.parametrize("precision", ["mixed", "mixed master=only", "bf16", "keep"])
@pytest.mark.parametrize("mask", ["[[0.0, -1.0], [0.5, 0.0]]", "0.5"])
def test_numbers_have_the_element_type_of_what_they_meet(mask, precision, words):
    module = distir.parse(LISTS.replace("[[0.0, -1.0], [0.5, 0.0]]", mask))
    step = transform(module, "grad", "loss=mse", *f"precision={precision}".split())
    assert verify(step, transform(step, *words.split(), *(["shard=w:1"] if words == "tp=2" else []))).equal


PREPARED = """
func @layer(%g: Tensor[Float32, (4,)], %w: Tensor[Float32, (4, 4)], %x: Tensor[Float32, (N, 4)]) {
  %scale = Add(%g, 1.0)
  %turned = Transpose[perm = [1, 0]](%w)
  %n = RMSNormalization(%x, %scale)
  %h = MatMul(%n, %turned)
  %y = Tanh(%h)
  return %y
}

func @main(
  %g1: Tensor[Float32, (4,), 1] {param}, %w1: Tensor[Float32, (4, 4), 1] {param},
  %g2: Tensor[Float32, (4,), 1] {param}, %w2: Tensor[Float32, (4, 4), 1] {param},
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}
) {
  %a = @layer(%g1, %w1, %x)
  %b = @layer(%g2, %w2, %a)
  return %b
}
"""
"""Layers whose backward pass uses no weight itself, but what is made of weights alone."""


@pytest.mark.parametrize("precision", ["keep", "mixed", "mixed master=only"])
def test_what_is_made_of_weights_alone_counts_as_a_weight_where_activations_are_recomputed(precision):
    step = transform(distir.parse(PREPARED), "grad", "optimizer=adam", *f"precision={precision}".split())
    found = transform(step, "checkpoint=full")
    assert verify(step, found).equal
    calls = [s.function for s in found.entry().body if isinstance(s, distir.ir.Call)]
    assert calls.count("layer") == 4
    casts = [s for s in found.entry().body if isinstance(s, Apply) and s.op == "Cast" and s.args[0] in ("w1", "g1")]
    assert len(casts) == (2 if "only" in precision else 0)


@pytest.mark.by_turns
@pytest.mark.parametrize("words", [*WAYS[1::2], *also(*WAYS[::2])])
def test_activations_are_recomputed_with_no_weights_but_master_weights(words):
    step = transform(MODELS["gpt-2"](), "grad", "optimizer=adam", "precision=mixed", "master=only")
    assert verify(step, transform(step, "checkpoint=full", *words.split())).equal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("precision=bf15", "did you mean `bf16`"),
        ("precision=half", "`precision` expected one of keep, fp32, bf16, mixed, fp16, found `half`"),
        ("precision=fp8", "products in 8-bit floats are the step `fp8`, before `grad`"),
        ("gradients=f32", "did you mean `fp32`"),
        ("precision=mixed master=beyond", "`master` expected one of beside, only, found `beyond`"),
        ("master=only", "needs a precision with master weights (`mixed`, `fp16`), found `keep`"),
        ("precision=bf16 master=only", "needs a precision with master weights (`mixed`, `fp16`), found `bf16`"),
    ],
)
def test_an_unknown_precision_is_refused(words, message):
    with pytest.raises(StepError) as caught:
        transform(model(), "grad", *words.split())
    assert message in str(caught.value)


def test_a_step_without_these_options_is_what_it_was():
    """`precision=keep` is the default, and casts nothing."""
    step = transform(model("Float32"), "grad", "optimizer=adam")
    assert step == transform(model("Float32"), "grad", "optimizer=adam", "precision=keep", "gradients=auto")
    assert step == transform(model("Float32"), "grad", "optimizer=adam", "precision=fp32")
    assert not {"Cast", "CastGradient", "SquaredNorm"} & {s.op for s in step.entry().body if isinstance(s, Apply)}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "lion"])
@pytest.mark.parametrize("precision", ["keep", "mixed"])
def test_a_training_step_has_no_other_one(optimizer, precision):
    """Its gradient would update the weights twice."""
    step = transform(mlp(2, 8, 4, "Float32"), "grad", f"optimizer={optimizer}", f"precision={precision}")
    with pytest.raises(StepError, match="is a training step already"):
        transform(step, "grad")
    gradients = transform(mlp(2, 8, 4, "Float32"), "grad", "optimizer=none")
    assert transform(gradients, "dce")
