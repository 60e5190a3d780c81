"""A plan: how a program is distributed; and the axes of the space of plans, each defined once.

An *axis* says what of a plan it is, which values a space tries where the axes before it are chosen, which words it adds
to the steps of `distir transform`, and how it is shown. Whatever enumerates, prints, stores or anneals plans goes
through `AXES`: a new axis is one definition here, beside the field of `Plan`, of `Space` and of a row that hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypedDict

from distir.ops.attention import CONTEXTS
from distir.transform.pipeline import SCHEDULES, SUMS

MICROBATCHES = (2, 4, 8, 16, 32, 64, 128)
"""How many microbatches the paper's search tries for pipelines (section 5.1)."""


BALANCES = ("uniform", "cost", "memory")
"""How layers are distributed over the stages of a pipeline: equally many, by estimated time, or by memory."""

OVERLAP_ALL = "overlap=all"
"""The word for the step `overlap` with the kind `passes`."""

RECOMPUTED = ("full", "selective", "products")
"""The values of the step `checkpoint` that a search tries."""


class PipelineOptions(TypedDict, total=False):
    """Options of the steps `dtp` and `pp`, by name."""

    microbatches: int
    schedule: str
    virtual: int
    balance: str
    sums: str


class At(NamedTuple):
    """What the steps of some plans depend on: sizes of named dimensions, and a machine by its name."""

    bind: tuple[tuple[str, int], ...]
    hardware: str

    @property
    def words(self) -> str:
        """The option `bind` of steps."""
        return "bind=" + ",".join(f"{name}={size}" for name, size in self.bind)


@dataclass(frozen=True, slots=True, order=True)
class Plan:
    """How a program is distributed, whatever the batch size: D replicas of P stages of T shards, K microbatches.

    With one stage, K microbatches are run one after the other, and their gradients are accumulated.
    `stages`: how many layers each stage has, if not equally many. `sums`: when a pipeline adds up the gradients of
    microbatches, as the step `pp` says. `fuse`: whether ops become kernels. `overlap`: whether communication runs
    beside computation, as by the step `overlap`. `experts`: how many of the replicas share the experts of a model, and
    `skew` the load of the busiest of them, as the step `ep` says. `context`: how many devices share each sequence, and
    `kind` how queries of one meet the keys of the others, as the step `cp` says. `virtual`: stages of each device, 0
    for as many as the schedule has by itself. `shard`: how many replicas partition state among them by ZeRO, 0 for all.
    `sequence`: whether what tensor parallelism leaves whole is split along the sequence. `balance`: how layers are
    distributed over stages, as in the step `pp`. `etp`: over how many shards each expert is split; 0: over all.
    `cp_experts`: whether those that share sequences share the experts, too. `recompute`: with `checkpoint`, what is
    recomputed, as that step says, and in how many layers, as `products` or `full:16`; empty for all. `chunks`: how many
    parts sequences are cut into, by schedules that cut them, 0 by others. `passes`: with `overlap`, whether collectives
    of layers run beside passes of other microbatches, too. A row of a search is a plan and a batch size.
    """

    data: int
    tensor: int
    pipeline: int
    microbatches: int = 1
    schedule: str = "1f1b"
    zero: int = 0
    checkpoint: bool = False
    stages: tuple[int, ...] = ()
    sums: str = SUMS[0]
    fuse: bool = False
    overlap: bool = False
    experts: int = 1
    skew: float = 0.0
    context: int = 1
    kind: str = ""
    virtual: int = 0
    shard: int = 0
    sequence: bool = False
    balance: str = BALANCES[0]
    etp: int = 0
    cp_experts: bool = False
    recompute: str = ""
    chunks: int = 0
    passes: bool = False

    @property
    def sized(self) -> bool:
        """Whether its program is for one batch size: by what is held, what overlap gains, or as sequences are cut."""
        return self.passes or self.chunks > 0 or (self.balance == "memory" and self.pipeline > 1)

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def pure(self) -> str | None:
        """`D`, `T` or `P` where only that degree exceeds 1; None for mixtures."""
        degrees = {"D": self.data, "T": self.tensor, "P": self.pipeline, "CP": self.context}
        used = [name for name, degree in degrees.items() if degree > 1]
        return used[0] if len(used) == 1 else None

    @property
    def stages_per_device(self) -> int:
        """How many stages each device of a pipeline runs."""
        known = SCHEDULES.get(self.schedule) if self.pipeline > 1 else None
        return 1 if known is None else self.virtual or known.stages

    @property
    def effort(self) -> float:
        """About how much work it is to make and simulate its program: stages, times what their rounds grow by.

        Which passes collectives run beside is decided by simulations.
        """
        rounds = self.pipeline * self.stages_per_device * self.microbatches**0.5 if self.pipeline > 1 else 1.0
        return (8 if self.passes else 1) * rounds

    @property
    def pipeline_options(self) -> PipelineOptions:
        """The options of the steps `dtp` and `pp` for this plan, without the degrees."""
        found = PipelineOptions()
        if self.microbatches > 1:
            found["microbatches"] = self.microbatches
        if self.pipeline > 1:
            found = PipelineOptions(microbatches=self.microbatches, schedule=self.schedule, balance=self.balance)
            known = SCHEDULES.get(self.schedule)
            if known is not None and known.virtual:
                found["virtual"] = self.stages_per_device
        if self.stages:
            found["balance"] = ",".join(map(str, self.stages))
        if self.sums != SUMS[0]:
            found["sums"] = self.sums
        return found

    def steps(self, at: At | None = None) -> list[str]:
        """The arguments of `distir transform` for this plan. ZeRO gives each replica as much, where that divides.

        `at`: sizes and machine, for a plan whose steps decide by them.
        """
        before, after = self._words("before"), list(self._words("after"))
        own = [f"{name}={value}" for name, value in self.pipeline_options.items()]
        degrees = f"dtp={self.data},{self.tensor},{self.pipeline}"
        if at is not None and self.balance == "memory":
            own.append(at.words)
        if at is not None and self.passes:
            place = after.index(OVERLAP_ALL) + 1
            after = [*after[:place], f"hardware={at.hardware}", at.words, *after[place:]]
        return [*before, degrees, *own, *self._words("dtp"), *after]

    def _words(self, place: Place) -> Iterator[str]:
        return (word for axis in AXES if axis.place == place for word in axis.words(self))

    def __str__(self) -> str:
        """As the paper writes it, `D/T/P/K`, followed by whatever differs from the defaults."""
        shown = (text for axis in AXES if (text := axis.shown(self)))
        return " ".join([f"{self.data}/{self.tensor}/{self.pipeline}/{self.microbatches}", *shown])


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that a space tries on each axis, by default the paper's. See `Space`."""

    devices: int
    batch_sizes: tuple[int, ...] = ()
    microbatches: tuple[int, ...] = MICROBATCHES
    schedules: tuple[str, ...] = ("1f1b",)
    zero: tuple[int, ...] = (0,)
    checkpoint: tuple[bool, ...] = (False,)
    all_divisors: bool = False
    fixed: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]], hash=False)
    """The degrees that `D`, `T` and `P` are restricted to, by name. Those stated here need not be powers of two."""
    micro_batches: tuple[int, ...] = ()
    """Sizes that a replica's microbatches are restricted to; empty: any."""
    sums: tuple[str, ...] = SUMS[:1]
    """When pipelines add up the gradients of microbatches."""
    fuse: bool | None = False
    """Whether the step `fuse` follows each plan's steps; None: both are tried."""
    accumulate: tuple[int, ...] = (1,)
    """K where P is 1: in how many microbatches, one after the other, a replica runs its part of the batch."""
    overlap: tuple[bool, ...] = (False,)
    """Whether communication runs beside computation, where there are several devices."""
    experts: tuple[int, ...] | None = None
    """How many replicas share the experts of a model; None: as many as divide them, 1 for a model without experts."""
    skew: float = 1.0
    """The load of the busiest of these replicas, as a multiple of the mean; 0: room for all tokens on each."""
    context: tuple[int, ...] = (1,)
    """CP: how many devices share each sequence."""
    kinds: tuple[str, ...] = CONTEXTS[:1]
    """How queries of one of these devices meet the keys of the others: `cp_kind` of the step `cp`."""
    virtual: tuple[int, ...] = (2,)
    """Stages of each device, for the schedules that leave their number open."""
    shard: tuple[int, ...] = ()
    """Sizes of the groups of replicas that partition state by ZeRO, beside all replicas as one."""
    sequence: tuple[bool, ...] = (False,)
    """Whether what tensor parallelism leaves whole is split along the sequence."""
    balance: tuple[str, ...] = BALANCES[:1]
    """How layers are distributed over stages."""
    etp: tuple[int, ...] = (0,)
    """With experts over replicas, over how many shards each is split: 0, over all; 1, each shard has whole ones."""
    chunks: tuple[int, ...] = (2, 4)
    """Parts of each sequence, for schedules that cut them."""
    passes: tuple[bool, ...] = (False,)
    """With overlap, whether collectives of layers run beside passes of other microbatches, too."""
    cp_experts: tuple[bool, ...] = (False,)
    """Of a model with experts, whether devices that share sequences share the experts."""
    recompute: tuple[str, ...] = ("",)
    """The kinds of recomputation to try, as `Plan.recompute`."""
    of_the_best: tuple[tuple[str, Any], ...] = ()
    """Fields of a plan with values that a search with a budget tries of its best rows alone."""

    def counts(self, pipeline: int) -> tuple[int, ...]:
        """The numbers of microbatches to try, for a number of stages."""
        return self.microbatches if pipeline > 1 else self.accumulate


Place = Literal["before", "dtp", "after"]


@dataclass(frozen=True, slots=True)
class Axis:
    """A property in which plans of equal degrees may differ: `field` of `Plan`, shown in the rows' `column`.

    `tried`: the values that a space tries for a plan, of which this axis and those after it have their defaults; they
    are the same for plans that agree in the fields `depends`.
    `words`: what it adds to the steps, at its `place`: before the step `dtp`, among its options, or after it.
    """

    field: str
    column: str
    depends: Sequence[str]
    tried: Callable[[Choices, Plan], Sequence[Any]]
    words: Callable[[Plan], Sequence[str]] = lambda _: ()
    place: Place = "dtp"
    shown: Callable[[Plan], str] = lambda _: ""


def _schedules(space: Choices, plan: Plan) -> Sequence[str]:
    """Sequences are shared by devices, or cut by the schedule."""
    if plan.pipeline == 1:
        return space.schedules[:1]
    whole = [name for name in space.schedules if plan.context == 1 or not _cuts(name)]
    return whole or space.schedules


def _expert_shards(asked: Sequence[int], shards: int) -> Sequence[int]:
    """Those of the numbers of shards that divide all, of which 0 says all."""
    return tuple(dict.fromkeys(n % shards for n in asked if shards % (n or 1) == 0)) or (0,)


def _cuts(schedule: str) -> bool:
    return (known := SCHEDULES.get(schedule)) is not None and known.cuts


def _virtual(space: Choices, plan: Plan) -> Sequence[int]:
    """Stages per device, if the schedule supports several. Its default is 0, so that equal plans compare equal."""
    known = SCHEDULES.get(plan.schedule) if plan.pipeline > 1 else None
    if known is None or not known.virtual:
        return (0,)
    return tuple(0 if count == known.stages else count for count in space.virtual)


def _chunks(space: Choices, plan: Plan) -> Sequence[int]:
    """Parts of sequences, if the schedule cuts them."""
    return space.chunks if plan.pipeline > 1 and _cuts(plan.schedule) else (0,)


def _overlaps(space: Choices, plan: Plan) -> Sequence[bool]:
    """What shards alone communicate is overlapped for known sizes: of a program that fixes them, or with `passes`."""
    others = plan.devices > plan.tensor or not space.batch_sizes or True in space.passes
    return space.overlap if plan.devices > 1 and others else (False,)


def _passes(space: Choices, plan: Plan) -> Sequence[bool]:
    """Only where there are several microbatches, and layers that communicate."""
    communicates = plan.tensor * plan.context * plan.experts > 1
    return space.passes if plan.overlap and plan.microbatches > 1 and communicates else (False,)


def _counts(space: Choices, plan: Plan) -> Sequence[int]:
    """Those that give microbatches of the stated sizes; one that does not where none does, to be counted."""
    counts, sizes = space.counts(plan.pipeline), space.micro_batches
    if not sizes or not space.batch_sizes:
        return counts
    exact = {batch // (plan.data * size) for batch in space.batch_sizes for size in sizes}
    return [count for count in counts if count in exact] or counts[:1]


def _zero_stages(space: Choices, plan: Plan) -> Sequence[int]:
    """In a pipeline, stage 1 represents stage 2: gradients are summed up over microbatches, and reduced at the end."""
    alike = plan.pipeline > 1 and 1 in space.zero
    return tuple(stage for stage in space.zero if stage == 0 or (plan.data > 1 and not (stage == 2 and alike)))


def _recomputations(space: Choices, plan: Plan) -> Sequence[str]:
    return space.recompute if plan.checkpoint else ("",)


def _checkpoint_words(plan: Plan) -> Sequence[str]:
    """The step, and its options."""
    if not plan.checkpoint:
        return []
    what, _, layers = plan.recompute.partition(":")
    return [f"checkpoint={what}" if what else "checkpoint", *([f"layers={layers}"] if layers else [])]


def _shards(space: Choices, plan: Plan) -> Sequence[int]:
    """Groups smaller than all replicas, of the highest stage that is tried: that takes the most communication."""
    if not plan.zero or plan.zero != max(space.zero):
        return (0,)
    return [0, *(n for n in space.shard if 1 < n < plan.data and plan.data % n == 0)]


def _stages(_: Choices, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Numbers of layers that annealing found, where there are as many stages still."""
    fitting = len(plan.stages) == plan.pipeline * plan.stages_per_device
    return (plan.stages if fitting else (),)


DEGREES = ("data", "tensor", "pipeline", "context")
"""The fields of a plan whose product is the number of devices."""

AXES: Final = (
    Axis(
        "experts",
        "EP",
        (),
        lambda space, _: space.experts or (1,),
        lambda plan: [f"experts={plan.experts}"] if plan.experts > 1 else [],
        shown=lambda plan: f"ep={plan.experts}" if plan.experts > 1 else "",
    ),
    Axis(
        "skew",
        "skew",
        ("experts",),
        lambda space, plan: (space.skew if plan.experts > 1 else 0.0,),
        lambda plan: [f"skew={plan.skew:g}"] if plan.experts > 1 and plan.skew else [],
    ),
    Axis(
        "context",
        "CP",
        ("context",),
        lambda _, plan: (plan.context,),  # a degree: the space chooses it with the others
        lambda plan: [f"context={plan.context}"] if plan.context > 1 else [],
        shown=lambda plan: f"cp={plan.context}" if plan.context > 1 else "",
    ),
    Axis(
        "kind",
        "cp_kind",
        ("context",),
        lambda space, plan: space.kinds if plan.context > 1 else ("",),
        lambda plan: [f"cp_kind={plan.kind}"] if plan.kind else [],
        shown=lambda plan: plan.kind,
    ),
    Axis(
        "schedule",
        "schedule",
        ("pipeline", "context"),
        _schedules,
        shown=lambda plan: plan.schedule if plan.pipeline > 1 and plan.schedule != "1f1b" else "",
    ),
    Axis(
        "virtual",
        "virtual",
        ("pipeline", "schedule"),
        _virtual,
        shown=lambda plan: f"virtual={plan.virtual}" if plan.virtual else "",
    ),
    Axis(
        "chunks",
        "chunks",
        ("pipeline", "schedule"),
        _chunks,
        lambda plan: [f"chunks={plan.chunks}"] if plan.chunks else [],
        shown=lambda plan: f"chunks={plan.chunks}" if plan.chunks else "",
    ),
    Axis(
        "zero",
        "zero",
        ("data", "pipeline"),
        _zero_stages,
        lambda plan: [f"zero={plan.zero}", "partition=split"] if plan.zero else [],
        "after",
        lambda plan: f"zero={plan.zero}" if plan.zero else "",
    ),
    Axis(
        "shard",
        "shard",
        ("data", "zero"),
        _shards,
        lambda plan: [f"shard={plan.shard}"] if plan.shard else [],
        "after",
        lambda plan: f"shard={plan.shard}" if plan.shard else "",
    ),
    Axis(
        "checkpoint",
        "checkpoint",
        (),
        lambda space, _: space.checkpoint,
        _checkpoint_words,
        "before",
        lambda plan: " ".join(_checkpoint_words(plan)),
    ),
    Axis("recompute", "recompute", ("checkpoint",), _recomputations),
    Axis("microbatches", "K", ("data", "pipeline"), _counts),
    Axis(
        "stages",
        "stages",
        ("pipeline", "schedule", "virtual", "stages"),
        _stages,
        shown=lambda plan: f"stages={','.join(map(str, plan.stages))}" if plan.stages else "",
    ),
    Axis(
        "balance",
        "balance",
        ("pipeline", "stages"),
        lambda space, plan: space.balance if plan.pipeline > 1 and not plan.stages else BALANCES[:1],
        shown=lambda plan: f"balance={plan.balance}" if plan.balance != BALANCES[0] else "",
    ),
    Axis(
        "etp",
        "etp",
        ("tensor", "experts"),
        lambda space, plan: _expert_shards(space.etp, plan.tensor) if plan.experts > 1 else (0,),
        lambda plan: [f"etp={plan.etp}"] if plan.etp else [],
        shown=lambda plan: f"etp={plan.etp}" if plan.etp else "",
    ),
    Axis(
        "cp_experts",
        "cp_experts",
        ("context",),
        lambda space, plan: space.cp_experts if plan.context > 1 else (False,),
        lambda plan: ["cp_experts=true"] if plan.cp_experts else [],
        shown=lambda plan: "cp_experts" if plan.cp_experts else "",
    ),
    Axis(
        "sums",
        "sums",
        ("pipeline", "microbatches"),
        lambda space, plan: space.sums if plan.pipeline > 1 or plan.microbatches > 1 else SUMS[:1],
        shown=lambda plan: f"sums={plan.sums}" if plan.sums != SUMS[0] else "",
    ),
    Axis(
        "sequence",
        "sequence",
        ("tensor",),
        lambda space, plan: space.sequence if plan.tensor > 1 else (False,),
        lambda plan: ["sequence=true"] if plan.sequence else [],
        shown=lambda plan: "sequence" if plan.sequence else "",
    ),
    Axis(
        "overlap",
        "overlap",
        DEGREES,
        _overlaps,
        lambda plan: [OVERLAP_ALL if plan.passes else "overlap"] if plan.overlap else [],
        "after",
        lambda plan: "overlap" if plan.overlap else "",
    ),
    Axis(
        "passes",
        "passes",
        ("tensor", "context", "experts", "microbatches", "overlap"),
        _passes,
        shown=lambda plan: "passes" if plan.passes else "",
    ),
    Axis(
        "fuse",
        "fuse",
        (),
        lambda space, _: (False, True) if space.fuse is None else (space.fuse,),
        lambda plan: ["fuse"] if plan.fuse else [],
        "after",
        lambda plan: "fuse" if plan.fuse else "",
    ),
)
"""Every axis beside D, T, P and CP, in the order in which a space goes through them, the last one fastest."""
