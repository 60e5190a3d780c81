"""The calls of a function, for a list to pick from: which one is shown, and when each runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.instances import CallSite, View, facts
from distir.ir import Call, Site


@dataclass(frozen=True, slots=True)
class CallChoice:
    """A call that a function can be shown for. `number` counts from 0 in the order of the text.

    Times in seconds, of the caller's call that is shown; None where the call does not run or takes no time.
    """

    number: int
    caller: str
    statement: int
    span: Span | None
    shown: bool
    start_s: float | None
    duration_s: float | None
    devices: tuple[int, ...]


def call_choices(view: View, function: str) -> tuple[CallChoice, ...]:
    """All statements that call a function."""
    occurrence = view.shown(function)
    at = occurrence.caller if occurrence is not None else None
    found: list[CallChoice] = []
    for number, site in enumerate(view.facts.call_sites.get(function, ())):
        caller = view.document.program.module.functions[site.caller]
        moment = view.moment(caller, site.index)
        found.append(
            CallChoice(
                number,
                site.caller,
                site.index,
                view.document.program.syntax.source_map(Site(site.caller, site.index)),
                at is not None and view.is_current and (at[0].name, at[1]) == (site.caller, site.index),
                moment.start if moment is not None else None,
                moment.seconds if moment is not None else None,
                moment.devices if moment is not None else (),
            )
        )
    return tuple(found)


def numbers_on(document: Document, path: Sequence[tuple[str, int]]) -> dict[str, int]:
    """By function: the number of its call, for calls that lead to an op, as functions with numbers of statements.

    Nothing for a path that the program does not have: it was edited since.
    """
    functions, sites = document.program.module.functions, facts(document).call_sites
    found: dict[str, int] = {}
    for name, index in path:
        function = functions.get(name)
        statement = function.body[index] if function is not None and 0 <= index < len(function.body) else None
        if not isinstance(statement, Call):
            return {}
        found[statement.function] = sites[statement.function].index(CallSite(name, index))
    return found
