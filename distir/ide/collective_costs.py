"""What a collective over an axis of the mesh would cost: the bytes on each device, and the time on the machine."""

from __future__ import annotations

from dataclasses import replace

from distir.analysis.placement_states import held
from distir.analysis.stated_places import complaint
from distir.cost import show_bytes, show_seconds
from distir.diagnostics import ProgramError
from distir.ide.document import Document
from distir.ir import Apply, Attributes, Function, Mesh, Module, Param, PendingAlong, Return, TensorType, types
from distir.ir.places import along
from distir.ops import type_of
from distir.simulate.show import Occurrence, moment
from distir.simulate.simulation import simulate


def cost_in_words(document: Document, function: str, collective: Apply) -> str:
    """` (64.0kB on each device, 12.3us on dgx-a100)`, as far as it is known; else empty."""
    module = document.program.module
    state = document.program.analysis.states.get(function)
    (name,) = collective.args
    if state is None or not isinstance(name, str) or name not in state:
        return ""
    sizes = {name: size for name, size in document.setup.bind.items() if isinstance(size, int)}
    value = types.substitute(type_of(state[name]), sizes)
    if not isinstance(value, TensorType) or complaint(value, module.meshes):
        return ""
    nbytes = types.nbytes(held(value, module.meshes))
    if not isinstance(nbytes, int):
        return ""
    seconds = _seconds(document, collective, value, module.meshes.of(value.device))
    time = "" if seconds is None else f", {show_seconds(seconds)} on {document.setup.hardware.name}"
    return f" ({show_bytes(nbytes)} on each device{time})"


def _seconds(document: Document, collective: Apply, value: TensorType, mesh: Mesh) -> float | None:
    """The time that it takes alone; None where devices take different times, or that is not known."""
    from distir.transform.mesh.on_machine import one_for_all

    module = _alone(collective, value, mesh)
    if module is None:
        return None
    try:
        found = one_for_all(module, document.setup.hardware)
        if isinstance(found, str):
            return None
        simulation = simulate(found.module, document.setup.hardware)
    except ProgramError:
        return None
    there = Occurrence(simulation.instance, simulation.body, 0, None)
    taken = moment(simulation.timeline(), there, len(found.module.functions["main"].body) - 2)
    return 0.0 if taken is None else taken.seconds


def _alone(collective: Apply, value: TensorType, mesh: Mesh) -> Module | None:
    """A program of this collective, of a value placed as this one is; None where no program can be given that."""
    axis = collective.attrs["axis"]
    if not isinstance(axis, str):
        return None
    place = along(value.places, axis)
    given = replace(value, places=tuple(p for p in value.places if not isinstance(p, PendingAlong)))
    body = [replace(collective, results=("y",), args=("x",))]
    if isinstance(place, PendingAlong):
        if place.how != "sum":
            return None
        share = Apply(("share",), "Share", ("x",), Attributes({"axis": axis}))
        body = [share, replace(body[0], args=("share",))]
    statements = (*body, Return(("y",)))
    return Module([Function("main", (Param("x", given),), statements, mesh=mesh)])
