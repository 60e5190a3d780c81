"""Hover on an op: when it runs and why, what bounds it, what it moves, and its documentation."""

from __future__ import annotations

from collections.abc import Sequence

from distir.cost import Hardware, show_bytes, show_seconds
from distir.ide.compact import in_full
from distir.ide.hover_values import shown_for
from distir.ide.instances import View
from distir.ide.lines import line_of
from distir.ide.markdown import block, code, items, line_link, listed, paragraphs
from distir.ide.timeline_index import IdleTime, TimelineIndex
from distir.ir import DISCARD, Apply, Call, Constant, Function
from distir.ops import OPS, REQUIRED, Op, type_of
from distir.simulate.effects import Effect
from distir.simulate.simulation import Simulation
from distir.syntax import print_literal

BOUNDS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "latency": "latency",
    "link": "link bandwidth",
}
"""What dominates an op's time, as text."""


def about_op(view: View, function: Function, index: int) -> str | None:
    """Information about the op of a statement: this run of it, then its documentation."""
    statement = function.body[index]
    if not isinstance(statement, Apply):
        return None
    here = block(signature_here(view, function, statement))
    parts = [here, items(run(view, function, index)), shown_for(view, function)]
    if statement.op in OPS:
        parts += ["---", documentation(OPS[statement.op])]
    return paragraphs(parts)


def signature_here(view: View, function: Function, statement: Apply | Call) -> str:
    """The statement with the types that its operands and results have here."""
    state = view.state(function.name)
    most = 8  # tensors of a tuple: a signature is to be read at a glance
    operands = ", ".join(in_full(type_of(v), most) for v in state(statement.args)) if state is not None else "…"
    found = [
        in_full(type_of(view.value(function.name, name)), most) if name != DISCARD else "_"
        for name in statement.results
    ]
    name = statement.op if isinstance(statement, Apply) else f"@{statement.function}"
    return f"{name}({operands}) -> {', '.join(found)}"


def run(view: View, function: Function, index: int) -> list[str]:
    """When an op runs in the call shown, for how long, and why: lines of markdown; none if it was not simulated."""
    if function.kernel:
        return [f"part of the kernel {code('@' + function.name)}, which takes its time as one op where it is called"]
    effect, simulation, timeline = view.effect(function, index), view.simulation, view.index
    if effect is None or simulation is None:
        return []
    event = view.event(function, index)
    if not effect.devices or event is None or timeline is None:
        return ["takes no time: " + ("a view of its operand" if effect.view else "known before the program runs")]
    cost, moment = effect.cost, view.moment(function, index)
    start = moment.start if moment is not None else 0.0
    return [
        f"starts at **{show_seconds(start)}**, takes **{show_seconds(cost.seconds)}** "
        f"on {'device' if len(effect.devices) == 1 else 'devices'} {listed(effect.devices)}"
        + (f", bound by {BOUNDS[cost.bound]}" if cost.bound in BOUNDS else ""),
        *_work(effect),
        *_communication(simulation, effect),
        *_waits(view, timeline, event, view.idle(function, index)),
        _slack(timeline, event),
    ]


def documentation(op: Op) -> str:
    """An op's documentation: description, signatures, attributes, one example."""
    attributes = [about_spec(op, name) for name in op.attributes]
    example = block(op.examples[0]) if op.examples else ""
    signatures = block("\n".join(op.signature_texts))
    gradient = "" if op.non_differentiable is None else f"No gradient: {op.non_differentiable}."
    return paragraphs([f"**{op.name}**: {op.documentation}", signatures, gradient, items(attributes), example])


def about_attribute(statement: Apply, name: str) -> str | None:
    """Information about an attribute, by its name or another spelling of it."""
    if statement.op not in OPS:
        return None
    op = OPS[statement.op]
    known = next((a for a in op.attributes.values() if name == a.name or name in a.aliases), None)
    return about_spec(op, known.name) if known is not None else None


def about_spec(op: Op, name: str) -> str:
    """An attribute of an op: its kind, its default, how else it is spelled."""
    attribute = op.attributes[name]
    stated: Constant | None = None if attribute.default is REQUIRED else attribute.default
    default = "required" if attribute.default is REQUIRED else "may be left out"
    if stated is not None:
        default = f"default {code(print_literal(stated))}"
    others = f", also written {listed(map(code, attribute.aliases))}" if attribute.aliases else ""
    return f"attribute {code(name)} of {code(op.name)}: {code(attribute.kind)}, {default}{others}"


def event_in_words(view: View, timeline: TimelineIndex, number: int) -> str:
    """An op on the timeline: its result, its name, its function and line."""
    event = timeline.timeline.event(number)
    function, index = event.function, event.place.statement
    there = view.document.program.module.functions.get(function.name)
    where = f" of {code('@' + function.name)}"
    if view.is_current and there is function:
        where += f", {line_link(line_of(view, function.name, index))}"
    return f"{code(event.label)} ({code(event.effect.op)}{where})"


def amount(value: float, unit: str) -> str:
    """Three digits and a prefix: `2.15 GFLOP`."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def level_between(hardware: Hardware, physical: Sequence[int]) -> str:
    """The name of the innermost level that joins these physical devices; empty for one device."""
    if len(set(physical)) < 2:
        return ""
    blocks = [(level.blocks.at(physical[0]), level.name) for level in hardware.levels]
    joined = [(len(block), name) for block, name in blocks if block and all(device in block for device in physical)]
    return min(joined)[1] if joined else ""


def _work(effect: Effect) -> list[str]:
    work, seconds = effect.work, effect.cost.seconds
    if not (work.flops or work.bytes):
        return []
    found: list[str] = []
    if work.flops:
        dtype = f" in {work.dtype}" if work.dtype is not None else ""
        found.append(f"{amount(work.flops, 'FLOP')}{dtype} ({amount(work.flops / seconds, 'FLOP/s')})")
    if work.bytes:
        found.append(f"{show_bytes(work.bytes)} of memory traffic ({show_bytes(work.bytes / seconds)}/s)")
    if work.temporary:
        found.append(f"{show_bytes(work.temporary)} of temporary memory")
    return [", ".join(found)]


def _communication(simulation: Simulation, effect: Effect) -> list[str]:
    communication = effect.work.communication
    if communication is None:
        return []
    level = level_between(simulation.hardware, [simulation.memory_of(device) for device in effect.devices])
    rate = communication.nbytes / effect.cost.seconds if effect.cost.seconds else 0.0
    root = f", root {communication.root}" if communication.root is not None and communication.pattern != "send" else ""
    return [
        f"{communication.pattern} of {show_bytes(communication.nbytes)} among devices {listed(effect.devices)}{root}"
        + (f" over {code(level)}" if level else "")
        + (f", {show_bytes(rate)}/s in effect" if rate else "")
    ]


def _waits(view: View, timeline: TimelineIndex, event: int, idle: Sequence[IdleTime]) -> list[str]:
    blocker = timeline.blocker(event)
    late = max((wait.host for wait in idle), default=0.0)
    host = [f"waits for the host {show_seconds(late)}"] if late else []
    if blocker is None or host:
        return host
    said = event_in_words(view, timeline, blocker)
    idle = [wait for wait in idle if not wait.stream]
    waits = [f"device {wait.device} idles {show_seconds(wait.seconds)} before it, for {said}" for wait in idle]
    return waits or [f"follows {said}"]


def _slack(timeline: TimelineIndex, event: int) -> str:
    slack = timeline.slack(event)
    return f"slack {show_seconds(slack)}: it may end that much later" if slack else "on a critical path: no slack"
