"""Rows of searches as configurations: numbers that mean the same strategy, under names that the framework has."""

import json
import re
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.configurations import ConfigurationError, Supplied
from distir.configurations.known import listed
from distir.configurations.rows import exported, job_of_row, title_of
from distir.search.rows import Row
from distir.transform import Strategy


def export(row, name):
    return exported(job_of_row(row, Supplied()), name, title_of(row)).text


PARALLELISM = {
    *("data_parallel_replicate_degree", "data_parallel_shard_degree", "enable_sequence_parallel"),
    *("fsdp_reshard_after_forward", "pipeline_parallel_degree", "pipeline_parallel_first_stage_less_layers"),
    *("pipeline_parallel_last_stage_less_layers", "pipeline_parallel_layers_per_stage", "tensor_parallel_degree"),
    *("pipeline_parallel_microbatch_size", "pipeline_parallel_schedule", "module_fqns_per_model_part"),
}
"""Of `ParallelismConfig` in torchtitan/config/configs.py, version 0.3.0."""

POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def rows(draw):
    data, tensor, stages = draw(POWERS), draw(POWERS), draw(POWERS)
    microbatches = draw(st.sampled_from([2, 4, 6])) if stages > 1 else 1
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"]))
    pieces = stages * (2 if schedule in ("interleaved", "zb-v") else 1)
    uneven = st.lists(st.integers(1, 9), min_size=pieces, max_size=pieces)
    batch, zero = data * microbatches * draw(st.integers(1, 5)), draw(st.integers(0, 3)) if data > 1 else 0
    layers = tuple(draw(uneven)) if stages > 1 and draw(st.booleans()) else ()
    plan = Strategy(data, tensor, stages, microbatches, schedule, zero, draw(st.booleans()), layers)
    return Row("m", batch, plan, 0.1, 10.0, 1, True, hardware="h")


def flags(text):
    words = " ".join(line.removesuffix(" \\") for line in text.splitlines() if not line.startswith("#"))
    found = re.findall(r"(--[\w-]+)(?: (?!--)(\S+))?", words)
    return {name: value.strip('"') for name, value in found}


@given(rows())
def test_megatron_has_its_own_names_and_the_same_batch(row):
    found = flags(export(row, "megatron"))
    replicas = row.plan.devices // (
        int(found["--tensor-model-parallel-size"]) * int(found["--pipeline-model-parallel-size"])
    )
    assert replicas == row.plan.data
    assert (
        int(found["--micro-batch-size"]) * row.plan.microbatches * replicas
        == int(found["--global-batch-size"])
        == row.batch_size
    )
    assert ("--use-distributed-optimizer" in found) == (row.plan.zero > 0)
    if layout := found.get("--pipeline-model-parallel-layout"):
        counts = [int(n or 1) for stage in layout.strip("EL").split("|") for n in re.findall(r"t(?:\*(\d+))?", stage)]
        assert tuple(counts) == row.plan.stages


@given(rows())
def test_deepspeed_has_its_own_names_and_the_same_batch(row):
    found = json.loads(export(row, "deepspeed"))
    assert (
        found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] * row.plan.data
        == found["train_batch_size"]
        == row.batch_size
    )  # what DeepSpeed itself asserts
    assert row.plan.pipeline == 1 or found["zero_optimization"]["stage"] <= 1  # its pipelines assert that
    assert found["zero_optimization"]["stage"] == row.plan.zero or found["distir"]["not_carried_over"]


class Recorder:
    """Takes attributes as a configuration does, and remembers their full names."""

    def __init__(self, settings, prefix=""):
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "prefix", prefix)

    def __getattr__(self, name):
        return Recorder(self.settings, f"{self.prefix}{name}.")

    def __setattr__(self, name, value):
        self.settings[f"{self.prefix}{name}"] = value


@given(rows())
def test_a_torchtitan_configuration_in_python_runs_and_has_its_own_names(row):
    checkpointing = types.ModuleType("torchtitan.distributed.activation_checkpoint")
    checkpointing.FullAC = types.SimpleNamespace(Config=lambda: "full")
    checkpointing.SelectiveAC = types.SimpleNamespace(Config=lambda: "selective")
    names = ("torchtitan", "torchtitan.distributed", "torchtitan.distributed.activation_checkpoint")
    modules = dict(zip(names, (*map(types.ModuleType, names[:2]), checkpointing), strict=True))
    written = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        exec(export(row, "torchtitan-python"), written)
    settings = {}
    written["distributed"](Recorder(settings))
    options = {f"parallelism.{name}" for name in PARALLELISM} | {"activation_checkpoint"}
    assert settings.keys() <= options | {name for name in listed("torchtitan") if name.startswith("training.")}
    degrees = ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel")
    product = 1
    for degree in degrees:
        product *= settings[f"parallelism.{degree}_degree"]
    assert product == row.plan.devices
    assert (
        settings["training.local_batch_size"] * row.plan.data
        == settings["training.global_batch_size"]
        == row.batch_size
    )
    if row.plan.pipeline > 1:
        size = settings["parallelism.pipeline_parallel_microbatch_size"]
        assert settings["training.local_batch_size"] == size * row.plan.microbatches
    assert settings["activation_checkpoint"] == ("full" if row.plan.checkpoint else None)


@pytest.mark.parametrize(
    ("hardware", "gpus", "started"),
    [
        ("dgx-h100x32", 256, (32, 8)),
        ("dgx-h100x32@compiled", 4, (1, 4)),
        ("dgx-h100x2", 12, (2, 6)),
        ("2x-dgx2-v100", 32, (2, 16)),
        ("gb200", 72, (18, 4)),
        ("a machine that is not known here", 16, (2, 8)),
    ],
)
def test_the_start_states_nodes_and_processes_of_each(hardware, gpus, started):
    row = Row("m", gpus, Strategy(gpus), 0.1, 1.0, 1, True, hardware=hardware)
    nodes, each = started
    assert f"torchrun --nnodes {nodes} --nproc-per-node {each} …" in export(row, "megatron")
    assert f"deepspeed --num_nodes {nodes} --num_gpus {each}" in export(row, "deepspeed")
    assert f"  devices: {each}\n  num_nodes: {nodes}\n" in export(row, "nemo")


def test_nodes_are_those_that_a_configuration_states(distir, tmp_path):
    script = (
        "torchrun --nnodes 4 --nproc_per_node 4 pretrain_gpt.py --micro-batch-size 1 --global-batch-size 16 --bf16\n"
    )
    (tmp_path / "train.sh").write_text(script)
    ended = distir("export", "torchtitan", tmp_path / "train.sh", "--model", "llama3-8b")
    assert "torchrun --nnodes 4 --nproc-per-node 4 …" in ended.out


def test_gradients_accumulate_without_a_pipeline():
    row = Row("m", 64, Strategy(2, microbatches=4), 0.1, 1.0, 1, True)
    assert "local_batch_size = 8\n" in export(row, "torchtitan")
    assert "local_batch_size = 8\n" in export(row, "torchtitan-python")


@pytest.mark.parametrize("framework", ["megatron", "megatron-bridge", "nemo", "deepspeed", "torchtitan"])
def test_a_batch_that_is_not_known_is_said(framework):
    assert "the batch, which is not known" in export(Row("m", None, Strategy(2), 0.1, 1.0, 1, True), framework)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"])
def test_torchtitans_schedules_are_those_that_torch_has(schedule):
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    text = export(Row("m", 8, Strategy(1, 1, 2, 4, schedule), 0.1, 1.0, 1, True), "torchtitan")
    name = re.search(r'pipeline_parallel_schedule = "(\w+)"', text)[1]
    assert schedules.get_schedule_class(name)


@pytest.mark.parametrize("framework", ["megatron", "megatron-bridge", "nemo", "deepspeed", "torchtitan"])
def test_what_does_not_carry_over_is_said(framework):
    plan = Strategy(2, 2, 2, 4, "zb-h1", 1 if framework == "torchtitan" else 3, stages=(3, 1))
    row = Row("m", 64, plan, 0.1, 640.0, 1, True)
    text = export(row, framework)
    assert "zb-h1" in text.partition("not")[2]
    assert "ZeRO stage" in text
    kernels = Strategy(2, fuse=framework != "deepspeed")  # as the framework has them
    plain = export(Row("m", 64, kernels, 0.1, 640.0, 1, True), framework)
    assert "not carried over" not in plain
    assert '"not_carried_over": []' in plain or framework != "deepspeed"


UNEVEN = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
[parallelism]
tensor_parallel_degree = 8
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
"""


@pytest.mark.parametrize("framework", ["megatron", "megatron-bridge", "deepspeed", "torchtitan"])
def test_what_is_not_carried_over_to_a_file_is_told(distir, tmp_path, framework):
    """And the file is one that the framework takes: Megatron interleaves multiples of its stages alone."""
    (tmp_path / "job.toml").write_text(UNEVEN)
    ended = distir("export", framework, tmp_path / "job.toml", "--gpus", 16, "-o", tmp_path / "out")
    assert ended.code == 0
    assert ("not carried over: " in ended.err) == (framework != "torchtitan")
    if framework.startswith("megatron"):
        assert "interleaving: Megatron-LM wants microbatches in multiples of 2" in ended.err
        again = distir("import", framework, tmp_path / "out", "--hardware", "dgx-h100", "--gpus", 16)
        assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("kind", "flags"), [("torch-csv", ["--row", 2]), ("chakra", ["--gpus", 8]), ("megatron", ["--function", "main"])]
)
def test_an_option_of_another_format_is_refused(distir, tmp_path, kind, flags):
    ended = distir("export", kind, tmp_path / "x", *flags)
    assert (ended.code, ended.err) == (2, f"error: `{flags[0]}`: an export to `{kind}` takes none\n")


def test_a_name_on_two_lines_stays_a_comment():
    row = Row("a\nimport os", 64, Strategy(2, 2), 0.1, 640.0, 1, True)
    for framework in ("megatron", "torchtitan"):
        assert export(row, framework).splitlines()[0].startswith("# a\\nimport os")


def test_an_unknown_framework_is_refused():
    with pytest.raises(ConfigurationError) as error:
        export(Row("m", 64, Strategy(), 0.1, 640.0, 1, True), "deepsped")
    assert "did you mean `deepspeed`" in (error.value.help or "")
