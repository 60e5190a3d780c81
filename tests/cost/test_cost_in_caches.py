"""Figures of what caches hold: how a program's working set chooses between them and those of memory."""

import copy

import pytest
from cost_samples import small_profile, toml

from distir.cost import HardwareError, parse
from distir.ir import DTYPES
from distir.ops.resources import Work

COLD = {"launch": "4us", "bandwidth": "1GB/s", "uncertainty": 0.1}
WARM = {"launch": "2us", "bandwidth": "10GB/s", "uncertainty": 0.05}
RELU = Work(flops=1000, bytes=100_000, dtype=DTYPES["Float32"])
COLD_S, WARM_S = 104e-6, 12e-6


def machine(cache="1MB", **warm):
    made = copy.deepcopy(small_profile())
    made["kinds"]["gpu"]["ops"] = {"Relu": {"Float32": {**COLD, **warm}}}
    if cache is not None:
        made["kinds"]["gpu"]["cache"] = cache
    return parse(toml(made))


def relu(hardware, working_set, position=0):
    return hardware.running({0: working_set}).cost(RELU, (position,), "Relu")


@pytest.mark.parametrize(("working_set", "share"), [(0, 1), (10**6, 1), (2 * 10**6, 0.5), (10**7, 0.1)])
def test_an_op_is_warm_with_the_share_of_the_working_set_that_caches_hold(working_set, share):
    cost = relu(machine(warm=WARM), working_set)
    assert cost.seconds == pytest.approx(share * WARM_S + (1 - share) * COLD_S)


def test_a_larger_program_is_never_faster():
    costs = [relu(machine(warm=WARM), 10**power).seconds for power in range(4, 12)]
    assert costs == sorted(costs)
    assert costs[-1] == pytest.approx(COLD_S, rel=1e-4)


@pytest.mark.parametrize("hardware", [machine(cache=None), machine(cache=None, warm=WARM)])
def test_without_the_size_of_the_cache_nothing_depends_on_the_working_set(hardware):
    assert hardware.running({0: 1}) is hardware
    assert relu(hardware, 1) == hardware.cost(RELU, (0,), "Relu")


def test_what_was_not_measured_warm_stays_as_it_is():
    plain, hardware = machine(cache=None), machine(warm=WARM)
    assert relu(machine(), 1) == relu(plain, 1)
    assert hardware.running({0: 1}).cost(RELU, (0,), "Tanh") == plain.cost(RELU, (0,), "Tanh")


def test_each_device_has_its_own_working_set():
    hardware = machine(warm=WARM)
    assert relu(hardware, 1, position=0).seconds == pytest.approx(WARM_S)
    assert relu(hardware, 1, position=1).seconds == pytest.approx(COLD_S)
    small = hardware.running({0: 1})
    assert small.shape((0,)) != small.shape((1,))
    assert hardware.shape((0,)) == hardware.shape((1,))


def test_the_uncertainty_is_theirs_and_that_of_which_it_is():
    hardware = machine(warm=WARM)
    assert relu(hardware, 1).uncertainty == pytest.approx(0.05)
    assert relu(hardware, 10**12).uncertainty == pytest.approx(0.1, rel=1e-2)
    assert relu(hardware, 2 * 10**6).uncertainty > (COLD_S - WARM_S) / (COLD_S + WARM_S)


def test_faults_of_warm_figures_are_named():
    with pytest.raises(HardwareError) as caught:
        machine(cache="big", warm={"bandwidth": "1GB/s", "rat": "1GFLOP/s"})
    messages = [problem.message for problem in caught.value.problems]
    assert any("kinds.gpu.cache" in message for message in messages)
    assert "`kinds.gpu.ops.Relu.Float32.warm.launch` is missing" in messages
    assert "unknown key `rat` in `kinds.gpu.ops.Relu.Float32.warm`" in messages
