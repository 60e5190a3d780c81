"""`examples/strategies`: its programs are what its commands write, and give the results of what they were made from.

`--bless` makes the programs and the figures in the README anew.
"""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import distir
from distir.cli import main
from distir.cost import show_bytes, show_seconds
from distir.transform import reference, verify

FOLDER = Path(__file__).parent.parent / "examples" / "strategies"
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r'^"\$DISTIR" .*$', (FOLDER / "make.sh").read_text(), re.M)]
BY_FILE = {command[-1]: command for command in COMMANDS}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the commands write, by file."""
    folder = tmp_path_factory.mktemp("strategies")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            assert main(command) == 0, command
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("name", BY_FILE)
def test_a_program_is_what_its_command_writes(name, made, pytestconfig):
    path = FOLDER / name
    if pytestconfig.getoption("--bless"):
        path.write_text(made[name])
    assert path.read_text() == made[name], f"stale: sh {FOLDER / 'make.sh'} makes it anew"


def test_there_are_no_other_programs():
    assert {path.name for path in FOLDER.glob("*.dir")} == set(BY_FILE)


@cache
def module(name):
    return distir.parse((FOLDER / name).read_text())


def origin(command):
    """The file that a command begins with."""
    return command[-3]


@pytest.mark.parametrize("name", BY_FILE)
def test_a_program_checks(name):
    assert distir.check(module(name)) == []


@pytest.mark.parametrize("name", [name for name, command in BY_FILE.items() if command[0] == "transform"])
def test_a_program_gives_the_results_of_what_it_was_made_from(name):
    command = BY_FILE[name]
    assert verify(reference(module(origin(command)), command[1:-3]), module(name)).equal


def row(name):
    simulation = distir.simulate(module(name))
    peaks = sorted({use.peak_memory_bytes for use in simulation.devices.values()})
    shown = " to ".join(dict.fromkeys(map(show_bytes, (peaks[0], peaks[-1]))))
    words = " ".join(BY_FILE[name][:-2])
    return f"| `{name}` | `{words}` | {len(simulation.devices)} | {show_seconds(simulation.latency_s)} | {shown} |\n"


def test_the_figures_in_the_readme_are_what_simulation_gives(pytestconfig):
    path = FOLDER / "README.md"
    text = path.read_text()
    rows = "".join(map(row, BY_FILE))
    if pytestconfig.getoption("--bless"):
        text = re.sub(r"(^\|---.*\n)(\| `.*\n)*", lambda found: found[1] + rows, text, flags=re.M)
        path.write_text(text)
    assert rows in text
