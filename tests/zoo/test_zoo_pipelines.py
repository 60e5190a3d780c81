"""Real models in pipelines: every schedule, losses inside the model, steps that PyTorch traced, what is pooled."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

from families import example  # noqa: E402
from thorough import ALL, also  # noqa: E402

from distir.analysis import random_inputs  # noqa: E402
from distir.diagnostics import ProgramError  # noqa: E402
from distir.importers import import_torch  # noqa: E402
from distir.transform import transform, verify  # noqa: E402
from distir.transform.pipeline import SCHEDULES  # noqa: E402

SCHEDULES_OF_OURS = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v")


def assert_same(step, *strategies, batch=4):
    """That each strategy gives the results of the step."""
    for strategy in strategies:
        found = verify(step, transform(step, *strategy.split()), bind={"B": batch})
        assert found.equal, (strategy, [(r.name, r.difference) for r in found.results if not r.equal][:3])


def refusal(step, strategy):
    with pytest.raises(ProgramError) as caught:
        transform(step, *strategy.split())
    (found,) = caught.value.diagnostics
    return found


def test_these_are_all_schedules():
    assert set(SCHEDULES) >= set(SCHEDULES_OF_OURS)


@pytest.mark.parametrize("family", ["llama", "resnet", *also("mixtral", "t5", "vit")])
def test_a_training_step_goes_through_every_schedule(family):
    module, inputs = example(family)
    step = transform(import_torch(module, kwargs=inputs, dynamic_batch=True), "grad")
    names = SCHEDULES_OF_OURS if ALL or family == "llama" else ("1f1b", "zb-v")
    virtual = {name: " virtual=2" * SCHEDULES[name].virtual for name in names}
    assert_same(step, *(f"pp=2 microbatches=4 schedule={name}{virtual[name]}" for name in names))


def test_statistics_of_a_batch_are_refused_by_microbatches_and_right_in_replicas():
    module, inputs = example("resnet")
    step = transform(import_torch(module, kwargs=inputs, dynamic_batch=True), "grad", "mode=train")
    found = refusal(step, "pp=2 microbatches=4")
    assert found.code.number == "DIR641"
    assert "`grad mode=eval`" in found.help
    assert_same(step, "dp=2", "dp=2 zero=1")


class Loss(torch.nn.Module):
    """A model that gives nothing but its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


INSIDE = (
    "pp=2 microbatches=4",
    "pp=2 microbatches=4 schedule=zb-v",
    "dp=2",
    "dp=2 zero=1",
    "dp=2 zero=3",
    "checkpoint pp=2 microbatches=2",
    "dtp=2,2,2 microbatches=2",
)


@pytest.mark.parametrize("wrapped", [False, *also(True)])
def test_a_loss_inside_the_model_is_that_of_the_whole_batch(wrapped):
    """Labels that are ignored are more in some microbatches than in others."""
    model, inputs = example("llama")
    given = {**inputs, "labels": inputs["input_ids"]}
    forward = import_torch(Loss(model) if wrapped else model, kwargs=given, dynamic_batch=True)
    step = transform(forward, "grad")
    labels = random_inputs(step, 0, {"B": 4})["labels"]
    assert len({int(n) for n in (labels < 0).sum(1)}) > 1
    assert_same(forward, "pp=2 microbatches=4")
    assert_same(step, *INSIDE)


def test_a_step_that_pytorch_traced_goes_by_microbatches():
    model, inputs = example("llama")
    step = import_torch(model, kwargs={**inputs, "labels": inputs["input_ids"]}, dynamic_batch=True, training=True)
    alone = ("pp=2 microbatches=2", "checkpoint") if ALL else ()
    assert_same(step, "dp=2", "checkpoint pp=2 microbatches=2", *alone)
    found = refusal(step, "dp=2 zero=1")
    assert found.code.number == "DIR660"
    assert "no op of an optimizer" in found.message
    assert "`grad optimizer=adam dp=4 zero=2`" in found.help
    own = transform(step, "grad", "optimizer=adam")
    assert_same(own, "dp=2 zero=2", "pp=2 microbatches=2", *alone)


def test_a_step_that_was_traced_with_its_optimizer_goes_by_microbatches():
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(w1, w2, x, y):
        def loss(w1, w2):
            return ((torch.relu(x @ w1) @ w2 - y) ** 2).mean()

        g1, g2 = torch.func.grad(loss, argnums=(0, 1))(w1, w2)
        return loss(w1, w2), w1 - 0.1 * g1, w2 - 0.1 * g2

    given = [torch.randn(16, 16), torch.randn(16, 16), torch.randn(4, 16), torch.randn(4, 16)]
    traced = make_fx(step, tracing_mode="symbolic")(*given)
    batch = {node.name: 0 for node in list(traced.graph.nodes)[2:4]}
    program = import_torch(traced, given, batch=batch)
    assert_same(program, "pp=2 microbatches=2", "dp=2")
    assert "apply `grad`" in refusal(program, "checkpoint").help
    assert "no op of an optimizer" in refusal(program, "dp=2 zero=1").message


class Pooled(torch.nn.Module):
    def __init__(self, size, padding):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1)
        self.pool, self.head = torch.nn.MaxPool2d(size, 2, padding), torch.nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(torch.relu(self.first(x)))
        return self.head(self.pool(torch.relu(self.second(x))).mean((2, 3)))


@pytest.mark.each_once
@pytest.mark.parametrize(("size", "padding"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("options", [{"dynamic_batch": True}, {"batch": {"x": 0}}])
def test_a_network_that_pools_is_trained_by_microbatches(size, padding, options):
    step = transform(import_torch(Pooled(size, padding), (torch.randn(4, 3, 16, 16),), **options), "grad")
    if "batch" not in options:
        assert_same(step, "pp=2 microbatches=4 schedule=zb-h1")
    assert_same(step, "pp=2 microbatches=2", "pp=2 microbatches=2 dp=2", "dtp=2,1,2 microbatches=2")


@pytest.mark.parametrize("options", [{"batch": {"pixel_values": 0}}, *also({"dynamic_batch": True})])
def test_a_vision_transformer_in_replicas_of_pipelines(options):
    module, inputs = example("vit")
    program = import_torch(module, kwargs=inputs, **options)
    strategies = ("pp=2 microbatches=2 dp=2", "dtp=2,1,2 microbatches=2")
    assert_same(program, *strategies)
    assert_same(transform(program, "grad"), *strategies, "dtp=2,1,2 microbatches=2 zero=1")
