"""What is retained of a rank's trace: ops with their shapes, kernels, collectives and steps. Times are in seconds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from distir.traces.collectives import RecordedCollective, Shape
from distir.traces.devices import RecordedDevice

MODULE = "nn.Module: "
"""What the name of a module's call begins with."""


@dataclass(slots=True, eq=False)
class RecordedKernel:
    """What one stream of a device did. `copies`: whether it moves or sets memory; `graph`: whether of a CUDA graph."""

    name: str
    device: int
    stream: int
    start: float
    end: float
    correlation: int | None
    external: int | None
    collective: RecordedCollective | None = None
    copies: bool = False
    graph: bool = False
    launched: float | None = None
    """When the host launched it, where that is recorded."""


@dataclass(slots=True, eq=False)
class RecordedOp:
    """An op, a module's call or an annotation on a thread, with those inside it."""

    name: str
    thread: str
    start: float
    end: float
    dims: tuple[Any, ...] = ()
    """By input: the shape of a tensor, shapes of a list; () also for what is no tensor."""
    dtypes: tuple[str, ...] = ()
    region: bool = False
    """Whether it only marks what is inside: a module's call, an annotation."""
    external: int | None = None
    sequence: int | None = None
    collective: RecordedCollective | None = None
    """What its arguments state."""
    inside: list[RecordedOp] = field(default_factory=list["RecordedOp"])
    kernels: list[RecordedKernel] = field(default_factory=list["RecordedKernel"])

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return self.end - self.start

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of its tensors, those in lists included."""
        found: list[Shape] = []
        for dims, dtype in zip(self.dims, self.dtypes, strict=False):
            if dtype == "TensorList":
                found += [tuple(shape) for shape in dims]
            elif dtype and dtype not in ("Scalar", "ScalarList"):
                found.append(tuple(dims))
        return found


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step as it is marked; `number`: None where none is, and the whole file is one."""

    number: int | None
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return self.end - self.start


@dataclass(slots=True)
class RankTrace:
    """The file of one rank. `threads`: by thread, its outermost ops; `launches`: when each kernel was launched."""

    path: str
    rank: int | None
    world: int | None
    steps: list[RecordedStep]
    mark: str | None
    """The annotation that marks steps; None: the whole file is one."""
    left_out: tuple[str, ...]
    """Which marked steps are none, in words."""
    threads: dict[str, list[RecordedOp]]
    messages: list[RecordedOp]
    """What gloo communicates: while ops of the same thread run, so they are inside none."""
    kernels: list[RecordedKernel]
    launches: list[float]
    shapes: bool
    """Whether shapes were recorded."""
    events: int
    device: RecordedDevice

    @property
    def on_gpu(self) -> bool:
        """Whether kernels of a device were recorded."""
        return bool(self.kernels)

    @property
    def unrecorded(self) -> bool:
        """Whether the ops ran on a device of which no kernel was recorded: their times are those of the host."""
        return not self.kernels and not self.device.is_host

    def step_of(self, moment: float) -> int | None:
        """The index of the step that a moment is in."""
        index = bisect_right(self.steps, moment, key=lambda step: step.start) - 1
        return index if index >= 0 and moment < self.steps[index].end else None


def walk(ops: Iterable[RecordedOp]) -> Iterator[RecordedOp]:
    """All ops of some, with those inside them, the outer ones first."""
    pending = list(reversed(list(ops)))
    while pending:
        op = pending.pop()
        yield op
        pending.extend(reversed(op.inside))


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of some spans lasts."""
    total, last = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total
