"""All that is fast says what the oracle says, to the last bit, of random programs as transforms make them."""

import random
from pathlib import Path

from chain_samples import SIZES, chains, models
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from oracle import oracle, same, seconds
from simulate_samples import machine
from thorough import most_programs

from distir.analysis import check
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.models import mlp
from distir.search import Subject
from distir.search.evaluate import evaluate
from distir.simulate import Sweep, simulate
from distir.transform import transform
from distir.transform.pipeline import SCHEDULES
from distir.transform.steps import StepError
from distir.transform.strategy import Strategy
from distir.transform.strategy.steps import apply

PROGRAMS = most_programs(30)


CALIBRATED = str(Path(__file__).parents[2] / "examples" / "accuracy" / "two_cores" / "two_ranks.toml")
"""Figures of single ops, and of caches, so that costs depend on the memory in use."""

MACHINES = {"one": load("dgx2-v100"), "two nodes": load("2x-dgx-a100"), "two kinds": machine()}

law = settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)


@st.composite
def transformed(draw):
    """A model after a chain of transforms, without those that refuse it, and the sizes of its named dimensions."""
    model = draw(models())
    module, taken = model.module, []
    for step in draw(chains(model)):
        try:
            module = transform(module, *step.split())
            taken.append(step)
        except ProgramError:
            continue
    note(f"taken: {taken}")
    return module, (SIZES if model.named else {})


def on_some_machine(module, bind, draw):
    """A machine with enough devices, and what the program does there."""
    names = draw(st.permutations(sorted(MACHINES)))
    for name in names:
        try:
            return MACHINES[name], simulate(module, MACHINES[name], bind=bind)
        except ProgramError:  # it has too few devices
            continue
    raise AssertionError("no machine has enough devices")


@law
@given(transformed(), st.data())
def test_a_transformed_program(program, data):
    module, bind = program
    hardware, found = on_some_machine(module, bind, data.draw)
    expected = oracle(module, hardware, bind)
    same(found, expected)
    profile = found.memory()
    for memory, peak in expected.peaks.items():
        assert profile.peak(memory)[0] == peak
        for limit in (0, peak // 2, peak - 1):
            first = next(event for event, use in expected.use[memory] if use > limit)
            assert profile.first_over(memory, limit)[0] == first


@law
@given(transformed(), st.data())
def test_some_events_of_a_transformed_program(program, data):
    """Calls are passed over by their summaries: on the way to one event, and to others from there."""
    module, bind = program
    hardware, found = on_some_machine(module, bind, data.draw)
    expected, timeline = oracle(module, hardware, bind), found.timeline()
    count, slack = len(expected.events), expected.slack
    assert len(timeline) == count
    for index in data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=8)):
        event, op = timeline.event(index), expected.events[index]
        assert (event.start, event.end) == (seconds(expected.starts[index]), seconds(expected.starts[index] + op.ticks))
        assert (event.site.function, event.site.index, event.effect.devices) == (op.function, op.index, op.devices)
        assert timeline.spare(index) == slack[index]
    path = timeline.critical_path()
    assert sum(expected.events[index].ticks for index in path) == max(expected.clocks.values())


@law
@given(transformed(), st.randoms(use_true_random=False))
def test_a_sweep_over_sizes_of_a_transformed_program(program, rng):
    module, bind = program
    if not bind:
        return
    swept = Sweep(check(module), module.entry(), MACHINES["one"])
    for size in rng.sample([16, 32, 48, 96, 144], 3):
        same(swept.at({"B": size}), oracle(module, MACHINES["one"], {"B": size}))


@st.composite
def plans(draw):
    """Ways to distribute a model over up to eight devices."""
    d, t, p = draw(st.sampled_from([(2, 1, 2), (1, 2, 2), (2, 2, 2), (1, 1, 3), (4, 1, 1), (1, 1, 2), (2, 2, 1)]))
    count = draw(st.sampled_from([1, 2, 5, 12, 20])) if p > 1 else 1
    schedule = draw(st.sampled_from(sorted(SCHEDULES))) if p > 1 else "1f1b"
    zero = draw(st.sampled_from([0, 0, 0, 1, 2, 3])) if d > 1 else 0
    return Strategy(d, t, p, count, schedule, zero, draw(st.booleans()))


@law
@given(models(), plans(), st.sampled_from(["one", "two nodes", "two kinds"]), st.data())
def test_a_row_of_a_search(model, plan, machine_name, data):
    """As a representative of its replicas and shards, and of few microbatches as of many."""
    module = model.module
    if data.draw(st.booleans()) and any("param" in param.roles for param in module.entry().params):
        module = transform(module, "grad", "loss=mse", "optimizer=adam")
    hardware = MACHINES[machine_name]
    each = plan.data * plan.microbatches
    sizes = [each * data.draw(st.integers(1, 3)) for _ in range(2)] if model.named else [None]
    for row in evaluate(Subject("model", module, hardware), plan, sizes):
        bind = {"B": row.batch_size} if model.named else {}
        try:
            expected = oracle(apply(module, plan), hardware, bind)
        except (ProgramError, StepError, ValueError):
            assert row.reason
            continue
        assert not row.reason
        assert row.latency_s == expected.latency_s
        assert row.peak_memory_bytes == max(expected.peaks.values())


def test_a_machine_whose_costs_depend_on_the_memory_in_use():
    hardware, rng = load(CALIBRATED), random.Random(1)
    assert hardware.cached
    for number in range(8):
        model = mlp(rng.randint(1, 6), 2 ** rng.randint(4, 9), training=rng.random() < 0.5)
        module = transform(model, *(("dp=2",) if number % 2 else ()))
        same(simulate(module, hardware, bind={"B": 16}), oracle(module, hardware, {"B": 16}))
