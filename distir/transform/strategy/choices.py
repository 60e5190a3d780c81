"""What a search tries: values by field of a strategy, by default those of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

MICROBATCHES = (2, 4, 8, 16, 32, 64, 128)
"""How many microbatches the paper's search tries for pipelines (section 5.1)."""

BALANCES: Final = ("uniform", "cost", "memory")
"""How layers are distributed over the stages of a pipeline: equally many, by estimated time, or by memory."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that a space tries of each field, by default the paper's. See `Space`.

    What is named as a field of `Strategy` is of that field.
    """

    devices: int
    batch_sizes: tuple[int, ...] = ()
    microbatches: tuple[int, ...] = MICROBATCHES
    schedule: tuple[str, ...] = ("1f1b",)
    zero: tuple[int, ...] = (0,)
    checkpoint: tuple[bool, ...] = (False,)
    all_divisors: bool = False
    fixed: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]], hash=False)
    """The degrees that `D`, `T` and `P` are restricted to, by name. Those stated here need not be powers of two."""
    micro_batches: tuple[int, ...] = ()
    """Sizes that a replica's microbatches are restricted to; empty: any."""
    sums: tuple[str, ...] = ("layer",)
    fuse: bool | None = False
    """Whether the step `fuse` follows each plan's steps; None: both are tried."""
    accumulate: tuple[int, ...] = (1,)
    """K where P is 1: in how many microbatches, one after the other, a replica runs its part of the batch."""
    overlap: tuple[bool, ...] = (False,)
    experts: tuple[int, ...] | None = None
    """How many replicas share the experts of a model; None: as many as divide them, 1 for a model without experts."""
    skew: float = 1.0
    """The load of the busiest of these replicas, as a multiple of the mean; 0: room for all tokens on each."""
    context: tuple[int, ...] = (1,)
    kind: tuple[str, ...] = ("allgather",)
    virtual: tuple[int, ...] = (2,)
    """Stages of each device, for the schedules that leave their number open."""
    shard: tuple[int, ...] = ()
    """Sizes of the groups of replicas that partition state by ZeRO, beside all replicas as one."""
    sequence: tuple[bool, ...] = (False,)
    balance: tuple[str, ...] = BALANCES[:1]
    etp: tuple[int, ...] = (0,)
    chunks: tuple[int, ...] = (2, 4)
    """Parts of each sequence, for schedules that cut them."""
    passes: tuple[bool, ...] = (False,)
    cp_experts: tuple[bool, ...] = (False,)
    recompute: tuple[str, ...] = ("",)
    of_the_best: tuple[tuple[str, Any], ...] = ()
    """Fields with values that a search with a budget tries of its best rows alone."""

    def counts(self, pipeline: int) -> tuple[int, ...]:
        """The numbers of microbatches to try, for a number of stages."""
        return self.microbatches if pipeline > 1 else self.accumulate
