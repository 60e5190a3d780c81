"""Curves of memory by kind are those of the walk through all ops, and thinned ones are parts of them."""

import random
from collections import defaultdict

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, with_hosts, with_streams
from thorough import most_examples

from distir import models
from distir.analysis import check
from distir.analysis.kinds import KINDS, TEMPORARY, ValueKinds
from distir.cost.host import Host
from distir.simulate import curves as made
from distir.simulate import simulate
from distir.simulate.composition import compositions, curves, highest
from distir.simulate.effects import to_seconds
from distir.simulate.page.answers import memory_of
from distir.transform import transform

MACHINE = machine()
law = settings(max_examples=most_examples(40), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def simulations(draw):
    """Of random programs, with streams and hosts, and of pipelines, of which many calls run alike."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    if rng.random() < 0.3:
        training = transform(models.mlp(layers=4, width=64, batch=16), "grad", "optimizer=adam")
        steps = rng.choice(
            [("pp=2", "microbatches=8"), ("dtp=2,1,2", "microbatches=4"), ("tp=2",), ("dp=2", "overlap")]
        )
        return simulate(transform(training, *steps), "dgx-a100")
    module = random_module(rng)
    assume(not check(module).errors)
    if rng.random() < 0.5:
        module = with_streams(rng, module, 0.5)
    return simulate(module, with_hosts(MACHINE, Host(4e-6)) if rng.random() < 0.5 else MACHINE)


def walked(simulation):
    """By memory: as ops are walked one by one, the bytes in use after each moment of an op."""
    found = defaultdict(list)
    for point in simulation.memory().points():
        found[point.memory].append((point.time, point.nbytes))
    return found


def seen(moments):
    """What is in use from each time on, and the most at that time."""
    last, most, before = {}, {}, 0
    for time, nbytes in moments:
        most[time] = max(before, nbytes, most.get(time, 0))
        last[time] = before = nbytes
    return last, most


@law
@given(simulations())
def test_curves_are_those_of_the_walk_through_all_ops(simulation):
    found = curves(simulation, None)
    for memory, points in walked(simulation).items():
        assert seen([(to_seconds(at), total) for at, total, _ in found[memory]]) == seen(points)
    for moments in found.values():
        for _, total, levels in moments:
            assert sum(levels) == total
            assert min(levels) >= 0


@law
@given(simulations(), st.integers(1, 30))
def test_thinned_curves_keep_peak_and_end_and_move_nothing(simulation, pieces):
    tolerance = simulation.timeline().finish // pieces
    whole = curves(simulation, None)
    for memory, moments in curves(simulation, tolerance).items():
        rest = iter(whole[memory])
        assert all(any(moment == other for other in rest) for moment in moments), "some of the moments, in their order"
        assert moments[-1] == whole[memory][-1]
        assert highest(moments) == highest(whole[memory])
        assert [at for at, _, _ in moments] == sorted(at for at, _, _ in moments)


@law
@given(simulations())
def test_a_peak_is_made_of_what_is_live_then(simulation):
    kinds = ValueKinds(simulation.module, simulation.function)
    profile = simulation.memory()
    for memory, found in compositions(simulation).items():
        most, _, live = profile.peak(memory)
        expected = dict.fromkeys(KINDS, 0)
        for value in live or profile.parameters(memory):
            kind = kinds.of_parameter(value.name) if value.index is None else kinds.of(value.function, value.name)
            expected[kind] += value.nbytes
        expected[TEMPORARY] = most - sum(expected.values())
        assert found == {kind: nbytes for kind, nbytes in expected.items() if nbytes}


def long_pipeline(microbatches=1024):
    training = transform(models.mlp(layers=8, width=64, batch=2 * microbatches), "grad", "optimizer=adam")
    return simulate(transform(training, "pp=4", f"microbatches={microbatches}"), "dgx-a100")


def test_what_runs_alike_is_followed_once(monkeypatch):
    """Some thousand statements of 150,000 ops: were each run followed, there would be no curves."""
    simulation = long_pipeline()
    monkeypatch.setattr(made, "MOST_VISITED", simulation.ops // 8)
    shown = memory_of(simulation, lambda site: None)
    for memory, curve in zip(compositions(simulation).values(), shown.memories, strict=True):
        assert curve.points
        assert {part.name: part.nbytes for part in curve.parts if part.nbytes} == memory


def test_programs_of_too_many_different_runs_have_peaks_and_no_curves(monkeypatch):
    monkeypatch.setattr(made, "MOST_VISITED", 10)
    for curve in memory_of(long_pipeline(8), lambda site: None).memories:
        assert curve.points == ()
        assert sum(part.nbytes for part in curve.parts) == curve.peak_bytes


def test_parts_change_where_the_curve_does():
    shown = memory_of(long_pipeline(8), lambda site: None)
    for curve in shown.memories:
        levels = dict.fromkeys((part.name for part in curve.parts), 0)
        changes = {part.name: dict(part.changes) for part in curve.parts}
        for place, (_, nbytes) in enumerate(curve.points):
            levels |= {name: own[place] for name, own in changes.items() if place in own}
            assert sum(levels.values()) == nbytes
        assert {"weights", "optimizer state", "gradients", "activations"} <= set(levels)
