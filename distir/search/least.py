"""How much memory would do, where no plan of a search fits: that of the plan which needs least, as far as is known.

Weights and optimizer state alone bound what each plan needs. Of those with the least bounds some are simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.bounds import least_memory
from distir.search.distributed import carried_out
from distir.search.plan import Plan
from distir.search.rows import Row
from distir.search.subject import Subject
from distir.simulate.simulation import BindError
from distir.transform.steps import StepError

TRIED = 3
"""How many plans are simulated, of different degrees."""


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """The plan that needs least of those simulated, and the bytes of a device that it needs.

    `bound`: bytes that every plan needs for weights and optimizer state.
    """

    plan: Plan
    batch_size: int | None
    nbytes: int
    bound: int


def least_needed(subject: Subject, plans: Iterable[tuple[int | None, Plan]], rows: Sequence[Row]) -> LeastMemory | None:
    """Of `plans` with their batch sizes, which may have `rows`; None where none of those tried can be simulated."""
    weights, state = subject.weights_bytes, subject.state_bytes
    bounds = {(size, plan): least_memory(plan, weights, state) for size, plan in plans}
    if not bounds:
        return None
    simulated = [row for row in rows if row.peak_memory_bytes is not None]
    known = [row.key for row in sorted(simulated, key=lambda row: row.peak_memory_bytes or 0)[:1]]
    done = {row.key for row in rows}
    others = sorted((key for key in bounds if key not in done), key=lambda key: (bounds[key], *_activations(*key)))
    apart = dict[tuple[int, ...], tuple[int | None, Plan]]()
    for size, plan in others:
        apart.setdefault((plan.data, plan.tensor, plan.pipeline, plan.context), (size, plan))
    tried = [*apart.values()][:TRIED]
    found = [(nbytes, key) for key in (*known, *tried) if (nbytes := _needed(subject, *key)) is not None]
    if not found:
        return None
    nbytes, (size, plan) = min(found, key=lambda one: one[0])
    return LeastMemory(plan, size, nbytes, int(min(bounds.values())))


def _activations(size: int | None, plan: Plan) -> tuple[float, ...]:
    """What grows with the activations that a plan holds: examples of a microbatch on a device, and what it saves."""
    examples = (size or 1) / (plan.data * plan.microbatches * plan.context)
    shards = plan.tensor if plan.sequence else 1
    return examples / shards, not plan.checkpoint, bool(plan.recompute), plan.overlap, plan.stages_per_device


def _needed(subject: Subject, size: int | None, plan: Plan) -> int | None:
    """The bytes in use on the device with most; None where the plan cannot be simulated."""
    try:
        found = carried_out(subject, plan, size).simulation(size)
    except (ProgramError, StepError, BindError, Reject):
        return None
    return max((use.needed_bytes for use in found.memory_uses.values()), default=0)
