"""What a written configuration carries of a job: what its own reader finds there again, field by field.

No format lists what it loses. Whatever a job or its model says, and reading finds otherwise, is lost; a new field of
`Job` or `Decoder` is compared from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, cast

from distir.configurations.jobs import ALWAYS, Job, JobText, ReadJob, normal
from distir.configurations.models import explicit
from distir.models.decoder import Decoder, Names
from distir.transform.strategy import FIELDS, Strategy
from distir.transform.strategy.partial import Partial
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.strategies import usual_of

NAMED: Final[Mapping[str, str]] = {
    "data": "data parallelism",
    "tensor": "tensor parallelism",
    "pipeline": "pipeline parallelism",
    "context": "context parallelism",
    "kind": "context parallelism by",
    "expert_parallel": "expert parallelism",
    "etp": "shards of each expert",
    "skew": "tokens of the busiest experts, to the mean,",
    "seq": "tokens of a sequence",
    "virtual": "stages of a device",
    "stages": "layers of each stage",
    "balance": "layers of stages by",
    "chunks": "parts of each sequence",
    "sequence": "sequence parallelism",
    "sums": "gradients of microbatches added by",
    "zero": "ZeRO stage",
    "shard": "replicas that share state",
    "micro_batch": "sequences of a micro batch",
    "global_batch": "sequences of a step",
    "gradients": "precision of gradients",
    "recompute": "recomputation",
    "offloaded": "layers whose activations are on the host",
    "state_on_host": "optimizer state on the host",
    "fuse": "fused kernels",
    "async_tp": "tensor parallelism beside products",
    "overlap": "communication beside computation",
    "passes": "collectives of layers beside other microbatches",
    "whole": "logits that are gathered",
    "model.ffn": "inner width of the perceptron",
    "model.limit": "limit of the activation",
    "model.scale": "scale of attention's scores",
    "model.norm": "normalization",
    "model.sinks": "attention to sinks",
    "model.latent": "multi-head latent attention",
    "model.position": "positions",
    "model.names": "names of weights",
    "model.names.qkv": "one weight of queries, keys and values",
    "model.names.positions": "embedding of positions",
    "model.names.attended_norm": "normalization behind attention",
    "model.names.changed_norm": "normalization behind the perceptron",
}
"""Fields that the field calls otherwise than their names say."""

NOTHING: Final = "none"


def named(path: str) -> str:
    """A field of a job in words, such as `model.norm`: `the model's normalization`."""
    words = NAMED.get(path, path.rpartition(".")[2].replace("_", " "))
    return f"the model's {words}" if path.startswith("model.") else words


def carried(
    job: Job, written: JobText, reading: ReadJob, beside: Collection[str], name: str, runs: Mapping[str, Sequence[Any]]
) -> dict[str, str]:
    """What of a job is lost, by field, in words: where what was written is read otherwise, or said beside it alone.

    `beside`: fields that the reader was given since the configuration does not say them; `runs`: the values of fields
    that the framework of this name has.
    """
    read = reading.job
    found = differences(normal(job), normal(read), usual_of(FRAMEWORKS[reading.framework]))
    found = {path: pair for path, pair in found.items() if pair[0] is not None or "." in path}  # which is not said
    why = {path: text for path, text in written.why.items() if path in {*found, *beside} or path.startswith(ALWAYS)}
    rest: dict[str, list[str]] = {}
    unsaid = stated(job).keys() - stated(read).keys()
    for path, (before, after) in found.items():
        owner, _, last = path.rpartition(".")
        if not why.keys().isdisjoint({path, owner, "model" if owner else path}):
            continue
        if path in runs and before not in runs[path]:
            why[path] = f"{named(path)} {shown(before)}: {name} has {listed(runs[path])}; {shown(after)} is written"
            continue
        part = "" if owner in ("", "model", "model.names") else f"{last.replace('_', ' ')} "
        how = f"as {name} runs it" if path in unsaid else "as it is written"
        rest.setdefault(owner if part else path, []).append(f"{part}{shown(before)}, {shown(after)} {how}")
    return why | {path: f"{named(path)}: {'; '.join(texts)}" for path, texts in rest.items()}


def listed(values: Sequence[Any]) -> str:
    """Values of a field, one after the other."""
    return ", ".join(map(shown, values))


def shown(value: Any) -> str:
    """A value of a field on one line."""
    if value in (None, "", ()):
        return NOTHING
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[Any, ...]", value)))
    if is_dataclass(value):
        return type(value).__name__.lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


SEVERAL: Final[Mapping[str, tuple[Sequence[str], Callable[[Job], Any]]]] = {
    "virtual": (("virtual", "schedule"), lambda job: job.strategy.stages_per_device),
    "precision": (("precision", "scaling"), lambda job: job.precision),
    "recompute": (("recompute", "checkpoint", "modules"), lambda job: job.recompute),
    "overlap": (("overlap",), lambda job: job.overlaps),
    "async_tp": (("overlap", "kinds"), lambda job: job.async_tp),
}
"""What a job says in several fields of a strategy, as one: the fields, and the value."""

IN_ONE: Final = {name for fields, _ in SEVERAL.values() for name in fields} - {"schedule"}


def stated(job: Job) -> dict[str, Any]:
    """By field of a strategy: what a job says of it, that of `SEVERAL` in one."""
    said = job.said.said
    single = {name: value for name, value in job.said.fields.items() if name not in IN_ONE}
    return single | {name: value(job) for name, (fields, value) in SEVERAL.items() if not said.isdisjoint(fields)}


def differences(one: Job, other: Job, usual: Strategy) -> dict[str, tuple[Any, Any]]:
    """By field in which a job and another differ, as `tensor` and `model.position.factor`: its values.

    Of a strategy: those that the first says; what the other does not say is as `usual`.
    """
    found = dict(_differences("", one, replace(other, said=one.said)))
    if one.model is not None and other.model is not None:
        found.pop("name", None)  # what a model is called follows from its sizes
    there = stated(replace(other, said=Partial(other.said.completed(usual), frozenset(FIELDS))))
    return found | {name: (value, there[name]) for name, value in stated(one).items() if value != there[name]}


def _differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(one, Names) and isinstance(other, Names):
        yield from _names(path, one, other)
    elif is_dataclass(one) and type(one) is type(other):
        if isinstance(one, Decoder):
            one, other = explicit(one), explicit(other)
        for field in fields(one):
            if field.compare:
                inner = f"{path}.{field.name}" if path else field.name
                yield from _differences(inner, getattr(one, field.name), getattr(other, field.name))
    elif one != other:
        yield path, (one, other)


def _names(path: str, one: Names, other: Names) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """What models call their weights is one thing; which of them there are, another: those that may be empty."""
    optional = [field.name for field in fields(Names) if field.default == ""]
    for name in optional:
        here, there = bool(getattr(one, name)), bool(getattr(other, name))
        if here != there:
            yield f"{path}.{name}", (here, there)
    if replace(one, **dict.fromkeys(optional, "")) != replace(other, **dict.fromkeys(optional, "")):
        yield path, (one.layer, other.layer)
