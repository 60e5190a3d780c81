"""A strategy: how a training step, or another program, is distributed and run. Each field is declared once.

What a field means stands with it (`declared`). Nothing here knows programs, and all else is loaded when it is needed:
commands take their options from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from distir.transform.strategy.choices import BALANCES, Choices
from distir.transform.strategy.declared import VALUE, Declared, Options, Question, Requirement, declarations, declared

if TYPE_CHECKING:
    from distir.transform.pipeline import Schedule

DEGREES: Final = ("data", "tensor", "pipeline", "context")
"""The fields of a strategy whose product is the number of devices."""

RECOMPUTED: Final = ("full", "selective", "products")
"""The values of the step `checkpoint` that a search tries."""

OVERLAP_ALL: Final = ("all",)
"""The value of the step `overlap` with the kind `passes`."""


def _schedule(name: str) -> Schedule | None:
    from distir.transform.pipeline import SCHEDULES

    return SCHEDULES.get(name)


def _schedules() -> Collection[str]:
    from distir.transform.pipeline import SCHEDULES

    return sorted(SCHEDULES)


def _schedules_that(are_such: Callable[[Schedule], bool]) -> str:
    """The options that name such schedules."""
    from distir.transform.pipeline import SCHEDULES

    return " or ".join(f"`--schedule {name}`" for name, known in SCHEDULES.items() if are_such(known))


def _sums() -> Collection[str]:
    from distir.transform.pipeline import SUMS

    return SUMS


def _contexts() -> Collection[str]:
    from distir.ops.attention import CONTEXTS

    return CONTEXTS


def _cuts(strategy: Strategy) -> bool:
    known = _schedule(strategy.schedule) if strategy.pipeline > 1 else None
    return known is not None and known.cuts


def _has_virtual(strategy: Strategy) -> bool:
    known = _schedule(strategy.schedule) if strategy.pipeline > 1 else None
    return known is not None and known.virtual


def _communicates(strategy: Strategy) -> bool:
    """Whether layers communicate, and several microbatches."""
    return strategy.microbatches > 1 and strategy.tensor * strategy.context * strategy.experts > 1


STAGES = Requirement(
    lambda s: s.pipeline > 1, "pipelines, and P is 1 in all plans", "`--pp 2` or more has some", ("pipeline",)
)
PARTS = Requirement(
    lambda s: s.microbatches > 1,
    "several microbatches, and K is 1 in all plans",
    "`--accumulate 4` has several",
    ("data", "pipeline", "microbatches"),
)
REPLICAS = Requirement(
    lambda s: s.data > 1, "replicas, and D is 1 in all plans", "`--dp 2` or more has some", ("data",)
)
SHARDS = Requirement(
    lambda s: s.tensor > 1, "tensor parallelism, and T is 1 in all plans", "`--tp 2` or more has some", ("tensor",)
)
SHARED = Requirement(
    lambda s: s.context > 1, "shared sequences, and CP is 1 in all plans", "`--cp 2` or more shares some", ("context",)
)
STATE = Requirement(
    lambda s: s.zero > 0, "ZeRO, which no plan has", "`--zero 1,2,3` tries it", ("data", "pipeline", "zero")
)
DEVICES = Requirement(
    lambda s: s.devices > 1,
    "communication, and all plans have one device",
    "`--devices 2` or more communicate",
    DEGREES,
)
EXPERTS = Requirement(
    lambda s: s.experts > 1,
    "experts over devices, which no plan has",
    "leave out `--skew`, or try `--ep 2` or more of a model with experts",
    ("experts",),
)
SPLIT_EXPERTS = Requirement(
    lambda s: s.experts > 1 and s.tensor > 1,
    "experts over devices and tensor parallelism, which no plan has both of",
    "`--tp 2 --ep 2` of a model with experts has",
    ("tensor", "experts"),
)
SHARED_EXPERTS = Requirement(
    lambda s: s.experts > 1 and s.context > 1,
    "experts and shared sequences, which no plan has both of",
    "`--cp 2 --ep 2` of a model with experts has",
    ("context", "experts"),
)
CUT = Requirement(
    _cuts,
    "schedules that cut sequences",
    lambda: _schedules_that(lambda known: known.cuts),
    ("pipeline", "context", "schedule"),
)
OPEN = Requirement(
    _has_virtual,
    "schedules that have any number of stages on a device",
    lambda: _schedules_that(lambda known: known.virtual),
    ("pipeline", "context", "schedule"),
)
LAYERS_BESIDE_OTHERS = Requirement(
    _communicates,
    "layers that communicate and several microbatches, which no plan has both of",
    "`--tp 2 --pp 2` has",
    ("data", "tensor", "pipeline", "context", "experts", "microbatches"),
)


def _degree(place: int, column: str, flag: str, of: str) -> Any:
    """A degree, one of those that are the value of the step `dtp`, all of which the first one says."""
    asked = Question(flag, f"Degrees of {of} parallelism", f"{column} to try. [default: all that there are]")
    return declared(
        1,
        column,
        said=lambda s: None if place else {VALUE: (s.data, s.tensor, s.pipeline)},
        read=lambda options: options[VALUE][place],
        shown=lambda _: "",
        asked=asked,
    )


@dataclass(frozen=True, slots=True, order=True)
class Strategy:
    """How a program is distributed, whatever the batch size: D replicas of P stages of T shards, K microbatches.

    With one stage, K microbatches are run one after the other, and their gradients are accumulated. Strategies are
    ordered by their fields, as columns of rows are. A row of a search has one, its `plan`, and a batch size.
    """

    data: int = _degree(0, "D", "dp", "data")
    tensor: int = _degree(1, "T", "tp", "tensor")
    pipeline: int = _degree(2, "P", "pp", "pipeline")
    microbatches: int = declared(
        1,
        "K",
        option="microbatches",
        said=lambda s: {"microbatches": s.microbatches} if s.pipeline > 1 or s.microbatches > 1 else None,
        tried=lambda space, s: _counts(space, s),
        depends=("data", "pipeline"),
        shown=lambda _: "",
        asked=Question(
            "microbatches",
            "Microbatches",
            "K to try. [default: 2,4,…,128]",
            expected="1 or more",
            needs=(Requirement(STAGES.met, STAGES.what, "`--accumulate` says K where P is 1", STAGES.depends),),
        ),
    )
    schedule: str = declared(
        "1f1b",
        "schedule",
        option="schedule",
        said=lambda s: {"schedule": s.schedule} if s.pipeline > 1 else None,
        tried=lambda space, s: _tried_schedules(space, s),
        depends=("pipeline", "context"),
        shown=lambda s: s.schedule if s.pipeline > 1 and s.schedule != "1f1b" else "",
        asked=Question(
            "schedule",
            "Schedules",
            "Pipeline schedules to try, such as 1f1b,zb-h1. [default: 1f1b]",
            "words",
            _schedules,
            needs=(STAGES,),
        ),
    )
    zero: int = declared(
        0,
        "zero",
        step="zero",
        option=VALUE,
        said=lambda s: {VALUE: s.zero, "partition": "split"} if s.zero else None,
        tried=lambda space, s: _zero_stages(space, s),
        depends=("data", "pipeline"),
        shown="zero={}",
        asked=Question(
            "zero",
            "ZeRO stages",
            "ZeRO stages to try, 0 to 3. [default: 0]",
            expected="stages from 0 to 3",
            least=0,
            most=3,
            needs=(REPLICAS,),
        ),
    )
    checkpoint: bool = declared(
        False,
        "checkpoint",
        step="checkpoint",
        shown=lambda s: _recomputation_shown(s),
        asked=Question(
            "checkpoint",
            "Checkpointing",
            "What to recompute: off, on (full), selective, products; of so many layers, as full:16; both: off,on. "
            "[default: off]",
            "words",
        ),
    )
    stages: tuple[int, ...] = declared(
        (),
        "stages",
        said=lambda s: {"balance": ",".join(map(str, s.stages))} if s.stages else None,
        read=lambda options: _stages_in(options),
        tried=lambda _, s: (s.stages if len(s.stages) == s.pipeline * s.stages_per_device else (),),
        depends=("pipeline", "schedule", "virtual", "stages"),
        shown=lambda s: f"stages={','.join(map(str, s.stages))}" if s.stages else "",
    )
    """How many layers each stage has, if not equally many: those that annealing found."""
    sums: str = declared(
        "layer",
        "sums",
        option="sums",
        tried=lambda space, s: space.sums if s.pipeline > 1 or s.microbatches > 1 else ("layer",),
        depends=("pipeline", "microbatches"),
        shown="sums={}",
        asked=Question(
            "sums",
            "Sums of gradients",
            "Gradients of microbatches: added by layer, or by stage. [default: layer]",
            "words",
            _sums,
            metavar="layer,stage",
            named="--sums stage",
            needs=(PARTS,),
        ),
    )
    """When the gradients of microbatches are added up, as the step `pp` says."""
    fuse: bool = declared(
        False,
        "fuse",
        step="fuse",
        tried=lambda space, _: (False, True) if space.fuse is None else (space.fuse,),
        shown="fuse",
        asked=Question("fuse", "Fusion", "Fuse each program's ops into kernels.", "switch", on=True, off=False),
    )
    """Whether ops become kernels."""
    overlap: bool = declared(
        False,
        "overlap",
        step="overlap",
        tried=lambda space, s: _overlaps(space, s),
        depends=DEGREES,
        shown="overlap",
        asked=Question(
            "overlap",
            "Overlap",
            "Try each plan with communication beside computation, too.",
            "switch",
            needs=(DEVICES,),
        ),
    )
    """Whether communication runs beside computation, as by the step `overlap`."""
    experts: int = declared(
        1,
        "EP",
        option="experts",
        tried=lambda space, _: space.experts or (1,),
        shown="ep={}",
        asked=Question(
            "ep",
            "Degrees of expert parallelism",
            "Over how many of D experts are split. [default: all that divide them]",
        ),
    )
    """How many of the replicas share the experts of a model."""
    skew: float = declared(
        0.0,
        "skew",
        said=lambda s: {"skew": s.skew} if s.skew and (s.experts > 1 or s.expert_parallel) else None,
        option="skew",
        tried=lambda space, s: (space.skew if s.experts > 1 else 0.0,),
        depends=("experts",),
        shown=lambda _: "",
        asked=Question(
            "skew",
            "Skew of experts",
            "Tokens of the busiest device, to the mean; 0: room for all. [default: 1]",
            "factor",
            expected="a multiple of the mean from 1, or 0",
            needs=(EXPERTS,),
        ),
    )
    """The load of the busiest of these, as the step `ep` says."""
    context: int = declared(
        1,
        "CP",
        option="context",
        tried=lambda _, s: (s.context,),  # a degree: the space chooses it with the others
        depends=("context",),
        shown="cp={}",
        asked=Question(
            "cp", "Degrees of context parallelism", "How many devices share a sequence. [default: 1; of training all]"
        ),
    )
    """How many devices share each sequence."""
    kind: str = declared(
        "",
        "cp_kind",
        option="cp_kind",
        shown="{}",
        asked=Question(
            "cp-kind",
            "Kinds of context parallelism",
            "Of these: allgather, a2a (Ulysses), ring. [default: allgather; of training all]",
            "words",
            _contexts,
            alias={"ulysses": "a2a", "all-gather": "allgather", "all-to-all": "a2a"},
            needs=(SHARED,),
        ),
    )
    """How queries of one of these meet the keys of the others, as the step `cp` says."""
    virtual: int = declared(
        0,
        "virtual",
        said=lambda s: _virtual(s),
        read=lambda options: _virtual_in(options),
        tried=lambda space, s: _tried_virtual(space, s),
        depends=("pipeline", "schedule"),
        shown="virtual={}",
        asked=Question(
            "virtual",
            "Virtual stages",
            "Stages of a device to try, for interleaved. [default: 2]",
            needs=(STAGES, OPEN),
        ),
    )
    """Stages of each device, 0 for as many as the schedule has by itself."""
    shard: int = declared(
        0,
        "shard",
        step="zero",
        option="shard",
        tried=lambda space, s: _shards(space, s),
        depends=("data", "zero"),
        shown="shard={}",
        asked=Question(
            "shard",
            "Groups that partition state",
            "Replicas that partition state by ZeRO, beside all: HSDP.",
            needs=(STATE,),
        ),
    )
    """How many replicas partition state among them by ZeRO, 0 for all."""
    sequence: bool = declared(
        False,
        "sequence",
        option="sequence",
        shown="sequence",
        asked=Question(
            "sequence-parallel", "Sequence parallelism", "Also split what T leaves whole.", "switch", needs=(SHARDS,)
        ),
    )
    """Whether what tensor parallelism leaves whole is split along the sequence."""
    balance: str = declared(
        "uniform",
        "balance",
        said=lambda s: {"balance": s.balance} if s.pipeline > 1 and not s.stages else None,
        read=lambda options: _balance_in(options),
        tried=lambda space, s: space.balance if s.pipeline > 1 and not s.stages else BALANCES[:1],
        depends=("pipeline", "stages"),
        shown="balance={}",
        asked=Question(
            "balance",
            "Layers of stages",
            "Layers of stages: equally many (uniform), for equal times (cost), for little memory (memory). "
            "[default: uniform; of training uniform,cost]",
            "words",
            lambda: BALANCES,
            needs=(STAGES,),
        ),
    )
    """How layers are distributed over stages, as in the step `pp`."""
    etp: int = declared(
        0,
        "etp",
        option="etp",
        tried=lambda space, s: _expert_shards(space.etp, s.tensor) if s.experts > 1 else (0,),
        depends=("tensor", "experts"),
        shown="etp={}",
        asked=Question(
            "etp",
            "Experts of shards",
            "Split each expert over so many of T shards, or over all (0). [default: 0]",
            expected="0 (each expert split over all shards) or a number of them",
            least=0,
            metavar="0,1,2",
            needs=(SPLIT_EXPERTS,),
        ),
    )
    """Over how many shards each expert is split; 0: over all."""
    cp_experts: bool = declared(
        False,
        "cp_experts",
        option="cp_experts",
        tried=lambda space, s: space.cp_experts if s.context > 1 else (False,),
        depends=("context",),
        shown="cp_experts",
        asked=Question(
            "cp-experts",
            "Experts over sequence groups",
            "Also divide experts among devices that share sequences.",
            "switch",
            needs=(SHARED_EXPERTS,),
        ),
    )
    """Whether those that share sequences share the experts, too."""
    recompute: str = declared(
        "",
        "recompute",
        step="checkpoint",
        said=lambda s: _recomputation(s.recompute) if s.checkpoint and s.recompute else None,
        read=lambda options: _recomputation_in(options),
        tried=lambda space, s: space.recompute if s.checkpoint else ("",),
        depends=("checkpoint",),
        shown=lambda _: "",
    )
    """With `checkpoint`: what is recomputed, and in how many layers, as `products` or `full:16`; empty for all."""
    chunks: int = declared(
        0,
        "chunks",
        option="chunks",
        shown="chunks={}",
        asked=Question(
            "chunks",
            "Chunks of sequences",
            "Parts of a sequence to try, for seq1f1b. [default: 2,4]",
            needs=(STAGES, CUT),
        ),
    )
    """How many parts sequences are cut into, by schedules that cut them, 0 by others."""
    passes: bool = declared(
        False,
        "passes",
        step="overlap",
        said=lambda s: {VALUE: OVERLAP_ALL} if s.overlap and s.passes else None,
        read=lambda options: options.get(VALUE) == OVERLAP_ALL,
        tried=lambda space, s: space.passes if s.overlap and _communicates(s) else (False,),
        depends=("tensor", "context", "experts", "microbatches", "overlap"),
        shown="passes",
        asked=Question(
            "passes",
            "Overlap of passes",
            "With --overlap, also what layers communicate beside other microbatches.",
            "switch",
            needs=(LAYERS_BESIDE_OTHERS,),
        ),
    )
    """With `overlap`, whether collectives of layers run beside passes of other microbatches, too."""
    kinds: tuple[str, ...] = declared(
        (), "overlap_kinds", step="overlap", option=VALUE, read=lambda options: _kinds_in(options)
    )
    """With `overlap`, which kinds of that step there are; none for all but `passes`."""
    behind_sums: bool = declared(False, "behind_sums", step="overlap", option="behind_sums")
    """The option of its kind `weights`."""
    optimizer: str = declared(
        "", "optimizer", step="grad", option="optimizer", read=lambda options: options.get("optimizer", "sgd")
    )
    """Of the step `grad`, which derives the training step of a forward program; empty: it is one already. The next four
    are options of that step, too."""
    precision: str = declared("keep", "precision", step="grad", option="precision")
    gradients: str = declared("auto", "gradients", step="grad", option="gradients")
    master: str = declared("beside", "master", step="grad", option="master")
    clip: float | None = declared(None, "clip", step="grad", option="clip")
    seeded: bool = declared(False, "seeded", step="seeded")
    """Whether dropout draws its numbers from a seed."""
    scaling: str = declared("", "fp8", step="fp8", option=VALUE, read=lambda options: options.get(VALUE, "block"))
    """How products in 8-bit floats are scaled, as the step `fp8` says; empty for none."""
    scaled_experts: bool = declared(False, "fp8_experts", step="fp8", option="experts")
    merged: bool = declared(False, "cse", step="cse")
    """Whether what is computed several times is computed once, before anything is recomputed."""
    modules: str = declared("", "modules", step="checkpoint", option="modules")
    """With `checkpoint`: the parts of layers that are recomputed, as that step names them."""
    offloaded: int = declared(
        0,
        "offload",
        step="offload=activations",
        said=lambda s: {VALUE: "activations", "layers": s.offloaded} if s.offloaded else None,
        option="layers",
    )
    """Of how many of the first layers activations are in the memory of the host until they are needed."""
    state_on_host: bool = declared(
        False,
        "offload_optimizer",
        step="offload=optimizer",
        said=lambda s: {VALUE: "optimizer"} if s.state_on_host else None,
    )
    """Whether the state of the optimizer is in the memory of the host."""
    layout: str = declared("pdt", "layout", option="layout")
    """The axes from outermost to innermost, as the step `dtp` says."""
    expert_parallel: int = declared(0, "expert_parallel", option="expert_parallel")
    """Over how many devices of a stage experts are split, in the place of `experts`."""
    dispatcher: str = declared("alltoall", "dispatcher", option="dispatcher")
    """How tokens get to their experts, as the step `ep` says."""
    scatter_gather: bool | None = declared(None, "scatter_gather", option="scatter_gather")
    """Whether shards send parts to the next stage, as the step `tp` says; None: the step decides."""
    whole: tuple[str, ...] = declared((), "whole", option="whole")
    """Ops whose operands shards have whole, as the step `tp` says."""
    wide_sums: bool = declared(
        False,
        "zero_sums",
        step="zero",
        said=lambda s: {"sums": "float32"} if s.wide_sums else None,
        read=lambda options: options.get("sums") == "float32",
    )
    """Whether gradients of replicas that partition state are summed whole, and in Float32."""
    decomposed: tuple[str, ...] = declared((), "decomposed", step="decompose", option=VALUE)
    """Ops that are written out as others, once the program is distributed."""
    kernels: str = declared("compiled", "kernels", step="fuse", option="kernels")
    """With `fuse`: whose kernels they are, as that step says. The next two are options of that step, too."""
    apart: tuple[str, ...] = declared((), "apart", step="fuse", option="apart")
    around: tuple[str, ...] = declared((), "around", step="fuse", option="around")

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
        used = [FIELDS[name].column for name in DEGREES if getattr(self, name) > 1]
        return used[0] if len(used) == 1 else None

    @property
    def stages_per_device(self) -> int:
        """How many stages each device of a pipeline runs."""
        if self.pipeline == 1:
            return 1
        known = _schedule(self.schedule)
        return self.virtual or (1 if known is None else known.stages)

    @property
    def effort(self) -> float:
        """About how much work it is to make and simulate its program: stages, times what their rounds grow by.

        Which passes collectives run beside is decided by simulations.
        """
        rounds = self.pipeline * self.stages_per_device * self.microbatches**0.5 if self.pipeline > 1 else 1.0
        return (8 if self.passes else 1) * rounds

    def __str__(self) -> str:
        """As the paper writes it, `D/T/P/K`, followed by whatever differs from the defaults."""
        others = (field for field in FIELDS.values() if not field.searched)
        shown = (text for field in (*AXES, *others) if (text := field.shown(self)))
        return " ".join([f"{self.data}/{self.tensor}/{self.pipeline}/{self.microbatches}", *shown])


FIELDS: Final = declarations(Strategy)
"""What is declared of each field, by name."""

SEARCHED: Final = {name: field for name, field in FIELDS.items() if field.searched}
"""Those of which a search tries values. Rows have a column for each."""

_NESTED = (
    *("experts", "skew", "context", "kind", "schedule", "virtual", "chunks", "zero", "shard", "checkpoint"),
    *("recompute", "microbatches", "stages", "balance", "etp", "cp_experts", "sums", "sequence", "overlap"),
    *("passes", "fuse"),
)

AXES: Final[Sequence[Declared]] = sorted(
    (SEARCHED[name] for name in SEARCHED if name not in DEGREES[:3]),
    key=lambda field: _NESTED.index(field.name) if field.name in _NESTED else len(_NESTED),
)
"""Every one of these but D, T and P in the order in which a space goes through them, the last one fastest."""


def _tried_schedules(space: Choices, strategy: Strategy) -> Sequence[str]:
    """Sequences are shared by devices, or cut by the schedule. One stage has the default, as no other has an effect."""
    if strategy.pipeline == 1:
        return (strategy.schedule,)

    def shares(name: str) -> bool:
        return strategy.context == 1 or (known := _schedule(name)) is None or not known.cuts

    return [name for name in space.schedule if shares(name)] or space.schedule


def _expert_shards(asked: Sequence[int], shards: int) -> Sequence[int]:
    """Those of the numbers of shards that divide all, of which 0 says all."""
    return tuple(dict.fromkeys(n % shards for n in asked if shards % (n or 1) == 0)) or (0,)


def _tried_virtual(space: Choices, strategy: Strategy) -> Sequence[int]:
    """Stages per device, if the schedule supports several. Its default is 0, so that equal plans compare equal."""
    if not _has_virtual(strategy):
        return (0,)
    return tuple(virtual_of(strategy.schedule, count) for count in space.virtual)


def _virtual(strategy: Strategy) -> Options | None:
    """Stages of each device, where the schedule leaves them open, or is a file that says them itself."""
    if _has_virtual(strategy):
        return {"virtual": strategy.stages_per_device}
    is_file = strategy.pipeline > 1 and _schedule(strategy.schedule) is None
    return {"virtual": strategy.virtual} if is_file and strategy.virtual else None


def virtual_of(schedule: str, stages: int) -> int:
    """Stages of a device as a field of a strategy: 0 where the schedule has as many by itself, or leaves no choice."""
    known = _schedule(schedule)
    if known is None:
        return 0 if stages == 1 else stages
    return stages if known.virtual and stages != known.stages else 0


def _virtual_in(options: Options) -> int:
    return virtual_of(options.get("schedule", "1f1b"), options.get("virtual") or 1) if "virtual" in options else 0


def _overlaps(space: Choices, strategy: Strategy) -> Sequence[bool]:
    """What shards alone communicate is overlapped for known sizes: of a program that fixes them, or with `passes`."""
    others = strategy.devices > strategy.tensor or not space.batch_sizes or True in space.passes
    return space.overlap if strategy.devices > 1 and others else (False,)


def _counts(space: Choices, strategy: Strategy) -> Sequence[int]:
    """Those that give microbatches of the stated sizes; one that does not where none does, to be counted."""
    counts, sizes = space.counts(strategy.pipeline), space.micro_batches
    if not sizes or not space.batch_sizes:
        return counts
    exact = {batch // (strategy.data * size) for batch in space.batch_sizes for size in sizes}
    return [count for count in counts if count in exact] or counts[:1]


def _zero_stages(space: Choices, strategy: Strategy) -> Sequence[int]:
    """In a pipeline, stage 1 represents stage 2: gradients are summed up over microbatches, and reduced at the end."""
    alike = strategy.pipeline > 1 and 1 in space.zero
    return tuple(stage for stage in space.zero if stage == 0 or (strategy.data > 1 and not (stage == 2 and alike)))


def _shards(space: Choices, strategy: Strategy) -> Sequence[int]:
    """Groups smaller than all replicas, of the highest stage that is tried: that takes the most communication."""
    if not strategy.zero or strategy.zero != max(space.zero):
        return (0,)
    return [0, *(n for n in space.shard if 1 < n < strategy.data and strategy.data % n == 0)]


def _kinds_in(options: Options) -> tuple[str, ...]:
    named = options.get(VALUE, ())
    return () if named == OVERLAP_ALL else named


def _stages_in(options: Options) -> tuple[int, ...]:
    """The layers of stages, where the option `balance` lists them."""
    found = str(options.get("balance", ""))
    each = found.split(",")
    return tuple(map(int, each)) if all(map(str.isdecimal, each)) else ()


def _balance_in(options: Options) -> str:
    """By which word layers are distributed; the step's own default is by cost."""
    if _stages_in(options) or options[VALUE][2] == 1:
        return BALANCES[0]
    return options.get("balance", "cost")


def _recomputation(what: str) -> Options:
    """The value and the options of the step `checkpoint`."""
    name, _, layers = what.partition(":")
    return {VALUE: name, **({"layers": int(layers)} if layers else {})}


def _recomputation_in(options: Options) -> str:
    layers = options.get("layers")
    what = options.get(VALUE) or "full"
    return f"{what}:{layers}" if layers else "" if what == "full" else what


def _recomputation_shown(strategy: Strategy) -> str:
    """As the step is written."""
    if not strategy.checkpoint:
        return ""
    what, _, layers = strategy.recompute.partition(":")
    return (f"checkpoint={what}" if what else "checkpoint") + (f" layers={layers}" if layers else "")
