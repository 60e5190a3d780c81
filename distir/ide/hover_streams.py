"""Hover on a stream: its devices, and the other statements on it."""

from __future__ import annotations

from distir.cost import show_seconds
from distir.ide.instances import View
from distir.ide.markdown import code, counted, items, listed, paragraphs
from distir.ide.mentions import streams_mentioned
from distir.ir import COMPUTE, Apply, Call, Function, names
from distir.ops.devices import devices_of
from distir.syntax import print_statement

MOST_SHOWN = 6
"""How many statements of a stream are listed."""


def about_stream(view: View, function: Function, index: int, name: str) -> str:
    """Information about the stream of a statement, and what else runs on it."""
    if name == COMPUTE:
        return f"the stream {code(COMPUTE)}, on which every statement runs that names none"
    statement = function.body[index]
    values = (*statement.results, *names(statement.args)) if isinstance(statement, (Apply, Call)) else ()
    devices = sorted(devices_of([view.value(function.name, value) for value in values if value]))
    where = f" of {counted(len(devices), 'device')} {listed(map(str, devices))}" if devices else ""
    where = where.replace("of 1 device ", "of device ")
    found = streams_mentioned(view.document.program.syntax, name)
    others = [(m.function.function, m.index) for m in found if m.index is not None]
    shown = [code(print_statement(f.body[i])) + f" in {code('@' + f.name)}" for f, i in others[:MOST_SHOWN]]
    more = [f"… and {len(others) - MOST_SHOWN} more"] if len(others) > MOST_SHOWN else []
    return paragraphs(
        [
            f"stream {code(name)}{where}: what is on it runs in order, beside the other streams, as its operands allow",
            *_hidden(view, name),
            f"{counted(len(others), 'statement')} on it:",
            items([*shown, *more]),
        ]
    )


def _hidden(view: View, name: str) -> list[str]:
    """`31ms of 40ms hidden`: what of a stream's time its devices compute; nothing where that is not known."""
    simulation = view.simulation
    stream = simulation.timeline().named_streams.get(name) if simulation is not None else None
    if stream is None or not stream.busy_s:
        return []
    over = f", over {stream.devices} devices" if stream.devices > 1 else ""
    times = f"{show_seconds(stream.hidden_s)} of {show_seconds(stream.busy_s)} hidden"
    return [f"{times} behind what its device{'s' * (stream.devices > 1)} compute{'s' * (stream.devices == 1)}{over}"]
