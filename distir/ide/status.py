"""How things stand with a text: whether it checks, whether it was simulated, for what, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from distir.diagnostics import Severity
from distir.ide.document import Document

State = Literal["simulated", "stale", "pending", "failed"]
"""`stale`: only an earlier version was simulated. `pending`: none was yet. `failed`: this one cannot be."""


@dataclass(frozen=True, slots=True)
class Status:
    """`why`: in words, for what has failed. Times in seconds, memory in bytes."""

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
    picked: Mapping[str, int]


def status(document: Document, simulated: Document | None) -> Status:
    """How things stand with the latest version. Starts no simulation."""
    found = document.program.diagnostics
    errors = sum(d.severity is Severity.ERROR for d in found)
    is_same = simulated is not None and simulated.program is document.program
    is_done = is_same and simulated is not None and simulated.setup is document.setup
    simulation = simulated.simulation if simulated is not None else None
    why: str | None = None
    if is_done and simulation is None:
        why = str(simulated.unsimulated) if simulated is not None else None
    elif errors:
        why = "the program has errors"
    state: State = "failed" if why else "simulated" if is_done else "stale" if simulation is not None else "pending"
    return Status(
        state,
        why,
        document.version,
        simulated.version if simulated is not None else None,
        document.entry.name if document.entry is not None else None,
        document.setup.hardware.name,
        errors,
        len(found) - errors,
        sum(len(f.function.body) for f in document.program.syntax.functions),
        simulation.latency_s if simulation is not None else None,
        simulation.ops if simulation is not None else None,
        max(simulation.peaks.values(), default=0) if simulation is not None else None,
        document.setup.picked,
    )
