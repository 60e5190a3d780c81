"""The space of all that a model and a machine admit: what a search tries where nothing is stated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from distir.diagnostics import ProgramError
from distir.ir.collection import paused_collection
from distir.ops.attention import CONTEXTS
from distir.search.plan import BALANCES, Plan
from distir.search.space import Space, divisors
from distir.search.subject import Subject, layers_of
from distir.transform.sharding import tensor_shares

SCHEDULES = ("1f1b", "interleaved", "zb-h1", "zb-v")
"""Those that are tried of a training step: the others take no less time than one of these, or are for other uses."""

VIRTUAL = (2, 4)
UNSHARED = "EP does not divide D"
MICRO_BATCHES = (1, 2, 4)
MOST_SHARING_A_SEQUENCE = 16


def whole(subject: Subject, devices: int, batch_sizes: tuple[int, ...]) -> Space:
    """Every plan for a number of devices, with all values of each axis that model and machine admit.

    Shards of one group are in one node, as their communication is on the critical path of each layer; a stage has a
    layer at least.
    """
    trains = subject.trains
    unit = _unit(subject)
    sparse = subject.experts is not None
    layers = layers_of(subject) or 1
    degrees = [n for n in divisors(devices) if n & (n - 1) == 0]
    return replace(
        Space(devices, batch_sizes),
        fixed={"T": tuple(n for n in degrees if n <= unit), "P": tuple(n for n in degrees if n <= layers)},
        micro_batches=micro_batches(batch_sizes),
        microbatches=_counts(batch_sizes),
        accumulate=_counts(batch_sizes) if trains else (1,),
        schedules=SCHEDULES if trains else SCHEDULES[:1],
        virtual=VIRTUAL,
        zero=(0, 1, 2, 3) if trains else (0,),
        shard=(unit,) if trains and 1 < unit < devices else (),
        checkpoint=(False, True) if trains else (False,),
        context=tuple(n for n in _powers(devices) if n <= MOST_SHARING_A_SEQUENCE) if subject.attends else (1,),
        kinds=CONTEXTS,
        sequence=(False, True) if subject.attends else (False,),
        overlap=(False, True),
        fuse=None,
        balance=BALANCES[:2] if trains else BALANCES[:1],
        etp=(0, 1) if sparse else (0,),
        cp_experts=(False, True) if sparse else (False,),
        recompute=("", "products", f"full:{layers // 2}") if trains and subject.attends and layers > 1 else ("",),
    )


@lru_cache(maxsize=8)
def admitted(subject: Subject, space: Space, size: int | None, model: bool) -> tuple[tuple[Plan, ...], Counter[str]]:
    """The plans that the program and the batch size admit, as far as that is known without them; others by reason.

    With `model` false only what batch sizes and degrees say counts: the rest gets rows.
    """
    layers, found, refused = layers_of(subject), list[Plan](), Counter[str]()
    shards: dict[int, str | None] = {}

    def refusal(plan: Plan) -> str | None:
        if plan.data % plan.experts:
            return UNSHARED
        if size is not None and not space.allows(size, plan):
            return "D·K does not divide the batch" + (
                ", or into microbatches of other sizes" if space.micro_batches else ""
            )
        if not model:
            return None
        if plan.pipeline > 1 and layers is not None and plan.pipeline * plan.stages_per_device > layers:
            return f"more stages than the {layers} layers"
        if plan.tensor not in shards:
            shards[plan.tensor] = _why_no_shards(subject, plan.tensor)
        return shards[plan.tensor]

    with paused_collection():
        for plan in space.grid():
            why = refusal(plan)
            if why is None:
                found.append(plan)
            else:
                refused[why] += 1
    return tuple(found), refused


def _why_no_shards(subject: Subject, degree: int) -> str | None:
    """Why the program cannot be split into this number of shards; None if it can."""
    try:
        if degree > 1:
            tensor_shares(subject.module, degree)
    except ProgramError as error:
        return f"T = {degree}: {error.diagnostics[0].message}"
    return None


def _counts(batches: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of microbatches that any number of replicas may have."""
    sizes = micro_batches(batches) or (1,)
    most = {batch // size for batch in batches for size in sizes if batch % size == 0}
    return tuple(sorted({n for total in most for n in divisors(total)})) or (1,)


def _powers(limit: int) -> list[int]:
    """Powers of two up to a number."""
    return [1 << n for n in range(limit.bit_length())]


def _unit(subject: Subject) -> int:
    """How many devices the innermost level of the machine joins: a node."""
    blocks = [level.blocks.at(0) for level in subject.hardware.levels]
    return min((len(block) for block in blocks if block is not None), default=1)


def micro_batches(batches: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of microbatches to try: those that divide some batch."""
    return tuple(size for size in MICRO_BATCHES if any(batch % size == 0 for batch in batches))
