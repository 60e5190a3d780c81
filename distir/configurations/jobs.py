"""A job: what is trained, on how many devices, distributed how. What a configuration says, whatever the framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Final

from distir.configurations.options import ConfigurationError, Options, Remark
from distir.models.decoder import Decoder
from distir.transform.strategy.partial import Stating, of_recomputation
from distir.validate.frameworks import ASYNC_TP


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Stating):
    """A training job: what is trained, in which sizes, and how. Sizes in sequences and tokens; None: not said.

    `attention`: the kernel of attention, a word of `distir.validate.MeasuredRun`, where it is not the framework's own.
    `node`: the most devices of a node; no part of what is trained.
    """

    name: str = ""
    model: Decoder | None = None
    seq: int | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    attention: str = ""
    node: int = field(default=8, compare=False)

    @property
    def gpus(self) -> int:
        """How many devices it takes."""
        return self.strategy.devices

    @property
    def async_tp(self) -> bool:
        """Whether what tensor parallelism communicates runs beside products."""
        return self.strategy.overlap and ASYNC_TP in self.strategy.kinds

    @property
    def nodes(self) -> int:
        """How many nodes it takes: the fewest with equally many devices, no more than `node`."""
        fewest = -(-self.gpus // self.node)
        return next(nodes for nodes in range(fewest, self.gpus + 1) if self.gpus % nodes == 0)

    @property
    def gpus_per_node(self) -> int:
        """How many devices of each node it takes."""
        return self.gpus // self.nodes

    @property
    def microbatches(self) -> int | None:
        """Of each replica, in a step; None where that is not said."""
        if self.micro_batch is None or self.global_batch is None:
            return None
        return self.global_batch // (self.strategy.data * self.micro_batch)


def overlapping(replicas: bool, products: bool = False) -> dict[str, Any]:
    """The fields of what is communicated beside computation: of replicas, and of tensor parallelism's products."""
    kinds = (*(("gradients",) if replicas else ()), ASYNC_TP) if products else ()
    return {"overlap": replicas or products, "kinds": kinds}


def optimizer_of(options: Options, name: str) -> str:
    """The optimizer that an option names, if it is Muon; others are simulated as AdamW, with a note."""
    found = str(options.get(name) or "")
    if "muon" in found.lower():
        return "muon"
    if found.lower().startswith(("onebit", "zeroone")):
        options.note(f"the gradients of `{found}` are exchanged whole here, as AdamW's", name)
    elif found and "adam" not in found.lower():
        options.note(f"the optimizer `{found}` is simulated as AdamW", name)
    return ""


def state_on_host(options: Options, weights: Sequence[str], state: Sequence[str]) -> bool:
    """Whether optimizer state is on the host, by the options that say where weights and state are.

    Raises ConfigurationError for a place that is none.
    """
    moved = [name for name in dict.fromkeys((*weights, *state)) if _place(options, name) != "device"]
    for name in moved:
        if _place(options, name) == "nvme":
            options.note(f"`{name}` is `nvme`: it is in the host's memory here, which is faster", name)
    if of_state := [name for name in moved if name in state]:
        text = "weights are updated on the device, with state fetched from the host, not by the host's processor"
        options.note(text, of_state[0])
    if of_weights := [name for name in moved if name in weights]:
        options.note("weights on the host are not simulated: they are on the device here, too", of_weights[0])
    return bool(of_state)


PLACES: Final = {
    **dict.fromkeys(("none", "false", "0", "auto"), "device"),
    **dict.fromkeys(("cpu", "true", "1"), "cpu"),
    "nvme": "nvme",
}
"""Where something is, by what options say of it in small letters."""


def _place(options: Options, name: str) -> str:
    found = options.get(name)
    place = PLACES.get(str(found).lower())
    if place is None:
        hint = "expected none, cpu, nvme, true or false"
        raise options.wrong(options.line(name), f"`{name}` is `{found}`", hint)
    return place


def float32(options: Options, why: str, name: str = "") -> str:
    """The precision of a job that computes in Float32, which is said, as it is mostly not meant."""
    options.note(f"{why}: it computes in float32, without TF32, as PyTorch does by default", name)
    return "fp32"


@dataclass(frozen=True, slots=True)
class BesideFile:
    """Another configuration: its path, as messages name it, and its text."""

    path: str
    text: str

    @property
    def is_json(self) -> bool:
        """Whether it is DeepSpeed's, or else accelerate's YAML."""
        return self.text.lstrip().startswith(("{", "//", "/*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """What a configuration may leave open: `gpus`, or else whole nodes of `node` devices; the model; batches.

    `variables`: those of a script; `beside`: another configuration, which says how a training loop is distributed.
    """

    gpus: int | None = None
    node: int = 8
    name: str = ""
    model: Decoder | None = None
    seq: int | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    beside: BesideFile | None = None


def of_given(given: Supplied) -> Job:
    """The job of a configuration that says neither the model nor its sequences: those are given."""
    return Job(name=given.name, model=given.model, seq=given.seq, node=given.node)


@dataclass(frozen=True, slots=True)
class ReadJob:
    """What was read: the job, in words of which framework (`distir.validate.FRAMEWORKS`), and what it does not say."""

    job: Job
    framework: str
    notes: Sequence[Remark]


ALWAYS: Final = "*"
"""How names begin of what is lost and is no field."""


@dataclass(frozen=True, slots=True)
class JobText:
    """A configuration as text; `why`: by field of a job that it does not say, what to do, or what it has instead.

    Whether a field is lost is found by reading (`distir.configurations.carried`). What begins with `ALWAYS` is no
    field, and said whatever is read.
    """

    text: str
    why: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Exported:
    """A configuration as text, what of the job it does not say, by field, and what its reader finds in it."""

    text: str
    losses: Mapping[str, str] = field(default_factory=dict[str, str])
    reading: ReadJob | None = None
    reported: str = ""
    """How the framework runs it: its time and memory."""

    @property
    def lost(self) -> list[str]:
        """What it does not say of the job."""
        return list(self.losses.values())


def normal(job: Job) -> Job:
    """A job whose fields without effect are at their defaults, so that jobs that run alike are equal."""
    own = job.strategy
    replicas, sharded = own.data * own.context, own.zero if own.data * own.context > 1 else 0
    in_stages = {} if own.pipeline > 1 else {"schedule": "1f1b", "virtual": 0}
    in_shards = {} if own.tensor > 1 else {"sequence": False, "whole": ()}
    parts = own.expert_parallel if own.expert_parallel > 1 else 0
    return job.saying(
        zero=sharded,
        shard=own.shard if sharded and own.shard < replicas else 0,
        stages=own.stages if len(set(own.stages)) > 1 and own.pipeline > 1 else (),
        expert_parallel=parts,
        etp=(own.etp or own.tensor) if parts and own.tensor > 1 else 0,
        **overlapping(job.overlaps and replicas > 1, job.async_tp and own.tensor > 1),
        **(of_recomputation(job.recompute) if job.recompute else {}),
        **in_stages,
        **in_shards,
    )


MICRO_BATCH, GLOBAL_BATCH, MODEL, SEQUENCE = "--micro-batch", "--global-batch", "--model", "--seq"
"""The options of commands that say beside a configuration what it leaves open."""


def unsaid(job: Job) -> dict[str, str]:
    """Why fields are lost that most frameworks do not say, or of which they take their own default."""
    own = job.strategy
    is_known = job.micro_batch and job.global_batch
    return {
        **({} if is_known else {f"{ALWAYS}batch": "the batch, which is not known here: set it"}),
        "offloaded": f"activations of {own.offloaded} layers on the host",
        "state_on_host": "optimizer state on the host",
        "optimizer": f"the optimizer {own.optimizer}: set it beside the configuration",
        "stages": f"stages of {','.join(map(str, own.stages))} layers",
    }


def replicas(path: str, given: Supplied, stated: int | None, *degrees: int) -> tuple[int, str]:
    """How many replicas there are, and what was assumed: the devices over what each replica takes.

    `stated`: the devices that the configuration states, if it does. Raises ConfigurationError.
    """
    each = 1
    for degree in degrees:
        each *= degree
    gpus, assumed = given.gpus or stated, ""
    if given.gpus and stated and given.gpus != stated:
        raise ConfigurationError(
            f"{path}: it is for {stated} GPUs, and `--gpus` says {given.gpus}",
            "leave out `--gpus`, or change its degrees",
        )
    if gpus is None:
        gpus = each * given.node // gcd(each, given.node)
        assumed = f"on {gpus} GPUs, as it does not say; `--gpus N` does"
    if gpus % each:
        product = " · ".join(str(d) for d in degrees if d > 1)
        raise ConfigurationError(
            f"{path}: degrees of {product} = {each} do not divide {gpus} GPUs",
            f"use a multiple of {each} GPUs: `--gpus {-(-gpus // each) * each}`",
        )
    return gpus // each, assumed


def _fewer(job: Job) -> str:
    """The most GPUs, fewer than a job has, among which its batch divides; empty if there are none."""
    micro, total = job.micro_batch or 1, job.global_batch or 1
    dp = next((dp for dp in range(min(job.strategy.data, total // micro), 0, -1) if total % (micro * dp) == 0), 0)
    return f", or fewer GPUs: {job.gpus // job.strategy.data * dp}" if dp else ""


def checked(path: str, job: Job, of_experts: int = 0) -> Job:
    """The job, whose figures fit each other; equal stages are not listed. Raises ConfigurationError.

    `of_experts`: the line that says over how many ranks experts are.
    """
    own = job.strategy
    if job.micro_batch is not None and job.global_batch is not None:
        each = job.micro_batch * own.data
        if job.global_batch % each:
            raise ConfigurationError(
                f"{path}: a batch of {job.global_batch} is not a multiple of micro batches of {job.micro_batch} "
                f"on {own.data} replicas",
                f"use a multiple of {each}{_fewer(job)}",
            )
    each = own.context * (own.tensor // (own.etp or own.tensor))
    if own.expert_parallel > 1 and own.data * each % own.expert_parallel:
        place = f"{path}:{of_experts}" if of_experts else path
        degrees = " · ".join(str(degree) for degree in (own.tensor, own.pipeline, own.context) if degree > 1)
        left = f"degrees of {degrees} leave" if degrees else "there are"
        message = f"{place}: {left} {own.data} replicas of {job.gpus} GPUs, on which experts do not divide over"
        fewest = own.expert_parallel // gcd(own.expert_parallel, each) * job.gpus // own.data
        raise ConfigurationError(f"{message} {own.expert_parallel}", f"use a multiple of {fewest} GPUs")
    if job.model is not None and own.stages and sum(own.stages) != job.model.layers:
        raise ConfigurationError(
            f"{path}: stages of {', '.join(map(str, own.stages))} layers are {sum(own.stages)}, "
            f"where the model has {job.model.layers}"
        )
    return normal(job)
