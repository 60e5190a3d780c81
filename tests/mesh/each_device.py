"""Simulation of a program on a mesh beside that of every device."""

import math
from dataclasses import replace

import pytest

import distir
from distir.simulate.simulation import simulate
from distir.transform.mesh import expand


def as_each_device(placed, machine, sizes=None):
    """Whether the mesh and the program of every device take the same times and bytes on each device."""
    found, each = distir.simulate(placed, machine, bind=sizes), simulate(expand(placed), machine, bind=sizes)
    count = math.prod(size for _, size in placed.mesh)
    assert found.latency_s == each.latency_s
    for device, use in each.devices.items():
        first = device if found.copies == 1 else (device - 1) // count * count + 1
        stated = found.devices[first]
        if found.sooner and device != first:  # it waits for the first
            assert use.busy_s <= stated.busy_s
            use = replace(use, busy_s=stated.busy_s, idle_s=stated.idle_s)
        assert stated == use, device
    if found.sooner:
        return found.copies
    assert found.bubble == pytest.approx(each.bubble, abs=1e-12)
    assert found.exposed_communication == pytest.approx(each.exposed_communication, abs=1e-12)
    assert str(found.cost) == str(each.cost)
    return found.copies
