"""Rows of a search as jobs, and jobs as texts with what is said at their heads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from distir.configurations.formats import FORMATS
from distir.configurations.jobs import Exported, Job, Supplied
from distir.configurations.models import name_of, published_decoder
from distir.configurations.options import ConfigurationError
from distir.cost import HardwareError, load, show_seconds
from distir.cost.catalogue import node_of
from distir.diagnostics.spelling import nearest
from distir.models.decoder import Decoder
from distir.models.published import resized
from distir.models.sizes import ModelError
from distir.search.rows import Row
from distir.transform.strategy import FIELDS, SEARCHED, Strategy
from distir.transform.strategy.partial import Partial, of_precision, partial
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.strategies import usual_of


def job_of_row(row: Row, given: Supplied) -> Job:
    """The job of a row: its plan, and the model if it is a published decoder, or given."""
    named, sequence = _described(row.model)
    model = given.model or named
    said = said_of_plan(row.plan).saying(**({"optimizer": "muon"} if "optimizer=muon" in row.model else {}))
    return Job(
        name=given.name or (name_of(model) if model else ""),
        model=model,
        seq=given.seq or sequence or (model.context if model else None),
        said=said.saying(**of_precision(_precision(row.model))) if model else said,
        micro_batch=row.micro_batch,
        global_batch=row.batch_size,
        node=_devices_of_node(row.hardware),
    )


OTHERWISE: Final = ("microbatches", "experts", "cp_experts")
"""Fields of a plan that a job says by others: by its batches, and by the devices that share experts."""


def said_of_plan(plan: Strategy) -> Partial:
    """What a plan of a search says: all that a search tries, but where a kind or a skew is left to the framework."""
    left = ("kind", "skew")
    fields = {name: getattr(plan, name) for name in SEARCHED if name not in OTHERWISE}
    fields = {name: value for name, value in fields.items() if name not in left or value != FIELDS[name].default}
    shards = plan.etp or plan.tensor
    parts = plan.experts * (plan.tensor // shards) * (plan.context if plan.cp_experts else 1)
    return partial(**fields).saying(expert_parallel=parts, etp=shards)


def exported_row(row: Row, given: Supplied, name: str) -> Exported:
    """A row's plan in a format, without a head; its losses are what the framework does not run as it is."""
    form = FORMATS[name]
    assert form.write is not None
    return form.write(job_of_row(row, given))


@lru_cache(maxsize=8)
def _devices_of_node(hardware: str) -> int:
    """How many devices a node of this machine has; 8 where its profile does not say, or is not found here."""
    try:
        node = node_of(load(hardware))
    except HardwareError:
        return 8
    if node is None:
        return 8
    return node[1] if node[1] <= 16 else 4  # a larger one is a rack, or a pod, whose trays and hosts have 4 devices


@lru_cache(maxsize=8)
def _described(title: str) -> tuple[Decoder | None, int | None]:
    """The model that a search was of, such as `llama3-8b (layers=4, sequence=2048) grad`, and its sequences.

    None where it is no published decoder.
    """
    name, _, rest = title.partition(" ")
    known = published_decoder(name)
    sizes: dict[str, int] = {}
    if rest.startswith("("):
        for pair in rest[1:].partition(")")[0].split(", "):
            size, _, value = pair.partition("=")
            if value.isdecimal():
                sizes[size] = int(value)
    sequence = sizes.pop("sequence", None)
    if known is None or not sizes:
        return known, sequence
    try:
        found = resized(name, known, sizes)
    except ModelError:
        return None, sequence
    return (found if isinstance(found, Decoder) else None), sequence


def _precision(title: str) -> str:
    """That of the products of a search."""
    return "mxfp8" if " fp8=mx" in title else "fp8" if " fp8=" in title else "bf16"


def with_kernels_of(job: Job, framework: str) -> Job:
    """A job that says whether its kernels are fused: as those of its framework where it does not say."""
    return job if job.says("fuse") else job.saying(fuse=usual_of(FRAMEWORKS[framework]).fuse)


def exported(
    job: Job,
    name: str,
    title: str = "",
    reported: Callable[[Exported], str] = lambda _: "",
) -> Exported:
    """A job in a format: its text has comments on what it is of, how it is started, and what is not carried over.

    `reported`: what a line says of how the framework runs what is written.

    Raises ConfigurationError for a format that is not known.
    """
    if name not in FORMATS:
        near = nearest(name, FORMATS)
        raise ConfigurationError(
            f"there is no format `{name}`", f"did you mean `{near}`?" if near else f"there are {', '.join(FORMATS)}"
        )
    form = FORMATS[name]
    if form.write is None:
        writable = ", ".join(f"`{other}`" for other in FORMATS if FORMATS[other].write)
        raise ConfigurationError(f"`{name}` is read, not written", f"{writable} are written")
    written = form.write(job)
    written = replace(written, reported=(said := reported(written)))
    if written.text.startswith("{"):  # JSON has no comments
        document = json.loads(written.text)
        document["distir"] = {"from": title, "runs": said, **document["distir"], "not_carried_over": written.lost}
        return replace(written, text=json.dumps(document, indent=2) + "\n")
    how = f"{form.title}, version {form.version}; one process per GPU: "
    head = [
        title,
        said,
        f"{how}torchrun --nnodes {job.nodes} --nproc-per-node {job.gpus_per_node} …",
        *(f"not carried over: {lost}" for lost in written.lost),
    ]
    return replace(written, text="".join(f"# {line}\n" for line in head if line) + written.text)


def title_of(row: Row) -> str:
    """What a row is, on one line."""
    batch = f", batch {row.batch_size}" if row.batch_size is not None else ""
    model = json.dumps(row.model)[1:-1]  # one line, whatever the name
    how = f"as {row.framework} runs it" if row.framework else "ideal"
    latency = f", {how} {show_seconds(row.latency_s)} on {row.hardware}" if row.latency_s is not None else ""
    return f"{model}, D/T/P/K {row.plan}{batch}{latency}"
