"""Options of `distir search` that would change nothing: no plan of the space has what they are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.cli.endings import Refused
from distir.transform.strategy import Choices

if TYPE_CHECKING:
    from distir.cli.search_space import Tries
    from distir.search import Space, Subject


@dataclass(frozen=True, slots=True)
class _Tried:
    """The degrees of a space: of P, T, D, CP and EP whether several devices are tried, of P also whether one is."""

    stages: bool
    one_stage: bool
    shards: bool
    replicas: bool
    context: bool
    experts: bool
    parts: bool
    """Whether some plan runs a batch in several microbatches."""
    state: bool
    """Whether some plan has ZeRO."""

    @property
    def devices(self) -> bool:
        """Whether some plan has several devices."""
        return self.stages or self.shards or self.replicas or self.context


@dataclass(frozen=True, slots=True)
class _Option:
    """An option, what it is for, and what to do where no plan has that."""

    flag: str
    stated: Callable[[Tries], bool]
    used: Callable[[_Tried], bool]
    what: str
    help: str


USUAL = Choices(1)
"""To state what a space has anyway is no mistake."""

PIPELINES = "pipelines, and P is 1 in all plans"
SEVERAL_STAGES = "`--pp 2` or more has some"

OPTIONS = (
    _Option(
        "--microbatches",
        lambda t: "K" in t.sizes,
        lambda has: has.stages,
        PIPELINES,
        "`--accumulate` says K where P is 1",
    ),
    _Option(
        "--accumulate",
        lambda t: "accumulate" in t.sizes,
        lambda has: has.one_stage,
        "plans without a pipeline, and P exceeds 1 in all",
        "`--microbatches` says K of pipelines",
    ),
    _Option(
        "--schedule",
        lambda t: t.schedule not in (None, USUAL.schedule[0]),
        lambda has: has.stages,
        PIPELINES,
        SEVERAL_STAGES,
    ),
    _Option("--virtual", lambda t: "virtual" in t.sizes, lambda has: has.stages, PIPELINES, SEVERAL_STAGES),
    _Option("--chunks", lambda t: "chunks" in t.sizes, lambda has: has.stages, PIPELINES, SEVERAL_STAGES),
    _Option(
        "--balance",
        lambda t: t.balance not in (None, USUAL.balance[0]),
        lambda has: has.stages,
        PIPELINES,
        SEVERAL_STAGES,
    ),
    _Option(
        "--sums stage",
        lambda t: "stage" in t.sums,
        lambda has: has.parts,
        "several microbatches, and K is 1 in all plans",
        "`--accumulate 4` has several",
    ),
    _Option(
        "--zero",
        lambda t: any(t.sizes.get("zero", ())),
        lambda has: has.replicas,
        "replicas, and D is 1 in all plans",
        "`--dp 2` or more has some",
    ),
    _Option(
        "--shard",
        lambda t: "shard" in t.sizes,
        lambda has: has.state,
        "ZeRO, which no plan has",
        "`--zero 1,2,3` tries it",
    ),
    _Option(
        "--sequence-parallel",
        lambda t: bool(t.sequence),
        lambda has: has.shards,
        "tensor parallelism, and T is 1 in all plans",
        "`--tp 2` or more has some",
    ),
    _Option(
        "--cp-kind",
        lambda t: t.cp_kind is not None,
        lambda has: has.context,
        "shared sequences, and CP is 1 in all plans",
        "`--cp 2` or more shares some",
    ),
    _Option(
        "--cp-experts",
        lambda t: bool(t.cp_experts),
        lambda has: has.context and has.experts,
        "experts and shared sequences, which no plan has both of",
        "`--cp 2 --ep 2` of a model with experts has",
    ),
    _Option(
        "--etp",
        lambda t: "etp" in t.sizes,
        lambda has: has.shards and has.experts,
        "experts over devices and tensor parallelism, which no plan has both of",
        "`--tp 2 --ep 2` of a model with experts has",
    ),
    _Option(
        "--skew",
        lambda t: t.skew is not None,
        lambda has: has.experts,
        "experts over devices, which no plan has",
        "leave out `--skew`, or try `--ep 2` or more of a model with experts",
    ),
    _Option(
        "--overlap",
        lambda t: bool(t.overlap),
        lambda has: has.devices,
        "communication, and all plans have one device",
        "`--devices 2` or more communicate",
    ),
    _Option(
        "--passes",
        lambda t: bool(t.passes),
        lambda has: has.parts and (has.shards or has.context or has.experts),
        "layers that communicate and several microbatches, which no plan has both of",
        "`--tp 2 --pp 2` has",
    ),
)
"""All that depend on degrees."""


def refuse_unused(tries: Tries, space: Space, subject: Subject) -> None:
    """Raises Refused for an option that no plan would use, and SpaceError where there are no plans."""
    if tries.passes and tries.overlap is False:
        raise Refused("`--passes` excludes `--no-overlap`", "passes overlap what layers communicate")
    degrees = [*space.degrees()]
    data, tensor, pipeline, context = ({*values} for values in zip(*degrees, strict=True))
    experts = space.for_experts(subject.experts).experts or (1,)
    has = _Tried(
        stages=max(pipeline) > 1,
        one_stage=1 in pipeline,
        shards=max(tensor) > 1,
        replicas=max(data) > 1,
        context=max(context) > 1,
        experts=max(experts) > 1,
        parts=any(count > 1 for stages in pipeline for count in space.counts(stages)),
        state=any(space.zero),
    )
    for option in OPTIONS:
        if option.stated(tries) and not option.used(has):
            raise Refused(f"`{option.flag}` is for {option.what}", option.help)
