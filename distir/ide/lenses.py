"""Code lenses above functions. Where they stand is known from the parse alone; what they say, when they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from distir.cost import show_bytes, show_seconds
from distir.diagnostics import Span
from distir.ide.advice.core import Advised
from distir.ide.document import Document
from distir.ide.hover_functions import idle_share
from distir.ide.instances import View, facts
from distir.ide.lines import line_of
from distir.ide.markdown import counted, listed
from distir.ide.placements import NamedStages
from distir.ide.staleness import MARK
from distir.ir import Function, Mesh, TupleType, types
from distir.ops import type_of
from distir.simulate.simulation import Simulation

LensKind = Literal["mesh", "cost", "calls", "timeline", "compare", "hardware", "advice"]

OF_EVERY_FUNCTION: tuple[LensKind, ...] = ("mesh", "cost", "calls")
OF_THE_ENTRY: tuple[LensKind, ...] = ("mesh", "cost", "timeline", "compare", "hardware", "advice")


@dataclass(frozen=True, slots=True)
class Lens:
    """A lens: the function that it is above, and its topic."""

    span: Span
    function: str
    kind: LensKind


@dataclass(frozen=True, slots=True)
class Text:
    """A lens's text, and its command with arguments other than the document; empty for none."""

    title: str
    command: str = ""
    arguments: Sequence[object] = ()


def lenses(document: Document, advice: bool = False) -> list[Lens]:
    """All lenses of a text, in order; none above a second function of one name. Needs the parse alone.

    `advice`: whether one of them says what would be faster.
    """
    entry, left_out = document.entry, set[LensKind]()
    if not advice:
        left_out.add("advice")
    if not facts(document).meshes:
        left_out.add("mesh")
    found: list[Lens] = []
    for written in document.program.syntax.functions:
        if document.program.module.functions.get(written.function.name) is not written.function:
            continue
        kinds = OF_THE_ENTRY if entry is not None and written.function is entry else OF_EVERY_FUNCTION
        found += [Lens(written.name, written.function.name, kind) for kind in kinds if kind not in left_out]
    return found


def lens_text(
    view: View, function_name: str, kind: LensKind, why_not: str | None = None, advised: Advised | None = None
) -> Text:
    """The current text of a lens. `why_not`: why there is no simulation; `advised`: advice for this version."""
    function = view.document.program.module.functions.get(function_name)
    match kind:
        case "mesh":
            return Text(_mesh(view, function) if function is not None else "gone")
        case "cost":
            return _cost(view, function, why_not) if function is not None else Text("gone")
        case "calls":
            return _calls(view, function) if function is not None else Text("gone")
        case "timeline":
            return Text("timeline", "distir.timeline")
        case "compare":
            return Text("compare with the file", "distir.compare")
        case "hardware":
            return Text(view.document.setup.hardware.name, "distir.hardware")
        case "advice":
            best = advised.fastest if advised is not None else None
            return Text("advice" if best is None else f"{best.speedup:.3g}× possible", "distir.advice")


def _mesh(view: View, function: Function) -> str:
    """The axes of the mesh that a function runs on; with its stages, where the program has several."""
    meshes = view.facts.meshes
    if len(view.facts.remembered(NamedStages).of(view)) < 2:
        return _axes(meshes.mesh)
    state = view.state(function.name)
    found = types.devices(TupleType(tuple(type_of(state[name]) for name in state))) if state is not None else ()
    by_mesh: dict[Mesh, list[int]] = {}
    for stage in sorted(found):
        by_mesh.setdefault(meshes.of(stage), []).append(stage)
    stages = (
        f"{_axes(mesh)} · {'stage' if len(each) == 1 else 'stages'} {listed(each)}" for mesh, each in by_mesh.items()
    )
    return ", ".join(stages) or _axes(meshes.mesh)


def _axes(mesh: Mesh) -> str:
    return " · ".join(f"{axis}={size}" for axis, size in mesh)


def _cost(view: View, function: Function, why_not: str | None) -> Text:
    simulation = view.simulation
    if simulation is None:
        return Text(why_not or "not simulated yet", "distir.simulate" if why_not is None else "")
    mark, why = (MARK, f" · {view.stale.in_short}") if view.stale is not None else ("", "")
    if simulation.function.name == function.name:
        return Text(f"{mark}{in_short(simulation)}{why}", "distir.timeline")
    occurrence = view.shown(function.name)
    caller = view.shown(occurrence.caller[0].name) if occurrence is not None and occurrence.caller is not None else None
    if occurrence is None or occurrence.caller is None or caller is None:
        return Text(f"not reached from @{simulation.function.name}")
    moment = view.moment_of(caller, occurrence.caller[1])
    if moment is None:
        return Text("takes no time")
    where = "device" if len(moment.devices) == 1 else "devices"
    busiest = _most_memory(view, occurrence.body.memory if occurrence.body is not None else {})
    said = f"{show_seconds(moment.seconds)} @{show_seconds(moment.start)} on {where} {listed(moment.devices)}"
    said = f"one kernel: {said}" if function.kernel else said
    return Text(f"{mark}{said}{busiest}{why}", "distir.timeline")


def in_short(simulation: Simulation) -> str:
    """A simulation in one line: latency, the peak memory of a device against its capacity, how idle devices are."""
    uses = simulation.devices
    if not uses:
        return show_seconds(simulation.latency_s)
    fullest = max(uses, key=lambda device: uses[device].peak_memory_bytes / max(uses[device].capacity_bytes, 1))
    use = uses[fullest]
    idle = sum(u.idle_s for u in uses.values()) / len(uses)
    peak = f"peak {show_bytes(use.peak_memory_bytes)} of {show_bytes(use.capacity_bytes)} on device {fullest}"
    if len(uses) <= 4:
        each = ", ".join(f"{d}: {show_bytes(u.peak_memory_bytes)}" for d, u in uses.items())
        peak = f"peak {each} of {show_bytes(use.capacity_bytes)}"
    share = f"{idle_share(idle, simulation.latency_s)} idle"
    return f"{show_seconds(simulation.latency_s)} · {peak} · {share}"


def _most_memory(view: View, memory: dict[int, tuple[int, int]]) -> str:
    simulation = view.simulation
    if simulation is None or not memory:
        return ""
    rises = {device: memory.get(simulation.memory_of(device), (0, 0))[1] for device in simulation.devices}
    device = max(rises, key=rises.__getitem__)
    return f" · {show_bytes(rises[device])} more on device {device}" if rises[device] else ""


def _calls(view: View, function: Function) -> Text:
    sites = view.facts.call_sites.get(function.name, ())
    if not sites:
        return Text("not called")
    occurrence = view.shown(function.name)
    if len(sites) == 1 or occurrence is None or occurrence.caller is None or not view.is_current:
        return Text(counted(len(sites), "call"), "distir.showCalls", (function.name,))
    at = (occurrence.caller[0].name, occurrence.caller[1])
    number = next((i for i, site in enumerate(sites) if (site.caller, site.index) == at), 0)
    line = line_of(view, *at)
    title = f"{counted(len(sites), 'call')}, shown: {number + 1}, by @{at[0]}, line {line}"
    return Text(title, "distir.nextCall", (function.name, (number + 1) % len(sites)))
