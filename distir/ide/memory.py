"""The memory of a simulated text over time, and its contents at the peak, located in the text."""

from __future__ import annotations

from distir.ide.document import Document
from distir.simulate.page.answers import Curve, MemoryView, Resident, memory_of, thinned

__all__ = ["Curve", "MemoryView", "Resident", "memory_view", "thinned"]


def memory_view(document: Document) -> MemoryView | None:
    """The use of memory over time; None without a simulation."""
    simulation = document.simulation
    return None if simulation is None else memory_of(simulation, document.program.syntax.source_map)
