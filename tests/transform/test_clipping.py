"""Clipping by the norm of all gradients, and loss scaling: as in PyTorch, and the same however it is distributed."""

from functools import cache

import numpy as np
import pytest
from dtp_samples import llama
from expert_programs import decoder
from sharding_samples import small_gpt2
from training_samples import WEIGHTS, batches, first_values, gradients, model, torch_loss, torch_trained, trained

import distir
from distir.ir import Apply
from distir.models import mlp
from distir.transform import StepError, transform, verify

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def norm(values):
    """Of all gradients of the perceptron."""
    found = gradients(values)
    return float(np.sqrt(sum(np.sum(np.square(found[f"d{w}"])) for w in WEIGHTS)))


@pytest.mark.each_once
@pytest.mark.parametrize("limit", [0.05, 1000.0])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_clipping_is_that_of_pytorch(optimizer, limit):
    step = transform(model(), "grad", f"optimizer={optimizer}", "lr=0.1", f"clip={limit}")
    values = first_values(step)
    given = batches(5, scale=2.0)
    clipped = [norm({w: values[w] for w in WEIGHTS} | batch) > limit for batch in given]
    assert all(clipped) == (limit < 1)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    losses, weights = torch_trained(
        torch,
        values,
        given,
        lambda w: kinds[optimizer](w.values(), lr=0.1),
        after_backward=lambda w: torch.nn.utils.clip_grad_norm_(w.values(), limit),
    )
    found, after = trained(step, given)
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    for name in WEIGHTS:
        np.testing.assert_allclose(after[name], weights[name], rtol=1e-9, atol=1e-12)


@cache
def clipped(name):
    """Training steps whose gradients are all clipped, with a rate at which that shows in each result."""
    if name == "mlp":
        return transform(mlp(4, 8, 16, "Float64"), "grad", optimizer="sgd", lr=10.0, clip=0.001)
    if name == "gpt-2":
        return transform(small_gpt2(positions=5), "grad", optimizer="sgd", lr=10.0, clip=0.001)
    return transform(llama(4), "grad", optimizer="momentum", lr=10.0, clip=0.001)


WAYS = [
    "dp=2",
    "tp=2",
    "pp=2 microbatches=2",
    "dp=2 zero=1",
    "dp=2 zero=1 partition=split",
    "dp=2 zero=2",
    "dp=2 zero=3",
    "dp=2 zero=3 partition=split",
    "dp=2 bucket_bytes=1000",
    "dtp=2,2,2 microbatches=2",
    "dtp=2,2,2 microbatches=2 zero=1",
    "dtp=2,2,2 microbatches=2 zero=3 partition=split",
    "dtp=2,1,4 microbatches=2 schedule=zb-h1 zero=2",
    "checkpoint=2 tp=2",
]


@pytest.mark.each_once
@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize("name", ["mlp", "gpt-2", "llama"])
def test_the_norm_is_that_of_the_whole_model(name, words):
    step = clipped(name)
    if "dtp=2,1,4" in words and name == "gpt-2":
        pytest.skip("it has fewer layers")
    after = transform(step, *words.split())
    found = verify(step, after)
    assert found.equal, [r for r in found.results if not r.equal]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize(
    "words",
    [
        "cp=2 zigzag=false dp=2 zero=1",  # experts are whole on devices that share sequences, and summed over others
        "dp=2 cp=2 zigzag=false cp_experts=true zero=2",
        "dtp=2,2,1 context=2 zigzag=false zero=3",
        "dtp=1,2,1 context=2 zigzag=false cp_experts=true zero=2",
        "dtp=2,1,1 context=2 zigzag=false experts=2 zero=2",
    ],
)
def test_weights_whose_replicas_differ(words, partition):
    step = transform(decoder(batch=4), "grad", optimizer="momentum", loss="cross_entropy", lr=10.0, clip=0.001)
    found = verify(step, transform(step, *words.split(), f"partition={partition}"))
    assert found.equal, [r for r in found.results if not r.equal]


@pytest.fixture(scope="module")
def imported():
    """A Llama of Hugging Face, its training step in mixed precision, and in Float32."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 32, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.LlamaConfig(num_hidden_layers=2, num_key_value_heads=2, **sizes)
    torch.manual_seed(0)
    ids = torch.zeros(4, 6, dtype=torch.long)
    held = distir.import_torch(transformers.LlamaForCausalLM(config).eval(), (ids,), dynamic_batch=True)
    found = {}
    for precision in ("keep", "mixed"):
        words = [f"precision={precision}", "loss=cross_entropy", "optimizer=momentum", "lr=1.0", "clip=0.01"]
        found[precision] = transform(held, "grad", *words)
    return found


@pytest.mark.each_once
@pytest.mark.parametrize(
    "words", ["tp=2", "dp=2 zero=2", "dp=2 zero=3 partition=split", "dtp=2,1,2 microbatches=2", "dtp=1,2,2"]
)
@pytest.mark.parametrize("precision", ["keep", "mixed"])
def test_an_imported_llama(imported, precision, words):
    step = imported[precision]
    found = verify(step, transform(step, *words.split()), bind={"B": 4})
    assert found.equal, [r for r in found.results if not r.equal]


def test_replicas_without_a_weight_of_their_own_receive_the_norm():
    step = clipped("mlp")
    replicas = transform(step, "dp=16", "zero=2")
    assert verify(step, replicas).equal
    assert scalars(replicas) == ["MPIAllreduce", *["Send"] * 8]  # there are eight weights


def scalars(module):
    """The collectives over scalars that the entry function runs: by op, how many."""
    states = distir.analysis.check(module).states["main"]
    found = [
        s
        for s in module.entry().body
        if isinstance(s, Apply) and s.op.startswith(("MPI", "Send")) and "squared" in str(s.args)
    ]
    assert all(states[s.results[0]].shape == () for s in found)
    return [s.op for s in found]


@pytest.mark.parametrize("name", ["mlp", "gpt-2"])
def test_one_scalar_is_communicated_per_axis(name):
    """A data-parallel replica holds all gradients whole; shards, stages and partitions each add up one scalar."""
    step = clipped(name)
    assert scalars(transform(step, "dp=2")) == []
    assert scalars(transform(step, "tp=2")) == ["MPIAllreduce"]
    assert scalars(transform(step, "pp=2", "microbatches=2")) == ["MPIAllreduce"]
    over_shards, over_stages = 2, 2  # one for each stage, and one for each shard
    both = scalars(transform(step, "dtp=1,2,2", "microbatches=2"))
    assert both == ["MPIAllreduce"] * (over_shards + over_stages)
    for partition in ("owner", "split"):
        for stage in (1, 2, 3):
            found = transform(step, "dp=2", f"zero={stage}", f"partition={partition}")
            assert scalars(found) == ["MPIAllreduce"]


def test_tuples_of_weights_count_leaf_by_leaf():
    text = """
func @main(%w: Tuple[Tensor[Float64, (3, 2), 1], Tensor[Float64, (2,), 1]] {param}, %x: Tensor[Float64, (4, 3), 1] {batch = 0}) {
  %m, %b = UnpackTuple(%w)
  %y = Gemm(%x, %m, %b)
  return %y
}
"""  # noqa: E501
    step = transform(distir.parse(text), "grad", "lr=1.0", "clip=0.001")
    found = transform(distir.parse(text), "grad", "optimizer=none")
    values = first_values(step)
    _, new = distir.run(step, values).values()
    _, dws = distir.run(found, values).values()
    whole = np.sqrt(sum(np.sum(d**2) for d in dws))
    for w, dw, after in zip(values["w"], dws, new, strict=True):
        np.testing.assert_allclose(after, w - dw * 0.001 / (whole + 1e-6), rtol=1e-9)


# Loss scaling.


def overflowing(number):
    """Whether a batch of these is so large that scaled gradients are not finite."""
    return number in (2, 3)


def scaled_batches():
    """Batches as Float32, two of them with targets that make gradients infinite."""
    given = batches(8)
    for number, batch in enumerate(given):
        batch["x"] = batch["x"].astype(np.float32)
        batch["target"] = (batch["target"] * (1e38 if overflowing(number) else 1)).astype(np.float32)
    return given


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_dynamic_scaling_is_that_of_grad_scaler(optimizer, clip):
    """Steps that are left out change neither weights nor state, and are not counted; the scale is halved."""
    words = [f"optimizer={optimizer}", "lr=0.1", "loss_scale=dynamic", *([f"clip={clip}"] if clip else [])]
    step = transform(model("Float32"), "grad", *words)
    values = first_values(step)
    assert values["loss_scale"] == 65536
    assert values["finite_steps"] == 0
    weights = {name: torch.tensor(values[name], requires_grad=True) for name in WEIGHTS}
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    chosen = kinds[optimizer](weights.values(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    for number, batch in enumerate(scaled_batches()):
        before = {w: values[w] for w in WEIGHTS}
        _, values = trained(step, [batch], values)
        loss = torch_loss(torch, weights, batch)
        chosen.zero_grad()
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(chosen)
            torch.nn.utils.clip_grad_norm_(weights.values(), clip)
        scaler.step(chosen)
        scaler.update()
        assert values["loss_scale"] == scaler.get_scale()
        for name in WEIGHTS:
            assert np.array_equal(values[name], before[name]) == overflowing(number)
            np.testing.assert_allclose(values[name], weights[name].detach().numpy(), rtol=2e-4, atol=1e-6)
    assert values["loss_scale"] == 65536 / 4
    assert values["finite_steps"] == 4
    if optimizer == "adam":
        assert values["step"] == 1 + 6


def test_the_scale_doubles_after_as_many_finite_steps_as_in_grad_scaler():
    step = transform(model("Float32"), "grad", "loss_scale=dynamic")
    values = first_values(step)
    _, values = trained(step, scaled_batches()[:1], values | {"finite_steps": np.array(1998)})
    assert (values["loss_scale"], values["finite_steps"]) == (65536, 1999)
    _, values = trained(step, scaled_batches()[:1], values)
    assert (values["loss_scale"], values["finite_steps"]) == (131072, 0)


def test_a_fixed_scale_leaves_gradients_as_they_are():
    plain = transform(model(), "grad", "lr=0.5", "clip=0.1")
    scaled = transform(model(), "grad", "lr=0.5", "clip=0.1", "loss_scale=1024")
    values = first_values(scaled)
    batch = batches(1)[0]
    _, expected = trained(plain, [batch], {n: v for n, v in values.items() if n != "loss_scale"})
    _, found = trained(scaled, [batch], values)
    for name in WEIGHTS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)


@pytest.mark.by_turns
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("words", [w for w in WAYS if w not in ("dp=2 zero=1", "dp=2 zero=2", "checkpoint=2 tp=2")])
def test_all_devices_leave_a_step_out_or_none(words, large):
    """Whichever device finds that a gradient is not finite."""
    from distir.analysis import execute, random_inputs
    from distir.transform.verification import distributed

    step = transform(mlp(4, 8, 16, "Float32"), "grad", "optimizer=adam", "loss_scale=dynamic", "lr=0.5")
    inputs = random_inputs(step, 0, {})
    if large:
        inputs["target"][0, 0] = 1e38
    expected = execute(step, inputs, "main")
    found = distributed(transform(step, *words.split()), list(inputs.values()), step.entry())
    kept = {
        f"{p.name}_new": inputs[p.name] for p in step.entry().params if p.name not in ("loss_scale", "finite_steps")
    }
    for before, after in zip(expected, found, strict=True):
        np.testing.assert_allclose(after.value, before.value, rtol=1e-3, atol=1e-5)
        if large and before.name in kept:
            np.testing.assert_array_equal(after.value, kept[before.name])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("clip=0", "`clip` expected a number above 0, found 0"),
        ("clip=-1", "`clip` expected a number above 0, found -1"),
        ("clip=nan", "`clip` expected a number above 0, found nan"),
        ("clip=one", "`clip` expected a number, found `one`"),
        ("optimizer=none clip=1.0", "`clip` needs an optimizer"),
        ("optimizer=none loss_scale=8", "`loss_scale` needs an optimizer"),
        ("loss_scale=0", "`loss_scale` expected a number above 0 or `dynamic`, found `0.0`"),
        ("loss_scale=static", "`loss_scale` expected a number above 0 or `dynamic`, found `static`"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, message):
    with pytest.raises(StepError) as caught:
        transform(model(), "grad", *words.split())
    assert message in str(caught.value)
