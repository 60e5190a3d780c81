"""Rescheduling: never slower, within memory, and honest about what no order can beat."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharding_samples import assert_same, mlp_with_tuples, small_gpt2
from thorough import most_examples

import distir
from distir.cli import main
from distir.cost import HardwareError, show_seconds
from distir.diagnostics import ProgramError
from distir.ir import Module
from distir.simulate import simulate
from distir.transform import StepError, listening, transform
from distir.transform.rescheduling.tasks import tasks_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    return distir.parse((EXAMPLES / f"{name}.dir").read_text())


def peaks(module, **options):
    return {device: use.peak_memory_bytes for device, use in simulate(module, **options).devices.items()}


def test_it_finds_the_better_order_of_figure_3():
    worse, better = example("mlp_pipeline_swapped"), example("mlp_pipeline")
    found = transform(worse, "reschedule")
    assert simulate(found).latency_s <= simulate(better).latency_s < simulate(worse).latency_s


def test_it_says_what_it_gained_and_what_no_order_can_beat():
    module = example("mlp_pipeline_swapped")
    with listening() as told:
        found = transform(module, "reschedule")
    before, after = simulate(module), simulate(found)
    busiest = max(use.busy_s for use in before.devices.values())
    (message,) = told
    assert message.startswith(f"{show_seconds(before.latency_s)} before, {show_seconds(after.latency_s)} now, ")
    gap = (after.latency_s - busiest) / after.latency_s
    assert message.endswith(f"less than {show_seconds(busiest)} (the busiest device): a gap of {gap:.1%}")
    with listening() as told:
        transform(example("mlp_sequential"), "reschedule")
    assert told[0].startswith("found nothing faster than")
    assert told[0].endswith("a gap of 0.0%")


def test_the_command_line_says_it_beside_the_program(capsys):
    assert main(["transform", "reschedule", str(EXAMPLES / "mlp_pipeline_swapped.dir")]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("reschedule: ")
    assert "a gap of" in printed.err
    assert distir.parse(printed.out)


def test_a_program_that_cannot_be_faster_stays_as_it_is():
    for name in ("mlp_sequential", "gpt2_reshape"):
        module = example(name)
        assert transform(module, "reschedule") is module


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"])
def test_pipelines_keep_their_results_and_are_never_slower(schedule):
    options = ["virtual=2"] if schedule == "interleaved" else []
    module = transform(small_gpt2(4), "grad", "loss=cross_entropy")
    pipeline = transform(module, "pp=2", "microbatches=4", f"schedule={schedule}", *options)
    found = transform(pipeline, "reschedule")
    assert simulate(found).latency_s <= simulate(pipeline).latency_s
    assert transform(found, "dce").entry().params == found.entry().params
    assert_same(module, found)


def test_calls_that_hold_several_devices_are_kept_in_order():
    module = transform(mlp_with_tuples(), "dtp=1,2,2", microbatches=4)
    found = transform(module, "reschedule")
    assert simulate(found).latency_s <= simulate(module).latency_s
    assert_same(mlp_with_tuples(), found)


# Memory

LATE = """
func @main(%w: Tensor[Float32, (512, 512), 1] {param}, %v: Tensor[Float32, (512, 512), 2] {param},
           %x: Tensor[Float32, (4096, 512), 1] {batch = 0}) {
  %x_1, %x_2, %x_3, %x_4 = Split[axis = 0, num_outputs = 4](%x)
  %a_1 = MatMul(%x_1, %w)
  %b_1 = Send[device = 2](%a_1)
  %y_1 = MatMul(%b_1, %v)
  %s_1 = ReduceSum(%y_1, [0, 1])
  %a_2 = MatMul(%x_2, %w)
  %b_2 = Send[device = 2](%a_2)
  %y_2 = MatMul(%b_2, %v)
  %s_2 = ReduceSum(%y_2, [0, 1])
  %a_3 = MatMul(%x_3, %w)
  %b_3 = Send[device = 2](%a_3)
  %y_3 = MatMul(%b_3, %v)
  %s_3 = ReduceSum(%y_3, [0, 1])
  %a_4 = MatMul(%x_4, %w)
  %b_4 = Send[device = 2](%a_4)
  %y_4 = MatMul(%b_4, %v)
  %s_4 = ReduceSum(%y_4, [0, 1])
  %s = Sum(%s_1, %s_2, %s_3, %s_4)
  %e = MatMul(%v, %v)
  return %s, %e
}
"""
"""Device 2 has nothing to do at first: it could make `%e` then, and hold it all the time."""


def test_memory_is_not_exceeded():
    module = distir.parse(LATE)
    before = peaks(module)
    free = transform(module, "reschedule")
    tight = transform(module, "reschedule", memory="1B")
    assert simulate(free).latency_s <= simulate(tight).latency_s <= simulate(module).latency_s
    assert simulate(free).latency_s < simulate(module).latency_s
    assert all(peak <= before[device] for device, peak in peaks(tight).items())


@pytest.mark.parametrize("memory", ["6MB", "7MB", "1GB"])
def test_what_is_given_may_be_used(memory):
    module = distir.parse(LATE)
    limit = {"6MB": 6e6, "7MB": 7e6, "1GB": 1e9}[memory]
    found = peaks(transform(module, "reschedule", memory=memory))
    assert all(peak <= max(limit, peaks(module)[device]) for device, peak in found.items())


# Laws


@st.composite
def programs(draw, most=14, size=300):
    """Random programs on three devices: ops of several lengths, and messages."""
    body, where = [], {"x1": 1, "x2": 2, "x3": 3}
    for number in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(["Relu", "MatMul", "Add", "Send"]))
        name = draw(st.sampled_from(sorted(where)))
        new, device = f"v{number}", where[name]
        if kind == "Send":
            target = draw(st.sampled_from([d for d in (1, 2, 3) if d != device]))
            body.append(f"%{new} = Send[device = {target}](%{name})")
            device = target
        elif kind == "Relu":
            body.append(f"%{new} = Relu(%{name})")
        else:
            other = draw(st.sampled_from(sorted(n for n, d in where.items() if d == device)))
            body.append(f"%{new} = {kind}(%{name}, %{other})")
        where[new] = device
    params = ", ".join(f"%x{d}: Tensor[Float64, ({size}, {size}), {d}]" for d in (1, 2, 3))
    returned = ", ".join(f"%{name}" for name in where if name.startswith("v"))
    return distir.parse(f"func @main({params}) {{\n" + "\n".join(body) + f"\nreturn {returned}\n}}")


@settings(max_examples=most_examples(60), deadline=None)
@given(programs())
def test_random_programs_are_never_slower_and_hold_the_same_statements(module):
    found = transform(module, "reschedule", attempts=40)
    before, after = simulate(module), simulate(found)
    assert after.latency_s <= before.latency_s
    assert sorted(map(str, found.entry().body)) == sorted(map(str, module.entry().body))
    assert not distir.check(found)
    assert transform(module, "reschedule", attempts=40) == found


@settings(max_examples=most_examples(25), deadline=None)
@given(programs(size=20))
def test_random_programs_keep_their_results(module):
    assert_same(module, transform(module, "reschedule", attempts=40))


@settings(max_examples=most_examples(40), deadline=None)
@given(programs(most=6))
def test_no_order_beats_the_bound(module):
    tasks = tasks_of(simulate(module))
    bound = max(tasks.longest_path(), tasks.busiest)
    orders = [
        order
        for order in permutations(range(len(tasks)))
        if all(order.index(other) < order.index(n) for n in order for other in tasks.before[n])
    ]
    fastest = min(max(tasks.run(order).values(), default=0.0) for order in orders)
    assert bound <= fastest * (1 + 1e-9)
    assert fastest <= simulate(transform(module, "reschedule")).latency_s * (1 + 1e-9)


@pytest.mark.parametrize("degrees", ["2,2,2", "1,4,2", "4,1,1", "1,1,4"])
def test_tasks_take_as_long_as_the_simulator_says(degrees):
    """Calls over several devices too, with entry clocks that differ."""
    module = transform(transform(small_gpt2(4), "grad"), f"dtp={degrees}", microbatches=1 if degrees == "4,1,1" else 2)
    simulation = simulate(module)
    tasks = tasks_of(simulation)
    found = tasks.run(range(len(tasks)))
    assert found == pytest.approx(simulation.timeline().clocks)


# Refusals


def test_what_cannot_be_simulated_is_refused():
    text = "func @main(%x: Tensor[Float32, (B, 2), 1]) {\n  %y = Relu(%x)\n  return %y\n}"
    with pytest.raises(ProgramError):
        transform(distir.parse(text), "reschedule")
    assert transform(distir.parse(text), "reschedule", "bind=B=64")
    with pytest.raises(HardwareError):
        transform(example("mlp_pipeline"), "reschedule", hardware="abacus")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("memory", "much", "memory=much"),
        ("bind", ("B",), "found `B`"),
        ("bind", ("B=x",), "B=x"),
        ("bind", ("N=3",), "N"),
    ],
)
def test_options_that_make_no_sense_are_refused(option, value, said):
    with pytest.raises(StepError, match=said):
        transform(example("mlp_pipeline"), "reschedule", **{option: value})


SIDE = """
func @main(%x: Tensor[Float32, (512, 512), 1], %w: Tensor[Float32, (512, 512), 1]) {
  %a = MatMul(%x, %w)
  %s = MatMul(%a, %w) on side
  %t = MatMul(%w, %w) on side
  %c = MatMul(%t, %w)
  return %s, %c
}
"""


def test_what_no_order_can_beat_counts_each_stream_by_itself():
    """In another order streams overlap more, so a device is busy for less time."""
    module = distir.parse(SIDE)
    simulation = simulate(module)
    tasks, entry = tasks_of(simulation), module.entry()
    latencies = set()
    for order in permutations(range(len(tasks))):
        if all(order.index(before) < order.index(number) for number in order for before in tasks.before[number]):
            body = (*(entry.body[number] for number in order), entry.body[-1])
            latencies.add(simulate(Module([replace(entry, body=body)])).latency_s)
    assert max(tasks.busiest, tasks.longest_path()) <= min(latencies) < simulation.timeline().busy[1]


def test_it_orders_what_is_on_a_stream_by_itself():
    """On one stream, no order is faster; here `%t` keeps `%c` waiting, behind `%s`, which waits itself."""
    module = distir.parse(SIDE)
    found = transform(module, "reschedule")
    assert simulate(found).latency_s < simulate(module).latency_s
    assert [statement.results for statement in found.entry().body[:-1]].index(("t",)) < 2


@settings(deadline=None, max_examples=most_examples(40))
@given(programs(), st.randoms(use_true_random=False))
def test_tasks_on_streams_take_as_long_as_the_simulator_says(module, dice):
    entry = module.entry()
    body = [replace(s, stream=dice.choice(["", "side", "third"])) if hasattr(s, "op") else s for s in entry.body]
    module = Module(replace(entry, body=tuple(body)) if f is entry else f for f in module)
    simulation = simulate(module)
    tasks = tasks_of(simulation)
    assert max(tasks.run(range(len(tasks))).values(), default=0.0) == pytest.approx(simulation.latency_s)
    assert max(tasks.busiest, tasks.longest_path()) <= simulation.latency_s * (1 + 1e-9)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_no_pipeline_with_streams_beats_the_bound(schedule):
    made = transform(
        distir.models.mlp(8, 64, batch=64, training=True), "pp=4", "microbatches=4", f"schedule={schedule}"
    )
    simulation = simulate(transform(made, "overlap=transfers"))
    tasks = tasks_of(simulation)
    assert max(tasks.busiest, tasks.longest_path()) <= simulation.latency_s * (1 + 1e-9)
