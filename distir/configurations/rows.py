"""Rows of a search as jobs, and jobs as texts with what is said at their heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from distir.configurations.carried import shown
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
from distir.transform.pipeline import SCHEDULES
from distir.transform.strategy import SEARCHED
from distir.validate.frameworks import FRAMEWORKS


def job_of_row(row: Row, given: Supplied) -> Job:
    """The job of a row: its plan, and the model if it is a published decoder, or given."""
    plan = row.plan
    named, sequence = _described(row.model)
    model = given.model or named
    known = SCHEDULES.get(plan.schedule)
    recompute, shards = (plan.recompute or "full") if plan.checkpoint else "none", plan.etp or plan.tensor
    return Job(
        name=given.name or (name_of(model) if model else ""),
        model=model,
        seq=given.seq or sequence or (model.context if model else None),
        dp=plan.data,
        tp=plan.tensor,
        pp=plan.pipeline,
        cp=plan.context,
        ep=(parts := plan.experts * (plan.tensor // shards) * (plan.context if plan.cp_experts else 1)),
        etp=shards if parts > 1 and plan.tensor > 1 else 0,
        virtual=plan.stages_per_device,
        schedule=plan.schedule if known else "1f1b",
        schedule_file="" if known else plan.schedule,
        stages=plan.stages if plan.pipeline > 1 else (),
        sequence_parallel=plan.sequence,
        zero=plan.zero,
        shard=plan.shard,
        micro_batch=row.micro_batch,
        global_batch=row.batch_size,
        optimizer="muon" if "optimizer=muon" in row.model else "",
        precision=_precision(row.model) if model else "",
        recompute=recompute,
        compile=plan.fuse,
        overlap=plan.overlap,
        node=_devices_of_node(row.hardware),
    )


def unsaid_of_row(row: Row, given: Supplied, framework: str) -> dict[str, str]:
    """What a row's plan says and no job does, by field: what leaves the job as it is without it."""
    job, chosen, unsaid = job_of_row(row, given), FRAMEWORKS[framework], dict[str, str]()
    own = {"kind": chosen.context, "skew": chosen.skew, "recompute": "full"}
    for field in SEARCHED.values():
        value = getattr(row.plan, field.name)
        if value in (field.default, own.get(field.name)):
            continue
        without = replace(row, plan=replace(row.plan, **{field.name: field.default}))
        if job_of_row(without, given) == job:
            instead = f": {framework} has {own[field.name]}" if field.name in own else ""
            unsaid[f"plan.{field.name}"] = f"{WORDS.get(field.name, field.name)} {shown(value)}{instead}"
    return unsaid


def exported_row(row: Row, given: Supplied, name: str) -> Exported:
    """A row's plan in a format, without a head; its losses are what the framework does not run as it is.

    Kernels are one: where no compiler makes them, a plan is fused or not as the framework's are.
    """
    form = FORMATS[name]
    assert form.write is not None
    chosen, unsaid = FRAMEWORKS[form.framework], unsaid_of_row(row, given, form.framework)
    fused = chosen.kernels != "eager"
    if not chosen.by_compiler and row.plan.fuse != fused:
        unsaid["plan.fuse"] = f"kernels: {name} {'has fused ones' if fused else 'runs each op by itself'}"
    written = form.write(for_kernels_of(job_of_row(row, given), "", form.framework))
    return replace(written, losses={**unsaid, **written.losses})


WORDS: Final = {
    "kind": "context parallelism by",
    "skew": "tokens of the busiest experts, to the mean,",
    "sums": "gradients of microbatches added by",
    "balance": "layers of stages by",
    "chunks": "parts of each sequence:",
    "passes": "collectives of layers beside other microbatches:",
}
"""Fields of a plan that the field calls otherwise than their names say."""


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


def for_kernels_of(job: Job, source: str, target: str) -> Job:
    """A job of one framework, of none if empty, that has the same kernels in another: a compiler may make them."""
    own = FRAMEWORKS.get(source)
    fused = job.compile if own is None or own.by_compiler else own.kernels != "eager"
    return replace(job, compile=fused and FRAMEWORKS[target].by_compiler)


def exported(
    job: Job,
    name: str,
    title: str = "",
    unsaid: Mapping[str, str] = MappingProxyType({}),
    reported: Callable[[Exported], str] = lambda _: "",
) -> Exported:
    """A job in a format: its text has comments on what it is of, how it is started, and what is not carried over.

    `unsaid`: what else is not, by field; `reported`: what a line says of how the framework runs what is written.

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
    written = replace(written, losses={**written.losses, **unsaid})
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
