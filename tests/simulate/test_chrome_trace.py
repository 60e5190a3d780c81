"""The Chrome trace is what its viewers expect, for random programs."""

import json
import random
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module

import distir
from distir.analysis import check
from distir.models import mlp
from distir.simulate import simulate
from distir.syntax import parse, print_statement

MACHINE = machine()
quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

PIPELINE = """
func @stage(%x, %w) {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @main(%w1: Tensor[Float32, (8, 8), 1], %w2: Tensor[Float32, (8, 8), 2], %x: Tensor[Float32, (4, 8), 1]) {
  %a = @stage(%x, %w1)
  %b = Send[device = 2](%a)
  %c = @stage(%b, %w2)
  %d_1, %d_2 = MPIBroadcast[devices = [1, 2]](%c)
  %e_1, %e_2 = MPIAllreduce(%d_1, %d_2)
  return %e_1, %e_2
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traces")


def written(simulation, folder, **options):
    path = folder / "trace.json"
    simulation.to_chrome_trace(path, **options)
    assert [p.name for p in folder.iterdir()] == ["trace.json"], "nothing else is left behind"
    return json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)["traceEvents"]


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def nanoseconds(microseconds):
    """Exact: what the file holds is a whole number of these."""
    assert abs(microseconds * 1000 - round(microseconds * 1000)) < 1e-3
    return round(microseconds * 1000)


def valid(records):
    """Check every rule of the format that viewers rely on; gives the slices by thread."""
    slices, flows, counters, threads = defaultdict(list), defaultdict(list), defaultdict(list), {}
    calls, reached = defaultdict(list), defaultdict(int)
    for record in records:
        assert record["ph"] in {"M", "X", "B", "E", "s", "t", "f", "C"}
        assert isinstance(record["name"], str)
        assert record["name"]
        assert (type(record["pid"]), type(record["tid"])) == (int, int)
        assert record["pid"] == 1
        if record["ph"] == "M":
            assert record["name"] in {"process_name", "thread_name", "thread_sort_index"}
            if record["name"] == "thread_name":
                assert record["tid"] not in threads
                threads[record["tid"]] = record["args"]["name"]
            continue
        assert number(record["ts"])
        if record["ph"] in "XBE":
            assert nanoseconds(record["ts"]) >= reached[record["tid"]], "slices of a thread come in order"
            reached[record["tid"]] = nanoseconds(record["ts"]) + nanoseconds(record.get("dur", 0))
        if record["ph"] == "B":
            assert record["name"].startswith("@")
            assert record["args"]["calls"].endswith(record["name"])
            calls[record["tid"]].append(record["name"])
        elif record["ph"] == "E":
            assert calls[record["tid"]].pop() == record["name"], "calls lie one in another"
        elif record["ph"] == "X":
            path = [f"@{name}" for name in re.findall(r"@(\S+)", record["args"].get("calls", ""))[1:]]
            assert calls[record["tid"]] == path, "an op lies in the slices of the calls that lead to it"
            assert number(record["dur"])
            assert isinstance(record["args"]["statement"], str)
            start = nanoseconds(record["ts"])
            slices[record["tid"]].append((start, start + nanoseconds(record["dur"]), record))
        elif record["ph"] == "C":
            assert list(record["args"]) == ["bytes"]
            assert type(record["args"]["bytes"]) is int
            assert record["args"]["bytes"] >= 0
            counters[record["name"]].append(record["ts"])
        else:
            assert record["ph"] != "f" or record["bp"] == "e"
            flows[record["id"]].append(record)
    assert set(slices) <= set(threads)
    assert not any(calls.values()), "every call ends"
    for own in slices.values():
        for (start, end, _), (following, _, _) in pairwise(own):
            assert start <= end <= following, "slices of a thread come in order and do not overlap"
    for times in counters.values():
        assert times == sorted(times)
    for steps in flows.values():
        phases = [step["ph"] for step in steps]
        assert phases == ["s", *["t"] * (len(steps) - 2), "f"], "a flow starts once and ends once"
        assert len({step["name"] for step in steps}) == 1
        assert len({step["tid"] for step in steps}) == len(steps)
        times = [step["ts"] for step in steps]
        assert times == sorted(times)
        for step in steps:
            at = nanoseconds(step["ts"])
            inside = [r for start, end, r in slices[step["tid"]] if start <= at < end]
            assert len(inside) == 1, "each end of a flow is in one slice"
            assert inside[0]["cat"].startswith("communication")
    return slices, flows


@quick
@given(st.integers(0, 2**32))
def test_traces_of_random_programs_are_valid(folder, seed):
    module = random_module(random.Random(seed))
    assume(not check(module).errors)
    simulation = simulate(module, MACHINE)
    slices, _ = valid(written(simulation, folder))
    timeline = simulation.timeline()
    assert sum(map(len, slices.values())) == sum(len(e.devices) for e in timeline.effects)
    expected = {d + 1: [e for e in timeline.events() if d in e.effect.devices] for d in simulation.devices}
    for thread, own in slices.items():
        for (start, end, record), event in zip(own, expected[thread], strict=True):
            assert start == pytest.approx(event.start * 1e9, abs=0.51)
            assert end == pytest.approx(event.end * 1e9, abs=0.51)
            assert record["name"] == event.statement.op
            assert record["args"]["statement"] == print_statement(event.statement)
            assert record["args"]["duration_us"] == event.effect.cost.seconds * 1e6


def test_the_trace_of_a_pipeline(folder):
    simulation = simulate(parse(PIPELINE).module, MACHINE)
    places = {}

    def locate(site):
        places[site] = f"pipeline.dir:{site.index}"
        return places[site]

    records = written(simulation, folder, locate=locate)
    slices, flows = valid(records)
    names = {r["tid"]: r["args"]["name"] for r in records if r["name"] == "thread_name"}
    assert names == {2: "device 1", 3: "device 2"}
    assert [r["name"] for _, _, r in slices[2]] == ["MatMul", "Relu", "Send", "MPIBroadcast", "MPIAllreduce"]
    assert slices[2][0][2]["args"]["calls"] == "@main › %a = @stage"
    assert slices[2][0][2]["args"]["place"] == "pipeline.dir:0"
    ends = {steps[0]["name"]: (steps[0]["tid"], steps[-1]["tid"]) for steps in flows.values()}
    assert ends == {"send": (2, 3), "broadcast": (3, 2), "allreduce": (2, 3)}
    broadcast = slices[2][3][2]["args"]
    assert [(w["device"], w["for"]) for w in broadcast["waits"]] == [(1, "Relu %y")]
    total = sum(wait["us"] for _, _, r in [*slices[2], *slices[3]] for wait in r["args"].get("waits", ()))
    assert total > 0
    counters = {r["name"] for r in records if r["ph"] == "C"}
    assert counters == {"memory of device 1", "memory of device 2"}


@pytest.mark.parametrize("device", [1, 2])
def test_counters_reach_the_peaks(folder, device):
    simulation = simulate(parse(PIPELINE).module, MACHINE)
    own = [r for r in written(simulation, folder) if r["name"] == f"memory of device {device}"]
    assert max(r["args"]["bytes"] for r in own) == simulation.devices[device].peak_memory_bytes


def test_the_same_simulation_gives_the_same_file(tmp_path):
    paths = [tmp_path / "first.json", tmp_path / "second.json"]
    for path in paths:
        simulate(parse(PIPELINE).module, MACHINE).to_chrome_trace(path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second


def test_a_trace_that_fails_leaves_no_file(folder, tmp_path):
    def fail(site):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        simulate(parse(PIPELINE).module, MACHINE).to_chrome_trace(tmp_path / "t.json", fail)
    assert not list(tmp_path.iterdir())


def known(records):
    """By thread: the statement, phase and microbatch of each op; and the same of each call, by name."""
    ops, calls = defaultdict(list), defaultdict(list)
    for record in records:
        own = record.get("args", {})
        if record["ph"] == "X":
            ops[record["tid"]].append((own["statement"], own.get("phase"), own.get("microbatch")))
        elif record["ph"] == "E":
            calls[record["tid"]].append((record["name"], own.get("phase"), own.get("microbatch")))
    return ops, calls


STEPS = {
    "1f1b": ("pp=2", "microbatches=4"),
    "zb-h1": ("pp=2", "microbatches=4", "schedule=zb-h1"),
    "rounds": ("pp=2", "microbatches=16"),
    "replicas": ("pp=2", "microbatches=4", "dp=2"),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_ops_and_calls_of_a_pipeline_say_phase_and_microbatch(folder, steps):
    module = distir.transform(mlp(4, 8, 64, training=True), *steps)
    simulation = distir.simulate(module)
    records = written(simulation, folder)
    valid(records)
    count = int(re.search(r"microbatches=(\d+)", " ".join(steps))[1])
    ops, calls = known(records)
    for thread, own in ops.items():
        assert {phase for _, phase, _ in own} >= {"forward", "backward", "optimizer"} - (
            {"backward"} if "schedule=zb-h1" in steps and thread == 2 else set()
        )
        work = Counter(number for _, _, number in own if number is not None)
        assert set(work) == set(range(1, count + 1))
        assert len(set(work.values())) == 1, "every microbatch is as much work"
        assert all(phase == "optimizer" for s, phase, _ in own if " = SGD(" in s)
        passes = [(name, phase, number) for name, phase, number in calls[thread] if name.startswith("@stage_")]
        for name, phase, _ in passes:
            expected = {"forward": "forward", "backward": "backward", "weight": "weights"}
            assert phase == expected[re.search(r"_(forward|backward|weight)", name)[1]]
        numbers = defaultdict(list)
        for name, _, number in passes:
            numbers[name.replace("_accumulate", "")].append(number)
        assert all(sorted(found) == list(range(1, count + 1)) for found in numbers.values())
        assert all((phase, number) == (None, None) for name, phase, number in calls[thread] if "round" in name)


def test_nothing_is_said_where_the_program_says_nothing(folder):
    """Of a forward program no phase, of replicas written by hand no microbatch."""
    ops, calls = known(written(simulate(parse(PIPELINE).module, MACHINE), folder))
    assert {said[1:] for own in (*ops.values(), *calls.values()) for said in own} == {(None, None)}
    by_hand = """
func @main(%w: Tensor[Float32, (8, 8), 1], %v: Tensor[Float32, (8, 8), 2], %x: Tensor[Float32, (4, 8), 1] {batch = 0}) {
  %x_1, %x_2 = Split[axis = 0, num_outputs = 2](%x)
  %s_2 = Send[device = 2](%x_2)
  %y_1 = MatMul(%x_1, %w)
  %y_2 = MatMul(%s_2, %v)
  return %y_1, %y_2
}
"""
    ops, _ = known(written(simulate(parse(by_hand).module, MACHINE), folder))
    assert {said[1:] for own in ops.values() for said in own} == {(None, None)}


def test_the_phases_of_a_training_step_on_one_device(folder):
    module = distir.transform(mlp(2, 8, 16), "grad", "loss=mse", "optimizer=adam")
    ops, calls = known(written(distir.simulate(module), folder))
    phases = [phase for _, phase, _ in ops[2]]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index), "one after the other"
    assert {(name.rstrip("_1"), phase) for name, phase, _ in calls[2]} == {
        ("@dense", "forward"),
        ("@denseGrad", "backward"),
    }
    assert all(phase == "optimizer" for statement, phase, _ in ops[2] if " = Adam" in statement)


def test_the_trace_of_an_empty_program(folder):
    valid(written(simulate(parse("func @main(%x: Float32[1]) { return %x }").module, MACHINE), folder))
