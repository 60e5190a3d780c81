"""One plan, transformed and simulated for each batch size. What goes wrong is a row with its reason."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from distir.analysis import check
from distir.cost import Hardware
from distir.diagnostics import ProgramError
from distir.ir import Constant, Function, Module, SymbolicDim, TensorType, types
from distir.ops import Reject
from distir.search.rows import Row
from distir.search.space import Plan, SpaceError
from distir.search.standing import interchangeable
from distir.simulate.simulation import BindError, Simulation
from distir.simulate.summary_sweep import Sweep
from distir.syntax import print_module
from distir.transform.all_steps import transform
from distir.transform.steps import StepError


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched for: a sequential program, the machine it is to run on, and sizes of its other dimensions."""

    model: str
    module: Module
    hardware: Hardware
    bind: tuple[tuple[str, Constant], ...] = ()

    @property
    def entry(self) -> Function:
        """The function to be distributed. Raises SpaceError for an empty program."""
        entry = self.module.entry()
        if entry is None:
            raise SpaceError("the program has no function")
        return entry

    def digest(self, version: str) -> str:
        """Tells searches apart whose rows must not be mixed."""
        machine = repr((self.hardware.name, self.hardware.physical, self.hardware.kinds, self.hardware.levels))
        text = "\0".join([version, print_module(self.module), machine, repr(self.bind)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def batch_dimension(entry: Function) -> str | None:
    """The named dimension of the `{batch}` parameters; None where the program says the size.

    Raises SpaceError where no parameter is marked, or the marked ones disagree.
    """
    found: dict[str | None, None] = {}
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int) and not isinstance(axis, bool):
            for leaf in types.leaves(param.type):
                shape = leaf.shape if isinstance(leaf, TensorType) else None
                size = shape[axis] if shape else None
                found[str(size) if isinstance(size, SymbolicDim) else None] = None
    if not found:
        raise SpaceError(f"no parameter of `@{entry.name}` is marked as carrying the batch: write `{{batch = 0}}`")
    if len(found) > 1:
        raise SpaceError(f"the `{{batch}}` parameters of `@{entry.name}` have batches of different names")
    return next(iter(found))


def fixed_batch(entry: Function) -> int | None:
    """The batch size that the program itself says."""
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int) and not isinstance(axis, bool):
            for leaf in types.leaves(param.type):
                size = leaf.shape[axis] if isinstance(leaf, TensorType) and leaf.shape else None
                if isinstance(size, int):
                    return size
    return None


def evaluate(subject: Subject, plan: Plan, batch_sizes: Sequence[int | None]) -> Iterator[Row]:
    """A row for each batch size. Never raises for a configuration that cannot be: the row says why."""
    blank = Row(
        subject.model, None, plan.data, plan.tensor, plan.pipeline, plan.microbatches, None, None, None, False,
        plan.schedule, plan.zero, plan.checkpoint, ",".join(map(str, plan.stages)), subject.hardware.name,
    )  # fmt: skip
    try:
        distributed = Distributed(subject, plan)
    except (ProgramError, StepError, Reject) as error:
        yield from (replace(blank, batch_size=size, reason=_reason(error)) for size in batch_sizes)
        return
    for size in batch_sizes:
        try:
            simulation = distributed.simulation(size, alone=len(batch_sizes) == 1)
            yield _simulated(replace(blank, batch_size=size), simulation, size)
        except (ProgramError, BindError, Reject) as error:
            yield replace(blank, batch_size=size, reason=_reason(error))


class Distributed:
    """A plan carried out, ready to be simulated for any batch size. Raises ProgramError or StepError.

    Where all replicas and shards are alike, only one of them is looked at: the others do the same at the same times.
    """

    def __init__(self, subject: Subject, plan: Plan) -> None:
        self.subject = subject
        name = subject.entry.name
        ends = (f"{name}.scatter", f"{name}.gather")  # not simulated, so not checked either
        options = {}
        if not plan.zero:  # which looks at them, and lets each replica keep something else
            options = {"ends": False, "representative": _stands(subject.hardware, plan)}
        self.module = Module(f for f in transform(subject.module, *plan.steps(), **options) if f.name not in ends)
        analysis = check(self.module, late=True)
        if analysis.errors:
            raise ProgramError(analysis.errors)
        entry = self.module.entry(name)
        assert entry is not None
        self.sweep = Sweep(analysis, entry, subject.hardware)
        self.dimension = batch_dimension(subject.entry)

    def simulation(self, batch_size: int | None, *, alone: bool = False) -> Simulation:
        """`alone`: no other batch size will be asked for.

        Raises ProgramError or BindError where it cannot be simulated for this size.
        """
        sizes = {} if self.dimension is None or batch_size is None else {self.dimension: batch_size}
        bind = dict(self.subject.bind) | sizes
        return self.sweep.once(bind) if alone else self.sweep.at(bind)


def _stands(machine: Hardware, plan: Plan) -> bool:
    return interchangeable(machine, plan.data, plan.tensor, plan.pipeline)


def _simulated(row: Row, simulation: Simulation, batch_size: int | None) -> Row:
    latency = simulation.latency_s
    size = batch_size if batch_size is not None else fixed_batch(simulation.function)
    devices = simulation.devices.values()
    return replace(
        row,
        latency_s=latency,
        throughput=size / latency if size and latency else None,
        peak_memory_bytes=max((use.peak_memory_bytes for use in devices), default=0),
        fits=all(use.peak_memory_bytes <= use.capacity_bytes for use in devices),
    )


def _reason(error: Exception) -> str:
    """In one line."""
    text = error.diagnostics[0].message if isinstance(error, ProgramError) and error.diagnostics else str(error)
    return " ".join(text.split())
