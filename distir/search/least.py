"""How much memory would do, where no plan of a search fits: that of the plan which needs least, as far as is known.

Weights and optimizer state alone bound what each plan needs. Of those with the least bounds some are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from distir.diagnostics import ProgramError
from distir.ops import Reject
from distir.search.bounds import MEMORY_FIELDS, least_memory
from distir.search.distributed import carried_out
from distir.search.plans import Plans
from distir.search.rows import Row
from distir.search.subject import Subject
from distir.simulate.simulation import BindError
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy

np: Any = import_module("numpy")

TRIED = 3
"""How many plans are simulated, of different degrees."""


@dataclass(frozen=True, slots=True)
class LeastMemory:
    """The plan that needs least of those simulated, and the bytes of a device that it needs.

    `bound`: bytes that every plan needs for weights and optimizer state.
    """

    plan: Strategy
    batch_size: int | None
    nbytes: int
    bound: int


def least_needed(subject: Subject, plans_of: Mapping[int | None, Plans], rows: Sequence[Row]) -> LeastMemory | None:
    """Of the plans of each batch size, which may have `rows`; None where none of those tried can be simulated."""
    every = [_Bounded(size, plans, subject) for size, plans in plans_of.items() if len(plans)]
    if not every:
        return None
    simulated = [row for row in rows if row.peak_memory_bytes is not None]
    known = [row.key for row in sorted(simulated, key=lambda row: row.peak_memory_bytes or 0)[:1]]
    done = {row.key for row in rows}
    others = ((rank, key) for of_size in every for rank, key in of_size.first(TRIED + len(done)) if key not in done)
    tried = [key for _, key in sorted(others, key=lambda one: one[0])[:TRIED]]
    found = [(nbytes, key) for key in (*known, *tried) if (nbytes := _needed(subject, *key)) is not None]
    if not found:
        return None
    nbytes, (size, plan) = min(found, key=lambda one: one[0])
    return LeastMemory(plan, size, nbytes, int(min(of_size.bounds.min() for of_size in every)))


class _Bounded:
    """The plans of a batch size, and what each needs at least."""

    def __init__(self, size: int | None, plans: Plans, subject: Subject) -> None:
        self.size, self.plans = size, plans
        weights, state = subject.weights_bytes, subject.state_bytes
        self.bounds = plans.found(lambda plan: least_memory(plan, weights, state), *MEMORY_FIELDS)

    def first(self, count: int) -> Iterable[tuple[tuple[float, ...], tuple[int | None, Strategy]]]:
        """With their ranks those that probably need least, one for each D, T, P and CP."""
        _, degrees = self.plans.groups("data", "tensor", "pipeline", "context")
        columns = [self.bounds, *(self.plans.found(of, *names) for of, names in self._activations)]
        order = np.lexsort(columns[::-1])
        _, firsts = np.unique(degrees[order], return_index=True)
        for place in order[np.sort(firsts)[:count]]:
            yield tuple(float(column[place]) for column in columns), (self.size, self.plans[int(place)])

    @property
    def _activations(self) -> Iterable[tuple[Callable[[Strategy], float], Sequence[str]]]:
        """What grows with the activations that a plan holds, and the fields that it depends on."""
        examples = ("data", "tensor", "context", "microbatches", "sequence")
        return (
            (self._examples, examples),
            (lambda plan: not plan.checkpoint, ("checkpoint",)),
            (lambda plan: bool(plan.recompute), ("recompute",)),
            (lambda plan: plan.overlap, ("overlap",)),
            (lambda plan: plan.stages_per_device, ("schedule", "virtual")),
        )

    def _examples(self, plan: Strategy) -> float:
        """Examples of a microbatch on a device."""
        found = (self.size or 1) / (plan.data * plan.microbatches * plan.context)
        return found / plan.tensor if plan.sequence else found


def _needed(subject: Subject, size: int | None, plan: Strategy) -> int | None:
    """The bytes in use on the device with most; None where the plan cannot be simulated."""
    try:
        found = carried_out(subject, plan, size).simulation(size)
    except (ProgramError, StepError, BindError, Reject):
        return None
    return max((use.needed_bytes for use in found.memory_uses.values()), default=0)
