"""The space of all that a model and a machine admit: what a search tries where nothing is stated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from distir.diagnostics import ProgramError
from distir.ops.attention import CONTEXTS
from distir.search.plans import Plans
from distir.search.space import Space, divisors
from distir.search.subject import Subject, layers_of
from distir.transform.sharding import tensor_shares
from distir.transform.strategy import BALANCES, Strategy

np: Any = import_module("numpy")

SCHEDULES = ("1f1b", "interleaved", "zb-h1", "zb-v")
"""Those that are tried of a training step: the others take no less time than one of these, or are for other uses."""

OF_THE_BEST = (("balance", "memory"), ("passes", True), ("schedule", "seq1f1b"))
"""What is tried of the best rows alone, of a training step: it seldom wins, and a whole product would cost too much."""

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
        schedule=SCHEDULES if trains else SCHEDULES[:1],
        virtual=VIRTUAL,
        zero=(0, 1, 2, 3) if trains else (0,),
        shard=(unit,) if trains and 1 < unit < devices else (),
        checkpoint=(False, True) if trains else (False,),
        context=tuple(n for n in _powers(devices) if n <= MOST_SHARING_A_SEQUENCE) if subject.attends else (1,),
        kind=CONTEXTS,
        sequence=(False, True) if subject.attends else (False,),
        overlap=(False, True),
        fuse=None,
        balance=BALANCES[:2] if trains else BALANCES[:1],
        etp=(0, 1) if sparse else (0,),
        cp_experts=(False, True) if sparse else (False,),
        of_the_best=OF_THE_BEST if trains else (),
        recompute=("", "products", f"full:{layers // 2}") if trains and subject.attends and layers > 1 else ("",),
    )


@lru_cache(maxsize=8)
def admitted(subject: Subject, space: Space, size: int | None, model: bool) -> tuple[Plans, Counter[str]]:
    """The plans that the program and the batch size admit, as far as that is known without them; others by reason.

    With `model` false only what batch sizes and degrees say counts: the rest gets rows.
    """
    layers = layers_of(subject) if model else None
    parts = "D·K does not divide the batch" + (", or into microbatches of other sizes" if space.micro_batches else "")

    def shares(plan: Strategy) -> str | None:
        return UNSHARED if plan.data % plan.experts else None

    def divides(plan: Strategy) -> str | None:
        return None if size is None or space.allows(size, plan) else parts

    def has_layers(plan: Strategy) -> str | None:
        many = plan.pipeline > 1 and layers is not None and plan.pipeline * plan.stages_per_device > layers
        return f"more stages than the {layers} layers" if many else None

    def splits(plan: Strategy) -> str | None:
        return _why_no_shards(subject, plan.tensor) if model else None

    plans, refused = space.grid(), Counter[str]()
    for why, fields in (
        (shares, ("data", "experts")),
        (divides, ("data", "microbatches")),
        (has_layers, ("pipeline", "schedule", "virtual")),
        (splits, ("tensor",)),
    ):
        first, place = plans.groups(*fields)
        reasons = [why(plan) for plan in plans.take(first)]
        for reason, count in zip(reasons, np.bincount(place, minlength=len(reasons)).tolist(), strict=True):
            if reason is not None:
                refused[reason] += count
        plans = plans.take(np.array([reason is None for reason in reasons], dtype=bool)[place])
    return plans, refused


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
