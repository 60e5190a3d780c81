"""The tools of `distir mcp`: what agents ask for, in answers small enough to read. Knows nothing of the protocol.

A tool is a function of TOOLS: its docstring is what an agent reads to choose it. Times and sizes have their units in
them (`12.9ms`), so that no answer needs another to be read. Whatever cannot be done is raised as `ToolRefusal`, whose
text says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from distir.cli import programs, simulating
from distir.cli.endings import Refused, Wrong, of_hardware
from distir.cli.files import SUFFIX, replace_file
from distir.transform.strategy.steps import words_of

if TYPE_CHECKING:
    from distir.diagnostics import Diagnostic
    from distir.simulate import Simulation, Timeline

MOST_LISTED = 8
"""Devices, ops, waits and rows that an answer lists; it says how many there are."""

MOST_DIAGNOSTICS = 20

MOST_TEXT = 4000
"""Characters of an explanation or a program that is not written to a file."""

Answer = dict[str, Any]


class ToolRefusal(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A refused request; the text says why, and what is possible."""


def check(file: str) -> Answer:
    """Check a .dir program: syntax, names, types, shapes, devices. Returns diagnostics with lines, none if it is sound.

    `explain` documents a diagnostic's code.
    """
    program = programs.read_program(file)
    found = program.diagnostics
    return {
        "sound": not program.errors,
        "functions": list(program.module.functions),
        "diagnostics": [_diagnostic(program, d) for d in found[:MOST_DIAGNOSTICS]],
        "more": max(len(found) - MOST_DIAGNOSTICS, 0),
    }


def simulate(
    file: str, hardware: str | None = None, bind: dict[str, int] | None = None, max_memory: str | None = None
) -> Answer:
    """Simulate a .dir program on a machine (a profile such as dgx-h100, dgx-h100x4 for four nodes): time and memory.

    Returns latency, bubble, exposed communication, each device's time and peak memory, and the ops that take longest.
    `bind` sets named dimensions: {"B": 64}. `max_memory` ("40GB") asks whether every device stays within it.
    """
    program, simulation = _simulated(file, hardware, bind)
    limits = simulating.limits(None, max_memory, programs.settings(file))
    notes = [*simulating.findings(program, simulation, limits), *simulating.notices(program, simulation)]
    return {
        **_figures(simulation, limits.memory_bytes),
        "devices": _devices(simulation),
        "longest_ops": _longest(simulation),
        "notes": [d.message for d in notes][:MOST_LISTED],
    }


def explain(
    topic: str | None = None,
    file: str | None = None,
    device: int | None = None,
    hardware: str | None = None,
    bind: dict[str, int] | None = None,
) -> Answer:
    """Explain a `topic`: a diagnostic (DIR301), a step of transform (pp), an op (MatMul) or a machine (dgx-h100).

    Or, given a `file` and a `device`, why that device is late: how long it computes, communicates and waits, and for
    which ops on which other devices. With a file alone, that of the device that is idle longest.
    """
    if topic is not None:
        return {"topic": topic, "text": _bounded(_documentation(topic))}
    if file is None:
        raise ToolRefusal("expected a `topic`, or a `file` with a `device`")
    _, simulation = _simulated(file, hardware, bind)
    devices = simulation.devices
    if device is None:
        device = max(devices, key=lambda d: devices[d].idle_s, default=0)
    if device not in devices:
        raise ToolRefusal(f"`@{simulation.function.name}` has no device {device}; it has {_listed(list(devices))}")
    return _lateness(simulation, device)


def transform(file: str, steps: list[str], out: str | None = None, hardware: str | None = None) -> Answer:
    """Apply steps to a .dir program, in order, such as ["grad", "loss=mse", "dtp=2,2,2", "microbatches=8"].

    Steps are those of `distir transform --list`, as words: grad, dp=N, tp=N, pp=N, dtp=D,T,P, zero=1..3, checkpoint,
    fuse, overlap; a step's options follow it. `explain` documents each. Writes the result to `out` (a .dir file), or
    returns its text if that is short. The words of a row of `search` can be given here.
    """
    from distir.syntax import print_rolled
    from distir.transform import StepError, listening
    from distir.transform.all_steps import parse_steps

    if out is not None and not out.endswith(SUFFIX):
        raise ToolRefusal(f"`out` expected a name that ends in {SUFFIX}, found `{out}`")
    program = programs.sound_program(file, "kept")
    module, machine = program.module, hardware or programs.settings(file).machine
    try:
        with listening() as notes:
            for application in parse_steps(steps, defaults={"hardware": machine}):
                module = application(module)
    except StepError as error:
        raise ToolRefusal(f"{error}; `explain` documents steps") from None
    text = print_rolled(module)
    answer: Answer = {
        "functions": len(module.functions),
        "statements": sum(len(function.body) for function in module),
        "notes": notes[:MOST_LISTED],
    }
    if out is None:
        return answer | {"text": _bounded(text)}
    replace_file(out, text.encode())
    return answer | {"written": out}


def search(
    model: str,
    devices: int | None = None,
    hardware: str | None = None,
    batch_sizes: list[int] | None = None,
    max_memory: str | None = None,
    thorough: bool = False,
) -> Answer:
    """Search for the fastest way to distribute a sequential program (.dir) or a named model over `devices` devices.

    By default all devices of the machine. `max_memory` ("40GB") keeps only what stays within it on every device. With
    `thorough`, ZeRO, recomputation and more schedules are tried too: slower, and what fits into little memory. Returns
    the best rows; the `steps` of a row are words for `transform`.
    """
    from distir.cost import load
    from distir.cost.units import parse_bytes
    from distir.models import named
    from distir.search.searching import search
    from distir.search.space import Space

    is_file = model.endswith(SUFFIX)
    module = programs.sound_program(model, "erased").module if is_file else named(model)
    machine = load(hardware or (programs.settings(model).machine if is_file else None) or "dgx-a100")
    space = Space(devices or machine.devices, tuple(batch_sizes or ()))
    if thorough:
        from dataclasses import replace

        space = replace(space, zero=(0, 1, 3), checkpoint=(False, True), schedule=("1f1b", "zb-h1"), accumulate=(1, 4))
    table = search(module, space, machine, model="" if is_file else model)
    limit = None if max_memory is None else parse_bytes(max_memory)
    fitting = [row for row in table.ranked if limit is None or (row.peak_memory_bytes or 0) <= limit]
    least = min((row.peak_memory_bytes for row in table if row.peak_memory_bytes is not None), default=None)
    return {
        "hardware": machine.name,
        "devices": space.devices,
        "tried": len(table),
        "fitting": len(fitting),
        "least_memory": None if least is None else _bytes(least),
        "best": [_row(row) for row in fitting[: MOST_LISTED - 3]],
        "reasons": dict(Counter(row.reason for row in table.failed if row.reason).most_common(2)),
    }


def compare(first: str, second: str, hardware: str | None = None, bind: dict[str, int] | None = None) -> Answer:
    """Compare two .dir programs by simulation on one machine: time, memory, communication, bubble, and why.

    `parting` says where their critical paths begin to differ.
    """
    from distir.transform import difference

    (_, a), (_, b) = (_simulated(file, hardware, bind) for file in (first, second))
    found = difference(a, b)
    sides = {"a": found.left, "b": found.right}
    return {
        "a": _figures(a, None),
        "b": _figures(b, None),
        "b_is_faster_by": round(found.speedup, 4) if b.latency_s else None,
        "communication": {name: _bytes(side.total_communication_bytes) for name, side in sides.items()},
        "parting": {
            "shared_ops": found.shared,
            **{
                side: f"{event.op} {event.label} in @{event.function.name} at {_seconds(event.start)}"
                for side, event in zip("ab", found.parting, strict=True)
                if event is not None
            },
        },
    }


TOOLS: tuple[Callable[..., Answer], ...] = (check, simulate, explain, transform, search, compare)
"""The tools for agents. Only `transform` writes, and only to `out`."""


@contextmanager
def answering() -> Generator[None]:
    """Raises errors of a tool as ToolRefusal, with the command line's messages."""
    from distir.config import ConfigError
    from distir.cost import HardwareError, UnitError
    from distir.diagnostics import ProgramError, terminal
    from distir.models import ModelError
    from distir.search.space import SpaceError

    try:
        yield
    except Wrong as error:
        raise ToolRefusal(_bounded(terminal.text(error.reports))) from None
    except Refused as error:
        raise ToolRefusal(_said(error.message, error.help)) from None
    except ProgramError as error:
        first = error.diagnostics[0]
        raise ToolRefusal(_said(f"{first.message} ({first.code.number})", first.help)) from None
    except HardwareError as error:
        raise ToolRefusal("; ".join(_said(*problem) for problem in of_hardware(error))) from None
    except ConfigError as error:
        raise ToolRefusal(_bounded(terminal.text([error.report]))) from None
    except (UnitError, ModelError, SpaceError) as error:
        raise ToolRefusal(_bounded(str(error))) from None


def _said(message: str, hint: str | None) -> str:
    return _bounded(f"{message}; {hint}" if hint else message)


def _simulated(file: str, hardware: str | None, bind: Mapping[str, int] | None) -> tuple[Any, Simulation]:
    config = programs.settings(file)
    machine = simulating.machine(hardware, config)
    program = simulating.of_devices(programs.sound_program(file, "kept"), machine)
    entry = simulating.entry(program, None, config)
    flags = [f"{name}={value}" for name, value in (bind or {}).items()]
    return program, simulating.simulation(program, machine, entry, simulating.binding(flags, config, entry))


def _figures(simulation: Simulation, limit: int | None) -> Answer:
    from distir.cost.hardware import worst_fit

    most = max((use.peak_memory_bytes for use in simulation.devices.values()), default=0)
    found: Answer = {
        "hardware": simulation.hardware.name,
        "latency": _seconds(simulation.latency_s),
        "ops": simulation.ops,
        "devices_used": len(simulation.devices) * simulation.copies,
        "bubble": _percent(simulation.bubble),
        "exposed_communication": _percent(simulation.exposed_communication),
        "peak_memory": _bytes(most),
        "fits": all(use.fits for use in simulation.memory_uses.values()),
        "fit": worst_fit(use.fit for use in simulation.memory_uses.values()),
    }
    return found if limit is None else found | {"within_max_memory": most <= limit}


def _devices(simulation: Simulation) -> Answer:
    uses = simulation.devices
    shown = {
        str(device): {
            "busy": _seconds(use.busy_s),
            "idle": _seconds(use.idle_s),
            "communication": _seconds(use.comm_s),
            "peak_memory": _bytes(use.peak_memory_bytes),
        }
        for device, use in list(uses.items())[:MOST_LISTED]
    }
    return shown if len(uses) <= MOST_LISTED else shown | {"more": len(uses) - MOST_LISTED}


def _followed(simulation: Simulation) -> Timeline:
    """The timeline, where its events can be listed."""
    timeline = simulation.timeline()
    if timeline.is_long:
        raise ToolRefusal(
            f"the program has {simulation.ops:,} ops, too many to follow one by one; fewer microbatches do"
        )
    return timeline


def _longest(simulation: Simulation) -> list[Answer]:
    """The ops that take most device time in all."""
    if simulation.timeline().is_long:
        return []
    took: dict[str, list[float]] = {}
    for event in simulation.timeline().events():
        took.setdefault(event.op, []).append((event.end - event.start) * len(event.effect.devices))
    longest = sorted(took.items(), key=lambda found: -sum(found[1]))[:MOST_LISTED]
    return [{"op": op, "device_time": _seconds(sum(found)), "times": len(found)} for op, found in longest]


def _lateness(simulation: Simulation, device: int) -> Answer:
    """How a device spends its time, and for which devices it waits."""
    timeline, use = _followed(simulation), simulation.devices[device]
    waits = [wait for wait in timeline.idle_devices if wait.device == device]
    awaited: dict[str, list[float]] = {}
    for wait in waits:
        blocker = None if wait.blocker is None else timeline.event(wait.blocker)
        said = "its host" if blocker is None else _whom(blocker, device)
        awaited.setdefault(said, []).append(wait.seconds)
    longest = sorted(awaited.items(), key=lambda found: -sum(found[1]))
    first = min((event.start for event in timeline.events() if device in event.effect.devices), default=0.0)
    return {
        "device": device,
        "latency": _seconds(simulation.latency_s),
        "done_at": _seconds(timeline.clocks.get(device, 0.0)),
        "starts_at": _seconds(first),
        "busy": _seconds(use.busy_s),
        "communication": _seconds(use.comm_s),
        "idle": _seconds(use.idle_s),
        "waits": [
            {"for": said, "seconds": _seconds(sum(found)), "times": len(found)} for said, found in longest[:MOST_LISTED]
        ],
        "idle_of_others": {
            str(d): _seconds(other.idle_s) for d, other in list(simulation.devices.items())[:MOST_LISTED] if d != device
        },
    }


def _whom(blocker: Any, device: int) -> str:
    others = [d for d in blocker.effect.devices if d != device] or list(blocker.effect.devices)
    where = f"device{'s' * (len(others) > 1)} {_listed(others)}"
    return f"{blocker.op} in @{blocker.function.name} on {where}"


def _row(row: Any) -> Answer:
    from distir.search.rows import show_rate

    return {
        "D/T/P/K": row.degrees,
        "batch_size": row.batch_size,
        "latency": _seconds(row.latency_s),
        "throughput": show_rate(row.throughput),
        "peak_memory": _bytes(row.peak_memory_bytes),
        "fit": row.fit,
        "steps": words_of(row.plan),
    }


def _diagnostic(program: Any, diagnostic: Diagnostic) -> Answer:
    from distir.diagnostics.report import place

    there = place(program.source, diagnostic.site)
    found: Answer = {
        "code": diagnostic.code.number,
        "severity": diagnostic.severity.value,
        "line": there and there.line,
        "message": diagnostic.message,
    }
    return found | ({"help": diagnostic.help} if diagnostic.help else {})


def _documentation(topic: str) -> str:
    """The documentation of a diagnostic, a step, an op or a machine."""
    from distir.cost import HardwareError, load
    from distir.diagnostics.explain import explain
    from distir.diagnostics.spelling import nearest
    from distir.ops import OPS
    from distir.transform import STEPS

    if topic in STEPS:
        step = STEPS[topic]
        options = ", ".join(f"{o.name}={o.default}" for o in step.options.values())
        return f"{step.documentation}\n\nOptions and their defaults: {options or 'none'}"
    if topic in OPS:
        op = OPS[topic]
        return "\n".join([*op.signature_texts, "", op.documentation])
    try:
        return explain(topic)
    except LookupError:
        pass
    try:
        machine = load(topic)
    except (HardwareError, OSError):
        near = nearest(topic, [*STEPS, *OPS])
        hint = (
            f"did you mean `{near}`?" if near else "expected a diagnostic's code, a step, an op or a hardware profile"
        )
        raise ToolRefusal(f"there is no `{topic}`; {hint}") from None
    return f"{machine.name}: {machine.title}, {machine.devices} devices"


def _bounded(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n… {len(text) - MOST_TEXT:,} more characters"


def _listed(devices: Sequence[int]) -> str:
    shown = ", ".join(map(str, devices[:MOST_LISTED]))
    return shown if len(devices) <= MOST_LISTED else f"{shown} and {len(devices) - MOST_LISTED} more"


def _seconds(seconds: float | None) -> str | None:
    from distir.cost import show_seconds

    return None if seconds is None else show_seconds(seconds)


def _bytes(nbytes: float | None) -> str | None:
    from distir.cost import show_bytes

    return None if nbytes is None else show_bytes(round(nbytes))


def _percent(share: float) -> str:
    return f"{share:.1%}"
