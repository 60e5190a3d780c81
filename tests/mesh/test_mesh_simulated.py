"""Simulating a program on a mesh: one device of each stage stands for all, to the last tick and byte."""

import json
import math

import pytest
from each_device import as_each_device
from mesh_programs import ATTENTION, MLP, PROGRAMS, STAGES, TRAINING
from random_mesh_programs import random_program
from thorough import most_programs

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import ProgramError, Span
from distir.ide.document import Setup, open_document
from distir.ide.line_times import line_times
from distir.ir.counted import times_in
from distir.ir.rolling import rolled, unrolled
from distir.models import named
from distir.simulate.composition import compositions
from distir.simulate.simulation import simulate
from distir.transform.mesh import expand
from distir.transform.mesh.on_machine import on_machine

APART = {"several axes", "vocabulary", "owners"}
"""Programs with collectives over axes whose devices, in their order, are not equally far apart, or hold others."""

MACHINES = ("dgx-a100x4", "dgx-h100x4")


def module(text):
    program = read(text)
    assert not program.errors, program.errors[0]
    return program.module


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_by_hand_takes_what_every_device_takes(name, machine):
    placed = module(PROGRAMS[name])
    found = as_each_device(placed, load(machine), {"B": 16} if name == "mlp" else {})
    assert found == (1 if name in APART else math.prod(size for _, size in placed.mesh))


@pytest.mark.parametrize("seed", range(most_programs(100)))
def test_random_programs_take_what_every_device_takes(seed):
    as_each_device(random_program(seed), load(MACHINES[seed % 2]))


UNEVEN = MLP.replace("dp = 2, tp = 2", "dp = 2, tp = 6")
"""On nodes of 8 devices, one group of 6 is in a node, the other in two."""


def test_where_some_groups_are_in_a_node_and_others_are_not_every_device_is_simulated():
    placed, machine = module(UNEVEN), load("dgx-a100x2")
    assert as_each_device(placed, machine, {"B": 16}) == 1
    assert len(distir.simulate(placed, machine, bind={"B": 16}).devices) == 12
    alone = simulate(expand(placed, representative=True), machine, bind={"B": 16})
    assert alone.latency_s < distir.simulate(placed, machine, bind={"B": 16}).latency_s


def test_too_many_devices_that_differ_are_refused_with_which_do():
    placed = module(UNEVEN.replace("dp = 2", "dp = 1024"))
    with pytest.raises(ProgramError) as caught:
        distir.simulate(placed, "dgx-a100x1024", bind={"B": 1024})
    (found,) = caught.value.diagnostics
    assert "some groups of 6 devices, neighbours, are linked otherwise than others" in found.message
    assert found.help == "simulate fewer devices, or give the innermost axes sizes that divide the devices of a node"


def test_a_mesh_of_16384_devices_is_simulated_as_one_of_its_groups_is():
    few, many = (
        distir.simulate(module(MLP.replace("dp = 2", f"dp = {count}")), "dgx-h100x2048", bind={"B": 2 * count})
        for count in (8, 8192)
    )
    assert many.copies == 16384
    assert many.devices == few.devices
    assert many.latency_s == few.latency_s


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - APART))
def test_each_statement_is_one_on_the_device_that_stands_for_all(name):
    placed = module(PROGRAMS[name])
    found = on_machine(placed, load("dgx-a100"))
    assert found.in_lines
    for function in placed:
        there = found.module.functions[function.name]
        assert len(there.body) == len(function.body)
        for own, other in zip(function.body[:-1], there.body[:-1], strict=True):
            assert set(own.results) <= set(other.results)


def test_simulate_says_for_how_many_devices_a_line_stands(distir, tmp_path):
    path = tmp_path / "training.dir"
    path.write_text(TRAINING)
    shown = distir("simulate", path).out
    assert "each device that is listed represents 4, which do the same at the same times" in shown
    assert "1 to 4" in shown
    found = json.loads(distir("simulate", path, "--json").out)
    assert {name: use["stands_for"] for name, use in found["devices"].items()} == {"1": 4}
    number = next(i for i, line in enumerate(TRAINING.splitlines(), 1) if "%p = MatMul" in line)
    assert number in [step["line"] for step in found["critical_path"]]


def test_lines_of_a_statement_that_becomes_several_ops_are_the_statements(distir, tmp_path):
    path = tmp_path / "attention.dir"
    path.write_text(ATTENTION)
    found = json.loads(distir("simulate", path, "--json").out)
    lines = ATTENTION.splitlines()
    of_loss = [step for step in found["critical_path"] if "%own = Softmax" in lines[step["line"] - 1]]
    assert len(of_loss) > 5
    assert {step["function"] for step in of_loss} == {"main"}


def test_steps_with_late_devices_are_of_every_device(distir, tmp_path):
    path = tmp_path / "training.dir"
    path.write_text(TRAINING)
    ended = distir("simulate", path, "--spread", "devices=lognormal:0.05", "--draws", "10")
    assert ended.code == 0, ended.err
    assert "stands for" not in ended.out


def test_the_editor_shows_times_at_the_statements_of_the_text():
    document = open_document(ATTENTION, "mesh.dir", Setup(load("dgx-a100")))
    assert document.simulation is not None
    starts = [0, *(k + 1 for k, letter in enumerate(ATTENTION) if letter == "\n")]
    times = line_times(document, starts)
    lines = ATTENTION.splitlines()
    timed = [lines[k] for k in times.line]
    assert [line for line in lines if line.startswith("  %") and " = " in line.partition("{batch")[0]] == timed
    assert sum(times.share) == pytest.approx(1)


def test_the_editor_says_why_devices_that_differ_have_no_times():
    document = open_document(UNEVEN.replace("B@", "16@"), "mesh.dir", Setup(load("dgx-a100x2")))
    assert "are linked otherwise than others; `distir simulate` simulates each" in str(document.unsimulated)
    assert not document.findings


def test_the_editor_marks_what_is_too_large_for_the_machine_where_it_stands():
    text = STAGES.replace("(8@dp, 6)", "(80000000000@dp, 6)").replace("[8, 2, 6]", "[80000000000, 2, 6]")
    document = open_document(text, "mesh.dir", Setup(load("dgx-a100")))
    assert document.simulation is not None
    assert {d.code.number for d in document.findings} == {"DIR505"}
    assert all(isinstance(d.site, Span) for d in document.findings)


def test_a_step_costs_by_the_tokens_of_the_whole_batch(tmp_path):
    priced = tmp_path / "priced.toml"
    kind = next(k.name for k in load("dgx-a100").kinds.distinct)
    priced.write_text(f'extends = "dgx-a100"\n[kinds.{kind}]\nprice = "3.6USD/h"\n')
    placed, machine = module(ATTENTION), load(priced)
    cost = distir.simulate(placed, machine).cost
    assert cost is not None
    assert cost.tokens == 4 * 6
    assert cost == simulate(expand(placed), machine).cost


@pytest.mark.parametrize("words", ["dp=2 tp=2 zero=1", "dp=2 tp=2 sequence zero=3", "tp=4"])
def test_counted_statements_take_on_a_mesh_what_they_take_written_out(words):
    sizes = {"layers": 6, "batch": 8, "sequence": 8, "width": 32, "heads": 4, "vocabulary": 64, "ffn": 64}
    model = named("llama3-8b", **sizes, kv_heads=4, head_size=8)
    steps = ("grad", "optimizer=adamw", "precision=mixed", "mesh", *words.split())
    counted, machine = rolled(distir.transform(model, *steps)), load("dgx-h100")
    assert max(map(times_in, counted)) >= 5
    found, other = (distir.simulate(program, machine) for program in (counted, unrolled(counted)))
    assert found.latency_s == other.latency_s
    assert (found.ops, found.copies, found.devices) == (other.ops, other.copies, other.devices)
    assert compositions(found) == compositions(other)
