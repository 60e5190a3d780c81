"""How things stand with a text: whether it checks, whether it was simulated, for what, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from distir.cost.hardware import Fit, worst_fit
from distir.cost.larger import named_in
from distir.diagnostics import Severity
from distir.ide.document import Document
from distir.ide.staleness import stale

State = Literal["simulated", "stale", "pending", "on_demand", "failed"]
"""How it stands with the simulation of the latest version.

`stale`: only an earlier version was simulated. `pending`: none was yet. Both may be expected soon.
`on_demand`: it is simulated when the user asks for it. `failed`: it cannot be.
"""


@dataclass(frozen=True, slots=True)
class Status:
    """`why`: the reason, if a simulation failed or is on demand. Times in seconds, memory in bytes; `cost` as text.

    `peak_memory_bytes`: of the device that needs most; `overhead_bytes`: what its process holds beside tensors;
    `capacity_bytes`: how much memory it has. `fits`: whether every device has what is simulated; `fit`: the same with
    the errors of simulated memory.

    `stale`: they are of an earlier version or another setup; `stale_why` says of which, and why.
    """

    state: State
    why: str | None
    version: int
    simulated_version: int | None
    function: str | None
    hardware: str
    errors: int
    warnings: int
    statements: int
    latency_s: float | None
    ops: int | None
    peak_memory_bytes: int | None
    overhead_bytes: int | None
    capacity_bytes: int | None
    fits: bool | None
    fit: Fit | None
    cost: str | None
    picked: Mapping[str, int]
    stale: bool = False
    stale_why: str | None = None
    enough: str | None = None
    """Where the machine is too small, one that is large enough."""


def status(document: Document, simulated: Document | None, on_demand: bool = False) -> Status:
    """How things stand with the latest version. Starts no simulation.

    `simulated`: the last version that was; `on_demand`: the latest one is too long to be simulated unasked.
    """
    found = document.program.diagnostics
    errors = sum(d.severity is Severity.ERROR for d in found)
    simulation = simulated.simulation if simulated is not None else None
    statements = sum(len(f.function.body) for f in document.program.syntax.functions)
    uses = [*simulation.devices.values()] if simulation is not None else []
    fullest = max(uses, key=lambda use: use.needed_bytes, default=None)
    state: State
    why: str | None = None
    if simulated is not None and simulated.program is document.program and simulated.setup is document.setup:
        state = "simulated" if simulation is not None else "failed"
        why = None if simulation is not None else str(simulated.unsimulated)
    elif errors:
        state, why = "failed", "the program has errors"
    elif on_demand:
        state, why = "on_demand", f"a program of {statements:,} statements is simulated on demand"
    else:
        state = "stale" if simulation is not None else "pending"
    old = stale(document, simulated, on_demand) if simulation is not None else None
    return Status(
        state,
        why,
        document.version,
        simulated.version if simulated is not None else None,
        document.entry.name if document.entry is not None else None,
        document.setup.hardware.name,
        errors,
        len(found) - errors,
        statements,
        simulation.latency_s if simulation is not None else None,
        simulation.ops if simulation is not None else None,
        (fullest.peak_memory_bytes if fullest is not None else 0) if simulation is not None else None,
        (fullest.overhead.total if fullest is not None else 0) if simulation is not None else None,
        fullest.capacity_bytes if fullest is not None else None,
        all(use.fits for use in uses) if simulation is not None else None,
        worst_fit(use.fit for use in uses) if simulation is not None else None,
        str(simulation.cost) if simulation is not None and simulation.cost is not None else None,
        document.setup.picked,
        old is not None,
        str(old) if old is not None else None,
        _enough(simulated) if simulated is not None and old is None else None,
    )


def _enough(simulated: Document) -> str | None:
    found = (named_in(diagnostic.help) for diagnostic in simulated.unlocated)
    return next((name for name in found if name is not None), None)
