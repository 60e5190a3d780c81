"""Configuration formats: each one definition, a codec between a framework's options and a `Job`. They register here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from distir.configurations.carried import carried
from distir.configurations.jobs import ALWAYS, Exported, Job, JobText, ReadJob, Supplied
from distir.configurations.options import ConfigurationError, Remark
from distir.ir.registry import Registry
from distir.models.decoder import Decoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. `version`: of the framework whose options it has; `suffixes`: of files that are read without a name.

    `read` takes a text, the path that messages name, and what is given beside it; it raises ConfigurationError.
    `framework`: what runs its jobs, a word of `distir.validate.FRAMEWORKS`; empty where each file says. `beside`: what
    files leave to be said beside them, fields of `Supplied`. `runs`: by field of a job, as `stated` has them, the
    values of which there are jobs that this version runs; of fields that are not listed, any. Whether it runs a job
    follows from `lost`, below.
    """

    name: str
    title: str
    version: str
    suffixes: tuple[str, ...]
    read: Callable[[str, str, Supplied], ReadJob]
    write: Callable[[Job], Exported] | None = None
    framework: str = ""
    beside: tuple[str, ...] = ()
    runs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])

    def lost(self, job: Job) -> list[str]:
        """What the framework cannot run of a job, or its configuration cannot say; nothing where it runs that."""
        return [f"`{self.name}` is read, not written"] if self.write is None else self.write(job).lost


FORMATS: Registry[Format] = Registry()
"""By name."""


def configuration_format(definition: Format, text: Callable[[Job], JobText] | None = None) -> Format:
    """Register a format, with what writes a job as its text, if it is written."""
    if text is not None:
        form, written = definition, text

        def write(job: Job) -> Exported:
            return _exported(form, written(job), job)

        definition = replace(definition, write=write)
    FORMATS.register(definition.name, definition, definition.read.__module__)
    return definition


def _exported(form: Format, written: JobText, job: Job) -> Exported:
    """What is written, with what of the job its reader does not find in it."""
    beside = {*form.beside, *(("model",) if "model" in written.why or job.model is None else ())}
    given = Supplied(
        gpus=job.gpus if "gpus" in beside else None,
        node=job.node,
        name=job.name if "model" in beside else "",
        model=(job.model or _some_model(job)) if "model" in beside else None,
        seq=job.seq if "seq" in beside else None,
    )
    try:
        reading = read(form.name, written.text, form.name, given)
    except ConfigurationError as error:
        refusal = f"{form.name} refuses what is written: {error.message}"
        return Exported(written.text, {**written.why, f"{ALWAYS}read": refusal})
    if job.model is None:
        reading = replace(reading, job=replace(reading.job, model=None, name=job.name))
    lost = carried(job, written, reading, beside - set(form.beside), form.name, form.runs)
    return Exported(written.text, lost, reading)


def _some_model(job: Job) -> Decoder:
    """A model that a job without one could be of, so that what is written can be read."""
    own, parts = job.strategy, job.strategy.expert_parallel
    layers, heads = sum(own.stages) or own.pipeline * own.stages_per_device, 8 * own.tensor
    model = Decoder(layers=layers, width=64 * heads, heads=heads, ffn=64, vocabulary=64, context=64)
    return replace(model, experts=2 * parts, top_k=1, expert_ffn=64) if parts > 1 else model


def read(name: str, text: str, path: str, given: Supplied) -> ReadJob:
    """What a configuration says. Raises ConfigurationError."""
    reading = FORMATS[name].read(text, path, given)
    model = reading.job.model
    if model is None or reading.job.seq:
        return reading
    assumed = Remark(f"sequences of {model.context} tokens, the model's context, as it does not say; `--seq N` does")
    return replace(reading, notes=[assumed, *reading.notes])
