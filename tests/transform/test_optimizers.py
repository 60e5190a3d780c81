"""What `grad` makes of optimizers and their options: the updates of PyTorch, in Float64, over several steps."""

import numpy as np
import pytest
from training_samples import WEIGHTS, batches, first_values, gradients, model, torch_trained, trained

import distir
from distir.ir import DTYPES, HOST, TensorType
from distir.ops.optimizer import OPTIMIZERS
from distir.transform import StepError

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

STEPS = 6

CASES = {
    "optimizer=sgd lr=0.1": lambda w: torch.optim.SGD(w.values(), lr=0.1),
    "optimizer=sgd lr=0.1 weight_decay=0.2": lambda w: torch.optim.SGD(w.values(), lr=0.1, weight_decay=0.2),
    "optimizer=momentum lr=0.1 momentum=0.8": lambda w: torch.optim.SGD(w.values(), lr=0.1, momentum=0.8),
    "optimizer=momentum lr=0.1 momentum=0.8 nesterov=true weight_decay=0.2": lambda w: torch.optim.SGD(
        w.values(), lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.2
    ),
    "optimizer=adam lr=0.05": lambda w: torch.optim.Adam(w.values(), lr=0.05),
    "optimizer=adam lr=0.05 weight_decay=0.2 beta1=0.8 beta2=0.95 epsilon=0.001": lambda w: torch.optim.Adam(
        w.values(), lr=0.05, weight_decay=0.2, betas=(0.8, 0.95), eps=0.001
    ),
    "optimizer=adamw lr=0.05 weight_decay=0.2 beta1=0.8 beta2=0.95": lambda w: torch.optim.AdamW(
        w.values(), lr=0.05, weight_decay=0.2, betas=(0.8, 0.95)
    ),
    "optimizer=adamw lr=0.05 weight_decay=0.2 no_decay=1d": lambda w: torch.optim.AdamW(
        [
            {"params": [p for p in w.values() if p.dim() > 1], "weight_decay": 0.2},
            {"params": [p for p in w.values() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.05,
    ),
}


def same(step, theirs, given=None, start=None):
    losses, weights = theirs
    found, values = trained(step, given or batches(STEPS), start)
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    for name in WEIGHTS:
        np.testing.assert_allclose(values[name], weights[name], rtol=1e-9, atol=1e-12)
    return values


@pytest.mark.parametrize("options", CASES)
def test_updates_are_those_of_pytorch(options):
    step = distir.transform(model(), "grad", *options.split())
    values = first_values(step)
    same(step, torch_trained(torch, values, batches(STEPS), CASES[options]))


def test_lion_is_as_published():
    """Algorithm 2 of Chen et al., 2023."""
    step = distir.transform(
        model(), "grad", *["optimizer=lion", "lr=0.01", "beta1=0.8", "beta2=0.95", "weight_decay=0.3"]
    )
    values = first_values(step)

    class Lion(torch.optim.Optimizer):
        def __init__(self, weights):
            super().__init__(weights, {})
            self.averages = {}

        @torch.no_grad()
        def step(self):
            for w in self.param_groups[0]["params"]:
                m = self.averages.get(w, torch.zeros_like(w))
                w -= 0.01 * (torch.sign(0.8 * m + 0.2 * w.grad) + 0.3 * w)
                self.averages[w] = 0.95 * m + 0.05 * w.grad

    same(step, torch_trained(torch, values, batches(STEPS), lambda w: Lion(w.values())))


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_adafactor_is_that_of_transformers(decay):
    optimization = pytest.importorskip("transformers.optimization")
    step = distir.transform(model(), "grad", "optimizer=adafactor", "lr=0.05", weight_decay=decay)
    values = first_values(step)
    shapes = {p.name: p.type.shape for p in step.entry().params if "state" in p.roles}
    assert (shapes["w1.rows"], shapes["w1.columns"], shapes["b1.rows"], shapes["b1.columns"]) == ((4,), (5,), (5,), ())

    def made(weights):
        fixed = {"relative_step": False, "scale_parameter": False, "warmup_init": False}
        return optimization.Adafactor(weights.values(), lr=0.05, weight_decay=decay, **fixed)

    losses, weights = torch_trained(torch, values, batches(STEPS), made)
    found, after = trained(step, batches(STEPS))
    np.testing.assert_allclose(found, losses, rtol=1e-5)  # transformers keeps the averages in Float32
    for name in WEIGHTS:
        np.testing.assert_allclose(after[name], weights[name], rtol=1e-4, atol=1e-6)


ADAFACTOR_CHAINS = [
    "dp=2",
    "pp=2 microbatches=2",
    "dp=2 zero=1",
    "dp=2 zero=2 partition=split",
    "tp=2",
    "tp=4 dp=2 zero=1",
    "tp=2 dp=2 zero=3 partition=split",
    "dtp=2,2,2 microbatches=2",
]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("words", ADAFACTOR_CHAINS)
@pytest.mark.parametrize("options", ["clip=0.01 lr=0.5", "weight_decay=0.1 lr=input", "loss_scale=8 precision=mixed"])
def test_adafactor_is_exact_however_weights_are_split(options, words):
    from distir.models import mlp
    from distir.transform import verify

    step = distir.transform(mlp(4, 8, 8, "Float32"), *f"grad optimizer=adafactor {options}".split())
    assert verify(step, distir.transform(step, *words.split())).equal


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_schedules_are_those_of_transformers(schedule, optimizer):
    transformers = pytest.importorskip("transformers")
    words = [f"optimizer={optimizer}", "lr=0.05", "warmup=2", f"lr_schedule={schedule}"]
    words += [] if schedule == "constant" else ["steps=5"]
    step = distir.transform(model(), "grad", *words)
    values = first_values(step)
    kinds = {"sgd": torch.optim.SGD, "adamw": lambda w, lr: torch.optim.AdamW(w, lr=lr, weight_decay=0.0)}
    name = "constant_with_warmup" if schedule == "constant" else schedule
    schedules = []

    def made(weights):
        chosen = kinds[optimizer](weights.values(), lr=0.05)
        schedules.append(transformers.get_scheduler(name, chosen, 2, None if schedule == "constant" else 5))
        return chosen

    def before(number, chosen):
        if number:
            schedules[-1].step()

    theirs = torch_trained(torch, values, batches(STEPS), made, before_step=before)
    # The rate is a Float32.
    losses, weights = theirs
    found, after = trained(step, batches(STEPS))
    np.testing.assert_allclose(found, losses, rtol=1e-6)
    for w in WEIGHTS:
        np.testing.assert_allclose(after[w], weights[w], rtol=1e-5, atol=1e-7)


def test_the_rate_falls_to_the_least_one():
    words = ["optimizer=sgd", "lr=0.5", "lr_schedule=cosine", "steps=3", "lr_min=0.125"]
    step = distir.transform(model(), "grad", *words)
    values = first_values(step) | {"step": np.array(9)} | batches(1)[0]
    dws = gradients(values)
    found = distir.run(step, values)
    np.testing.assert_allclose(found["w1_new"], values["w1"] - 0.125 * dws["dw1"], rtol=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "lion", "adam", "adamw"])
def test_the_learning_rate_as_an_input(optimizer):
    step = distir.transform(model(), "grad", f"optimizer={optimizer}", "lr=input")
    (lr,) = [p for p in step.entry().params if p.name == "lr"]
    assert lr.type == TensorType(DTYPES["Float32"], (), HOST)
    assert not lr.roles
    fixed = distir.transform(model(), "grad", f"optimizer={optimizer}", "lr=0.25")
    values = first_values(fixed) | batches(1)[0]
    found = distir.run(step, values | {"lr": np.array(0.25, np.float32)})
    for name, value in distir.run(fixed, values).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-12)


@pytest.mark.parametrize("words", [("tp=2",), ("pp=2",), ("dp=2", "zero=2"), ("dtp=1,1,2", "microbatches=2")])
@pytest.mark.parametrize("options", ["optimizer=lion", "optimizer=adamw lr=input", "lr_schedule=linear steps=9"])
def test_results_stay_when_distributed(options, words):
    from distir.models import mlp
    from distir.transform import verify

    step = distir.transform(mlp(4, 8, 8, "Float64"), "grad", *options.split())
    assert verify(step, distir.transform(step, *words)).equal


def test_an_optimizer_of_a_plugin_is_one_definition():
    from distir.ops import OPS, op
    from distir.ops.optimizer import UPDATE, optimizer

    @op(
        "Tensor[t:float, s, d], Tensor[u:float, s, d], Tensor[v:float, s, d] -> Tensor[t, s, d], Tensor[v, s, d]",
        flops=4,
        inplace={0: 0, 1: 2},
        leafwise=True,
        non_differentiable=UPDATE,
    )
    def Averaged(w, dw, average, *, lr: float = 0.1, beta1: float = 0.5):
        """Descent along an average."""
        new = beta1 * average + (1 - beta1) * dw
        return w - lr * new, new

    optimizer("averaged", Averaged)
    try:
        step = distir.transform(model(), "grad", "optimizer=averaged", "beta1=0.25")
        assert [p.name for p in step.entry().params if "state" in p.roles] == [f"{w}.average" for w in WEIGHTS]
        values = first_values(step) | batches(1)[0]
        dws = gradients(values)
        np.testing.assert_allclose(distir.run(step, values)["w1_new"], values["w1"] - 0.1 * 0.75 * dws["dw1"])
        for words, operand in (("clip=1.0", "factor"), ("lr=input", "rate")):
            with pytest.raises(StepError, match=f"`Averaged` has no operand `{operand}`"):
                distir.transform(model(), "grad", "optimizer=averaged", words)
    finally:
        del OPTIMIZERS["averaged"]
        del OPS["Averaged"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("optimizer=adamm", "did you mean `adam`"),
        ("optimizer=sgd beta1=0.9", "`optimizer=sgd` has no option `beta1`: it has `lr`, `weight_decay`"),
        ("optimizer=sgd momentum=0.9", "it has `lr`, `weight_decay`; for `momentum`: `optimizer=momentum`"),
        ("optimizer=none weight_decay=0.1", "`optimizer=none` has no option `weight_decay`: it returns gradients"),
        ("optimizer=adam beta2=1.0", "`beta2` expected a number from 0 to below 1, found 1"),
        ("optimizer=none lr=0.1", "has no learning rate"),
        ("lr=high", "`lr` expected a number or `input`, found `high`"),
        ("lr=input warmup=3", "leave out `lr_schedule` and `warmup`"),
        ("lr_schedule=cosin steps=9", "did you mean `cosine`"),
        ("lr_schedule=cosine", "needs `steps`"),
        ("lr_schedule=cosine steps=5 warmup=5", "found 5"),
        ("steps=5", "choose `lr_schedule=linear` or `cosine`"),
        ("warmup=-1", "expected 0 steps or more"),
        ("no_decay=2d", "`no_decay` expected one of none, 1d"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, message):
    with pytest.raises(StepError) as caught:
        distir.transform(model(), "grad", *words.split())
    assert message in str(caught.value)
