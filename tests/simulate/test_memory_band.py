"""Memory has a band, as times have: a program fits, does not fit, or may not fit, wherever it is said."""

import csv
import json

import pytest

from distir import cost, parse, simulate
from distir.ide.document import Setup, open_document
from distir.ide.status import status
from distir.ide.timeline import timeline_view

PROGRAM = """func @main(%x: Tensor[Float32, (1000, 250), 0]) {
  %y = Relu(%x)
  return %y
}
"""

MACHINE = """title = "one device"
extends = "laptop-cpu"

[kinds.cores]
memory = "{memory}"

[sources]
runs = "made up"

[published]
low = 0.9
high = 1.2
memory_low = {low}
memory_high = {high}
source = "runs"
basis = "measured"
"""

NEEDED = 2_000_000
"""Bytes: the operand and the result."""


def machine(memory, low=0.8, high=1.25):
    return MACHINE.format(memory=memory, low=low, high=high)


@pytest.mark.parametrize(
    ("memory", "fits", "fit"),
    [
        ("2600kB", True, "fits"),
        ("2500kB", True, "fits"),
        ("2400kB", True, "may not fit"),
        ("1700kB", False, "may not fit"),
        ("1500kB", False, "does not fit"),
    ],
)
def test_a_program_fits_as_far_as_simulated_memory_is_right(distir, tmp_path, monkeypatch, memory, fits, fit):
    (tmp_path / "m.toml").write_text(machine(memory))
    (tmp_path / "a.dir").write_text(PROGRAM)
    (use,) = simulate(parse(PROGRAM), hardware=str(tmp_path / "m.toml")).memory_uses.values()
    assert use.peak_memory_bytes == NEEDED
    assert (use.fits, use.fit) == (fits, fit)
    monkeypatch.chdir(tmp_path)
    said = distir("simulate", "a.dir", "--hardware", "m.toml", "--json")
    (device,) = json.loads(said.out)["devices"].values()
    assert (device["fits"], device["fit"]) == (fits, fit)
    shown = distir("simulate", "a.dir", "--hardware", "m.toml").out
    doubt = "0.8 to 1.25 times the simulated memory in 80% of published runs"
    verdict = "may not fit" if fits else "may fit all the same"
    line = f"{verdict}: device 0: 2.00MB of {memory[0]}.{memory[1]}0MB; {doubt}"
    assert (line in shown) == (fit == "may not fit")
    assert ("out of memory" in shown) != fits


BATCHED = PROGRAM.replace("1000, 250), 0]", "B, 250), 0] {batch = 0}")


@pytest.mark.parametrize(("memory", "fit"), [("2600kB", "fits"), ("2400kB", "may not fit"), ("1500kB", "does not fit")])
def test_an_editor_advice_and_the_table_of_a_search_say_it_too(distir, tmp_path, monkeypatch, memory, fit):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(machine(memory))
    (tmp_path / "a.dir").write_text(PROGRAM)
    (tmp_path / "b.dir").write_text(BATCHED)
    document = open_document(PROGRAM, "a.dir", Setup(cost.load(str(tmp_path / "m.toml"))))
    document.simulate()
    (lane,) = timeline_view(document).devices
    assert [status(document, document).fit, lane.fit] == [fit, fit]

    advised = json.loads(distir("advise", "a.dir", "--hardware", "m.toml", "--json").out)
    assert advised["program"]["fit"] == fit
    assert all(each["fit"] == fit for each in advised["advice"] if each["saved_bytes"] == 0)
    said = distir("advise", "a.dir", "--hardware", "m.toml").out.splitlines()[0]
    assert f"peak memory 2.00MB{'' if fit == 'fits' else f', which {fit}'}, on" in said

    words = ("--hardware", "m.toml", "--devices", "1", "--batch-size", "1000", "--csv", "rows.csv")
    found = json.loads(distir("search", "b.dir", *words, "--json").out)
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert (row["peak_memory_bytes"], row["fit"]) == (str(NEEDED), fit)
    assert [each["fit"] for each in (*found["rows"], *found["left_out"])] == [fit]


def test_a_machine_that_states_no_band_is_taken_as_it_is():
    assert cost.load("laptop-cpu").memory_errors.fit(100, 100) == "fits"
    assert cost.load("laptop-cpu").memory_errors.fit(101, 100) == "does not fit"


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100", "b200", "gb300", "h200"])
def test_shipped_gpus_state_a_band(name):
    errors = cost.load(name).memory_errors
    assert errors.low < 1 < errors.high


def test_a_band_that_is_none_is_an_error(tmp_path):
    with pytest.raises(cost.HardwareError, match="not above `memory_high`"):
        cost.parse(machine("1GB", low=1.3), "m")
