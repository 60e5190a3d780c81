"""A simulated program beside measured steps of it: where they differ, by kinds of ops, by statements, by devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from distir.simulate import Simulation
from distir.traces.activity import StepActivity, activities, without_waiting
from distir.traces.advice import advice
from distir.traces.alignment import Aligned, KindRow, align, by_kind, rest_of
from distir.traces.events import TraceError
from distir.traces.learning import Learned, learn
from distir.traces.ranks import notes_on, world_of
from distir.traces.records import RankTrace
from distir.traces.statements import DeviceProgram, programs_of, vocabulary


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement over all devices and steps that ran it: seconds of one run of it, means.

    `torch`: what it was measured as; `modules`: in which calls of modules, as `Block_1/Linear_3`; `runs`: how often it
    was measured.
    """

    op: str
    label: str
    function: str
    torch: str
    modules: tuple[str, ...]
    runs: int
    simulated: float
    measured: float

    @property
    def ratio(self) -> float | None:
        """Measured over simulated."""
        return self.measured / self.simulated if self.simulated else None


@dataclass(frozen=True)
class TraceComparison:
    """A simulation and the steps of ranks. `devices`: by rank, its device of the program."""

    simulation: Simulation
    traces: Mapping[int, RankTrace]
    devices: Mapping[int, int]
    programs: Mapping[int, DeviceProgram]
    steps: Mapping[int, Sequence[StepActivity]]
    found: tuple[Aligned, ...]
    world: int

    @cached_property
    def measured(self) -> float:
        """Seconds of a step: the mean over ranks and steps."""
        every = [step.seconds for own in self.steps.values() for step in own]
        return sum(every) / len(every)

    @property
    def simulated(self) -> float:
        """Seconds of a simulated step."""
        return self.simulation.latency_s

    @cached_property
    def kinds(self) -> list[KindRow]:
        """What differs per step and device, the largest difference first; the rest of the step has rows of its own.

        The differences add up to that of the step.
        """
        rows = [*by_kind(self.found), *rest_of(self.found, self.programs, self.simulated)]
        return sorted(rows, key=lambda row: -abs(row.difference))

    def share(self, row: KindRow) -> float:
        """The share that a row has of all differences, each without its sign."""
        total = sum(abs(other.difference) for other in self.kinds)
        return abs(row.difference) / total if total else 0.0

    @cached_property
    def matched(self) -> tuple[float, float]:
        """The shares of the simulated and of the measured time of ops that are lined up."""
        both = [row for row in self.kinds if row.is_op]
        one = sum(row.simulated for row in both if row.side == "both"), sum(row.simulated for row in both)
        other = sum(row.measured for row in both if row.side == "both"), sum(row.measured for row in both)
        return one[0] / one[1] if one[1] else 1.0, other[0] / other[1] if other[1] else 1.0

    @cached_property
    def statements(self) -> list[StatementRow]:
        """What is lined up one to one, the largest difference of all its runs first."""
        rows: dict[tuple[str, str, str], StatementRow] = {}
        totals: dict[tuple[str, str, str], list[float]] = {}
        modules: dict[tuple[str, str, str], dict[str, None]] = {}
        for match in (match for aligned in self.found for match in aligned.matches):
            statement, piece = match.statement, match.piece
            key = statement.op, statement.label, statement.function
            own = totals.setdefault(key, [0, 0.0, 0.0])
            own[0] += 1
            own[1] += match.simulated
            own[2] += piece.seconds
            inside = modules.setdefault(key, {})
            if piece.modules:
                inside["/".join(piece.modules[-2:])] = None
            rows[key] = StatementRow(*key, piece.label, tuple(inside), int(own[0]), own[1] / own[0], own[2] / own[0])
        return sorted(rows.values(), key=lambda row: (-abs(row.measured - row.simulated) * row.runs, row.label))

    @property
    def notes(self) -> list[str]:
        """What the figures are to be read with."""
        return notes_on(list(self.traces.values()))

    @property
    def advice(self) -> list[str]:
        """What may be the reason of large differences, in sentences."""
        return advice(self.kinds, self.found, self.matched, any(trace.on_gpu for trace in self.traces.values()))

    def learned(self) -> Learned:
        """What the steps say about the machine."""
        hardware = self.simulation.hardware
        traces = list(self.traces.values())
        return learn(self.found, traces, hardware, hardware.place(self.programs), self.world)


def compare(
    simulation: Simulation, traces: Mapping[int, RankTrace], chosen: Mapping[int, int] | None = None
) -> TraceComparison:
    """The simulated program beside its ranks. Without `chosen`, rank n is the program's n-th device.

    Raises TraceError for ranks or devices that are not there, ProgramError for more ops than are listed one by one.
    """
    if hidden := next((trace for trace in traces.values() if trace.unrecorded), None):
        message = f"`{hidden.path}` has no kernel of the GPU that its ops ran on ({hidden.device})"
        raise TraceError(message, "profile with `ProfilerActivity.CUDA`, or that of the device")
    programs = programs_of(simulation)
    devices = _devices(list(traces), list(programs), dict(chosen or {}))
    world = world_of(list(traces.values()))
    wanted = vocabulary(programs)
    steps = without_waiting({rank: activities(trace, rank, wanted) for rank, trace in traces.items()})
    found = tuple(align(programs[devices[rank]], step, world) for rank, own in steps.items() for step in own)
    return TraceComparison(simulation, traces, devices, programs, steps, found, world)


def _devices(ranks: Sequence[int], devices: Sequence[int], chosen: dict[int, int]) -> dict[int, int]:
    if (unknown := next((device for device in chosen.values() if device not in devices), None)) is not None:
        listed = ", ".join(map(str, devices[:8])) + (", …" if len(devices) > 8 else "")
        raise TraceError(f"the program has no device {unknown} that does anything", f"it has {listed}")
    if (unknown := next((rank for rank in chosen if rank not in ranks), None)) is not None:
        raise TraceError(f"no trace is of rank {unknown}", f"they are of {', '.join(map(str, ranks[:8]))}")
    for rank in ranks:
        if rank in chosen:
            continue
        if rank >= len(devices):
            message = f"rank {rank} has no device: the program has {len(devices)}"
            raise TraceError(message, f"say which one it is, as `--rank {rank}={devices[0]}`, or leave its file out")
        chosen[rank] = devices[rank]
    return chosen
