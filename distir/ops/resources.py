"""What an op does: arithmetic, memory traffic, communication. Never how long that takes: `cost` knows hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from distir.ir import DType

Pattern = Literal[
    "send", "broadcast", "scatter", "gather", "allgather", "reduce", "allreduce", "reducescatter", "alltoall"
]


@dataclass(frozen=True, slots=True)
class Communication:
    """A message pattern over the op's devices.

    `nbytes` is the full payload S: what `send` and `broadcast` transfer, what `scatter` splits, what `gather` and
    `allgather` end up with, what each device brings to `reduce`, `allreduce` and `reducescatter`, and what each
    device sends in all (its own part included) in `alltoall`. `root`: the device at the root of `broadcast`,
    `scatter`, `gather` and `reduce`, or the source of `send`.
    """

    pattern: Pattern
    nbytes: int
    root: int | None = None
    group: tuple[int, int] | None = None
    """Where one device stands for all of its group: how many these are, and how far apart."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one execution of an op does on each device that computes, and between them.

    `flops` are counted in `dtype`; `bytes` is what is read from and written to the device's memory; `temporary` is
    the memory in bytes that the op needs on each of its devices while it runs, beside its inputs and outputs.
    """

    flops: int = 0
    bytes: int = 0
    dtype: DType | None = None
    communication: Communication | None = None
    temporary: int = 0

    def on(self, devices: Mapping[int, int]) -> Work:
        """The same work on other devices, by those that it is on."""
        communication = self.communication
        if communication is None or communication.root is None:
            return self
        return replace(self, communication=replace(communication, root=devices[communication.root]))


NO_WORK = Work()
"""The work of ops that only rename or regroup values: no time, no memory."""
