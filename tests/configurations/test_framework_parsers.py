"""What is written, read by the frameworks' own parsers, where these are installed: accepted, with the values meant.

Without a GPU: `pip install --no-deps` of torchtitan==0.2.2 tyro docstring_parser typeguard triton, of
megatron-core==0.16.1, of deepspeed==0.19.8 hjson py-cpuinfo einops (DS_BUILD_OPS=0), and of megatron-bridge==0.3.1
omegaconf hydra-core antlr4-python3-runtime==4.9.3 six. The last imports transformer_engine and datasets, too, of
which empty modules will do.
"""

import dataclasses
import json
import logging
import tomllib
import warnings

import pytest
from drawn_jobs import job_of

from distir.configurations import FORMATS
from distir.configurations.known import listed
from distir.models import PUBLISHED
from distir.transform.strategy.partial import LOSS


def job(name="llama3-8b", **more):
    sizes = {"seq": 4096, "micro_batch": 1, "global_batch": 64, "overlap": more.get("zero", 0) > 0}
    return job_of(name=name, model=PUBLISHED[name], **{**sizes, **more})


JOBS = {
    "fsdp": job(data=8, tensor=2, zero=3, sequence=True, recompute="full", micro_batch=2),
    "hsdp": job(data=8, zero=2, shard=4, recompute="selective", fuse=True),
    "replicas": job(data=8),
    "optimizer": job(data=8, tensor=2, zero=1, shard=4, sequence=True, gradients="bf16", recompute="full:8"),
    "parts": job(data=8, zero=1, recompute="modules:layernorm,core_attn"),
    "float8": job(data=8, zero=3, precision="fp8", fuse=True),
    "fp16": job(data=8, zero=1, precision="fp16"),
    "async tp": job(data=2, tensor=4, zero=3, async_tp=True, fuse=True, sequence=True),
    "gathered logits": job(data=2, tensor=4, whole=LOSS, sequence=True),
    "context": job(data=2, context=2, tensor=2, zero=3, sequence=True),
    "experts": job("qwen3-30b-a3b", data=8, expert_parallel=4, zero=3),
    "experts, tensors": job("qwen3-30b-a3b", data=4, tensor=2, expert_parallel=4, etp=1, zero=3, sequence=True),
    "experts of replicas": job("mixtral-8x7b", data=8, tensor=2, expert_parallel=4, zero=1, sequence=True),
    "experts of groups": job("qwen3-30b-a3b", data=8, tensor=4, expert_parallel=2, etp=2, zero=3, sequence=True),
    "pipeline": job(data=2, pipeline=4, zero=2),
    "uneven": job(data=2, pipeline=4, stages=(7, 9, 9, 7), zero=1),
    "interleaved": job(data=2, pipeline=4, virtual=4, schedule="interleaved", zero=1),
    "interleaved, uneven": job(data=2, pipeline=4, virtual=2, schedule="interleaved", stages=(3, 4, 4, 4, 4, 4, 4, 5)),
    "zb-v": job(data=2, pipeline=4, virtual=2, schedule="zb-v"),
    "csv": job(data=2, pipeline=4, schedule="order.csv"),
    "csv, two stages": job(data=2, pipeline=4, virtual=2, schedule="order.csv"),
    "biases, dropout": job("gpt3-13b", data=8, tensor=2, zero=1, seq=2048),
    "unnamed": job_of(data=8, zero=1, micro_batch=1, global_batch=8, precision=""),
}


@pytest.fixture(autouse=True)
def quiet():
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def leaves(table, prefix=""):
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def at(config, name):
    for field in name.split("."):
        config = getattr(config, field)
    return config


def torchtitans(text, path):
    """The configuration that torchtitan reads of a text. It only warns of a type that is not the field's."""
    config = pytest.importorskip("torchtitan.config", exc_type=ImportError)
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*is annotated with type")
        return config.ConfigManager().parse_args(["--job.config_file", str(path)])


@pytest.mark.parametrize("name", JOBS)
def test_torchtitan_reads_its_options(name, tmp_path):
    text = FORMATS["torchtitan"].write(JOBS[name]).text
    read = torchtitans(text, tmp_path / "job.toml")
    for option, value in leaves(tomllib.loads(text)):
        assert at(read, option) == value
        default = listed("torchtitan")[option]
        assert default is None or type(value) is type(default)


@pytest.mark.parametrize("name", JOBS)
def test_torchtitan_makes_meshes_of_its_degrees(name, tmp_path, monkeypatch):
    job = JOBS[name]
    read = torchtitans(FORMATS["torchtitan"].write(job).text, tmp_path / "job.toml")
    dims = pytest.importorskip("torchtitan.distributed.parallel_dims", exc_type=ImportError)
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    monkeypatch.setattr(dims, "device_type", "cpu")
    axes = {"dp_replicate": "data_parallel_replicate", "dp_shard": "data_parallel_shard", "cp": "context_parallel",
            "tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel",
            "etp": "expert_tensor_parallel"}  # fmt: skip
    degrees = {axis: getattr(read.parallelism, f"{option}_degree") for axis, option in axes.items()}
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=job.gpus)
    try:
        dims.ParallelDims(**degrees, world_size=job.gpus).build_mesh()
    finally:
        dist.destroy_process_group()
    assert read.training.global_batch_size % (read.training.local_batch_size * job.strategy.data) == 0


def deepspeeds(text, dp, monkeypatch):
    """The configuration that DeepSpeed reads of a text on so many replicas."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    config = pytest.importorskip("deepspeed.runtime.config", exc_type=ImportError)
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    replicas = type("Replicas", (), {"get_data_parallel_world_size": lambda self: dp})
    return config.DeepSpeedConfig(json.loads(text), mpu=replicas())


@pytest.mark.parametrize("name", JOBS)
def test_deepspeed_reads_its_options(name, monkeypatch):
    job = JOBS[name]
    read = deepspeeds(FORMATS["deepspeed"].write(job).text, job.strategy.data, monkeypatch)
    assert (read.train_batch_size, read.train_micro_batch_size_per_gpu) == (job.global_batch, job.micro_batch)
    assert read.gradient_accumulation_steps == job.microbatches
    assert read.zero_optimization_stage == (
        min(job.strategy.zero, 1) if job.strategy.pipeline > 1 else job.strategy.zero
    )
    assert read.zero_config.overlap_comm == job.overlaps
    assert read.bfloat16_config.enabled == (job.precision in ("bf16", "fp8"))
    assert read.float16_config.enabled == (job.precision == "fp16")
    assert read.tensor_parallel_config.autotp_size == (
        job.strategy.tensor if job.strategy.tensor > 1 and job.strategy.pipeline == 1 else 0
    )


def test_a_batch_that_deepspeed_refuses_to_miss_is_said(monkeypatch):
    job = job_of(data=8, zero=1)
    written = FORMATS["deepspeed"].write(job)
    assert any("the batch" in lost for lost in written.lost)
    with pytest.raises(AssertionError):
        deepspeeds(written.text, 8, monkeypatch)


SIZES = {"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
"""Of a recipe, for a job without a model."""


def bridged(job):
    """What is written for Megatron-Bridge, with what its recipe of mixed precision sets of the model."""
    yaml, torch = pytest.importorskip("yaml"), pytest.importorskip("torch")
    tables = yaml.safe_load(FORMATS["megatron-bridge"].write(job).text)
    kind = tables.get("mixed_precision", "")
    mixed = {"bf16": kind.startswith("bf16"), "fp16": kind.startswith("fp16"), "pipeline_dtype": torch.bfloat16}
    return tables, {**({} if job.model else SIZES), **tables["model"], **mixed}


@pytest.mark.parametrize("name", JOBS)
def test_megatron_core_takes_its_options(name):
    core = pytest.importorskip("megatron.core.transformer.transformer_config", exc_type=ImportError)
    data = pytest.importorskip("megatron.core.distributed.distributed_data_parallel_config", exc_type=ImportError)
    tables, model = bridged(JOBS[name])
    fields = {field.name for field in dataclasses.fields(core.TransformerConfig)}
    given = {option: value for option, value in model.items() if option in fields}
    read = core.TransformerConfig(**given)
    layout = given.pop("pipeline_model_parallel_layout", None)
    meant = {option: value for option, value in given.items() if value is not None}  # the rest is derived
    assert {option: getattr(read, option) for option in meant} == meant
    if layout:
        assert str(read.pipeline_model_parallel_layout) == layout
        read.pipeline_model_parallel_layout.validate_layer_layout(read.num_layers, read.mtp_num_layers)
    ddp = data.DistributedDataParallelConfig(**tables["ddp"])
    assert {option: getattr(ddp, option) for option in tables["ddp"]} == tables["ddp"]


RECIPE = {
    **SIZES, "seq_length": 2048, "vocab_size": 1000, "context_parallel_size": 2, "pipeline_model_parallel_size": 4,
    "virtual_pipeline_model_parallel_size": 5, "tensor_model_parallel_size": 2, "sequence_parallel": True,
    "account_for_loss_in_pipeline_split": True, "recompute_granularity": "full", "recompute_method": "uniform",
    "recompute_num_layers": 1,
}  # fmt: skip
"""A recipe of which nothing may be left."""


@pytest.mark.parametrize("name", JOBS)
def test_megatron_bridge_takes_its_overrides(name, tmp_path, monkeypatch):
    provider = pytest.importorskip("megatron.bridge.models.gpt_provider", exc_type=ImportError)
    bridge = pytest.importorskip("megatron.bridge.training.config", exc_type=ImportError)
    overrides = pytest.importorskip("megatron.bridge.training.utils.omegaconf_utils", exc_type=ImportError)
    job = JOBS[name]
    monkeypatch.setenv("WORLD_SIZE", str(job.gpus))
    unused = {"random_seed": 1, "reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}
    sharded = {"use_distributed_optimizer": True, "num_distributed_optimizer_instances": 2}
    recipe = bridge.ConfigContainer(
        model=provider.GPTModelProvider(**RECIPE),
        train=bridge.TrainingConfig(train_iters=10, global_batch_size=8, micro_batch_size=1),
        optimizer=bridge.OptimizerConfig(lr=1e-4, use_distributed_optimizer=True),
        ddp=bridge.DistributedDataParallelConfig(overlap_grad_reduce=True, overlap_param_gather=True, **sharded),
        dataset=bridge.MockGPTDatasetConfig(seq_length=2048, **unused),
        scheduler=bridge.SchedulerConfig(),
        logger=bridge.LoggerConfig(),
        tokenizer=bridge.TokenizerConfig(),
        checkpoint=bridge.CheckpointConfig(),
        mixed_precision="bf16_mixed",
    )
    (tmp_path / "job.yaml").write_text(FORMATS["megatron-bridge"].write(job).text)
    overrides.process_config_with_overrides(recipe, config_filepath=str(tmp_path / "job.yaml"))
    bridge.runtime_config_update(recipe)
    recipe.validate()
    tables, _ = bridged(job)
    kind = tables.pop("mixed_precision", "bf16")
    assert (recipe.model.bf16, recipe.model.fp16) == (kind.startswith("bf16"), kind.startswith("fp16"))
    assert bool(recipe.model.fp8) == (job.precision == "fp8")
    for option, value in leaves(tables):
        found = at(recipe, option)
        assert value is None or (str(found) if option.endswith("layout") else found) == value
    model = recipe.model
    assert (model.context_parallel_size, model.sequence_parallel) == (job.strategy.context, job.strategy.sequence)
    assert model.virtual_pipeline_model_parallel_size == (
        job.strategy.stages_per_device if job.strategy.schedule == "interleaved" else None
    )
    kinds = {"full": "full", "modules": "selective"}
    assert model.recompute_granularity == kinds.get(job.recompute.partition(":")[0])
    assert (recipe.ddp.use_distributed_optimizer, recipe.ddp.use_megatron_fsdp) == (
        job.strategy.zero > 0,
        job.strategy.zero > 1 and job.strategy.pipeline == 1,
    )
