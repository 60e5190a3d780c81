"""One plan for many sizes says of each what simulating for that size alone does."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, tensor
from thorough import most_programs

from distir import models, transform
from distir.analysis import check
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import Call, Function, Module, TensorType, dims
from distir.ir.builder import FunctionBuilder
from distir.ops import OPS, op
from distir.simulate import BindError, Sweep, simulate

PROGRAMS = most_programs(100)
MACHINE = machine()
DGX = load("dgx2-v100")


def sweep(module, hardware=MACHINE):
    return Sweep(check(module), module.entry(), hardware)


def by_pattern(swept):
    """Whether sizes were costed by a pattern, not simulated one by one."""
    return any(pattern is not None for pattern in swept._patterns.values())


def same(found, expected):
    assert found.latency_s == expected.latency_s
    assert found.devices == expected.devices
    assert found.peaks == expected.peaks
    assert found.ops == expected.ops


def opened(module):
    """The module with `B` for every two rows of what the entry function is given."""
    main = module.functions["main"]
    params = tuple(replace(p, type=_opened(p.type)) for p in main.params)
    return Module([*(f for f in module if f is not main), Function("main", params, main.body)])


def _opened(type):
    if isinstance(type, TensorType) and len(type.shape or ()) == 2:
        rows = dims.multiply(dims.named("B"), type.shape[0] // 2)
        return TensorType(type.dtype, (rows, *type.shape[1:]), type.device)
    return type


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.integers(0, 2**32))
def test_random_programs(seed):
    rng = random.Random(seed)
    module = opened(random_module(rng, first_device=rng.choice([0, 1]), statements=rng.choice([4, 8, 16])))
    assume(not check(module).errors)
    assume(any("B" in str(p.type) for p in module.functions["main"].params))
    swept = sweep(module)
    for size in rng.sample(range(1, 9), 4):
        expected = outcome(lambda: simulate(module, MACHINE, bind={"B": size}))  # noqa: B023
        found = outcome(lambda: swept.at({"B": size}))  # noqa: B023
        if isinstance(expected, tuple):
            assert found == expected
            continue
        same(found, expected)
        a, b = found.timeline(), expected.timeline()
        assert (a.starts, a.slack, a.waits) == (b.starts, b.slack, b.waits)
        assert a.critical_path() == b.critical_path()
        assert list(found.memory().points()) == list(expected.memory().points())


def outcome(run):
    """The simulation, or what is wrong with the program."""
    try:
        return run()
    except ProgramError as error:
        return error.diagnostics


@pytest.mark.each_once
@pytest.mark.parametrize("steps", [("dtp=2,2,2", "microbatches=4"), ("dtp=1,1,4", "microbatches=2"), ("dtp=4,2,1",)])
@pytest.mark.parametrize("model", ["mlp", "gpt2"])
def test_models_on_many_devices(model, steps):
    sequential = {
        "mlp": lambda: models.mlp(layers=8, width=64, training=True),
        "gpt2": lambda: models.gpt2(layers=4, width=64, heads=8, sequence=8, vocabulary=96),
    }[model]()
    module = transform(sequential, *steps)
    swept = sweep(module, DGX)
    for size in (32, 64, 256, 4096):
        expected = simulate(module, DGX, bind={"B": size})
        same(swept.at({"B": size}), expected)
        same(Sweep(check(module, late=True), module.entry(), DGX).once({"B": size}), expected)
    assert by_pattern(swept)


@pytest.mark.parametrize("bind", [{"B": 6}, {"B": -4}, {"B": 2**61}, {"B": 2.5}, {}, {"C": 3}, {"B": 8, "C": 3}])
def test_what_cannot_be_is_said_as_by_simulating(bind):
    module = transform(models.mlp(layers=4, width=64), "dtp=4,1,1")
    swept = sweep(module, DGX)
    swept.at({"B": 64})
    with pytest.raises((ProgramError, BindError)) as found:
        swept.at(bind)
    with pytest.raises((ProgramError, BindError)) as expected:
        simulate(module, DGX, bind=bind)
    assert str(found.value) == str(expected.value)


def test_memory_that_is_taken_over_for_some_sizes_only():
    @op("Tensor[t, (m, n), d], Tensor[t, (k, n), d] -> Tensor[t, (m, n), d]", flops=1, inplace={0: 1})
    def Refill(x, old):
        """Writes where something else has been."""
        return x

    try:
        f = FunctionBuilder("main")
        x = f.param("x", TensorType(tensor(4, 1).dtype, (dims.named("B"), 4), 1))
        w = f.param("w", tensor(4, 1))
        (old,) = f.apply("Relu", w)
        (new,) = f.apply("Refill", x, old)
        module = Module([f.returns(new)])
        swept = sweep(module)
        for size in (2, 4, 7, 4):  # with 4 rows `%old` and `%new` are equally large
            same(swept.at({"B": size}), simulate(module, MACHINE, bind={"B": size}))
        assert by_pattern(swept)
        peaks = {size: swept.at({"B": size}).devices[1].peak_memory_bytes for size in (3, 4, 5)}
        assert peaks[4] < peaks[3]
    finally:
        del OPS["Refill"]


def test_sizes_are_equal_by_chance_where_nothing_is_taken_over():
    @op("Tensor[t, (m, n), d], Tensor[t, (k, n), d] -> Tensor[t, (m, n), d]", flops=1, inplace={0: 1})
    def Refill(x, old):
        """Writes where something else has been."""
        return x

    try:
        f = FunctionBuilder("main")
        x = f.param("x", TensorType(tensor(4, 1).dtype, (dims.named("B"), 4), 1))
        w = f.param("w", tensor(4, 1))
        (old,) = f.apply("Relu", w)
        (new,) = f.apply("Refill", x, old)
        (used,) = f.apply("Neg", old)  # it lives on
        swept = sweep(Module([f.returns(new, used)]))
        for size in (3, 4):
            bind = {"B": size}
            same(swept.at(bind), simulate(swept.analysis.module, MACHINE, bind=bind))
            assert swept._costed(bind) is not None
    finally:
        del OPS["Refill"]


def test_devices_of_one_kind_are_costed_once():
    sequential = models.gpt2(layers=4, width=64, heads=8, sequence=8, vocabulary=96)
    swept = sweep(transform(sequential, "dtp=8,1,1"), DGX)
    swept.at({"B": 64})
    effects = swept.at({"B": 128}).timeline().effects
    ops = [s for f in sequential for s in f.body if not isinstance(s, Call)]
    assert len(effects) > 8 * len(ops)
    assert len({id(effect.cost) for effect in effects}) <= len(ops) + 8
