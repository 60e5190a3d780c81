"""Pipelines on a mesh: each is the pipeline that it was written of, on every device of every stage."""

import random
import re
from functools import cache
from pathlib import Path

import pytest
from each_device import as_each_device
from thorough import also_together

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.ir import Call
from distir.ir.counted import times_in
from distir.models import gpt2, mlp, named
from distir.ops.mesh import COLLECTIVES
from distir.prove import prove
from distir.simulate.simulation import simulate
from distir.syntax import print_rolled
from distir.transform.entry import without_idle_ends
from distir.transform.inline import without_calls
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify

SMALL = {"layers": 2, "batch": 8, "sequence": 4, "width": 8, "heads": 2, "vocabulary": 16, "dtype": "Float32"}
LLAMA = {**SMALL, "kv_heads": 2, "head_size": 4, "ffn": 16}

MODELS = {
    "mlp": lambda: mlp(4, 8, 8, "Float32"),
    "deep": lambda: mlp(8, 8, 16, "Float32"),
    "gpt2": lambda: gpt2(**SMALL, positions=4),
    "llama": lambda: named("llama3-8b", **{**LLAMA, "layers": 3}),
    "dropout": lambda: gpt2(**SMALL, positions=4, dropout=0.1),
    "gemma": lambda: named("gemma2-2b", **LLAMA),
}

STEPS = {
    "forward": (),
    "step": ("grad", "optimizer=adam"),
    "clipped": ("grad", "optimizer=adam", "clip=1.0"),
    "mixed": ("grad", "optimizer=adam", "precision=mixed"),
}

CASES = [
    ("mlp", "step", "pp=2 microbatches=4", "dp=2 tp=2"),
    ("mlp", "step", "pp=2 microbatches=2 schedule=zb-h1", "dp=2 zero=3"),
    ("deep", "step", "pp=2 microbatches=8 schedule=interleaved virtual=2", "dp=2 tp=2 zero=1"),
    ("gpt2", "clipped", "pp=2 microbatches=2 schedule=gpipe", "tp=2"),
]

FURTHER = [
    ("llama", "step", "pp=3 microbatches=4 balance=0,1,2", "tp=2"),
    ("llama", "step", "pp=2 microbatches=4 balance=1,2", "dp=2 tp=2 zero=3"),
    ("llama", "mixed", "pp=2 microbatches=2", "dp=2 tp=2 zero=3"),
    ("llama", "forward", "pp=2 microbatches=2", "dp=2 tp=2"),
    ("gemma", "clipped", "pp=2 microbatches=4 schedule=zb-h1", "dp=2 tp=2 zero=2"),
    ("gpt2", "step", "pp=2 microbatches=2", "dp=4 zero=3"),
    ("deep", "step", "pp=4 microbatches=8 schedule=zb-v", "dp=2 zero=1"),
    ("mlp", "step", "accumulate=8", "tp=2"),
    ("deep", "clipped", "accumulate=8", "dp=2 tp=2 zero=2"),
    ("gpt2", "step", "accumulate=4", "dp=2 zero=3"),
    ("llama", "mixed", "accumulate=4", "dp=2 tp=2 zero=3"),
    ("llama", "step", "pp=2 microbatches=2 schedule=seq1f1b chunks=2", "dp=2 tp=2"),
    ("dropout", "step", "pp=2 microbatches=2", "dp=2 tp=2"),
]

TODAY = [
    ("mlp", "step", "pp=2 microbatches=4 schedule=zb-h1", "dp=2 tp=2"),
    *also_together(
        ("llama", "step", "pp=2 microbatches=4", "dp=2 tp=2"),
        ("gpt2", "step", "pp=2 microbatches=2 schedule=gpipe", "dp=2 tp=2"),
        ("deep", "step", "pp=2 microbatches=8 schedule=interleaved virtual=2", "dp=2 tp=2"),
        ("mlp", "step", "pp=2 microbatches=4", "dp=2 tp=2 zero=3"),
        ("mlp", "step", "pp=2 microbatches=4", "dp=2 tp=2 zero=1"),
    ),
]
"""What takes the time of `dtp`, and of `zero` behind it, to the tick."""


@cache
def training(model, kind):
    made = MODELS[model]()
    return distir.transform(made, *STEPS[kind]) if STEPS[kind] else made


@cache
def pipeline(model, kind, pipe):
    return distir.transform(training(model, kind), *pipe.split())


@cache
def placed(model, kind, pipe, strategy):
    return distir.transform(pipeline(model, kind, pipe), "mesh", *strategy.split())


def means_its_pipeline(model, kind, pipe, strategy):
    """The laws of a pipeline on a mesh."""
    before, found = pipeline(model, kind, pipe), placed(model, kind, pipe, strategy)
    again = read(print_rolled(found))
    assert not again.errors
    assert print_rolled(again.module) == print_rolled(found)
    if kind != "clipped":  # sums of whole and pending terms are regrouped
        assert without_calls(erase(found)) == without_calls(without_idle_ends(before))
    compared = verify(training(model, kind), found)
    assert compared.equal, [row for row in compared.results if not row.equal]
    assert not compared.unclaimed
    as_each_device(found, load("dgx-a100"))


@pytest.mark.parametrize(("model", "kind", "pipe", "strategy"), [*CASES, *also_together(*FURTHER)])
def test_a_pipeline_on_a_mesh_is_the_pipeline_on_every_device(model, kind, pipe, strategy):
    means_its_pipeline(model, kind, pipe, strategy)


SCHEDULES = ("gpipe", "1f1b", "zb-h1", "interleaved", "looped-bfs", "zb-v")


def drawn(seed):
    """A model, a pipeline and a strategy on at most 8 devices."""
    draw = random.Random(seed)
    model, kind = draw.choice([*MODELS]), draw.choice([*STEPS])
    layers, batch = {"mlp": 4, "deep": 8, "llama": 3}.get(model, 2), 16 if model == "deep" else 8
    schedule = draw.choice(SCHEDULES)
    stages = draw.choice([n for n in (2, 3, 4) if n <= layers // (1 if schedule in SCHEDULES[:3] else 2)] or [2])
    if stages * 2 > layers and schedule not in SCHEDULES[:3]:
        schedule = "1f1b"
    dp, tp = draw.choice([(d, t) for d in (1, 2, 4) for t in (1, 2) if d * t > 1 and d * t * stages <= 8])
    microbatches = draw.choice([n for n in (2, 4, 8) if n * dp <= batch and not (stages == 3 and n == 2)])
    zero = draw.choice(range(4)) if dp > 1 and kind != "forward" else 0
    words = f"pp={stages} microbatches={microbatches} schedule={schedule}"
    return model, kind, words, f"dp={dp} tp={tp} zero={zero}"


@pytest.mark.parametrize(
    "seed", [1, 21, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(2, 60) if k != 21)]
)
def test_any_pipeline_on_any_mesh_is_the_pipeline_on_every_device(seed):
    means_its_pipeline(*drawn(seed))


@pytest.mark.parametrize(("model", "kind", "pipe", "strategy"), TODAY)
def test_it_takes_the_time_of_the_steps_of_one_axis_each(model, kind, pipe, strategy):
    words = dict(word.split("=") for word in strategy.split())
    stages, *options = pipe.split()
    steps = [f"dtp={words['dp']},{words['tp']},{stages.removeprefix('pp=')}", *options]
    steps += [f"zero={words['zero']}", "partition=split"] if "zero" in words else []
    before = simulate(distir.transform(training(model, kind), *steps), "dgx-a100")
    assert simulate(expand(placed(model, kind, pipe, strategy)), "dgx-a100").latency_s == before.latency_s


def test_its_text_grows_with_neither_devices_nor_microbatches():
    def lines(microbatches, dp):
        model = mlp(4, 8, 256, "Float32")
        words = f"grad pp=2 microbatches={microbatches} mesh dp={dp} tp=2"
        return len(print_rolled(distir.transform(model, *words.split())).splitlines())

    assert lines(8, 8) == lines(8, 32) == lines(16, 8)


def test_a_text_that_counts_the_messages_of_its_parameters_is_expanded():
    found = distir.transform(mlp(16, 8, 16, "Float32"), "pp=2", "microbatches=2", "mesh", "dp=2")
    counted = read(print_rolled(found)).module
    called = [s.function for s in counted.functions["main.scatter"].body if isinstance(s, Call)]
    assert any(times_in(counted.functions[name]) for name in called)
    assert expand(counted).functions["main.scatter"] == expand(found).functions["main.scatter"]


def test_gradients_are_summed_over_replicas_once_for_a_step():
    found = placed("mlp", "step", "pp=2 microbatches=4", "dp=2 tp=2")
    reduced = [s for f in found for s in f.body if getattr(s, "op", "") in COLLECTIVES and s.attrs["axis"] == "dp"]
    own = [s for s in found.entry().body if s in reduced]
    assert len(own) == len(reduced) == 9  # of eight weights and the loss


def test_gradients_of_microbatches_on_the_same_devices_are_reduced_each_with_zero_2():
    """As `zero` does behind `accumulate`: their sums are of parts, and no more memory is taken than there."""
    found = placed("mlp", "step", "accumulate=4", "dp=2 zero=3")
    assert verify(training("mlp", "step"), found).equal
    passes = [f for f in found if f.name.endswith("backward") and f.name.startswith("stage")]
    assert [sum(getattr(s, "op", "") == "ReduceScatter" for s in f.body) for f in passes] == [8, 8]
    steps = ["dtp=2,1,1", "microbatches=4", "zero=3", "partition=split"]
    before = simulate(distir.transform(training("mlp", "step"), *steps), "dgx-a100")
    now = simulate(expand(found), "dgx-a100")
    assert now.latency_s == before.latency_s
    assert now.devices[1].peak_memory_bytes == before.devices[1].peak_memory_bytes
    once = placed("mlp", "step", "accumulate=4", "dp=2 zero=1")
    assert not [s for f in once if f.name != "main" for s in f.body if getattr(s, "op", "") == "ReduceScatter"]


def test_copies_of_an_input_on_several_stages_are_split_alike():
    """Both stages have the tokens; one cuts them into microbatches, the other takes the positions of their rows."""
    found = distir.transform(MODELS["dropout"](), "grad", "pp=2", "microbatches=2", "mesh", "dp=2")
    scatter, main = found.functions["main.scatter"], found.entry()
    given = next(p.type for p in scatter.params if p.name == "input_ids")
    copies = [p.type for p in main.params if p.name.startswith("input_ids.")]
    assert [t.places for t in copies] == [given.places] * 2
    assert str(given) == "Tensor[Int64, (8@dp[4, 4], 4), 1]"


def test_what_it_writes_is_the_program_of_the_golden_file():
    model = mlp(2, 4, 4, "Float32")
    written = print_rolled(distir.transform(model, "grad", "pp=2", "microbatches=2", "mesh", "dp=2", "zero=1"))
    golden = Path(__file__).parents[1] / "golden" / "pipeline_on_mesh.md"
    assert f"```dir\n{written}```" in golden.read_text()


TIED = ("gpt2", "clipped", "pp=2 microbatches=2 schedule=gpipe", "tp=2")
"""Two stages have the table of embeddings: the pipeline has another number of parameters than the training step."""


@pytest.mark.parametrize("case", [CASES[0], TIED], ids=["mlp", "tied"])
def test_it_is_proved_by_its_types_and_its_erasure(case):
    model, kind, pipe, _ = case
    found = placed(*case)
    for other in (training(model, kind), pipeline(model, kind, pipe)):
        proof = prove(found, other)
        assert proof.proved
        assert str(proof.meshes) == str(found.meshes)


def test_what_a_stage_leaves_out_is_not_proved():
    found = placed(*TIED)
    text = print_rolled(found)
    wrong = read(text.replace("Sum(%loss_sum, %loss)", "Sum(%loss, %loss)")).module
    assert wrong != read(text).module
    proof = prove(wrong, training(*TIED[:2]))
    assert not proof.proved


@pytest.mark.parametrize(("words", "code", "message", "remedy"), [
    ("grad mesh dp=2 pp=2 microbatches=4", "DIR691", "represents a mesh", "the order is `pp=2`, then `mesh`"),
    ("grad mesh dp=2 accumulate=4", "DIR691", "represents a mesh", "the order is `accumulate=4`, then `mesh`"),
    ("grad dtp=2,1,2 microbatches=2 mesh tp=2", "DIR605", "make several devices of one", "the program before that"),
    ("grad pp=2 microbatches=8 mesh dp=2", "DIR620", "in a microbatch, `%x` dimension 0 is 1", "fewer microbatches"),
    ("grad pp=2 microbatches=2 mesh dp=3", "DIR620", "in a microbatch, `%x` dimension 0 is 4", "2, 4 would do"),
    ("grad pp=5 microbatches=2 mesh dp=2", "DIR642", "has 4 layers, too few for 5 stages", "at most 4 stages"),
])  # fmt: skip
def test_what_cannot_be_is_refused_once_with_the_remedy(words, code, message, remedy):
    with pytest.raises(distir.ProgramError) as caught:
        distir.transform(MODELS["mlp"](), *words.split())
    (found,) = caught.value.diagnostics
    assert found.code.number == code
    assert message in found.message
    assert remedy in found.help


@pytest.mark.parametrize(("before", "after", "code", "message"), [
    ("tp = 2", "tp = 3", "DIR422", "which is 8, does not split over 3 devices (tp = 3)"),
    ("tp = 2", "tq = 2", "DIR421", "the mesh has no axis `tp`"),
])  # fmt: skip
def test_a_mesh_that_does_not_fit_is_one_error_for_all_values(before, after, code, message):
    text = print_rolled(distir.transform(MODELS["mlp"](), "pp=2", "microbatches=2", "mesh", "tp=2"))
    (found,) = read(text.replace(before, after)).errors
    assert found.code.number == code
    assert message in found.message
    (note,) = found.notes
    assert re.fullmatch(r"\d+ more of this cause|another one of this cause", note.message)
