"""The law of export: what is written is read as the same job, or what differs is said, whatever the field."""

import re
from dataclasses import fields, replace
from random import Random

import pytest
from drawn_jobs import as_run, changed, drawn, job_of
from thorough import most_examples

from distir.configurations import FORMATS, ConfigurationError, Job, Supplied, answer, program_of, read
from distir.configurations.carried import IN_ONE, SEVERAL, named, stated
from distir.configurations.jobs import normal
from distir.configurations.rows import OTHERWISE, exported_row, job_of_row, with_kernels_of
from distir.models import PUBLISHED
from distir.models.decoder import Decoder, Latent, Names, Router
from distir.models.rotary import Rotary
from distir.search.rows import Row
from distir.transform import Strategy
from distir.transform.strategy import FIELDS, SEARCHED
from distir.transform.strategy.partial import LOSS

WRITTEN = [name for name in FORMATS if FORMATS[name].write]


@pytest.mark.parametrize("name", WRITTEN)
def test_jobs_that_a_framework_runs_come_back(name):
    """200 of them; each value that the format says it runs is in one of them, other than parts of few models."""
    form, random, carried, wanted = FORMATS[name], Random(name), [], most_examples(200)
    for _ in range(3 * wanted):
        job = drawn(form, random)
        written = form.write(job)
        assert written.reading is not None, written.lost  # what is written can be read
        if not written.lost:
            assert as_run(written.reading.job, form.framework) == as_run(job, form.framework)
            assert written.reading.framework == form.framework
            carried.append(job)
        if len(carried) == wanted:
            break
    assert len(carried) == wanted
    for field, values in form.runs.items() if wanted == 200 else ():
        usual = {value for value in values if not str(value).startswith("modules:")}
        assert usual <= {stated(job).get(field, "auto" if field == "gradients" else "") for job in carried}, field


LLAMA = replace(PUBLISHED["llama3-8b"], layers=8, vocabulary=32000)
JOB = job_of(name="small", model=LLAMA, seq=4096, data=8, zero=3, overlap=True, micro_batch=1, global_batch=64)

CHANGED = {
    "name": ({"name": "another"}, {}),
    "model": ({"model": None}, {}),
    "seq": ({"seq": 2048}, {}),
    "data": ({"data": 16}, {}),
    "tensor": ({"tensor": 2}, {}),
    "pipeline": ({"pipeline": 2}, {}),
    "context": ({"context": 2}, {}),
    "expert_parallel": ({"expert_parallel": 4}, {"model": replace(LLAMA, experts=8, top_k=2, expert_ffn=512)}),
    "etp": (
        {"etp": 1},
        {"model": replace(LLAMA, experts=8, top_k=2, expert_ffn=512), "expert_parallel": 2, "tensor": 2},
    ),
    "virtual": ({"virtual": 4}, {"pipeline": 2, "schedule": "interleaved"}),
    "schedule": ({"schedule": "zb-h1"}, {"pipeline": 2}),
    "file": ({"schedule": "mine.csv"}, {"pipeline": 2}),
    "stages": ({"stages": (3, 5)}, {"pipeline": 2}),
    "sequence": ({"sequence": True}, {"tensor": 2}),
    "zero": ({"zero": 2}, {}),
    "shard": ({"shard": 4}, {}),
    "micro_batch": ({"micro_batch": 2}, {}),
    "global_batch": ({"global_batch": 128}, {}),
    "optimizer": ({"optimizer": "muon"}, {}),
    "precision": ({"precision": "nvfp4"}, {}),
    "gradients": ({"gradients": "bf16"}, {}),
    "attention": ({"attention": "unfused"}, {}),
    "recompute": ({"recompute": "modules:mlp"}, {}),
    "offloaded": ({"offloaded": 3}, {}),
    "state_on_host": ({"state_on_host": True}, {}),
    "fuse": ({"fuse": True}, {}),
    "async_tp": ({"async_tp": True}, {"tensor": 2, "sequence": True}),
    "overlap": ({"overlap": False}, {}),
    "whole": ({"whole": LOSS}, {"tensor": 2}),
}
"""By field of a job, as it is stated: a value that few frameworks have, and what else it needs."""


def another(value):
    """Another value of a field of a strategy."""
    return (not value) if isinstance(value, bool) else LOSS if isinstance(value, tuple) else type(value or 0)(2)


OTHERS = {name: ({name: another(of.default)}, {}) for name, of in FIELDS.items() if name not in {*IN_ONE, *OTHERWISE}}
EVERY = {**OTHERS, **CHANGED}


def test_every_field_of_a_job_is_tried():
    own = {field.name for field in fields(Job) if field.compare and field.name != "said"}
    assert EVERY.keys() == {*own, *OTHERS, *SEVERAL, "file"}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("field", EVERY)
def test_each_field_of_a_job_is_carried_or_lost(name, field):
    other, needed = EVERY[field]
    job = changed(JOB, **needed, **other)
    written = FORMATS[name].write(job)
    assert written.reading is not None, written.lost
    read, said = as_run(written.reading.job, FORMATS[name].framework)
    (field,) = other
    before, after = (
        stated(found) if field in stated(found) else {field: getattr(found, field)}
        for found in (normal(job), read.saying(**{name: getattr(said, name) for name in FIELDS}))
    )
    if after[field] != before[field] and field != "name":
        assert field in written.losses, written.lost


EXPERTS = {"experts": 8, "top_k": 2, "expert_ffn": 512}
SCALED = Rotary(500000.0, factor=8.0, context=8192)
OF_MODEL = {
    "layers": 6,
    "width": 2048,
    "heads": 16,
    "ffn": 1024,
    "vocabulary": 1000,
    "context": 2048,
    "kv_heads": 4,
    "head_size": 64,
    "window": 512,
    "norm": "rms_offset",
    "epsilon": 1e-6,
    "head_norm": True,
    "joint_norm": True,
    "rotary_size": 64,
    "unrotated_every": 4,
    "attention_bias": True,
    "out_bias": True,
    "mlp_bias": True,
    "activation": "gelu_tanh",
    "gated": False,
    "limit": 7.0,
    "tied": True,
    "scale": 0.1,
    "attention_softcap": 50.0,
    "logits_softcap": 30.0,
    "sinks": True,
    "scaled_embedding": True,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "window_every": ({"window": 512}, 2),
    "norm_bias": ({"norm": "layer"}, False),
    "experts": (EXPERTS, 4),
    "top_k": (EXPERTS, 3),
    "expert_ffn": (EXPERTS, 256),
    "shared_experts": (EXPERTS, 1),
    "dense_layers": (EXPERTS, 2),
    "experts_every": (EXPERTS, 2),
    "position": "alibi",
    "latent": Latent(q_rank=256, kv_rank=128, plain=64, rotated=32, values=64),
    "names": Names(attended_norm="post_attention_layernorm"),
    "router": (EXPERTS, Router(score="sigmoid")),
}
"""By field of a model: another value, perhaps with what it needs."""

PARTS = {
    "latent": (Latent(q_rank=256, kv_rank=128, plain=64, rotated=32, values=64), {}),
    "position": (SCALED, {}),
    "router": (Router(groups=2, best_groups=2), EXPERTS),
    "names": (Names(), {}),
}
"""The fields of a model that have fields of their own."""


def parts():
    for part, (value, needed) in PARTS.items():
        for field in fields(value):
            own = getattr(value, field.name)
            other = (not own) if isinstance(own, bool) else (own or 2) * 2 if isinstance(own, int | float) else None
            text = {"softmax": "sigmoid", None: 1.5}.get(own, "other") if other is None else other
            if isinstance(own, float) or not (isinstance(own, int) and own is None):
                yield f"{part}.{field.name}", {**needed, part: replace(value, **{field.name: text})}


def models():
    for field in fields(Decoder):
        needed, value = given if isinstance(given := OF_MODEL[field.name], tuple) else ({}, given)
        yield field.name, {**needed, field.name: value}
    yield from parts()


def at(model, path):
    for part in path.split("."):
        model = getattr(model, part, None)
    return model


@pytest.mark.parametrize("name", WRITTEN)
def test_each_field_of_a_model_is_carried_or_lost(name):
    for path, other in models():
        job = replace(JOB, model=replace(LLAMA, **other))
        written = FORMATS[name].write(job)
        assert written.reading is not None, (path, written.lost)
        found = written.reading.job.model
        if "model" in written.losses or at(found, path) == at(job.model, path):
            continue
        if path.startswith("names.") and bool(at(found, path)) == bool(at(job.model, path)):
            assert "names of weights" in " ".join(written.lost) or path == "names.positions"
            continue
        owner = path.rpartition(".")[0]
        keys = [key for key in written.losses if f"{key}.".startswith((f"model.{path}.", f"model.{owner or path}."))]
        assert keys, (path, written.lost)
        assert named(f"model.{path}").removeprefix("the model's ") in " ".join(written.lost) or path == "names"


@pytest.mark.parametrize(
    ("model", "lost"),
    [
        ("llama3.1-8b", []),
        ("qwen2.5-7b", []),
        ("mistral-7b", []),
        ("smollm3-3b", []),
        ("gemma2-9b", ["attended norm", "changed norm", "logits softcap", "scaled embedding", "activation"]),
        ("gpt-oss-20b", ["limit", "bias"]),
        ("deepseek-v3", ["factor", "scale"]),
    ],
)
def test_models_of_megatron_are_what_its_arguments_say(model, lost):
    """What sets a published model apart is said by arguments, or lost: its sizes alone are not that model."""
    job = changed(JOB, name=model, model=PUBLISHED[model], zero=1)
    written = FORMATS["megatron"].write(job)
    assert bool(written.lost) == bool(lost)
    for words in lost:
        known = {"attended norm": "normalization behind attention", "changed norm": "behind the perceptron"}
        assert known.get(words, words) in " ".join(written.lost)


PLAN = Strategy(8, 1, 1, 8, zero=3, overlap=True)
OF_PLAN = {
    "data": (PLAN, 4),
    "tensor": (PLAN, 2),
    "pipeline": (PLAN, 2),
    "microbatches": (PLAN, 4),
    "schedule": (Strategy(2, 1, 4, 8), "zb-h1"),
    "zero": (PLAN, 1),
    "checkpoint": (PLAN, True),
    "recompute": (replace(PLAN, checkpoint=True), "products"),
    "stages": (Strategy(4, 1, 2, 8), (15, 17)),
    "sums": (Strategy(4, 1, 2, 8), "stage"),
    "fuse": (PLAN, True),
    "overlap": (Strategy(8, 1, 1, 8, zero=3), True),
    "experts": (PLAN, 4),
    "skew": (replace(PLAN, experts=4), 1.5),
    "context": (PLAN, 2),
    "kind": (replace(PLAN, context=2), "allgather"),
    "virtual": (Strategy(4, 1, 2, 8, schedule="interleaved"), 4),
    "chunks": (Strategy(4, 1, 2, 8, schedule="seq1f1b"), 4),
    "shard": (PLAN, 4),
    "sequence": (Strategy(4, 2, 1, 8), True),
    "balance": (Strategy(4, 1, 2, 8), "cost"),
    "etp": (Strategy(4, 2, 1, 8, experts=4), 1),
    "cp_experts": (replace(PLAN, experts=2, context=2), True),
    "passes": (replace(PLAN, tensor=2), True),
}
"""By field of a plan: a plan where another value of it has an effect, and that value."""


def test_every_field_of_a_plan_is_tried():
    assert OF_PLAN.keys() == {*SEARCHED}


@pytest.mark.parametrize("field", OF_PLAN)
def test_each_field_of_a_plan_is_in_the_job(field):
    plan, value = OF_PLAN[field]
    row = Row("qwen3-30b-a3b", 64, Strategy(), 1.0, 1.0, 1, True)
    row, other = (replace(row, plan=p) for p in (plan, replace(plan, **{field: value})))
    assert job_of_row(row, Supplied()) != job_of_row(other, Supplied())


def test_the_kind_that_a_framework_has_is_not_lost():
    row = Row("llama3-8b", 64, Strategy(), 1.0, 1.0, 1, True)
    full = replace(row, plan=Strategy(8, microbatches=8, checkpoint=True, recompute="full", fuse=True))
    assert not exported_row(full, Supplied(), "megatron").losses
    ring = replace(row, plan=replace(PLAN, context=2, kind="ring"))
    assert "kind" not in exported_row(ring, Supplied(), "torchtitan").losses
    lost = exported_row(ring, Supplied(), "deepspeed").losses["kind"]
    assert lost == "context parallelism by: ring, a2a as deepspeed runs it"


@pytest.mark.parametrize(
    ("plan", "runs"),
    [
        (
            Strategy(8, 1, 1, 8, zero=3, overlap=True, fuse=True),
            {"torchtitan", "torchtitan-python", "megatron", "fsdp2"},
        ),
        (
            Strategy(2, 2, 2, 8, schedule="interleaved", sequence=True, zero=1, overlap=True, fuse=True),
            {"megatron", "nemo"},
        ),
        (Strategy(4, 1, 2, 8, schedule="zb-h1"), set()),
    ],
)
def test_which_frameworks_run_a_plan(plan, runs):
    row = Row("llama3-8b", 64, Strategy(), 1.0, 1.0, 1, True, hardware="dgx-h100")
    row = replace(row, plan=plan)
    found = {name for name in WRITTEN if not exported_row(row, Supplied(), name).losses}
    assert found - {"megatron-bridge"} == runs


@pytest.mark.parametrize(
    ("source", "compiled", "expected"),
    [("megatron", None, True), ("deepspeed", None, False), ("torchtitan", True, True), ("fsdp2", False, False)],
)
def test_kernels_are_those_of_the_framework_where_a_job_does_not_say(source, compiled, expected):
    job = JOB if compiled is None else changed(JOB, fuse=compiled)
    assert with_kernels_of(job, source).strategy.fuse == expected


SMALL = """\
[model]
name = "llama3"
flavor = "debugmodel"
[training]
local_batch_size = 2
seq_len = 256
[parallelism]
data_parallel_shard_degree = 2
[activation_checkpoint]
mode = "none"
[compile]
enable = true
"""

STEP = re.compile(r"(?P<time>[\d.]+\w?s) a step")
FITS = re.compile(r"(does not fit|may not fit|fits): \S+ of \S+ on the fullest device")


@pytest.mark.parametrize("name", ["torchtitan", "megatron", "deepspeed"])
def test_the_head_says_what_import_says_of_the_file(distir, tmp_path, name):
    """To the digit, as what was written is the same job."""
    (tmp_path / "job.toml").write_text(SMALL)
    ended = distir("export", name, tmp_path / "job.toml", "--hardware", "dgx-h100", "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    told = next(line for line in ended.out.splitlines() if line.startswith(f"as {name} runs it on dgx-h100: "))
    assert told in (tmp_path / "out").read_text()
    beside = {"megatron": ["--gpus", 2], "deepspeed": ["--model", "llama3-8b", "--seq", 256]}.get(name, [])
    if name == "deepspeed":  # the model is not in the file, and has no published name
        reading = read("deepspeed", (tmp_path / "out").read_text(), "out", Supplied(model=DEBUG, seq=256))
        again = answer(reading.job, program_of(reading.job, "deepspeed", "h100_80gb"))
        assert abs(float(STEP.search(told)["time"].removesuffix("ms")) - 1000 * again.step_time_s) < 0.01
        return
    again = distir("import", name, tmp_path / "out", "--hardware", "dgx-h100", *beside).out
    assert STEP.search(told)["time"] == STEP.search(again)["time"]
    assert FITS.search(told)[0] == FITS.search(again)[0]


DEBUG = read("torchtitan", SMALL, "job", Supplied()).job.model


def test_a_job_that_does_not_fit_ends_with_1(distir, tmp_path):
    (tmp_path / "job.toml").write_text(SMALL.replace("local_batch_size = 2", "local_batch_size = 8192"))
    ended = distir("export", "torchtitan", tmp_path / "job.toml", "--hardware", "dgx-h100")
    assert ended.code == 1
    assert "does not fit: " in ended.out.splitlines()[1]
    assert "does not fit: " in ended.err


def test_a_job_of_no_known_model_is_written_and_says_why_it_is_not_simulated():
    row = Row("m", 64, Strategy(2), 0.1, 640.0, 1, True, hardware="dgx-h100")
    from distir.cli.configurations import export_row

    written, fits = export_row(row, "torchtitan")
    assert fits
    assert "not simulated: it does not say which model it trains" in written.text


def test_a_schedule_that_a_framework_lacks_is_said_with_those_that_it_has():
    job = changed(JOB, pipeline=2, schedule="zb-h1", zero=0)
    for name, has in (("megatron", "1f1b, interleaved"), ("torchtitan", "zb-v")):
        (line,) = (line for line in FORMATS[name].write(job).lost if "zb-h1" in line)
        assert has in line
        assert "1f1b is written" in line


def test_formats_name_fields_of_jobs():
    known = {*FIELDS, *SEVERAL, *(field.name for field in fields(Job))}
    assert all(FORMATS[name].runs.keys() <= known for name in WRITTEN)


@pytest.mark.parametrize(
    ("degrees", "message", "help"),
    [
        ({"tensor": 3, "data": 1, "global_batch": 1}, "tensor parallelism of 3 does not divide 32 heads", "1, 2 or 4"),
        ({"tensor": 16, "data": 1, "global_batch": 1}, "16 does not divide 8 heads of keys and values", "1, 2, 4 or 8"),
        (
            {"context": 3, "data": 1, "global_batch": 1, "zero": 0},
            "3 does not divide 4096 tokens of a sequence",
            "1, 2 or 4",
        ),
        (
            {"data": 6, "global_batch": 6},
            "ZeRO over 6 replicas does not divide 4096 of the model's width",
            "1, 2, 4 or 8",
        ),
    ],
)
def test_degrees_that_do_not_divide_are_said_with_those_that_do(degrees, message, help):
    with pytest.raises(ConfigurationError) as error:
        answer(job := changed(JOB, **degrees), program_of(job, "torchtitan", "h100_80gb"))
    assert message in error.value.message
    assert help in (error.value.help or "")
