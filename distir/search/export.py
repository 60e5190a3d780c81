"""A row of a search as the options of a training framework: the paper's quick way from a strategy to a run.

Each exporter is one function under `@exporter`; it says in comments what does not carry over. The flags are those of
the frameworks' own documentation: Megatron-LM `megatron/training/arguments.py`, DeepSpeed "DeepSpeed Configuration
JSON", torchtitan `torchtitan/config/job_config.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from distir.diagnostics.nearest import nearest
from distir.search.rows import Row

EXPORTERS: dict[str, Callable[[Row], str]] = {}
"""By the framework's name, in lower case."""


class ExportError(ValueError):
    """A framework that is not known; the text says which are."""


def exporter(write: Callable[[Row], str]) -> Callable[[Row], str]:
    """Register what writes a row for the framework of the function's name."""
    EXPORTERS[write.__name__] = write
    return write


def export(row: Row, framework: str) -> str:
    """The row for a framework, as text. Raises ExportError."""
    if framework not in EXPORTERS:
        near = nearest(framework, EXPORTERS)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(EXPORTERS)}"
        raise ExportError(f"there is no exporter `{framework}`; {hint}")
    return EXPORTERS[framework](row)


@exporter
def megatron(row: Row) -> str:
    """Flags of Megatron-LM's training scripts."""
    flags: dict[str, object] = {
        "--tensor-model-parallel-size": row.T,
        "--pipeline-model-parallel-size": row.P,
        "--micro-batch-size": _micro_batch(row),
        "--global-batch-size": row.batch_size,
    }
    lost = _lost(row, schedules=("1f1b", "interleaved"), zero=(1,), says="Megatron-LM")
    if row.schedule == "interleaved" and row.P > 1:
        lost.append("interleaving: set --num-layers-per-virtual-pipeline-stage to the layers of half a stage")
    if row.zero == 1:
        flags["--use-distributed-optimizer"] = ""
    if row.checkpoint:
        flags |= {"--recompute-granularity": "full", "--recompute-method": "uniform", "--recompute-num-layers": 1}
    lines = [f"{flag} {value}".rstrip() for flag, value in flags.items() if value is not None]
    return "".join(
        [*_head(row, "#"), f"# start one process per GPU: torchrun --nproc-per-node {row.D * row.T * row.P} …\n"]
        + [f"# not carried over: {text}\n" for text in lost]
        + [" \\\n".join(lines), "\n"]
    )


@exporter
def deepspeed(row: Row) -> str:
    """DeepSpeed's configuration file. JSON has no comments: what is lost stands under `distir`."""
    lost = _lost(row, schedules=("1f1b",), zero=(1, 2, 3), says="DeepSpeed")
    if row.P > 1:
        lost.append(f"pipeline stages: build the model as a PipelineModule of {row.P} stages")
        if row.zero > 1:
            lost.append("ZeRO 2 and 3 do not combine with DeepSpeed's pipelines")
    if row.checkpoint:
        lost.append("activation checkpointing: call deepspeed.checkpointing in the model")
    document: dict[str, object] = {
        "train_batch_size": row.batch_size,
        "train_micro_batch_size_per_gpu": _micro_batch(row),
        "gradient_accumulation_steps": row.K,
        "tensor_parallel": {"autotp_size": row.T},
        "zero_optimization": {"stage": row.zero},
        "distir": {"from": "".join(_head(row, "")).strip(), "not_carried_over": lost},
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=2) + "\n"


@exporter
def torchtitan(row: Row) -> str:
    """Torchtitan's job file."""
    schedule = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B", "zb-h1": "InterleavedZeroBubble"}
    lost = _lost(row, schedules=tuple(schedule), zero=(2, 3), says="torchtitan")
    if row.schedule == "zb-h1" and row.P > 1:
        lost.append("zb-h1: torchtitan's nearest schedule is InterleavedZeroBubble, of two stages per rank")
    replicate, shard = (1, row.D) if row.zero >= 2 else (row.D, 1)
    tables: list[tuple[str, Mapping[str, object]]] = [
        ("training", {"local_batch_size": None if row.batch_size is None else row.batch_size // row.D}),
        (
            "parallelism",
            {
                "data_parallel_replicate_degree": replicate,
                "data_parallel_shard_degree": shard,
                "fsdp_reshard_after_forward": None if shard == 1 else "always" if row.zero == 3 else "never",
                "tensor_parallel_degree": row.T,
                "pipeline_parallel_degree": row.P,
                "pipeline_parallel_schedule": schedule.get(row.schedule, "1F1B") if row.P > 1 else None,
                "pipeline_parallel_microbatch_size": _micro_batch(row) if row.P > 1 else None,
            },
        ),
        ("activation_checkpoint", {"mode": "full" if row.checkpoint else "none"}),
    ]
    lines = [*_head(row, "#"), *(f"# not carried over: {text}\n" for text in lost)]
    for name, entries in tables:
        lines.append(f"\n[{name}]\n")
        lines += [f"{key} = {json.dumps(value)}\n" for key, value in entries.items() if value is not None]
    return "".join(lines)


def _head(row: Row, mark: str) -> list[str]:
    batch = f", batch {row.batch_size}" if row.batch_size is not None else ""
    model = json.dumps(row.model)[1:-1]  # one line, whatever the name
    latency = f", simulated {row.latency_s * 1e3:.4g} ms on {row.hardware}" if row.latency_s is not None else ""
    return [f"{mark} {model}, D/T/P/K {row.plan}{batch}{latency}\n".lstrip()]


def _micro_batch(row: Row) -> int | None:
    """Examples in a microbatch of a replica."""
    return None if row.batch_size is None else row.batch_size // (row.D * row.K)


def _lost(row: Row, schedules: Sequence[str], zero: Sequence[int], says: str) -> list[str]:
    found: list[str] = []
    if row.P > 1 and row.schedule not in schedules:
        found.append(f"the schedule {row.schedule}: {says} runs 1F1B")
    if row.zero and row.zero not in zero:
        found.append(f"ZeRO stage {row.zero}: {says} has none of that stage")
    if row.stages:
        found.append(f"unequal stages of {row.stages} layers")
    return found
