"""The rule of hosts and streams: what is composed is what the oracle says, event by event, and what follows from it."""

import json
import random
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import patch

import pytest
from event_queue import starts_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import oracle, same, seconds
from simulate_samples import (
    inlined,
    interleaved,
    machine,
    random_module,
    random_rounds,
    with_hosts,
    with_kernels,
    with_representatives,
    with_streams,
)
from thorough import most_programs

from distir import parse
from distir.analysis import check
from distir.cost import load
from distir.cost.host import Host
from distir.ir import Module
from distir.models import named
from distir.simulate import intervals, simulate
from distir.simulate.algebra import clocks
from distir.simulate.effects import Effect, to_seconds
from distir.simulate.page.answers import timeline_of
from distir.transform import transform

PROGRAMS = most_programs(100)
"""Random programs per law."""

MACHINE = machine(more=4)
"""With devices that others represent."""
HOSTS = (Host(), Host(1.5e-6), Host(4e-6), Host(3e-5), Host(blocking=True), Host(4e-6, waits_for_sends=True))

law = settings(max_examples=2 * PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def without_streams(module):
    """The program with all on the compute stream."""
    plain = [tuple(replace(s, stream="") if hasattr(s, "stream") else s for s in f.body) for f in module]
    return Module(replace(f, body=body) for f, body in zip(module, plain, strict=True))


@st.composite
def modules(draw, streams=True, kernels=True):
    """A random program with streams, calls, kernels, and devices that represent others."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    first = rng.choice([0, 1])
    if rng.random() < 0.4:
        module = random_rounds(rng, first)
    else:
        module = random_module(rng, first, statements=rng.choice([5, 12, 20]))
    assume(not check(module).errors)
    if kernels and rng.random() < 0.3:
        module = with_kernels(module)
    module = with_representatives(rng, module)
    if not streams:
        return module
    return with_streams(rng, module, rng.choice([0.2, 0.5, 0.9]), rng.choice([("side", "third"), ("side",)]))


@st.composite
def machines(draw, interference=True):
    hosts = draw(st.one_of(st.just([Host()]), st.lists(st.sampled_from(HOSTS), min_size=2, max_size=2)))
    if not interference:
        return with_hosts(MACHINE, *hosts)
    share, begin = draw(st.sampled_from([0.0, 0.0, 0.1, 0.7])), draw(st.sampled_from([0.0, 2e-6]))
    return with_hosts(MACHINE, *hosts, interference=share, begin=begin)


@pytest.mark.parametrize("rows", [True, False], ids=["by rows", "step by step"])
@law
@given(modules(), machines())
def test_a_program_runs_as_the_oracle_says_and_as_its_inlined_body_does(rows, module, hardware):
    """As the oracle says, which goes through its ops in order, and as a heap of events, which goes through time."""
    with nullcontext() if rows else patch.object(clocks, "_rows", lambda *_: None):
        _runs_as_the_oracle_says(module, hardware)


def _runs_as_the_oracle_says(module, hardware):
    flat = module if any(function.kernel for function in module) else inlined(module)
    expected = oracle(module, hardware)
    assert starts_of(expected.events) == (expected.starts, max(expected.clocks.values(), default=0))
    for program in (module, flat):
        found = simulate(program, hardware)
        same(found, expected)
        assert (found.bubble, found.exposed_communication, found.host_bound) == pytest.approx(
            expected.shares(), rel=1e-12
        )
        timeline = found.timeline()
        for number, event in enumerate(timeline.events()):
            assert (event.start, timeline.spare(number)) == (timeline.starts[number], expected.slack[number])
            assert (event.op, event.statement.stream) == (expected.events[number].name, expected.events[number].stream)


def test_the_programs_have_all_that_the_rule_speaks_of():
    drawn: Counter = Counter()

    @settings(law, max_examples=80)
    @given(modules())
    def draw(module):
        statements = [statement for function in module for statement in function.body]
        drawn.update({getattr(statement, "stream", "") for statement in statements})
        drawn.update({getattr(statement, "op", "a call") for statement in statements})
        drawn.update({"a kernel" for function in module if function.kernel})

    draw()
    assert min(drawn[each] for each in ("side", "third", "a call", "a kernel", "GroupAllreduce", "MPIAllreduce")) > 3


def laid_aside(expected):
    """By stream that statements name: its seconds on all devices, and those in which another stream there computes."""
    found: dict = {}
    runs = [(event, start, start + event.ticks) for event, start in zip(expected.events, expected.starts, strict=True)]
    for own, start, end in runs:
        for device in own.devices if own.stream else ():
            beside = [(max(start, a), min(end, b)) for other, a, b in runs if device in other.devices
                      and other.stream != own.stream and not other.communicates]  # fmt: skip
            hidden, last = 0, start
            for a, b in sorted(beside):
                hidden += max(0, b - max(a, last))
                last = max(last, b)
            busy, before = found.get(own.stream, (0, 0))
            found[own.stream] = busy + own.ticks, before + hidden
    return {name: tuple(map(seconds, ticks)) for name, ticks in found.items()}


@law
@given(modules(), machines())
def test_what_a_stream_hides(module, hardware):
    found = simulate(module, hardware).timeline().named_streams
    assert {name: (stream.busy_s, stream.hidden_s) for name, stream in found.items()} == laid_aside(
        oracle(module, hardware)
    )


@law
@given(modules(), machines())
def test_memory_is_what_the_oracle_says(module, hardware):
    expected, simulation = oracle(module, hardware), simulate(module, hardware)
    profile, highest = simulation.memory(), {}
    for point in profile.points():
        assert point.nbytes >= 0
        highest[point.memory] = max(highest.get(point.memory, 0), point.nbytes)
    for memory, peak in expected.peaks.items():
        nbytes, event, live = profile.peak(memory)
        temporary = simulation.timeline().effects[event].temporary if event is not None else ()
        assert highest.get(memory, 0) == nbytes == peak
        assert sum(value.nbytes for value in live) + dict(temporary).get(memory, 0) == peak
        for limit in {0, peak // 2, max(0, peak - 1)}:
            over = profile.first_over(memory, limit)
            first = next((event for event, use in expected.use[memory] if use > limit), "never")
            assert (over[0] if over is not None else "never") == first


@law
@given(modules(), machines(), st.integers(0, 2**32))
def test_the_order_of_text_between_devices_says_nothing(module, hardware, seed):
    """Each device's statements stay in their order: no time changes, nor what any memory holds at most."""
    written, other = (simulate(each, hardware) for each in (module, interleaved(random.Random(seed), module)))
    assert other.devices == written.devices
    assert (other.latency_s, other.peaks) == (written.latency_s, written.peaks)


@law
@given(modules())
def test_overlap_never_slows_a_program_down_and_hosts_never_speed_it_up(module):
    plain = without_streams(module)
    alone, overlapped = simulate(plain, MACHINE), simulate(module, MACHINE)
    assert overlapped.latency_s <= alone.latency_s
    before = overlapped.latency_s
    for host in (Host(1e-6), Host(5e-6), Host(4e-5)):
        after = simulate(module, with_hosts(MACHINE, host)).latency_s
        assert after >= before
        before = after


@law
@given(modules())
def test_where_hosts_wait_a_device_does_one_op_after_the_other(module):
    found = simulate(module, with_hosts(MACHINE, Host(blocking=True)))
    plain = without_streams(module)
    assert found.latency_s == simulate(plain, MACHINE).latency_s
    timeline, busy = found.timeline(), Counter()
    for event in timeline.events():
        busy.update(dict.fromkeys(event.effect.devices, event.effect.ticks))
    assert {device: to_seconds(ticks) for device, ticks in busy.items()} == timeline.busy


EAGER = """
func @main(%x: Tensor[Float32, (64, 64), 0], %y: Tensor[Float32, (64, 64), 1]) {
  %a = Relu(%x)
  %r, %s = MPIAllreduce(%x, %y) on reduce
  %b = Relu(%a)
  %c = Add(%b, %r)
  return %c
}
"""


def test_what_waits_for_the_host_is_said(tmp_path):
    hardware = with_hosts(MACHINE, Host(1e-3))
    found = simulate(parse(EAGER), hardware)
    assert 0.5 < found.host_bound < 1
    assert all(wait.blocker is None for wait in found.timeline().waits if wait.event in (0, 2))
    path = tmp_path / "trace.json"
    found.to_chrome_trace(path)
    records = json.loads(path.read_text())["traceEvents"]
    names = {(r["pid"] - 1, r["args"]["name"]): r["tid"] for r in records if r["name"] == "thread_name"}
    assert names.keys() == {(d, lane) for d in (0, 1) for lane in ("compute", "stream reduce", "host")}
    assert len({*names.values()}) == 6
    issued = [r for r in records if r.get("cat") == "issue" and r["tid"] == names[0, "host"]]
    assert [(r["name"], r["ts"], r["dur"]) for r in issued] == [
        (name, 1000.0 * number, 1000.0) for number, name in enumerate(["Relu", "MPIAllreduce", "Relu", "Add"])
    ]


@law
@given(modules(), machines())
def test_a_host_issues_one_op_after_the_other_and_none_starts_before(module, hardware):
    simulation = simulate(module, hardware)
    timeline = simulation.timeline()
    view = timeline_of(simulation, lambda site: None)
    lanes = {lane.device: lane for lane in view.hosts}
    hosts = {device: hardware.kind(place).host for device, place in hardware.place(simulation.devices).items()}
    assert all(host.issue or host.blocking for host in map(hosts.__getitem__, lanes))
    for device, lane in lanes.items():
        bars = iter(zip(lane.event.tolist(), lane.start_s, lane.end_s, strict=True))
        free = 0.0
        for event in timeline.events():
            if device not in event.effect.devices:
                continue
            waits = hosts[device].waits(event.effect.work)
            if waits and event.end == free:
                continue
            if event.effect.op == "After" and not waits:
                continue  # a stream waits, which takes the host no time
            index, begin, end = next(bars)
            assert (index, begin) == (event.index, free)
            if waits:
                assert end == event.end
            else:
                assert end - begin == pytest.approx(hosts[device].issue)
                assert end <= event.start
            free = end
        assert next(bars, None) is None
    if not lanes:
        assert not any(
            host.issue or host.blocking for device, host in hosts.items() if simulation.devices[device].busy_s
        )


def test_a_machine_whose_hosts_take_no_time_has_no_lanes_of_hosts(tmp_path):
    found = simulate(parse(EAGER), MACHINE)
    assert timeline_of(found, lambda site: None).hosts == ()
    found.to_chrome_trace(tmp_path / "trace.json")
    assert "host" not in (tmp_path / "trace.json").read_text()


def test_an_all_reduce_in_place_on_a_stream_has_no_second_copy():
    x = 64 * 64 * 4
    program = EAGER.replace("%x: ", "%w: ").replace(" {\n  %a = Relu(%x)", " {\n  %x = Neg(%w)\n  %a = Relu(%w)")
    beside = simulate(parse(program), MACHINE).peaks
    alone = simulate(parse(program.replace(" on reduce", "")), MACHINE).peaks
    assert beside == alone
    assert max(beside.values()) <= 4 * x


@pytest.mark.parametrize("host", [Host(), Host(1e-9), Host(3e-5)])
def test_calls_are_followed_once_for_all_starts_from_which_they_do_the_same(monkeypatch, host):
    """What streams do in 64 equal layers takes time for few of them, and is what the oracle says."""
    calls = "\n  ".join(f"%x{i + 1} = @layer(%x{i})" for i in range(64))
    module = parse(
        "func @layer(%x) {\n  %h = MatMul(%x, %x)\n  %s = Relu(%h) on side\n  %t = MatMul(%s, %x) on side\n"
        "  %y = Relu(%h)\n  return %y\n}\n"
        f"func @main(%x0: Tensor[Float32, (256, 256), 1]) {{\n  {calls}\n  return %x64\n}}"
    )
    hardware = with_hosts(MACHINE, host, host)
    followed: list = []
    run = intervals.IntervalRuns.run

    def counted(self, body, start, given):
        followed.extend(step for step in body.steps if isinstance(step, Effect))
        return run(self, body, start, given)

    monkeypatch.setattr(intervals.IntervalRuns, "run", counted)
    found = simulate(module, hardware)
    assert (found.bubble, found.exposed_communication, found.host_bound) == pytest.approx(
        oracle(module, hardware).shares(), rel=1e-12
    )
    assert 0 < len(followed) < found.ops / 4


def test_calls_are_alike_whether_or_not_others_wait_for_what_they_make_on_a_stream():
    """One body serves a call whose result on `side` the compute stream uses, and one of which `side` alone does."""
    module = parse(
        "func @layer(%x) {\n  %s = Relu(%x) on side\n  %y = MatMul(%x, %x)\n  return %s, %y\n}\n"
        "func @main(%x: Tensor[Float32, (256, 256), 1]) {\n  %a, %b = @layer(%x)\n  %c, %d = @layer(%x)\n"
        "  %e = MatMul(%a, %b)\n  %f = Relu(%c) on side\n  %g = MatMul(%d, %x)\n  return %e, %f, %g\n}"
    )
    found, expected = simulate(module, MACHINE), oracle(module, MACHINE)
    first, second, *_ = found.body.steps
    assert first is second
    assert found.timeline().starts.tolist() == [seconds(start) for start in expected.starts]


@law
@given(modules(), machines())
def test_clocks_end_alike_whether_streams_are_followed_before_or_not(module, hardware):
    before, after = simulate(module, hardware).timeline(), simulate(module, hardware).timeline()
    busy, latency = before.busy, after.latency  # which follows the streams first, and which runs the calls
    assert (busy, before.latency, before.clocks) == (after.busy, latency, after.clocks)


def test_a_training_step_whose_gradients_are_summed_beside_the_backward_pass_of_several_microbatches():
    """Rounds of a pipeline of one stage: each adds gradients to sums that the one before it left pending."""
    sizes = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocabulary": 64}
    step = transform(named("llama3-8b", 8, 8, **sizes), "grad", "optimizer=adamw", "precision=mixed")
    module = transform(step, "dtp=2,1,1", "microbatches=4", "overlap", "fuse")
    found = simulate(module, "dgx-h100")
    same(found, oracle(module, load("dgx-h100")))
    assert found.latency_s >= max(use.busy_s for use in found.devices.values())


def test_what_a_stream_makes_for_nobody_takes_its_time():
    module = parse("""
        func @layer(%x) {
          %s = Relu(%x) on side
          return %s
        }
        func @unused(%x) {
          %s = @layer(%x)
          return
        }
        func @main(%x: Tensor[Float32, (256, 256), 1]) {
          @unused(%x)
          @unused(%x)
          return
        }
    """)
    found = simulate(module, MACHINE)
    assert found.latency_s > 0
    same(found, oracle(module, MACHINE))


def test_memory_that_a_call_leaves_pending_is_freed_once():
    """The last `@shared` waits for what the first one left: of that, one storage took over the memory of another."""
    module = parse("""
        func @shared(%x) {
          %a, %b = MPIBroadcast[devices = [1, 4]](%x)
          %c, %d = MPIAllreduce(%b, %a) on side
          return %d
        }
        func @main(%x: Tensor[Float32, (64, 64), 1]) {
          %v = Constant[value = 2.0]()
          %a = @shared(%v)
          %b = @shared(%a)
          %c = @shared(%a)
          return
        }
    """)
    same(simulate(module, MACHINE), oracle(module, MACHINE))


def test_one_body_serves_calls_that_differ_in_what_their_streams_have_waited_for():
    """The second call finds that the copy stream has waited for `%g`. That it waits again changes nothing."""
    module = parse("""
        func @main(%x: Tensor[Float32, (256, 256), 1]) {
          %g = Relu(%x)
          %a = @sent(%g)
          %b = @sent(%g)
          return %g, %a, %b
        }
        func @sent(%x: Tensor[Float32, (256, 256), 1]) {
          %y = Relu(%x) on copy
          return %y
        }
    """)
    found = simulate(module, MACHINE)
    _, first, second, _ = found.body.steps
    assert first is second
    same(found, oracle(module, MACHINE))
    assert found.timeline().starts == simulate(inlined(module), MACHINE).timeline().starts


@pytest.mark.parametrize(
    "words",
    [
        ("pp=4", "microbatches=6"),
        ("pp=2", "microbatches=4", "schedule=interleaved", "virtual=2"),
        ("dtp=2,1,3", "microbatches=4", "representative=true", "zero=1", "partition=split"),
    ],
)
def test_pipelines_take_what_they_take_in_whichever_order_their_devices_stand(words):
    sizes = {"layers": 8, "width": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocabulary": 64}
    step = transform(named("llama3-8b", 24, 8, **sizes), "grad", "optimizer=sgd", *words, "overlap")
    written = simulate(step, "dgx-h100")
    same(written, oracle(step, load("dgx-h100")), events=False)
    for seed in range(3):
        other = simulate(interleaved(random.Random(seed), step), "dgx-h100")
        assert (other.latency_s, other.peaks) == (written.latency_s, written.peaks)


def test_what_is_sent_is_held_until_its_device_sends_again_on_that_stream():
    """The receiver uses it much later, or before; the sender's memory is the same, in a call too."""
    x = 64 * 64 * 4
    module = parse("""
        func @step(%x) {
          %y = Relu(%x)
          %s = Send[device = 2](%y) on copy
          return %s
        }
        func @main(%x: Tensor[Float32, (64, 64), 1]) {
          %a = @step(%x)
          %b = @step(%x)
          %z = Relu(%x)
          %c = @step(%z)
          %used = Add(%a, %b)
          %all = Add(%used, %c)
          return %all
        }
    """)
    main = module.functions["main"]
    earlier = tuple(main.body[i] for i in (0, 1, 4, 2, 3, 5, 6))
    other = Module([module.functions["step"], replace(main, body=earlier)])
    for program in (module, other, inlined(module)):
        found = simulate(program, MACHINE)
        same(found, oracle(program, MACHINE))
        assert found.peaks[0] == 4 * x  # the parameter, what the second call sends, what the third reads, and its own
