"""Laws of the schedules: as they are, and as pipelines that are simulated on a machine with free links."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_samples import forget, merged, messages, orders, register, simulated, span, spending, without_blocking
from thorough import most_examples

from distir.models import gpt2
from distir.transform import transform
from distir.transform.pipeline.emission import each_once
from distir.transform.pipeline.filling import filled_orders
from distir.transform.pipeline.order import Message, in_waves, least_span, makespan, merge
from distir.transform.pipeline.passes import Pass, Task, forward_only, in_flight, stage_devices
from distir.transform.pipeline.schedules import SCHEDULES, Schedule
from distir.transform.pipeline.step import pipeline_of
from distir.transform.pipeline.validation import ScheduleError

F, B, W = Pass.FORWARD, Pass.BACKWARD, Pass.WEIGHT
CLOSE = 1e-5
"""What all but the passes takes, as a part of the whole."""

sizes = st.integers(1, 8)
counts = st.integers(1, 24)
seconds = st.integers(1, 9)
quick = settings(deadline=None, max_examples=most_examples(60))
simulations = settings(deadline=None, max_examples=12)


@pytest.fixture(autouse=True, scope="module")
def _spending():
    register()
    yield
    forget()


@st.composite
def numbers(draw):
    """A schedule with devices, microbatches and stages per device that it takes."""
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    devices, microbatches = draw(sizes), draw(counts)
    virtual = draw(st.integers(1, 4)) if SCHEDULES[name].virtual else 1
    if name == "dualpipev":
        microbatches += 2 * devices
    return name, devices, microbatches, virtual


@quick
@given(numbers())
def test_every_pass_of_every_stage_runs_once_on_its_device(given):
    name, devices, microbatches, virtual = given
    order = SCHEDULES[name](devices, microbatches, virtual)
    kinds = (F, B, W) if SCHEDULES[name].splits else (F, B)
    assert len(order) == devices
    per_device = SCHEDULES[name].stages_per_device(virtual)
    homes = stage_devices(order)
    assert sorted(homes) == sorted([*range(devices)] * per_device), "as many stages for each device"
    for device, tasks in enumerate(order):
        stages = [stage for stage, home in enumerate(homes) if home == device]
        expected = {Task(s, k, kind) for s in stages for k in range(microbatches) for kind in kinds}
        assert len(tasks) == len(expected)
        assert set(tasks) == expected


@quick
@given(numbers())
def test_merging_keeps_the_order_of_each_device_and_sends_in_between(given):
    name, devices, microbatches, virtual = given
    order, events = merged(name, devices, microbatches, virtual)
    at = {event: i for i, event in enumerate(events)}
    for tasks in order:
        places = [at[task] for task in tasks]
        assert places == sorted(places)
    sent = messages(order, len(stage_devices(order)))
    assert len(events) == len(at) == len(sent) + sum(map(len, order))
    for message in sent:
        assert at[message.source] < at[message] < at[message.target]


@quick
@given(sizes, counts, seconds, seconds, st.sampled_from(["gpipe", "1f1b"]))
def test_blocking_sends_cost_nothing_whatever_the_passes_take(devices, microbatches, forward, backward, name):
    expected = (microbatches + devices - 1) * (forward + backward)
    assert span(name, devices, microbatches, 1, {F: forward, B: backward}) == expected


@quick
@given(sizes, st.integers(1, 3), st.integers(1, 4), seconds)
def test_the_bubble_of_interleaved_is_a_part_of_that_of_1f1b(devices, groups, virtual, length):
    microbatches = devices * groups
    work = 2 * length * virtual * microbatches
    bubble = 2 * length * (devices - 1)
    assert bubble * virtual * microbatches == (devices - 1) * work, "(P - 1) / (v K) of the work"
    equal = {F: length, B: length}
    assert span("interleaved", devices, microbatches, virtual, equal, equal) == work + bubble


@quick
@given(sizes, st.integers(0, 16), seconds, seconds, seconds)
def test_the_bubble_of_zb_h1_leaves_out_what_the_weights_take(devices, more, forward, backward, weight):
    weight = min(weight, forward, backward)
    microbatches = devices + more
    lengths = {F: forward, B: backward, W: weight}
    bubble = (devices - 1) * (forward + backward - weight)
    expected = microbatches * (forward + backward + weight) + bubble
    assert span("zb-h1", devices, microbatches, 1, lengths, lengths) == expected


@quick
@given(sizes, counts)
def test_zb_h1_is_never_slower_than_1f1b(devices, microbatches):
    equal = dict.fromkeys(Pass, 1)
    split = span("zb-h1", devices, microbatches, 1, equal, equal)
    assert split <= span("1f1b", devices, microbatches, 1, {F: 1, B: 2})


@quick
@given(sizes, counts)
def test_microbatches_in_flight(devices, microbatches):
    def most(name):
        return [in_flight(tasks) for tasks in SCHEDULES[name](devices, microbatches)]

    assert most("gpipe") == [microbatches] * devices
    assert most("1f1b") == [min(microbatches, devices - d) for d in range(devices)]
    assert max(most("zb-h1")) <= min(devices, microbatches)


@quick
@given(sizes, counts)
def test_zb_v_goes_there_and_back_again_within_the_memory_of_1f1b(devices, microbatches):
    order = SCHEDULES["zb-v"](devices, microbatches)
    assert stage_devices(order) == (*range(devices), *reversed(range(devices)))
    whole = max(map(in_flight, SCHEDULES["1f1b"](devices, microbatches)))
    assert max(map(in_flight, order)) <= 2 * whole, "of stages half as large"


@quick
@given(sizes, counts)
def test_zb_v_is_never_slower_than_1f1b_and_waits_only_as_the_pipeline_fills(devices, microbatches):
    half = dict.fromkeys(Pass, 1)
    found = span("zb-v", devices, microbatches, 1, half, half)
    assert found <= span("1f1b", devices, microbatches, 1, {F: 2, B: 4}, {F: 2, B: 4})
    if microbatches >= 2 * devices:
        assert found == 6 * microbatches + devices - 1


@quick
@given(sizes, counts, seconds)
def test_inference_takes_one_pass_per_stage_and_microbatch(devices, microbatches, length):
    order = forward_only(SCHEDULES["1f1b"](devices, microbatches))
    events = merge(order, messages(order, devices))
    assert len([e for e in events if isinstance(e, Task)]) == devices * microbatches
    assert [task.microbatch for task in order[-1]] == list(range(microbatches))


@quick
@given(numbers(), st.data())
def test_in_waves_each_device_does_the_same_in_the_same_order(given, data):
    name, devices, microbatches, virtual = given
    order = SCHEDULES[name](devices, microbatches, virtual)
    home = stage_devices(order)
    length = data.draw(st.lists(st.integers(70, 130), min_size=len(home), max_size=len(home)))
    events = merge(order, messages(order, len(home)), lambda task: length[task.stage])
    waves = in_waves(events, lambda task: home[task.stage])

    def of(device, events):
        return [event for event in events if device in {home[stage] for stage in event.stages}]

    assert all(of(device, waves) == of(device, events) for device in range(devices))


def test_a_fast_stage_waits_rather_than_lets_a_slow_one_wait():
    order = forward_only(SCHEDULES["1f1b"](2, 8))
    length = {0: 1.0, 1: 1.1}
    events = merge(order, messages(order, 2), lambda task: length[task.stage])
    found = makespan(events, lambda task: task.stage, lambda task: length[task.stage], 2)
    assert found == pytest.approx(1.0 + 8 * 1.1)


@quick
@given(numbers(), st.data())
def test_blocking_costs_little_even_where_stages_are_uneven(given, data):
    name, devices, microbatches, virtual = given
    order = SCHEDULES[name](devices, microbatches, virtual)
    home = stage_devices(order)
    stages = len(home)
    length = data.draw(st.lists(st.integers(70, 130), min_size=stages, max_size=stages))
    sent = messages(order, stages)

    def duration(task):
        return length[task.stage] * (2 if task.kind is B and not SCHEDULES[name].splits else 1)

    found = makespan(merge(order, sent, duration), lambda task: home[task.stage], duration, devices)
    free = without_blocking(order, sent, duration)
    assert free <= found <= 1.25 * free


def checked(order, devices, microbatches, splits=False):
    """What a schedule named `own` that gives this order says."""
    return Schedule("own", lambda *_: order, splits)(devices, microbatches)


@quick
@given(orders())
def test_an_order_that_can_be_run_is_taken(given):
    devices, microbatches, splits, order = given
    assert checked(order, devices, microbatches, splits) == order


@quick
@given(orders(), st.data())
def test_an_order_with_a_fault_is_refused_by_name(given, data):
    devices, microbatches, splits, order = given
    rows = [list(tasks) for tasks in order]
    device = data.draw(st.sampled_from([d for d, tasks in enumerate(rows) if tasks]))
    index = data.draw(st.integers(0, len(rows[device]) - 1))
    task = rows[device][index]
    fault = data.draw(st.sampled_from(["missing", "twice", "unknown", "elsewhere", "late", "devices"]))
    if fault == "missing":
        del rows[device][index]
    elif fault == "twice":
        rows[device].append(task)
    elif fault == "unknown":
        rows[device].append(task := Task(task.stage, microbatches, task.kind))
    elif fault == "elsewhere":
        other = data.draw(st.integers(0, devices - 1).filter(lambda d: d != device)) if devices > 1 else None
        if other is None or len(rows[device]) == 1:
            return
        rows[other].append(rows[device].pop(index))
    elif fault == "late":
        rows[device].remove(task := Task(task.stage, task.microbatch, F))
        rows[device].append(task)
    else:
        rows.append([])
    expected = {"elsewhere": "DIR646", "late": "DIR647"}.get(fault, "DIR645")
    with pytest.raises(ScheduleError) as error:
        checked(tuple(map(tuple, rows)), devices, microbatches, splits)
    if fault == "elsewhere" and error.value.code.number == "DIR647":
        return
    assert error.value.code.number == expected
    assert "`own`" in str(error.value)
    assert fault in ("devices", "elsewhere") or f"`{task}`" in str(error.value)


@pytest.mark.parametrize(
    ("order", "number", "said"),
    [
        ((), "DIR645", "`own` gave orders for 0 devices, expected 2"),
        ("F0@0 B0@0, F0@1", "DIR645", "`own` never runs `B0@1`, the backward pass of stage 1 over microbatch 0"),
        (
            "F0@0 B0@0 B0@0, F0@1 B0@1",
            "DIR645",
            "`own` runs `B0@0`, the backward pass of stage 0 over microbatch 0, 2 times",
        ),
        (
            "F0@0 B0@0, F0@1 B0@1 W0@1",
            "DIR645",
            "`own` runs `W0@1`, the weight pass of stage 1 over microbatch 0, but it is registered without"
            " `splits=True`",
        ),
        (
            "F0@0 B0@1, F0@1 B0@0",
            "DIR646",
            "`own` runs `B0@1`, the backward pass of stage 1 over microbatch 0, on device 0 and `F0@1`, the forward"
            " pass of stage 1 over microbatch 0, on device 1: a stage is on one device",
        ),
        (
            "F0@0 B0@0, B0@1 F0@1",
            "DIR647",
            "`own` runs `B0@1`, the backward pass of stage 1 over microbatch 0, on device 1 before `F0@1`, the forward"
            " pass of stage 1 over microbatch 0, which it needs",
        ),
        (
            "F0@0 B0@0 F1@0 B1@0, F0@1 F1@1 B0@1 B1@1",
            "DIR647",
            "`own` lets devices wait for each other: device 0 waits before `B0@0` for `B0@1` and device 1 waits before"
            " `F1@1` for `F1@0`",
        ),
    ],
)
def test_what_is_said_of_an_order_that_cannot_be_run(order, number, said):
    kinds = {kind.value[0].upper(): kind for kind in Pass}
    rows = order and tuple(
        tuple(Task(int(word[3:]), int(word[1]), kinds[word[0]]) for word in row.split()) for row in order.split(",")
    )
    with pytest.raises(ScheduleError) as error:
        checked(rows, 2, 2 if "1@0" in order else 1)
    assert (error.value.code.number, str(error.value)) == (number, said)


def test_a_circle_is_found():
    first, second = Task(0, 0, F), Task(1, 0, F)
    with pytest.raises(ValueError, match="circle"):
        merge(((first,), (second,)), [Message(first, second), Message(second, first)])


def test_numbers_that_a_schedule_cannot_take():
    with pytest.raises(ScheduleError, match="`dualpipev` expected 8 or more as `microbatches` for 4 devices, found 6"):
        SCHEDULES["dualpipev"](4, 6)
    with pytest.raises(ScheduleError, match="one stage per device"):
        SCHEDULES["1f1b"](4, 6, 2)
    with pytest.raises(ScheduleError, match="`zb-v` has 2 stages per device, found `virtual=3`"):
        SCHEDULES["zb-v"](4, 6, 3)
    assert SCHEDULES["zb-v"](4, 6, 2) == SCHEDULES["zb-v"](4, 6)
    with pytest.raises(ScheduleError, match="1 or more"):
        SCHEDULES["gpipe"](0, 6)


# As programs: what the simulator says of the pipeline, on a machine where only the passes take time.


@simulations
@given(sizes, st.sampled_from([1, 2, 3, 5, 8, 16]), seconds, seconds, seconds, st.sampled_from(["gpipe", "1f1b"]))
def test_simulated_gpipe_and_1f1b(devices, microbatches, forward, into_input, into_weight, name):
    model = spending(devices, forward, into_input, into_weight)
    pipeline = transform(model, f"pp={devices}", microbatches=microbatches, schedule=name)
    expected = (microbatches + devices - 1) * (forward + into_input + into_weight)
    assert simulated(pipeline).latency_s == pytest.approx(expected, rel=CLOSE)


@simulations
@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(1, 3))
def test_simulated_interleaved(devices, groups, virtual):
    microbatches = {1: 4, 2: 6, 4: 8, 8: 8}[devices] if groups == 1 else devices
    model = spending(devices * virtual, 2, 1, 1)
    name = "interleaved"
    pipeline = transform(model, f"pp={devices}", microbatches=microbatches, schedule=name, virtual=virtual)
    expected = 4 * virtual * microbatches + 4 * (devices - 1)
    assert simulated(pipeline).latency_s == pytest.approx(expected, rel=CLOSE)


@simulations
@given(sizes, st.sampled_from([8, 10, 16]), seconds, seconds, seconds)
def test_simulated_zb_h1(devices, microbatches, forward, into_input, into_weight):
    into_weight = min(into_weight, forward, into_input)
    model = spending(devices, forward, into_input, into_weight)
    pipeline = transform(model, f"pp={devices}", microbatches=microbatches, schedule="zb-h1")
    work = (forward + into_input + into_weight) * microbatches
    bubble = (devices - 1) * (forward + into_input - into_weight)
    assert simulated(pipeline).latency_s == pytest.approx(work + bubble, rel=CLOSE)


@simulations
@given(sizes, st.sampled_from([1, 2, 5, 8]), seconds, seconds, seconds)
def test_simulated_zb_h1_is_never_slower_than_1f1b(devices, microbatches, forward, into_input, into_weight):
    model = spending(devices, forward, into_input, into_weight)
    split, joined = (
        simulated(transform(model, f"pp={devices}", microbatches=microbatches, schedule=name)).latency_s
        for name in ("zb-h1", "1f1b")
    )
    assert split <= joined * (1 + CLOSE)


@simulations
@given(st.integers(1, 4), st.sampled_from([1, 2, 4, 8, 10, 12]))
def test_simulated_zb_v_is_never_slower_than_1f1b_nor_holds_more(devices, microbatches):
    model = spending(2 * devices, 1, 1, 1, rows=480 * 8, width=8)
    split, joined = (
        simulated(transform(model, f"pp={devices}", microbatches=microbatches, schedule=name))
        for name in ("zb-v", "1f1b")
    )
    assert split.latency_s <= joined.latency_s * (1 + CLOSE)
    if microbatches >= 2 * devices:
        assert split.latency_s == pytest.approx(6 * microbatches + devices - 1, rel=CLOSE)


@quick
@given(sizes, counts, st.data())
def test_orders_by_length_run_every_pass_within_the_memory_of_1f1b(devices, microbatches, data):
    given = SCHEDULES[data.draw(st.sampled_from(["zb-h1", "zb-v"]))](devices, microbatches)
    stages = len(stage_devices(given))
    places = [(stage, kind) for stage in range(stages) for kind in Pass]
    drawn = data.draw(st.lists(st.integers(0, 9), min_size=len(places), max_size=len(places)))
    lengths = dict(zip(places, drawn, strict=True))
    every = {Task(*place[:1], k, place[1]) for place in places for k in range(microbatches)}
    for order in filled_orders(given, lengths):
        assert {task for tasks in order for task in tasks} == every
        assert stage_devices(order) == stage_devices(given)
        assert max(map(in_flight, order)) <= min(devices, microbatches) * stages // devices
        merge(order, messages(order, stages), lambda task: lengths[task.stage, task.kind])


def test_memory_of_1f1b_does_not_grow_with_the_microbatches():
    def peaks(name, microbatches):
        model = spending(4, 1, 1, 1, rows=1000 * microbatches, width=8)
        pipeline = transform(model, "pp=4", microbatches=microbatches, schedule=name)
        devices = simulated(pipeline).devices
        return [devices[d].peak_memory_bytes for d in (2, 3)]  # the others have the whole of an input

    kept = 8 * 1000 * 8
    assert peaks("1f1b", 8) == peaks("1f1b", 16)
    first, second = peaks("gpipe", 8), peaks("gpipe", 16)
    assert [b - a for a, b in zip(first, second, strict=True)] == [8 * kept] * 2
    on_2, on_3 = peaks("1f1b", 8)
    assert on_2 - on_3 == kept, "one microbatch more in flight on the device before"


@settings(max_examples=most_examples(100), deadline=None)
@given(orders(), st.data())
def test_no_order_with_its_messages_takes_less_than_is_foretold(given, data):
    devices, _, _, order = given
    lengths = {kind: float(data.draw(st.integers(1, 9))) for kind in Pass}
    homes, sent = {t: d for d, tasks in enumerate(order) for t in tasks}, messages(order, devices)

    def took(task):
        return lengths[task.kind]

    assert least_span(order, sent, took) <= makespan(merge(order, sent, took), homes.__getitem__, took, devices)


@pytest.mark.parametrize(("schedule", "virtual"), [("zb-h1", 1), ("zb-v", 2)])
def test_a_pipeline_is_the_same_if_passes_are_timed_in_it_and_every_order_is_played(monkeypatch, schedule, virtual):
    """Passes are timed by themselves, and orders that cannot be shorter are left out: neither changes the program."""
    training = transform(gpt2(5, 32, 4, 16, vocabulary=4000, positions=16), "grad", "optimizer=adam")
    made = pipeline_of(training, 2, 8, schedule, virtual, "uniform", "dgx-a100")
    assert each_once(made.placement, made.functions) is not None
    assert len(set(made._timed[0].values())) > 3
    monkeypatch.setattr("distir.transform.pipeline.prepared.each_once", lambda *_: None)
    monkeypatch.setattr("distir.transform.pipeline.prepared.least_span", lambda *_: 0.0)
    assert replace(made).written == made.written
