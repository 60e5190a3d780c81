"""Rows of a search as jobs, and jobs as texts with what is said at their heads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from distir.search.rows import Row, columns_of
from distir.transform.pipeline import SCHEDULES
from distir.transform.strategy import SEARCHED
from distir.validate.frameworks import FRAMEWORKS


def job_of_row(row: Row, given: Supplied) -> Job:
    """The job of a row: its plan, and the model if it is a published decoder, or given."""
    plan = row.plan
    named, sequence = _described(row.model)
    model = given.model or named
    known = SCHEDULES.get(row.schedule)
    recompute = (plan.recompute or "full") if plan.checkpoint else "none"
    return Job(
        name=given.name or (name_of(model) if model else ""),
        model=model,
        seq=given.seq or sequence or (model.context if model else None),
        dp=row.D,
        tp=row.T,
        pp=row.P,
        cp=row.CP,
        ep=(parts := row.EP * (row.T // (row.etp or row.T)) * (row.CP if row.cp_experts else 1)),
        etp=(row.etp or row.T) if parts > 1 and row.T > 1 else 0,
        virtual=plan.stages_per_device,
        schedule=row.schedule if known else "1f1b",
        schedule_file="" if known else row.schedule,
        stages=plan.stages if row.P > 1 else (),
        sequence_parallel=row.sequence,
        zero=row.zero,
        shard=row.shard,
        micro_batch=row.micro_batch,
        global_batch=row.batch_size,
        optimizer="muon" if "optimizer=muon" in row.model else "",
        precision="fp8" if " fp8=" in row.model else "bf16" if model else "",
        recompute=recompute,
        compile=row.fuse,
        overlap=row.overlap,
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
        without = replace(row, **columns_of(replace(row.plan, **{field.name: field.default})))
        if job_of_row(without, given) == job:
            instead = f": {framework} has {own[field.name]}" if field.name in own else ""
            unsaid[f"plan.{field.name}"] = f"{WORDS.get(field.name, field.name)} {shown(value)}{instead}"
    return unsaid


def unsupported(row: Row, given: Supplied, name: str) -> list[str]:
    """What of a row's plan the framework of a format does not run as it is; nothing where it runs the plan."""
    form = FORMATS[name]
    job = for_kernels_of(job_of_row(row, given), "", form.framework)
    return [*unsaid_of_row(row, given, form.framework).values(), *form.lost(job)]


WORDS: Final = {
    "kind": "context parallelism by",
    "skew": "tokens of the busiest experts, to the mean,",
    "sums": "gradients of microbatches added by",
    "balance": "layers of stages by",
    "chunks": "parts of each sequence:",
    "passes": "collectives of layers beside other microbatches:",
}
"""Fields of a plan that the field calls otherwise than their names say."""


def _devices_of_node(hardware: str) -> int:
    """How many devices a node of this machine has; 8 where its profile does not say, or is not found here."""
    try:
        node = node_of(load(hardware))
    except HardwareError:
        return 8
    if node is None:
        return 8
    return node[1] if node[1] <= 16 else 4  # a larger one is a rack, or a pod, whose trays and hosts have 4 devices


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
    latency = f", ideal {show_seconds(row.latency_s)} on {row.hardware}" if row.latency_s is not None else ""
    return f"{model}, D/T/P/K {row.plan}{batch}{latency}"
