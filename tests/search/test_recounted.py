"""A search makes a pipeline of few microbatches and repeats its rounds: its rows are those of the whole programs."""

import pytest
from search_samples import CALIBRATED, GPT2, MLP, STREAMS

import distir
from distir.cost import load, parse
from distir.models import gpt2
from distir.search import Plan, Space, Subject, distributed, evaluate
from distir.simulate import simulate
from distir.simulate.recounting_sizes import are_numbers
from distir.transform import transform

SIZED = distir.parse("""
func @main(%x: Tensor[Float32, (B, 4, 64), 1] {batch = 0}, %w1: Tensor[Float32, (64, 64), 1] {param},
           %w2: Tensor[Float32, (64, 64), 1] {param}, %w3: Tensor[Float32, (64, 64), 1] {param},
           %w4: Tensor[Float32, (64, 64), 1] {param}) {
  %shape = Shape(%x)
  %rows = Reshape(%x, [-1, 64])
  %a = Gemm(%rows, %w1)
  %b = Relu(%a)
  %c = Gemm(%b, %w2)
  %d = Gemm(%c, %w3)
  %e = Gemm(%d, %w4)
  %y = Reshape(%e, %shape)
  return %y
}
""")
"""It asks for the size of its batch, which is a microbatch in a pipeline; a mean asks for that of the whole one."""

MODELS = {
    "training": MLP,
    "inference": GPT2,
    "training that asks": transform(gpt2(2, 32, 4, 8, vocabulary=96), "grad", "loss=cross_entropy", "optimizer=adam"),
    "inference that asks": SIZED,
}


MACHINES = {
    "one": lambda: load("dgx2-v100"),
    "two nodes": lambda: load("2x-dgx-a100"),
    "calibrated": lambda: load(CALIBRATED),
    "streams": lambda: parse(STREAMS),
}


@pytest.fixture(autouse=True)
def nothing_known():
    """Plans are carried out anew."""
    yield
    distributed.carried_out.cache_clear()


def as_a_whole(subject, plan, sizes, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "recounted", lambda *_: None)
        return list(evaluate.evaluate(subject, plan, sizes))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_those_of_the_whole(model, machine, monkeypatch):
    subject = Subject(model, MODELS[model], MACHINES[machine]())
    devices = min(4, subject.hardware.devices)
    sizes = (240, 480)
    trained, asks = "inference" not in model, model == "training that asks"
    space = Space(
        devices, sizes, (4, 24) if asks else (1, 2, 4, 10, 24, 60),
        ("1f1b", "gpipe") if asks else ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v") if trained else ("gpipe",),
        (0, 1, 2, 3) if trained else (0,), (False, True) if asks else (False,),
    )  # fmt: skip
    told = 0
    for plan in space.plans():
        if plan.pipeline == 1 or (plan.zero and plan.microbatches not in (4, 24)):
            continue
        fitting = [size for size in sizes if space.allows(size, plan)]
        other = distributed.recounted(subject, plan)
        told += other is not None and all(other.figures(size) is not None for size in fitting)
        found = list(evaluate.evaluate(subject, plan, fitting))
        assert not any(row.reason for row in found) or plan.schedule in ("interleaved", "zb-h1", "zb-v") or plan.zero, (
            plan
        )
        assert found == as_a_whole(subject, plan, fitting, monkeypatch), plan
    assert told


@pytest.mark.parametrize("model", MODELS)
def test_the_paper_s_numbers_of_microbatches_take_one_program(model, monkeypatch):
    subject = Subject(model, MODELS[model], load("dgx2-v100"))
    made = []
    carry_out = distributed.Distributed.__init__

    def counted(self, subject, plan):
        made.append(plan)
        carry_out(self, subject, plan)

    monkeypatch.setattr(distributed.Distributed, "__init__", counted)
    for count in (2, 4, 8, 16, 32, 64, 128):
        (row,) = evaluate.evaluate(subject, Plan(2, 1, 2, count), (1024,))
        assert row.latency_s is not None
    assert [plan.microbatches for plan in made] == [8]


def test_a_batch_that_is_used_as_a_whole_is_told_by_the_whole(monkeypatch):
    """Here one device takes what the stages need no more, as large as the batch is: an op outside the pipeline."""
    subject = Subject("two", WHOLE, load("dgx2-v100"))
    for plan in Space(2, (480,), (24, 60), ("gpipe",)).plans():
        found = list(evaluate.evaluate(subject, plan, (480,)))
        assert found == as_a_whole(subject, plan, (480,), monkeypatch), plan


WHOLE = distir.parse("""
func @main(%x: Tensor[Float32, (B, 64), 1] {batch = 0}, %y: Tensor[Float32, (B, 64), 1] {batch = 0},
           %w1: Tensor[Float32, (64, 64), 1] {param}, %w2: Tensor[Float32, (64, 64), 1] {param}) {
  %a = Gemm(%x, %w1)
  %b = Gemm(%a, %w2)
  return %b, %y
}
""")


@pytest.mark.parametrize(
    ("use", "number"),
    [
        ("%c = Mul(%w, %m)", True),
        ("%c = @scaled(%w, %m)", True),
        ("%s = Unsqueeze(%n, [0])\n  %c = Expand(%w, %s)", False),
        ("%c = @widened(%w, %n)", False),
    ],
)
def test_the_size_of_the_batch_is_a_number_where_no_shape_depends_on_it(use, number):
    module = distir.parse(f"""
func @scaled(%w: Tensor[Float32, (1,), 1], %m: Float32) {{
  %a = Mul(%w, %m)
  return %a
}}
func @widened(%w: Tensor[Float32, (1,), 1], %n: Int64) {{
  %s = Unsqueeze(%n, [0])
  %a = Expand(%w, %s)
  return %a
}}
func @main(%x: Tensor[Float32, (B, 8), 1] {{batch = 0}}, %w: Tensor[Float32, (1,), 1] {{param}}) {{
  %n = Size(%x)
  %m = Cast[to = Float32](%n)
  {use}
  return %c
}}
""")
    assert are_numbers(simulate(module, bind={"B": 16}).planned, 0) == number
