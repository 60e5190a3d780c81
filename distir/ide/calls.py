"""The call hierarchy, with times of calls."""

from __future__ import annotations

from dataclasses import dataclass

from distir.cost import show_seconds
from distir.diagnostics import Span
from distir.ide.document import Document
from distir.ide.mentions import WordKind, piece, word_at
from distir.ir import Call
from distir.simulate.show import moment
from distir.syntax import FunctionSyntax


@dataclass(frozen=True, slots=True)
class CallItem:
    """A function in a hierarchy of calls. `detail` says how often it is called and what that takes."""

    name: str
    detail: str
    span: Span
    selection: Span


@dataclass(frozen=True, slots=True)
class CallEdge:
    """Calls between two functions: the other one, and where the calls are in the caller."""

    item: CallItem
    sites: tuple[Span, ...]


def prepare_calls(document: Document, offset: int) -> CallItem | None:
    """The function whose name the cursor is on, where it is defined or called; else the one it is in."""
    syntax = document.program.syntax
    word = word_at(syntax, offset)
    if word is not None and word.kind is WordKind.FUNCTION:
        written = syntax.by_name.get(word.name)
    else:
        written = syntax.function_at(offset)
    return None if written is None else _item(written, _total(document, written))


def incoming(document: Document, function: str) -> list[CallEdge]:
    """The functions that call one, with the time of the calls in each as it is shown."""
    found: list[CallEdge] = []
    for caller in document.program.syntax.functions:
        at = [i for i, s in enumerate(caller.function.body) if isinstance(s, Call) and s.function == function]
        if at:
            found.append(CallEdge(_item(caller, _taken(document, caller, at)), _sites(document, caller, at)))
    return found


def outgoing(document: Document, function: str, offset: int | None = None) -> list[CallEdge]:
    """The functions that one calls, with the time of its calls of each. `offset`: where it is, if that is known.

    It disambiguates functions of one name; without it, the first is meant.
    """
    syntax = document.program.syntax
    there = None if offset is None else syntax.function_at(offset)
    caller = there if there is not None and there.function.name == function else syntax.by_name.get(function)
    if caller is None:
        return []
    called: dict[str, list[int]] = {}
    for index, statement in enumerate(caller.function.body):
        if isinstance(statement, Call) and statement.function in syntax.by_name:
            called.setdefault(statement.function, []).append(index)
    return [
        CallEdge(_item(syntax.by_name[name], _taken(document, caller, at)), _sites(document, caller, at))
        for name, at in called.items()
    ]


def _item(written: FunctionSyntax, detail: str) -> CallItem:
    selection = written.name if written.name.start < written.name.end else written.head
    return CallItem(written.function.name, detail, written.span, selection)


def _sites(document: Document, caller: FunctionSyntax, at: list[int]) -> tuple[Span, ...]:
    """The spans of the callee's name in calls."""
    pieces = (piece(document.program.syntax, caller, index) for index in at)
    return tuple(found.tokens[min(found.callee, len(found.tokens) - 1)].span for found in pieces)


def _taken(document: Document, caller: FunctionSyntax, at: list[int]) -> str:
    """How often a function is called by another one, and how long these calls take, each by itself, in sum."""
    count = f"{len(at)} call{'' if len(at) == 1 else 's'}"
    occurrence = document.shown.get(caller.function.name) if document.is_simulated else None
    if occurrence is None or occurrence.body is None or document.simulation is None:
        return count
    timeline = document.simulation.timeline()
    moments = [m for m in (moment(timeline, occurrence, index) for index in at) if m is not None]
    if not moments:
        return f"{count}, no time"
    devices = sorted({device for m in moments for device in m.devices})
    return f"{count}, {show_seconds(sum(m.seconds for m in moments))} on {', '.join(map(str, devices))}"


def _total(document: Document, written: FunctionSyntax) -> str:
    """How long the program takes, for its entry function; for others how often they are called in the text."""
    name = written.function.name
    if document.is_simulated and document.simulation is not None and document.simulation.function.name == name:
        return f"entry, {show_seconds(document.simulation.latency_s)}"
    functions = document.program.syntax.functions
    count = sum(isinstance(s, Call) and s.function == name for f in functions for s in f.function.body)
    return f"{count} call{'' if count == 1 else 's'}"
