"""What a job would do: whether it fits, and how fast it is.

A job becomes a run of its framework (`distir.validate`), whose program is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from distir.configurations.jobs import GLOBAL_BATCH, MICRO_BATCH, MODEL, SEQUENCE, Job
from distir.configurations.options import ConfigurationError
from distir.cost import Hardware, load
from distir.cost.catalogue import node_of
from distir.ir import DTYPES, Module, TensorType
from distir.models.catalogue import program
from distir.models.decoder import Decoder
from distir.transform.strategy.partial import of_precision
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.machines import GPUS
from distir.validate.memory import RunMemory, memory_of
from distir.validate.plans import plan_of
from distir.validate.predictions import REFUSALS, reason, simulation_of
from distir.validate.programs import RunProgram
from distir.validate.runs import MeasuredRun
from distir.validate.strategies import EIGHT_BITS


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step takes: seconds, memory, the share of the arithmetic peak.

    `mfu`: 6 FLOPs for each weight of a matrix product and 12 for each pair of a token's attention and width, by the
    seconds and the peak of all devices, as torchtitan counts (torchtitan/models/utils.py); None without a peak. It is
    the peak of products in 16 bits, or in Float32 or 8 bits where it computes in those. `band`: the range that has 8
    of 10 published steps with this simulated time, in seconds; None where the profile does not say.
    """

    step_time_s: float
    memory: RunMemory
    tokens_per_s: float
    mfu: float | None
    band: tuple[float, float] | None = None


def _left_open(job: Job) -> ConfigurationError:
    """The error of what a job does not say, all at once."""
    unknown = f"which of the known models has the sizes of `{job.name}`" if job.name else "which model it trains"
    asked = {unknown: f"{MODEL} llama3-8b"} if job.model is None else {}
    if job.seq is None and job.model is None:
        asked["the tokens of a sequence"] = f"{SEQUENCE} 4096"
    if job.micro_batch is None:
        asked["the sequences of a micro batch"] = f"{MICRO_BATCH} 1"
    elif job.global_batch is None:
        asked["the sequences of a step"] = f"{GLOBAL_BATCH} N"
    hint = f"state {'it' if len(asked) == 1 else 'them'} with `{' '.join(asked.values())}`"
    return ConfigurationError(f"it does not say {', nor '.join(asked)}", hint)


def run_of(job: Job, framework: str, gpu: str) -> MeasuredRun:
    """The run of a job. Raises ConfigurationError where the job does not say what is trained."""
    model = job.model
    if model is None or job.micro_batch is None or job.global_batch is None:
        raise _left_open(job)
    own, chosen = job.strategy, FRAMEWORKS[framework]
    # A job that gathers weights for each microbatch of a pipeline says so; a row of a table does not.
    again = own.zero == 3 and own.pipeline > 1 and chosen.gathers_once
    shard = (own.shard or own.data) if again else own.shard if own.shard < own.data else 0
    said = job.said.saying(shard=shard, etp=own.etp or own.tensor)
    if not chosen.by_compiler:
        said = said.without("fuse")
    return MeasuredRun(
        id=job.name,
        model=job.name,
        hidden=model.width,
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.shared_heads,
        head_dim=model.size,
        ffn=model.ffn,
        mlp="swiglu" if model.gated else "gelu",
        norm="layernorm" if model.norm == "layer" else "rmsnorm",
        position=model.position if isinstance(model.position, str) else "rope",
        tied=model.tied,
        vocab=model.vocabulary,
        bias=model.attention_bias,
        experts=model.experts,
        top_k=model.top_k,
        expert_ffn=model.expert_ffn,
        shared_experts=model.shared_experts,
        dense_layers=model.dense_layers,
        seq=job.seq or model.context,
        gpu=gpu,
        gpus=job.gpus,
        said=said if job.precision else said.saying(**of_precision("bf16")),
        micro_batch=job.micro_batch,
        global_batch=job.global_batch,
        attention=job.attention,
        async_tp=job.async_tp,
        framework=framework,
    )


def program_of(job: Job, framework: str, gpu: str) -> RunProgram:
    """The program that a job runs, and its machine. Raises ConfigurationError where it cannot be expressed."""
    model = job.model
    if model is not None:
        rms = "rms" if model.norm == "rms_offset" else model.norm
        model = replace(model, norm=rms, attention_dropout=0.0 if job.strategy.context > 1 else model.attention_dropout)
        model = replace(model, context=max(model.context, job.seq or 0))
    try:
        return plan_of(run_of(job, framework, gpu), described=model)
    except REFUSALS as error:
        raise _refusal(job, reason(error)) from None


def _refusal(job: Job, said: str) -> ConfigurationError:
    """The error of a job that is refused: of degrees that do not divide what they split, if there are any."""
    wrong = [(words, degree, split) for words, degree, split in _splits(job) if any(n % degree for n in split.values())]
    if not wrong:
        return ConfigurationError(said)
    texts, hints = list[str](), list[str]()
    for words, degree, split in wrong:
        parts = ", ".join(f"{n} {what}" for what, n in split.items() if n % degree)
        texts.append(f"{words.format(degree)} does not divide {parts}")
        would = [str(other) for other in range(1, 2 * degree + 1) if not any(n % other for n in split.values())]
        hints.append(words.format(" or ".join([", ".join(would[:-1]), would[-1]] if would[1:] else would)))
    return ConfigurationError("; ".join(texts), f"use {'; '.join(hints)}")


def _splits(job: Job) -> Iterator[tuple[str, int, dict[str, int]]]:
    """The degrees of a job, in words, each with what it splits, by what that is called."""
    own = job.strategy
    model = job.model
    if model is None:
        return
    heads = {"heads": model.heads, **({} if model.latent else {"heads of keys and values": model.shared_heads})}
    yield "tensor parallelism of {}", own.tensor, heads | {"of the perceptron's width": model.ffn}
    yield "context parallelism of {}", own.context, {"tokens of a sequence": job.seq or model.context}
    if model.experts:
        yield "expert parallelism of {}", own.expert_parallel or 1, {"experts": model.experts}
    if own.zero:
        yield "ZeRO over {} replicas", own.shard or own.data * own.context, {"of the model's width": model.width}


def gpu_of(hardware: str) -> str:
    """The GPU of a profile, as runs name it; the profile itself, its name or path, where they name none."""
    same = (gpu for gpu, profile in GPUS.items() if hardware in (gpu, profile, load(profile).name))
    return next(same, hardware)


def gpu_of_machine(hardware: str) -> str:
    """The GPU of a machine of any number of nodes, as runs name it. Raises HardwareError for one that is not known."""
    node = node_of(load(hardware))
    return gpu_of(hardware if node is None else node[0])


def answer(job: Job, found: RunProgram) -> Answer:
    """What a step of the program takes. Raises ConfigurationError where it cannot be simulated."""
    try:
        simulation = simulation_of(found)
    except REFUSALS as error:
        raise _refusal(job, reason(error)) from None
    seconds = simulation.latency_s
    tokens = found.batch * found.step.sequence
    assert job.model is not None
    work = flops_per_token(job.model, found.step.sequence) * tokens
    top = peak_flops(found.hardware, job.precision)
    mfu = work / seconds / (job.gpus * top) if top else None
    return Answer(seconds, memory_of(found, simulation), tokens / seconds, mfu, simulation.published_band)


def flops_per_token(model: Decoder, sequence: int) -> float:
    """FLOPs of a training step for each token, without those of recomputation."""
    weights = active_weights(model, program(model, sequence, 1)) - model.vocabulary * model.width * (not model.tied)
    return 6 * weights + 12 * model.layers * model.heads * model.size * sequence


def active_weights(model: Decoder, module: Module) -> int:
    """The weights that a token meets: of experts those that it is given to."""
    entry = module.entry()
    assert entry is not None
    total = 0
    for param in entry.params:
        elements = param.type.elements if isinstance(param.type, TensorType) and "param" in param.roles else 0
        size = elements if isinstance(elements, int) else 0
        of_experts = f".{model.names.mlp}.experts." in param.name and model.experts and model.top_k
        total += size * model.top_k // model.experts if of_experts and model.experts and model.top_k else size
    return total


def peak_flops(hardware: Hardware, precision: str = "bf16") -> float:
    """The arithmetic peak of the slowest device, of products in a job's precision. FLOP/s; 0 without one."""
    types = PRODUCTS.get(precision, PRODUCTS["bf16"])
    rates = [next((kind.rates[DTYPES[d]] for d in types if DTYPES[d] in kind.rates), None)
             for kind in hardware.kinds.distinct]  # fmt: skip
    found = min((rate.peak for rate in rates if rate is not None), default=0.0)
    return found if math.isfinite(found) else 0.0


PRODUCTS: Final = {
    "bf16": ("BFloat16", "Float16"),
    "fp32": ("Float32",),
    **dict.fromkeys(EIGHT_BITS, ("Float8E4M3FN", "BFloat16", "Float16")),
}
"""The types of a job's products by its precision, the one that counts first; others are in 16 bits."""
