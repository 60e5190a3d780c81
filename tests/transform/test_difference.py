"""Two simulated programs side by side."""

from __future__ import annotations

import math
from pathlib import Path

import distir
from distir.transform import difference

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulated(name, hardware="dgx-a100"):
    return distir.simulate(distir.parse((EXAMPLES / f"{name}.dir").read_text()), hardware)


def test_a_program_does_not_differ_from_itself():
    found = difference(simulated("mlp_pipeline"), simulated("mlp_pipeline"))
    assert found.left == found.right
    assert found.parting == (None, None)
    assert found.shared > 0
    assert found.speedup == 1


def test_what_a_pipeline_changes():
    sequential, pipeline = simulated("mlp_sequential"), simulated("mlp_pipeline")
    found = difference(sequential, pipeline)
    assert found.left.latency_s == sequential.latency_s
    assert found.right.peak_memory_bytes.keys() == {1, 2}
    assert found.left.communication_bytes == {}
    assert found.right.messages["send"] > 0
    assert found.right.total_communication_bytes == sum(found.right.communication_bytes.values()) > 0
    assert found.right.most_memory_bytes < found.left.most_memory_bytes
    assert any(event is not None for event in found.parting)


def test_the_paths_part_at_the_first_event_that_differs():
    text = (EXAMPLES / "mlp_sequential.dir").read_text()
    changed = text.replace("%w1_new = Optimizer", "%w1_new = SGD")
    found = difference(distir.simulate(distir.parse(text)), distir.simulate(distir.parse(changed)))
    left, right = found.parting
    assert (left.statement.op, right.statement.op) == ("Optimizer", "SGD")


def test_a_program_that_takes_no_time_has_no_speedup():
    empty = distir.simulate(distir.parse("func @f(%x: Float32[1]) {\n  return %x\n}"))
    assert math.isnan(difference(empty, empty).speedup)
