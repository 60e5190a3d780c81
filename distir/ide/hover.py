"""Hover: information about the word under the cursor, as Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from distir.diagnostics import Span
from distir.ide.hover_devices import about_device
from distir.ide.hover_functions import about_function
from distir.ide.hover_ops import about_attribute, about_op
from distir.ide.hover_streams import about_stream
from distir.ide.hover_target import Target, target_at
from distir.ide.hover_values import about_dimension, about_value
from distir.ide.instances import View
from distir.ide.markdown import code, paragraphs
from distir.ide.templates import KERNEL_SAYS
from distir.ir import Apply, Mesh, dims
from distir.ir.facts import FACTS, PHASES
from distir.ir.places import IN_ZIGZAG, ZIGZAG, count, show_axes, show_mesh, unsized


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown, and the word that it describes."""

    markdown: str
    span: Span


def hover(view: View, offset: int) -> Hover | None:
    """Information about the word at an offset; None if there is none."""
    view = view.seen_from(offset)
    target = target_at(view.document.program.syntax, offset)
    said = about(view, target) if target is not None else None
    if target is None or not said:
        return None
    if target.kind != "attribute":
        said = paragraphs([said, stale_note(view, target.written.function.name)])
    return Hover(said, target.span)


def about_axis(view: View, name: str) -> str | None:
    """An axis of the mesh, the name of its size, or the order of parts; None for a word that is none of these."""
    meshes = view.document.program.module.meshes
    stated = [(None, meshes.mesh), *meshes.stages]
    return paragraphs([said for stage, mesh in stated if (said := _about_axis(mesh, stage, name))]) or (
        f"{code(ZIGZAG)}: {IN_ZIGZAG}" if name == ZIGZAG else None
    )


def _about_axis(mesh: Mesh, stage: int | None, name: str) -> str | None:
    if name in unsized(mesh):
        axes = show_axes([axis for axis, size in mesh if str(size) == name])
        return f"the number of devices along {axes} of {code(show_mesh(mesh, stage))}: `--bind {name}=2` gives it"
    number = next((k for k, (axis, _) in enumerate(mesh) if axis == name), None)
    if number is None:
        return None
    size, apart = mesh[number][1], count(n for _, n in mesh[number + 1 :])
    where = "side by side" if apart == 1 else f"{dims.show(apart)} apart"
    return f"axis {code(name)} of {code(show_mesh(mesh, stage))}: groups of {size} devices, {where}"


def about_fact(name: str) -> str:
    """What a fact says."""
    said = f"the phase that {PHASES[name]}" if name in PHASES else FACTS[name]
    return f"{code(name)}: {said}; it changes nothing of what the program means or costs"


def stale_note(view: View, function: str) -> str:
    """The note for figures of an earlier version; empty if there are none."""
    return f"*{view.stale}*" if view.stale is not None and view.shown(function) is not None else ""


def about(view: View, target: Target) -> str | None:
    """Information about a word."""
    function = target.written.function
    match target.kind:
        case "value":
            return about_value(view, function, target.name, target.before)
        case "function":
            return about_function(view, target.name, (function, target.index) if target.index is not None else None)
        case "op" if target.repeated is not None:
            return about_op(view, target.repeated.function, target.repeated.index)
        case "op" if target.index is not None:
            return about_op(view, function, target.index)
        case "device":
            return about_device(view, int(target.name))
        case "mark":
            return KERNEL_SAYS
        case "fact":
            return about_fact(target.name)
        case "attribute" if target.index is not None:
            statement = function.body[target.index] if target.repeated is None else target.repeated.statement
            return about_attribute(statement, target.name) if isinstance(statement, Apply) else None
        case "stream" if target.index is not None:
            return about_stream(view, function, target.index, target.name)
        case _:
            return about_dimension(view, function, target.name) or about_axis(view, target.name.removeprefix("@"))
