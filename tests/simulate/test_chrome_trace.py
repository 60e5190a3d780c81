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
from thorough import most_examples

import distir
from distir.analysis import check
from distir.models import mlp
from distir.simulate import simulate
from distir.syntax import parse, print_statement

MACHINE = machine()
quick = settings(
    max_examples=most_examples(40), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

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
    """As Perfetto reads them: whatever is beyond a whole number of these is dropped."""
    assert abs(microseconds * 1000 - round(microseconds * 1000)) < 1e-3
    assert int(microseconds * 1000) == round(microseconds * 1000)
    return int(microseconds * 1000)


def lanes(records):
    """By thread: its device and its name; what names processes and threads, and their order, is checked."""
    named = defaultdict(dict)
    for record in records:
        if record["ph"] == "M":
            kind, what = record["name"].split("_", 1)
            key = record["pid"] if kind == "process" else (record["pid"], record["tid"])
            value = record["args"][{"name": "name", "sort_index": "sort_index"}[what]]
            assert named[kind, what].setdefault(key, value) == value, "nothing has two names"
    processes = {pid: int(re.fullmatch(r"device (\d+)", name)[1]) for pid, name in named["process", "name"].items()}
    assert len({*processes.values()}) == len(processes)
    assert named["process", "sort_index"] == processes, "in the order of devices"
    found = {tid: (processes[pid], name) for (pid, tid), name in named["thread", "name"].items()}
    assert len(found) == len(named["thread", "name"]), "viewers know threads by their number, of whichever process"
    assert len({*found.values()}) == len(found)
    assert 0 not in found, "that is the idle thread"
    places = [(processes[pid], named["thread", "sort_index"][pid, tid]) for pid, tid in named["thread", "name"]]
    assert len({*places}) == len(places)
    return found


def valid(records):
    """Check every rule of the format that viewers rely on; gives the slices of ops by thread."""
    slices, flows, counters = defaultdict(list), defaultdict(list), defaultdict(list)
    calls, reached, passes = defaultdict(list), defaultdict(int), defaultdict(list)
    threads, owner = lanes(records), {}
    for record in records:
        assert record["ph"] in {"M", "X", "B", "E", "s", "t", "f", "C"}
        assert isinstance(record["name"], str)
        assert record["name"]
        assert (type(record["pid"]), type(record["tid"])) == (int, int)
        if record["ph"] == "M":
            continue
        assert number(record["ts"])
        assert owner.setdefault(record["tid"], record["pid"]) == record["pid"]
        if record["ph"] in "XBE":
            assert nanoseconds(record["ts"]) >= reached[record["tid"]], "slices of a thread come in order"
            reached[record["tid"]] = nanoseconds(record["ts"]) + nanoseconds(record.get("dur", 0))
        if record["ph"] == "B":
            assert record["name"].startswith("@")
            assert record["args"]["calls"].endswith(record["name"])
            calls[record["tid"]].append(record["name"])
        elif record["ph"] == "E":
            assert calls[record["tid"]].pop() == record["name"], "calls lie one in another"
        elif record["ph"] == "X" and threads[record["tid"]][1] == "passes":
            passes[threads[record["tid"]][0]].append(record)
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
            counters[record["pid"], record["name"]].append(record["ts"])
        else:
            assert record["ph"] != "f" or record["bp"] == "e"
            assert type(record["id"]) is int, "Perfetto takes no other"
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
        assert len({(step["name"], step["cat"]) for step in steps}) == 1
        assert len({step["tid"] for step in steps}) == len(steps)
        times = [step["ts"] for step in steps]
        assert times == sorted(times)
        for step in steps:
            at = nanoseconds(step["ts"])
            inside = [r for start, end, r in slices[step["tid"]] if start <= at < end]
            assert len(inside) == 1, "each end of a flow is in one slice"
            assert inside[0]["cat"].startswith("communication")
    for device, own in passes.items():
        ops = [r for tid, rs in slices.items() if threads[tid] == (device, "compute") for r in rs]
        assert all(one["ts"] + one["dur"] <= other["ts"] + 1e-6 for one, other in pairwise(own))
        for _, _, op in ops:
            if op["cat"].startswith("communication"):
                continue  # a transfer may come before the pass that it is for
            said = {name: op["args"][name] for name in ("phase", "microbatch") if name in op["args"]}
            around = [p for p in own if p["ts"] <= op["ts"] <= op["ts"] + op["dur"] <= p["ts"] + p["dur"] + 1e-6]
            assert not said or any(said.items() <= p["args"].items() for p in around), "an op is in its pass"
    return slices, flows


def imported(records):
    """Go through a trace as Perfetto does, in the order of time; gives the slices that each arrow leads through.

    As SliceTracker and FlowTracker of its trace processor do for JSON: what has ended leaves the stack of its thread,
    an end closes the slice of its name, and an arrow is bound to the innermost slice that is open.
    """
    stacks, arrows = defaultdict(list), defaultdict(list)
    for record in sorted((r for r in records if r["ph"] not in "MC"), key=lambda r: nanoseconds(r["ts"])):
        at, stack = nanoseconds(record["ts"]), stacks[record["tid"]]
        while stack and stack[-1][0] is not None and stack[-1][0] <= at:
            stack.pop()
        if record["ph"] == "B":
            stack.append((None, record))
        elif record["ph"] == "E":
            _, begun = stack.pop()
            assert (begun["ph"], begun["name"], begun["cat"]) == ("B", record["name"], record["cat"])
        elif record["ph"] == "X":
            end = at + nanoseconds(record["dur"])
            assert not stack or stack[-1][0] is None, "an op is in no other op, nor a pass in another pass"
            stack.append((end, record))
        else:
            arrows[record["id"]].append(stack[-1][1])
    assert not [begun for stack in stacks.values() for end, begun in stack if end is None]
    return arrows


@quick
@given(st.integers(0, 2**32))
def test_traces_of_random_programs_are_valid(folder, seed):
    module = random_module(random.Random(seed))
    assume(not check(module).errors)
    simulation = simulate(module, MACHINE)
    records = written(simulation, folder)
    slices, _ = valid(records)
    for through in imported(records).values():
        assert len({record["args"]["statement"] for record in through}) == 1, "all of one transfer"
        assert len({record["tid"] for record in through}) == len(through) > 1
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
    assert lanes(records) == {2: (1, "compute"), 3: (2, "compute")}
    assert [r["name"] for _, _, r in slices[2]] == ["MatMul", "Relu", "Send", "MPIBroadcast", "MPIAllreduce"]
    assert slices[2][0][2]["args"]["calls"] == "@main › %a = @stage"
    assert slices[2][0][2]["args"]["place"] == "pipeline.dir:0"
    ends = {steps[0]["name"]: (steps[0]["tid"], steps[-1]["tid"]) for steps in flows.values()}
    assert ends == {"send": (2, 3), "broadcast": (3, 2), "allreduce": (2, 3)}
    broadcast = slices[2][3][2]["args"]
    assert [(w["device"], w["for"]) for w in broadcast["waits"]] == [(1, "Relu %y")]
    total = sum(wait["us"] for _, _, r in [*slices[2], *slices[3]] for wait in r["args"].get("waits", ()))
    assert total > 0
    assert {(r["pid"], r["name"]) for r in records if r["ph"] == "C"} == {(2, "memory"), (3, "memory")}


@pytest.mark.parametrize("device", [1, 2])
def test_counters_reach_the_peaks(folder, device):
    simulation = simulate(parse(PIPELINE).module, MACHINE)
    own = [r for r in written(simulation, folder) if (r["pid"], r["name"]) == (device + 1, "memory")]
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
        if record["ph"] == "X" and "statement" in own:
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
        work = Counter(number for s, _, number in own if number is not None and " = Sum(" not in s)
        assert set(work) == set(range(1, count + 1))
        assert len(set(work.values())) == 1, "every microbatch is as much work, but for the sums over those before it"
        assert all(phase == "optimizer" for s, phase, _ in own if " = SGD(" in s)
        passes = [(name, phase, number) for name, phase, number in calls[thread] if name.startswith("@stage_")]
        for name, phase, _ in passes:
            expected = {"forward": "forward", "backward": "backward", "weight": "weight"}
            assert phase == expected[re.search(r"_(forward|backward|weight)", name)[1]]
        numbers = defaultdict(list)
        for name, _, number in passes:
            numbers[name.replace("_accumulate", "")].append(number)
        assert all(sorted(found) == list(range(1, count + 1)) for found in numbers.values())
        assert all((phase, number) == (None, None) for name, phase, number in calls[thread] if "round" in name)


def test_the_passes_of_a_pipeline_are_slices_of_their_own(folder):
    """The drawing of a schedule: what each device does, in order."""
    module = distir.transform(mlp(4, 8, 64, training=True), "pp=2", "microbatches=4")
    records = written(distir.simulate(module), folder)
    imported(records)
    threads = lanes(records)
    passes = defaultdict(list)
    for record in records:
        if record["ph"] == "X" and threads[record["tid"]][1] == "passes":
            passes[threads[record["tid"]][0]].append(record["name"])
    assert dict(passes) == {
        1: ["forward", "F 1", "F 2", "B 1", "F 3", "B 2", "F 4", "B 3", "B 4", "optimizer"],
        2: ["forward", "F 1", "B 1", "F 2", "B 2", "F 3", "B 3", "F 4", "B 4", "optimizer"],
    }


def test_streams_are_threads_of_their_device(folder):
    """Each with its own slices, which run beside those of the compute stream."""
    module = distir.transform(mlp(4, 8, 64, training=True), "dp=2", "overlap=gradients")
    records = written(distir.simulate(module), folder)
    slices, _ = valid(records)
    for through in imported(records).values():
        assert {record["pid"] for record in through} == {2, 3}
    threads = lanes(records)
    names = {name for device, name in threads.values() if device == 1}
    assert {"passes", "compute"} < names
    (own,) = (tid for tid, found in threads.items() if found == (1, (names - {"passes", "compute"}).pop()))
    assert {record["name"] for _, _, record in slices[own]} == {"MPIAllreduce"}
    beside = [r for first, last, r in slices[2] for a, b, _ in slices[own] if a < last and first < b]
    assert beside, "the sums overlap with what computes"


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
