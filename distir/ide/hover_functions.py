"""Hover on a function: its latency, its memory on each device, and its callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.cost import show_bytes, show_seconds
from distir.ide.hover_ops import run, signature_here
from distir.ide.instances import CallSite, View
from distir.ide.lines import line_of
from distir.ide.markdown import block, code, counted, items, line_link, listed, paragraphs
from distir.ide.templates import KERNEL_SAYS
from distir.ir import Call, Function
from distir.ir.counted import times_in
from distir.simulate.composition import compositions
from distir.simulate.show import Occurrence
from distir.simulate.simulation import Simulation
from distir.syntax import print_function

CALLS_SHOWN = 12
"""Of more call sites, the first ones are listed."""

DEVICES_SHOWN = 8


def about_function(view: View, name: str, asked_at: tuple[Function, int] | None) -> str | None:
    """Information about a function. `asked_at`: the caller and its statement, if the cursor is on a call."""
    function = view.document.program.module.functions.get(name)
    if function is None:
        return None
    parts = [block(head(function)), items(_costs(view, function))]
    if asked_at is not None:
        caller, index = asked_at
        statement = caller.body[index]
        if isinstance(statement, Call):
            one = items(run(view, caller, index)) if function.kernel else ""
            costs = one or call_in_words(view, CallSite(caller.name, index)) or ""
            many = view.document.program.syntax.counted.get(statement.function)
            first = next((s for s in many.body if isinstance(s, Call) and s.function == name), None) if many else None
            if many is not None and first is not None:
                caller, statement = many, first
                times = f"{times_in(many)} times"
                costs = f"{times}, together: {costs}" if costs else times
            parts += [block(signature_here(view, caller, statement)), costs]
    parts.append(_callers(view, function))
    return paragraphs(parts)


def head(function: Function) -> str:
    """The head of a function as the language spells it; of many parameters the first ones."""
    few = replace(function, params=function.params[:16], body=())
    text = print_function(few).partition("{\n")[0].rstrip(" {\n}")
    return text if len(function.params) <= 16 else f"{text}  // and {len(function.params) - 16} more parameters"


def peaks_in_words(simulation: Simulation) -> list[str]:
    """By device: the most memory in use, of what there is."""
    uses = list(simulation.devices.items())
    made_of = compositions(simulation)
    lines = [
        f"device {device}: at most {show_bytes(use.peak_memory_bytes)} of {show_bytes(use.capacity_bytes)} "
        f"({composition_in_words(made_of[simulation.memory_of(device)], use.overhead.total)}), "
        f"idle {idle_share(use.idle_s, simulation.latency_s)}"
        for device, use in uses[:DEVICES_SHOWN]
    ]
    if len(uses) > DEVICES_SHOWN:
        most = max(uses, key=lambda entry: entry[1].peak_memory_bytes)
        lines.append(
            f"{len(uses) - DEVICES_SHOWN} more devices; the most memory is {show_bytes(most[1].peak_memory_bytes)}, "
            f"on device {most[0]}"
        )
    return lines


def composition_in_words(kinds: Mapping[str, int], overhead: int) -> str:
    """The composition of a peak, `weights 2.1GB, activations 30GB`, and the memory of the process beside tensors."""
    said = [f"{kind} {show_bytes(nbytes)}" for kind, nbytes in kinds.items()]
    return ", ".join([*said, *([f"and overhead {show_bytes(overhead)}"] if overhead else [])]) or "nothing"


def idle_share(idle_s: float, latency_s: float) -> str:
    """How much of the latency a device idles, both in seconds, in percent."""
    return f"{idle_s / latency_s:.0%}" if latency_s else "0%"


def call_in_words(view: View, site: CallSite) -> str | None:
    """When a call runs, in the caller's call that is shown, and by how much it raises the use of memory."""
    caller = view.document.program.module.functions.get(site.caller)
    occurrence = view.shown(site.caller)
    if caller is None or occurrence is None:
        return None
    moment = view.moment(caller, site.index)
    then = view.then(caller, site.index)
    if moment is None or then is None:
        return None
    where = "device" if len(moment.devices) == 1 else "devices"
    said = f"takes **{show_seconds(moment.seconds)}** from {show_seconds(moment.start)}"
    return ", ".join([f"{said} on {where} {listed(moment.devices)}", *rises_in_words(view, occurrence, then)])


def rises_in_words(view: View, occurrence: Occurrence, index: int) -> list[str]:
    """By how much memory in use rises during a call, if it does."""
    simulation = view.simulation
    step = occurrence.body.steps[index] if occurrence.body is not None else None
    memory = getattr(step, "memory", None)
    if simulation is None or memory is None:
        return []
    rises = {
        device: memory.get(simulation.memory_of(device), (0, 0))[1]
        for device in simulation.devices
        if memory.get(simulation.memory_of(device), (0, 0))[1]
    }
    return [f"{show_bytes(rise)} more memory on device {device}" for device, rise in list(rises.items())[:4]]


def _costs(view: View, function: Function) -> list[str]:
    simulation = view.simulation
    if simulation is None:
        return []
    if simulation.function.name == function.name:
        latency = f"takes **{show_seconds(simulation.latency_s)}** on {simulation.hardware.name}"
        host = f", of which {simulation.host_bound:.0%} waits for the host" if simulation.host_bound else ""
        return [f"{latency}{host}, {counted(simulation.ops, 'op')}", *peaks_in_words(simulation)]
    if function.kernel:
        return [KERNEL_SAYS]
    if view.shown(function.name) is None:
        return [f"not reached from {code('@' + simulation.function.name)}, which is simulated"]
    return []


def _callers(view: View, function: Function) -> str:
    sites = view.facts.call_sites.get(function.name, ())
    if not sites:
        return ""
    shown = view.shown(function.name)
    lines: list[str] = []
    for number, site in enumerate(sites[:CALLS_SHOWN], 1):
        counted_one = view.document.program.syntax.counted.get(site.caller)
        caller = code("@" + site.caller) if counted_one is None else "a counted call"
        where = f"call {number} by {caller}, {line_link(line_of(view, site.caller, site.index))}"
        is_shown = (
            len(sites) > 1
            and view.is_current
            and shown is not None
            and shown.caller is not None
            and (shown.caller[0].name, shown.caller[1]) == (site.caller, site.index)
        )
        costs = call_in_words(view, site)
        lines.append(where + (" (shown)" if is_shown else "") + (f": {costs}" if costs else ""))
    if len(sites) > CALLS_SHOWN:
        lines.append(f"{counted(len(sites) - CALLS_SHOWN, 'more call')}")
    return items(lines)
