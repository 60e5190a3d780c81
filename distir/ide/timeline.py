"""The timeline of a simulated text, for views beside it: what runs when, on which device, and where in the text."""

from __future__ import annotations

from distir.ide.document import Document
from distir.simulate.page.answers import (
    Bar,
    BarKind,
    BarTable,
    CallPlace,
    DeviceLane,
    Origin,
    TimelineView,
    Waiting,
    timeline_of,
)

__all__ = [
    "MOST_EVENTS",
    "Bar",
    "BarKind",
    "BarTable",
    "CallPlace",
    "DeviceLane",
    "Origin",
    "TimelineView",
    "Waiting",
    "timeline_view",
]

MOST_EVENTS = 20_000
"""No answer holds more events, unless it is asked for."""


def timeline_view(
    document: Document,
    first_event: int = 0,
    most: int = MOST_EVENTS,
    devices: frozenset[int] | None = None,
    columns: bool = False,
    blocks: bool = False,
) -> TimelineView | None:
    """The timeline from one event on, in program order; of certain `devices` alone. None without a simulation.

    `columns`: as a table in place of bars. `blocks`: a long one as blocks, all of it.
    """
    simulation = document.simulation
    if simulation is None:
        return None
    return timeline_of(simulation, document.program.syntax.source_map, first_event, most, devices, columns, blocks)
