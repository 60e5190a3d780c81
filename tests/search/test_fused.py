"""`--fuse`: each row is that of its plan's program, fused behind the plan's steps."""

from random import Random

import pytest
from search_samples import GPT2, MLP
from thorough import ALL

import distir
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.models import named
from distir.search import Search, Space, Subject, Workers, distributed, evaluate
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.steps import StepError
from distir.transform.strategy.steps import apply, words_of

LLAMA = transform(
    named("llama3-8b", sequence=16, layers=4, width=32, heads=4, kv_heads=2, ffn=48, vocabulary=64),
    "grad", "loss=cross_entropy", "precision=mixed", "optimizer=adam",
)  # fmt: skip
MODELS = {"mlp": MLP, "gpt2": GPT2, "llama": LLAMA}


@pytest.fixture(autouse=True)
def nothing_known():
    """Plans are carried out anew."""
    yield
    distributed.carried_out_for.cache_clear()


def test_fused_rows_are_faster_and_bounds_hold_for_them():
    sizes = (48, 96)
    plain, fused = (
        distir.search(MLP, 4, "dgx-h100", sizes, fuse=fuse, workers=Workers(jobs=1)) for fuse in (False, True)
    )
    assert [words_of(row.plan) for row in fused] == [[*words_of(row.plan), "fuse"] for row in plain]
    assert all(a.latency_s < b.latency_s for a, b in zip(fused, plain, strict=True))
    space = Space(4, sizes, fuse=True)
    found = Search(Subject("mlp", MLP, load("dgx-h100")), space, "bounded", Workers(jobs=1)).table()
    assert (found.best.plan, found.best.latency_s) == (fused.best.plan, fused.best.latency_s)
    assert str(fused.best.plan).endswith(" fuse")


@pytest.mark.by_turns
@pytest.mark.parametrize("model", MODELS)
def test_rows_are_those_of_the_whole_program_fused(model):
    subject = Subject(model, MODELS[model], load("dgx-h100"))
    trained = model != "gpt2"
    sizes = (48, 96)
    schedules = ("1f1b", "interleaved") if trained else ("gpipe",)
    space = Space(4, sizes, (4, 12, 24), schedules, (0, 1) if trained else (0,), fuse=True)
    plans = [*space.plans()]
    if not ALL:
        plans = Random(model).sample(plans, -(-len(plans) // 3))
    derived = 0
    for plan in plans:
        assert words_of(plan)[-1] == "fuse"
        fitting = [size for size in sizes if space.allows(size, plan)]
        other = distributed.extrapolated(subject, plan)
        derived += other is not None and all(other.figures(size) is not None for size in fitting)
        rows = list(evaluate.evaluate(subject, plan, fitting))
        try:
            module = apply(subject.module, plan)
        except (ProgramError, StepError):
            assert all(row.reason for row in rows), plan
            continue
        for row in rows:
            whole = simulate(module, subject.hardware, bind={"B": row.batch_size})
            expected = whole.latency_s, max(whole.peaks.values())
            assert (row.latency_s, row.peak_memory_bytes) == expected, (plan, row.batch_size)
    assert derived
