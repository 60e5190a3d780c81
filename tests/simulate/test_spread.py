"""Steps on devices and links that are late by chance: each draw is an ordinary simulation of a machine that is so."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, with_hosts, with_kernels, with_streams
from thorough import most_programs

import distir
from distir import ProgramError, parse
from distir.analysis import check
from distir.cost import load
from distir.cost.host import Host
from distir.simulate import simulate
from distir.simulate.spread.lateness import DISTRIBUTIONS, Lateness, SpreadError
from distir.simulate.spread.lateness import parse as late
from distir.simulate.spread.steps import spread

PROGRAMS = most_programs(60)
CLOSE = 1e-9

MACHINE = machine()
HOSTS = (Host(), Host(1.5e-6), Host(3e-5), Host(blocking=True), Host(4e-6, waits_for_sends=True))
LATE = ("devices=lognormal:0.4", "devices=slow:0.3:2.5", "nodes=exponential:0.2", "links=lognormal:0.5")


@st.composite
def runs(draw):
    """A random program with streams, calls and kernels, and a machine with hosts that takes no sides."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    module = random_module(rng, first_device=rng.choice([0, 1]), statements=rng.choice([5, 12, 20]))
    if check(module).errors:
        return None
    module = with_kernels(module) if rng.random() < 0.3 else module
    module = with_streams(rng, module, rng.choice([0.2, 0.5, 0.9])) if rng.random() < 0.7 else module
    share, begin = rng.choice([(0.0, 0.0), (0.7, 2e-6)])
    return module, with_hosts(MACHINE, rng.choice(HOSTS), rng.choice(HOSTS), interference=share, begin=begin)


def agree(found, module, hardware, draws, **options):
    for draw in draws:
        expected = simulate(module, hardware.slowed(*found.late(draw)), **options).latency_s
        assert found.seconds[draw] == pytest.approx(expected, rel=CLOSE, abs=0)


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(runs(), st.integers(0, 2**31))
def test_each_draw_is_the_simulation_of_a_machine_that_is_so_late(run, seed):
    if run is None:
        return
    module, hardware = run
    found = spread(simulate(module, hardware), LATE, draws=3, seed=seed)
    agree(found, module, hardware, range(3))


SIZES = {"layers": 4, "width": 64, "heads": 4, "head_size": 16, "ffn": 256, "vocabulary": 128}
SMALL = distir.models.named("gpt3-125m", sequence=32, **SIZES)


@pytest.fixture(scope="module")
def pipeline():
    return distir.transform(SMALL, "grad", "optimizer=adamw", "dtp=2,2,4", "microbatches=4")


@pytest.fixture(scope="module")
def nodes():
    return load("dgx-h100x2")


BIND = {"B": 16}


@pytest.mark.by_turns
@pytest.mark.parametrize("framework", ["", "eager"])
@pytest.mark.parametrize("streams", [(), ("overlap",)])
def test_each_draw_of_a_pipeline_over_nodes(pipeline, nodes, framework, streams):
    hardware = nodes.under(framework) if framework else nodes
    module = distir.transform(pipeline, *streams) if streams else pipeline
    found = spread(simulate(module, hardware, bind=BIND), (*LATE, "infiniband=slow:0.2:3"), draws=20)
    agree(found, module, hardware, (0, 7, 19), bind=BIND)
    assert len(set(found.seconds)) == 20


def test_without_lateness_all_draws_are_the_plain_step_to_the_bit(pipeline, nodes):
    simulation = simulate(pipeline, nodes, bind=BIND)
    for nothing in ((), ("devices=lognormal:0", "links=slow:0:2", "nodes=slow:1:1")):
        assert set(spread(simulation, nothing, draws=5).seconds) == {simulation.latency_s}


def test_all_devices_and_links_twice_as_slow_take_twice_as_long(pipeline, nodes):
    found = spread(simulate(pipeline, nodes, bind=BIND), ("devices=slow:1:2", "links=slow:1:2"), draws=2)
    assert found.seconds == pytest.approx(2 * found.plain_s, rel=1e-12)


def test_draws_follow_from_the_seed_alone(pipeline, nodes, monkeypatch):
    simulation = simulate(pipeline, nodes, bind=BIND)
    first, again, other = (spread(simulation, LATE, draws=200, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.seconds, again.seconds)
    assert not np.array_equal(first.seconds, other.seconds)
    monkeypatch.setattr("distir.simulate.spread.steps.MOST_NUMBERS", 1)  # few at a time
    assert np.array_equal(first.seconds, spread(simulation, LATE, draws=200, seed=3).seconds)
    # A device is as late whatever else is: programs are compared on the same draws.
    alone = spread(simulation, LATE[:1], draws=200, seed=3).factors()
    both = spread(simulation, (LATE[0], LATE[3]), draws=200, seed=3).factors()
    assert all(np.array_equal(both[source], factors) for source, factors in alone.items())


def test_quantiles_are_in_order(pipeline, nodes):
    found = spread(simulate(pipeline, nodes, bind=BIND), LATE, draws=500)
    assert found.plain_s < found.quantile(0.5) < found.quantile(0.9) < found.quantile(0.99) <= max(found.seconds)
    assert min(found.seconds) < found.mean_s < max(found.seconds)


TWO = parse("""
func @main(%x: Tensor[Float32, (2048, 2048), 1], %y: Tensor[Float32, (64, 64), 2]) {
  %a = MatMul(%x, %x)
  %b = MatMul(%y, %y)
  return %a, %b
}
""")


def test_whose_lateness_costs_what():
    found = spread(simulate(TWO, MACHINE), ("devices=lognormal:0.1",), draws=300)
    costs = {cost.source: cost for cost in found.costs}
    first, second = costs["device 1"], costs["device 2"]
    assert first.alone_s == pytest.approx(0.1 * found.plain_s, rel=1e-9)  # all that counts is the large product
    assert first.drawn_s == pytest.approx(np.mean(np.maximum(found.seconds - found.plain_s, 0)), rel=1e-6)
    assert second.alone_s == second.drawn_s == 0
    assert found.costs[0] is first


@pytest.mark.parametrize(("name", "parameters", "mean"), [
    ("lognormal", (0.2,), np.exp(0.02)), ("exponential", (0.3,), 1.3), ("slow", (0.25, 3.0), 1.5),
])  # fmt: skip
def test_distributions_are_what_they_are_said_to_be(name, parameters, mean):
    drawn = DISTRIBUTIONS[name].sample(np.random.default_rng(1), 200_000, *parameters)
    assert np.mean(drawn) == pytest.approx(mean, rel=0.01)
    assert str(late(f"links={name}:" + ":".join(map(str, parameters)))) == str(Lateness("links", name, parameters))


@pytest.mark.parametrize(("text", "message", "help"), [
    ("lognormal:0.1", "expected what is late, and by how much, found `lognormal:0.1`", "devices=lognormal:0.05"),
    ("devices=lognorml:0.1", "there is no distribution `lognorml`", "`lognormal`"),
    ("devices=slow:0.1", "expected `devices=slow:PROBABILITY:FACTOR`", "with this probability"),
    ("devices=slow:2:3", "expected a probability from 0 to 1, found `2`", "with this probability"),
    ("devices=lognormal:nan", "expected a sigma from 0 to 3, found `nan`", "median 1"),
    ("device=lognormal:0.1", "has no `device` to be late: expected devices, nodes, links, nvlink, infiniband",
     "`devices`"),
])  # fmt: skip
def test_what_cannot_be_late_is_refused(pipeline, nodes, text, message, help):
    with pytest.raises(SpreadError) as refused:
        spread(simulate(pipeline, nodes, bind=BIND), [text], draws=1)
    assert message in refused.value.message
    assert help in (refused.value.help or "")


def test_a_device_that_stands_for_others_is_refused():
    module = distir.transform(SMALL, "grad", "dtp=4,1,2", "microbatches=2", "representative=true")
    with pytest.raises(ProgramError, match="represents several"):
        spread(simulate(module, "dgx-h100", bind=BIND), LATE[:1])
