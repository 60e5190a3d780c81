"""Timelines as pictures: what the parts of the time show, whatever the program."""

from xml.etree.ElementTree import fromstring

import pytest

import distir
from distir import cost
from distir.simulate.picture import IDLE, KINDS, MOST_LANES, as_svg, as_text, drawn


@pytest.fixture(scope="module")
def pipeline():
    return distir.transform(distir.models.mlp(layers=4, width=256, batch=64, training=True), "pp=4", microbatches=8)


@pytest.fixture(scope="module")
def simulation(pipeline):
    return distir.simulate(pipeline)


def test_a_lane_is_idle_as_long_as_its_device(simulation):
    parts = 2000
    found = drawn(simulation, "a", parts)
    assert [lane.device for lane in found.lanes] == sorted(simulation.devices)
    for lane in found.lanes:
        idle = lane.parts.count(IDLE) / parts
        assert idle == pytest.approx(simulation.devices[lane.device].idle_s / simulation.latency_s, abs=0.03)
        assert {"forward", "backward", IDLE} <= set(lane.parts) <= set(KINDS)


def test_two_timelines_have_one_scale(simulation):
    alone = drawn(simulation, "a", 100)
    beside = drawn(simulation, "a", 200, 2 * simulation.latency_s)
    assert [lane.parts for lane in beside.lanes] == [(*lane.parts, *[IDLE] * 100) for lane in alone.lanes]


def test_the_picture_scales_and_names_what_it_shows(simulation):
    root = fromstring(as_svg([drawn(simulation, "<b>&", 60)]))
    assert root.attrib["width"] == "100%"
    assert root.attrib["viewBox"].startswith("0 0 ")
    words = " ".join(root.itertext())
    assert "<b>&" in words
    assert all(f"device {device}" in words for device in simulation.devices)
    assert {"forward", "backward", "communication"} <= set(words.split())


def test_as_characters_a_line_is_a_device(simulation):
    lines = as_text([drawn(simulation, "A", 60)]).splitlines()
    assert lines[0].startswith("A, ")
    assert [line.split()[0] for line in lines[1:-1]] == list(map(str, simulation.devices))
    assert max(map(len, lines[1:-1])) <= 62
    assert lines[-1].startswith("(F forward")


def test_of_many_devices_some_have_lanes():
    wide = distir.transform(distir.models.mlp(layers=2, width=64, batch=64, training=True), "dp=32")
    found = drawn(distir.simulate(wide, cost.load("dgx-a100", 4)), "a", 60)
    assert len(found.lanes) == MOST_LANES
    assert found.more == 32 - MOST_LANES
    assert "16 more devices" in as_text([found])


def test_a_program_of_too_many_ops_is_not_drawn(simulation, monkeypatch):
    monkeypatch.setattr("distir.simulate.picture.MOST_DRAWN", 10)
    assert drawn(simulation, "a") is None
