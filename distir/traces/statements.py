"""The statements of a simulated program in the terms of a trace: torch's names of them, their sizes and phases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from distir.analysis.size import refuse_beyond
from distir.ir import Apply, Function, TensorType, TupleType, names
from distir.ops import Value, type_of
from distir.ops.resources import MatrixProduct, Work
from distir.simulate import Simulation
from distir.simulate.timeline import Event
from distir.simulate.trace import MOST_TRACED, placing_of
from distir.traces.activity import OPTIMIZER, UPDATES, Size, product_size
from distir.traces.forms import torch_names

PHASES = {"weight": "backward"}
"""Phases of a program that are another one in a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedOp:
    """A statement as one device runs it once. Seconds.

    `names`: torch's, plain; `path`: the functions that lead to it; `makes`, `uses`: values, each by the call that it is
    in and its name.
    """

    op: str
    label: str
    function: str
    path: tuple[str, ...]
    names: frozenset[str]
    phase: str
    size: Size | None
    start: float
    seconds: float
    work: Work
    devices: tuple[int, ...]
    makes: tuple[tuple[int, str], ...]
    uses: tuple[tuple[int, str], ...]

    @property
    def pattern(self) -> str | None:
        """That of a communication."""
        return None if self.work.communication is None else self.work.communication.pattern

    @property
    def kind(self) -> str:
        """What it does, for totals."""
        if self.phase == OPTIMIZER and self.pattern is None:
            return UPDATES
        return self.pattern or self.op


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """What a device does, in the order of its start; `span`: from its first start to its last end; `busy`: seconds."""

    device: int
    ops: tuple[SimulatedOp, ...]
    busy: float


def programs_of(simulation: Simulation) -> dict[int, DeviceProgram]:
    """By device: what it does. Raises ProgramError for more ops than are listed one by one."""
    refuse_beyond(simulation.ops, MOST_TRACED, simulation.function.name, "a comparison lists")
    timeline = simulation.timeline()
    placed = placing_of(simulation)
    functions = {function.name: function for function in simulation.module}
    known: dict[tuple[int, int], tuple[frozenset[str], Size | None]] = {}
    found: dict[int, list[SimulatedOp]] = {}
    for event in timeline.events():
        phase = placed(event).phase or "forward"
        key = id(event.place.run.body), event.place.statement
        if key not in known:
            known[key] = _described(event, functions)
        own = _simulated(event, PHASES.get(phase, phase), *known[key])
        for device in event.effect.devices:
            found.setdefault(device, []).append(own)
    return {
        device: DeviceProgram(device, tuple(sorted(own, key=lambda op: op.start)), timeline.busy.get(device, 0.0))
        for device, own in sorted(found.items())
    }


def vocabulary(programs: Mapping[int, DeviceProgram]) -> frozenset[str]:
    """The names of torch's ops that statements are, but for products and attention, which their sizes tell."""
    ops = {op for program in programs.values() for op in program.ops if not (op.work.contractions or op.pattern)}
    return frozenset[str]().union(*(op.names for op in ops))


def _simulated(event: Event, phase: str, torch: frozenset[str], size: Size | None) -> SimulatedOp:
    statement, run = event.statement, event.place.run
    outermost, _, innermost = event.shown_path
    return SimulatedOp(
        event.op,
        event.label,
        event.function.name,
        tuple(function.name for function, _ in (*outermost, *innermost)),
        torch,
        phase,
        size,
        event.start,
        event.effect.cost.seconds,
        event.effect.work,
        event.effect.devices,
        tuple((id(run), name) for name in statement.results if name),
        tuple((id(run), name) for name in names(statement.args)),
    )


def _described(event: Event, functions: Mapping[str, Function]) -> tuple[frozenset[str], Size | None]:
    """How torch calls an op, or those of a kernel, and how large it is."""
    statement, state = event.statement, event.place.run.body.instance.state
    vs = tuple(state(statement.args))
    work = event.effect.work
    if isinstance(statement, Apply):
        ws = tuple(type_of(state[name]) for name in statement.results if name in state)
        complete = len(ws) == len(statement.results) and event.effect.devices
        torch = torch_names(statement, vs, ws, event.effect.devices[0]) if complete else frozenset[str]()
    else:
        inside = functions[statement.function].body
        torch = frozenset(op.op.lower() for op in inside if isinstance(op, Apply))
    torch = torch or frozenset([event.op.lower()])
    return torch, None if work.communication is not None else _size(work, vs)


def _size(work: Work, vs: tuple[Value, ...]) -> Size | None:
    if len(work.contractions) == 1:
        _, _, one = work.contractions[0]
        if isinstance(one, MatrixProduct):
            return product_size(one.m, one.n, one.k, one.batch)
        return ("attention", one.backward, one.heads * one.queries * one.size)
    elements = [math.prod(shape) for v in vs if v is not None for shape in _shapes(type_of(v))]
    return ("elements", max(elements)) if elements else None


def _shapes(found: object) -> Iterator[tuple[int, ...]]:
    """The shapes of a type's tensors, as far as all sizes are known."""
    if isinstance(found, TupleType):
        for item in found.items:
            yield from _shapes(item)
    elif isinstance(found, TensorType) and found.shape is not None:
        known = tuple(size for size in found.shape if isinstance(size, int))
        if len(known) == len(found.shape):
            yield known
