"""On machines that say what caches hold, all simulators choose alike."""

import random
import re

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import MACHINE, inlined, random_module
from thorough import most_programs

import distir
from distir.analysis import check
from distir.cost import parse
from distir.ide.document import Setup, open_document
from distir.simulate import Sweep, simulate

PROGRAMS = most_programs(100)

FIGURES = """
[kinds.@KIND@.ops.@OP@.other]
launch = "5us"
bandwidth = "1GB/s"
uncertainty = 0.1
[kinds.@KIND@.ops.@OP@.other.warm]
launch = "@WARM@us"
bandwidth = "9GB/s"
uncertainty = 0.05
"""


def machine(cache):
    text = MACHINE.replace("@MEMORY@", "1GB")
    if cache is not None:
        text = re.sub(r'^title = "(fast|slow)"$', rf'\g<0>\ncache = "{cache}"', text, flags=re.MULTILINE)
    for kind in ("fast", "slow"):
        for number, op in enumerate(("Relu", "Add", "Mul", "MatMul", "SGD")):
            text += FIGURES.replace("@KIND@", kind).replace("@OP@", op).replace("@WARM@", f"{1 + number / 8}")
    return parse(text)


COLD, CACHED = machine(None), machine("300B")

CALLS = """
func @layer(%x, %w) {
  %y = MatMul(%x, %w)
  %z = Relu(%y)
  return %z
}

func @main(%x: Tensor[Float32, (B, 8), 1], %w: Tensor[Float32, (8, 8), 1]) {
  %a = @layer(%x, %w)
  %b = @layer(%a, %w)
  %c = Send[device = 2](%b)
  %d = Relu(%c)
  return %d
}
"""


def same(found, expected):
    assert found.latency_s == expected.latency_s
    assert found.devices == expected.devices
    assert found.band == expected.band
    assert found.timeline().starts == expected.timeline().starts


def at(rows):
    return distir.parse(CALLS.replace("B", str(rows)))


def test_small_programs_are_warm_and_large_ones_are_not():
    shares = []
    for rows in (1, 8, 64, 4096):
        assert simulate(at(rows), CACHED).peaks == simulate(at(rows), COLD).peaks
        shares.append(simulate(at(rows), CACHED).latency_s / simulate(at(rows), COLD).latency_s)
    assert shares == sorted(shares)
    assert shares[0] < 0.8
    assert shares[-1] == pytest.approx(1, rel=1e-2)


def test_the_device_whose_memory_is_full_is_the_cold_one():
    machine = CACHED.running(simulate(at(64), CACHED).peaks)
    assert machine.kind(0).warmth < machine.kind(1).warmth < 1


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 2**32))
def test_a_call_means_the_same_as_its_inlined_body(seed):
    module = random_module(random.Random(seed))
    assume(not check(module).errors)
    found, expected = simulate(module, CACHED), simulate(inlined(module), CACHED)
    assert found.latency_s == expected.latency_s
    assert found.devices == expected.devices


def test_a_sweep_says_what_simulating_each_size_says():
    module = distir.parse(CALLS)
    swept = Sweep(check(module), module.functions["main"], CACHED)
    for rows in (1, 4, 16, 64):
        same(swept.at({"B": rows}), simulate(module, CACHED, bind={"B": rows}))
    assert any(pattern is not None for pattern in swept._patterns.values())


def test_an_edit_that_changes_the_working_set_changes_what_it_does_not_touch():
    setup = Setup(CACHED)
    document = open_document(CALLS.replace("B", "4"), "x", setup)
    for version, rows in enumerate((4, 64, 2, 64)):
        text = CALLS.replace("B", str(rows))
        document = document.edited(text, version)
        assert document.simulation is not None
        same(document.simulation, simulate(distir.parse(text), CACHED))


def test_long_chains_of_calls_are_timed():
    body = "func @f0(%x) {\n  %y = Relu(%x)\n  return %y\n}\n"
    body += "".join(f"func @f{i}(%x) {{\n  %y = @f{i - 1}(%x)\n  return %y\n}}\n" for i in range(1, 400))
    main = "func @main(%x: Tensor[Float32, (2, 2), 1]) {\n  %y = @f399(%x)\n  return %y\n}\n"
    assert simulate(distir.parse(body + main), CACHED).latency_s < simulate(distir.parse(body + main), COLD).latency_s
