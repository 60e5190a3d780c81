"""The rule of hosts and streams: what is composed is what the oracle says, event by event, and what follows from it."""

import os
import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from oracle import oracle, same
from simulate_samples import inlined, machine, random_module, with_hosts, with_kernels, with_streams

from distir.analysis import check
from distir.cost.host import Host
from distir.simulate import simulate

PROGRAMS = int(os.environ.get("DISTIR_TEST_PROGRAMS", "100"))
"""Random programs per law."""

MACHINE = machine()
HOSTS = (Host(), Host(1.5e-6), Host(4e-6), Host(3e-5), Host(blocking=True))

law = settings(max_examples=2 * PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def modules(draw, streams=True, kernels=True):
    """A random program with streams."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    module = random_module(rng, first_device=rng.choice([0, 1]), statements=rng.choice([5, 12, 20]))
    assume(not check(module).errors)
    if kernels and rng.random() < 0.3:
        module = with_kernels(module)
    return with_streams(rng, module, rng.choice([0.2, 0.5, 0.9])) if streams else module


@st.composite
def machines(draw, interference=True):
    hosts = draw(st.lists(st.sampled_from(HOSTS), min_size=2, max_size=2))
    return with_hosts(
        MACHINE, *hosts, interference=draw(st.sampled_from([0.0, 0.0, 0.1, 0.7])) if interference else 0.0
    )


@law
@given(modules(), machines())
def test_a_program_runs_as_the_oracle_says_and_as_its_inlined_body_does(module, hardware):
    flat = module if any(function.kernel for function in module) else inlined(module)
    expected = oracle(module, hardware)
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
