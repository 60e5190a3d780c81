"""One program per file of `tests/golden`, and what each stage makes of it. `pytest --bless` writes the files anew."""

import re
from pathlib import Path

import pytest

from distir import ProgramError, simulate
from distir.analysis.program import read
from distir.diagnostics import Report, terminal
from distir.ir import Dense, Literal
from distir.ops import type_of
from distir.simulate import BindError
from distir.syntax import format as formatted
from distir.syntax import print_literal

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.md"), key=lambda path: path.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path, request):
    found = stages(path)
    if request.config.getoption("--bless"):
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_formatted_program_is_the_same_program_and_stays_as_it_is(path):
    source = read(split(path)[1])
    if source.syntax.diagnostics:
        pytest.skip("broken text is not formatted")
    once = formatted(source.syntax)
    assert read(once).module == source.module
    assert formatted(read(once).syntax) == once


def split(path):
    """What the file is about, and its program."""
    about, _, rest = path.read_text().partition("## SOURCE\n")
    return about, re.match(r"\s*```dir\n(.*?)^```", rest, re.DOTALL | re.MULTILINE).group(1)


def stages(path):
    about, text = split(path)
    program = read(text, f"{path.stem}.dir")
    report = Report(program.source, program.diagnostics)
    parts = [f"{about}## SOURCE\n\n```dir\n{text}```\n"]
    parts += section("PROBLEMS", terminal.text([report]).rstrip())
    if not program.syntax.diagnostics:
        canonical = formatted(program.syntax)
        parts += section("FORMATTED", "as it is" if canonical == text else canonical.rstrip())
    parts += section("TYPES", "\n".join(types(program)))
    if not program.errors:
        parts += simulated(program)
    return "\n".join(parts)


def section(title, text):
    return [f"## {title}\n\n```text\n{text}\n```\n" if text else f"## {title}\n\nnone\n"]


def types(program):
    """Each function's values for its own parameters' types: their types, or values where they are known."""
    for name, state in program.analysis.states.items():
        yield f"@{name}"
        named = {f"%{value}": shown(found) for value, found in state.items() if value}
        width = max(map(len, named), default=0)
        yield from (f"  {value:{width}}  {found}" for value, found in named.items())


def shown(value):
    if isinstance(value, Dense):
        return f"{print_literal(value)}" if value.shape else f"{value.dtype} {value.values[0]}"
    return print_literal(value.value) if isinstance(value, Literal) else str(type_of(value))


def simulated(program):
    """Devices, timeline and memory, in microseconds and bytes."""
    try:
        simulation = simulate(program.module, FOLDER / "machine.toml")
    except (ProgramError, BindError) as error:
        return section("SIMULATION", str(error))
    rows = [f"latency {us(simulation.latency_s)}"]
    rows += [
        f"device {device}: busy {us(use.busy_s)}, idle {us(use.idle_s)}, communication {us(use.comm_s)}"
        for device, use in simulation.devices.items()
    ]
    timeline = simulation.timeline()
    critical = set(timeline.critical_path())
    events = []
    for event in timeline.events():
        devices = ",".join(map(str, event.effect.devices))
        mark = "*" if event.index in critical else " "
        events.append(
            f"{us(event.start):>8} {us(event.end):>8} {mark} on {devices:5} {event.statement.op} {event.label}"
        )
    profile = simulation.memory()
    memory = []
    for device, use in simulation.devices.items():
        memory.append(f"device {device}: at most {use.peak_memory_bytes} B")
        _, _, live = profile.peak(simulation.memory_of(device))
        memory += [f"  %{value.name} of @{value.function}: {value.nbytes}" for value in live]
    text = [f"{us(w.start):>8} {us(w.start + w.seconds):>8} device {w.device}" for w in timeline.waits]
    return [
        *section("DEVICES", "\n".join(rows)),
        *section("TIMELINE", "\n".join(events)),
        *section("WAITS", "\n".join(text)),
        *section("MEMORY", "\n".join(memory)),
        *section(
            "FINDINGS",
            terminal.text([Report(program.source, program.located(simulation.findings()))]).rstrip(),
        ),
    ]


def us(seconds):
    return f"{seconds * 1e6:.3f}"
