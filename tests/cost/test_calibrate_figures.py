"""Figures that calibration writes, as profiles state them and as costs follow them."""

import copy

import pytest
from cost_samples import communication, small_profile, toml

import distir
from distir.cost import HardwareError, parse
from distir.ir import DTYPES
from distir.ops.resources import Work

RELU = {"launch": "3us", "bandwidth": {"1kB": "1GB/s", "1MB": "100GB/s"}, "uncertainty": 0.1}
TIMES = {"uncertainty": 0.2, "2": {"1kB": "20us", "1MB": "2ms"}, "4": {"1kB": "40us", "1MB": "4ms"}}


def profile(**ops):
    made = copy.deepcopy(small_profile())
    made["kinds"]["gpu"]["ops"] = ops
    return made


def relu(nbytes, dtype="Float32"):
    return Work(flops=nbytes // 8, bytes=nbytes, dtype=DTYPES[dtype])


def problems(made):
    with pytest.raises(HardwareError) as caught:
        parse(toml(made))
    return [problem.message for problem in caught.value.problems]


def test_an_op_with_figures_takes_what_they_say():
    hardware = parse(toml(profile(Relu={"Float32": RELU})))
    assert hardware.cost(relu(1000), (0,), "Relu").seconds == pytest.approx(3e-6 + 1e-6)
    assert hardware.cost(relu(10**6), (0,), "Relu").seconds == pytest.approx(3e-6 + 1e-5)
    assert hardware.cost(relu(10**7), (0,), "Relu").seconds == pytest.approx(3e-6 + 1e-4)
    assert hardware.cost(relu(1000), (0,), "Relu").uncertainty == 0.1


def test_other_ops_and_other_types_follow_the_roofline():
    hardware, plain = parse(toml(profile(Relu={"Float32": RELU}))), parse(toml(small_profile()))
    for work, op in ((relu(1000, "Float16"), "Relu"), (relu(1000), "Tanh"), (relu(1000), None)):
        assert hardware.cost(work, (0,), op) == plain.cost(work, (0,), op)


def test_figures_of_an_op_add_arithmetic_and_traffic():
    hardware = parse(toml(profile(Gemm={"other": {"launch": "0s", "rate": "1GFLOP/s", "bandwidth": "1GB/s"}})))
    assert hardware.cost(Work(10**9, 10**9, DTYPES["Float32"]), (0,), "Gemm").seconds == pytest.approx(2)


def test_views_take_time_only_where_that_was_measured():
    text = "func @main(%x: Tensor[Float32, (4, 6), 1]) {\n  %y = Reshape(%x, [6, 4])\n  return %y\n}\n"
    module = distir.parse(text)
    measured = parse(toml(profile(Reshape={"other": {"launch": "2us"}})))
    assert distir.simulate(module, parse(toml(small_profile()))).latency_s == 0
    simulation = distir.simulate(module, measured)
    assert simulation.latency_s == pytest.approx(2e-6)
    assert simulation.devices[1].peak_memory_bytes == 4 * 6 * 4


def two_levels(pattern="allreduce", level="inside"):
    made = copy.deepcopy(small_profile())
    made["levels"][level]["times"] = {pattern: TIMES}
    return parse(toml(made))


def test_a_pattern_with_times_takes_what_they_say():
    hardware = two_levels()
    for nbytes, seconds in ((1, 20e-6), (1000, 20e-6), (10**6, 2e-3), (10**7, 2e-2)):
        assert hardware.cost(communication("allreduce", nbytes), (0, 1)).seconds == pytest.approx(seconds)
    assert 20e-6 < hardware.cost(communication("allreduce", 10**4), (0, 1)).seconds < 2e-3


def test_times_count_only_in_their_level_and_for_their_pattern():
    hardware, plain = two_levels(), parse(toml(small_profile()))
    for pattern, positions in (("allreduce", (0, 2)), ("allreduce", (0, 1, 2, 3)), ("broadcast", (0, 1))):
        work = communication(pattern, 10**6, positions[0])
        assert hardware.cost(work, positions) == plain.cost(work, positions)


def test_between_numbers_of_devices_times_are_interpolated():
    made = copy.deepcopy(small_profile())
    made["levels"] = {"all": {**made["levels"]["outside"], "times": {"allreduce": TIMES}}}
    hardware = parse(toml(made))
    times = [hardware.cost(communication("allreduce", 1000), tuple(range(n))).seconds for n in (2, 3, 4)]
    assert times == sorted(times)
    assert times[0] < times[1] < times[2]


def test_latencies_come_with_a_band():
    text = "func @main(%x: Tensor[Float32, (4, 6), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    module = distir.parse(text)
    simulation = distir.simulate(module, parse(toml(profile(Relu={"Float32": RELU}))))
    assert simulation.band == (
        pytest.approx(0.9 * simulation.latency_s),
        pytest.approx(1.1 * simulation.latency_s),
    )
    assert distir.simulate(module, parse(toml(small_profile()))).band is None


def test_faults_are_named():
    assert problems(profile(Relu={"Float31": RELU})) == ["unknown key `Float31` in `kinds.gpu.ops.Relu`"]
    assert "`kinds.gpu.ops.Relu.other.launch` is missing" in problems(profile(Relu={"other": {}}))
    (message,) = problems(profile(Relu={"other": {"launch": "1us", "uncertainty": -1}}))
    assert message == "`kinds.gpu.ops.Relu.other.uncertainty`: expected a share such as `0.05`, found `-1`"
    (message,) = problems(profile(Relu={"other": {"launch": "1us", "bandwidth": {"1kB": "1GB/s", "2kB": "9GB/s"}}}))
    assert message.endswith("the size 2000 would take less time than 1000")
    made = copy.deepcopy(small_profile())
    made["levels"]["inside"]["times"] = {"allreduce": {"2": {"1kB": "2us", "1MB": "1us"}}, "gossip": {}}
    found = problems(made)
    assert "unknown key `gossip` in `levels.inside.times`" in found
    assert any(message.endswith("1e+06 bytes would take less time than 1000 bytes") for message in found)
