"""A search makes a pipeline of few microbatches and repeats its rounds: its rows are those of the whole programs."""

from random import Random

import pytest
from oracle import oracle
from search_samples import CALIBRATED, GPT2, MLP
from thorough import ALL

import distir
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.models import gpt2
from distir.search import Space, Subject, distributed, evaluate
from distir.search.binding import evaluated
from distir.simulate import simulate
from distir.simulate.extrapolation.numbers import are_numbers
from distir.transform import transform
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import apply

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

"""Whether sums of gradients by stage are tried with all strategies, too, and all strategies on all machines."""

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
}


@pytest.fixture(autouse=True)
def nothing_known():
    """Plans are carried out anew."""
    yield
    distributed.carried_out_for.cache_clear()


def figures(row):
    return row.latency_s, row.peak_memory_bytes


def assert_same(subject, plan, sizes):
    """That rows of a search are those of the program that the steps make, transformed and simulated by itself."""
    rows = list(evaluate.evaluate(subject, plan, sizes))
    try:
        module = apply(subject.module, plan)
    except (ProgramError, StepError):
        assert all(row.reason for row in rows), plan
        return
    for row in rows:
        found = simulate(module, subject.hardware, bind={"B": row.batch_size})
        assert figures(row) == (found.latency_s, max(found.peaks.values())), (plan, row.batch_size)


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_those_of_the_whole(model, machine):
    subject = Subject(model, MODELS[model], MACHINES[machine]())
    devices = min(4, subject.hardware.devices)
    sizes = (240, 480)
    trained, asks = "inference" not in model, model == "training that asks"
    space = Space(
        devices, sizes, (4, 24) if asks else (1, 2, 4, 10, 24, 60),
        ("1f1b", "gpipe") if asks else ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v") if trained else ("gpipe",),
        (0, 1, 2, 3) if trained else (0,), (False, True) if asks else (False,),
        sums=("layer", "stage") if trained and ALL else ("layer",),
    )  # fmt: skip
    plans = [plan for plan in space.plans() if plan.pipeline > 1]
    plans = [p for p in plans if p.microbatches in (4, 24) or not (p.zero or p.sums == "stage")]
    if not ALL:
        plans = Random(f"{model} on {machine}").sample(plans, -(-len(plans) // 3))
    told = 0
    for plan in plans:
        fitting = [size for size in sizes if space.allows(size, plan)]
        other = distributed.extrapolated(subject, plan)
        told += other is not None and all(other.figures(size) is not None for size in fitting)
        assert_same(subject, plan, fitting)
    assert told


@pytest.mark.parametrize("model", ["training", "training that asks"])
def test_more_microbatches_of_plans_with_overlap_too(model):
    """Fewer are built: with streams, it matters in which order statements are issued, not only on which device."""
    subject = Subject(model, MODELS[model], load("dgx2-v100"))
    for plan in (Strategy(2, 2, 2, 24, overlap=True), Strategy(2, 1, 2, 60, zero=1, overlap=True)):
        assert distributed.extrapolated(subject, plan).figures(240) is not None
        assert_same(subject, plan, (240,))
    assert (
        distributed.extrapolated(subject, Strategy(2, 1, 2, 4, overlap=True)) is None
    )  # no other program is made in vain


@pytest.mark.parametrize("model", ["training", "inference"])
def test_rows_of_plans_themselves_are_the_same(model):
    subject = Subject(model, MODELS[model], load("dgx2-v100"))
    for plan in (Strategy(2, 1, 2, 4), Strategy(1, 2, 2, 24)):
        assert distributed.extrapolated(subject, plan) is not None
        sizes = (240, 480)
        derived, own = (list(evaluate.evaluate(subject, plan, sizes, extrapolates=yes)) for yes in (True, False))
        assert derived == own


def test_a_row_that_says_what_binds_it_takes_one_program(monkeypatch):
    """That of its plan, which what binds it is asked of."""
    subject, plan = Subject("training", MLP, load("dgx2-v100")), Strategy(2, 1, 2, 24)
    made, whole = [], distributed.Distributed

    def distributing(*given):
        made.append(given)
        return whole(*given)

    monkeypatch.setattr(distributed, "Distributed", distributing)
    (row,) = evaluated(0.0, subject, plan, (240,))
    assert row.binding is not None
    assert made == [(subject, plan, None)]


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_what_the_oracle_says(model, schedule):
    subject = Subject(model, MODELS[model], load("dgx2-v100"))
    plans = (
        Strategy(1, 1, 2, 4, schedule),
        Strategy(2, 1, 2, 12, schedule),
        Strategy(1, 2, 2, 20 if ALL else 10, schedule),
    )
    for plan in plans:
        for row in evaluate.evaluate(subject, plan, (240, 480) if ALL else (240,)):
            expected = oracle(apply(subject.module, plan), subject.hardware, {"B": row.batch_size})
            assert figures(row) == (expected.latency_s, max(expected.peaks.values())), (plan, row.batch_size)


@pytest.mark.each_once
@pytest.mark.parametrize("sums", ["layer", "stage"])
@pytest.mark.parametrize("model", MODELS)
def test_the_paper_s_numbers_of_microbatches_take_one_program(model, sums):
    subject = Subject(model, MODELS[model], load("dgx2-v100"))
    for count in (2, 4, 16, 32, 64, 128):
        other = distributed.extrapolated(subject, Strategy(2, 1, 2, count, sums=sums))
        assert other.counted == 8
        assert other.figures(1024) is not None
    assert distributed.extrapolated(subject, Strategy(2, 1, 2, 8, sums=sums)) is None


def test_a_thousand_microbatches_are_a_power_of_the_round():
    subject = Subject("training", MLP, load("dgx2-v100"))
    plan = Strategy(1, 1, 4, 1200)
    assert distributed.extrapolated(subject, plan).figures(2400) is not None
    assert_same(subject, plan, (1200, 2400))


def test_a_batch_that_is_used_as_a_whole_is_simulated_whole():
    """Here one device takes what the stages need no more, as large as the batch is: an op outside the pipeline."""
    subject = Subject("two", WHOLE, load("dgx2-v100"))
    for plan in Space(2, (480,), (24, 60), ("gpipe",)).plans():
        assert_same(subject, plan, (480,))


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
