"""Calls that differ in their devices alone follow from one of them, and mean what they mean each by itself."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulate_samples import inlined, machine, with_hosts
from thorough import most_programs

import distir
from distir import op
from distir.analysis import Mixed, check
from distir.cost.host import Host
from distir.ir import Call
from distir.ops import OPS
from distir.simulate import simulate
from distir.simulate.body import Body

PROGRAMS = most_programs(100)
MACHINE = machine()
DEVICES = (1, 2, 3, 4, 5)

quick = settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def replicated(draw, streams=False):
    """A function on two devices that names neither, and a program that calls it on several pairs of devices.

    With streams, the function has some of its own, and arguments are sent there on another one.
    """
    aside = [" on side", " on copy", ""] if streams else [""]
    sides = {0: ["w_0", "x_0"], 1: ["w_1", "x_1"]}
    lines = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["Relu", "MatMul", "dense", "Tuple", "Allreduce", "SGD"]))
        side = draw(st.sampled_from([0, 1]))
        a, b = (draw(st.sampled_from(sides[side])) for _ in range(2))
        name = f"v{number}_{side}"
        if kind == "Allreduce":
            both = [draw(st.sampled_from(sides[i])) for i in (0, 1)]
            on = draw(st.sampled_from(aside))
            lines.append(f"%v{number}_0, %v{number}_1 = MPIAllreduce(%{both[0]}, %{both[1]}){on}")
            sides[1 - side].append(f"v{number}_{1 - side}")
        elif kind == "Tuple":
            lines += [f"%t{number} = MakeTuple(%{a}, %{b})", f"_, %{name} = UnpackTuple(%t{number})"]
        elif kind == "dense":
            lines.append(f"%{name} = @dense(%{a}, %{b})")
        elif kind == "SGD":
            lines.append(f"%{name} = SGD[lr = 0.5](%{a}, %{b})")
        else:
            on = draw(st.sampled_from(aside))
            lines.append(f"%{name} = {kind}(%{a}{f', %{b}' if kind == 'MatMul' else ''}){on}")
        sides[side].append(name)
    returned = [draw(st.sampled_from(sides[i])) for i in (0, 1)]
    body = "\n  ".join(lines)
    parameters = ", ".join(f"%{name}: Tensor[Float32, (64, 64)]" for name in ("w_0", "w_1", "x_0", "x_1"))
    stage = f"func @stage({parameters}) {{\n  {body}\n  return %{returned[0]}, %{returned[1]}\n}}"

    values = {device: [f"w{device}", f"x{device}"] for device in DEVICES}
    calls = []
    for number in range(draw(st.integers(2, 6))):
        pair = draw(st.lists(st.sampled_from(DEVICES), min_size=2, max_size=2, unique=True))
        arguments = [draw(st.sampled_from(values[pair[i]])) for i in (0, 1, 0, 1)]
        for i in (0, 1) if streams else ():
            sender = draw(st.sampled_from([0, *(device for device in DEVICES if device != pair[i])]))
            if sender:
                value = draw(st.sampled_from(values[sender]))
                calls.append(f"%s{number}_{i} = Send[device = {pair[i]}](%{value}) on copy")
                arguments[draw(st.sampled_from([i, i + 2]))] = f"s{number}_{i}"
                values[pair[i]].append(f"s{number}_{i}")
        calls.append(f"%r{number}_0, %r{number}_1 = @stage({', '.join(f'%{a}' for a in arguments)})")
        for i in (0, 1):
            values[pair[i]].append(f"r{number}_{i}")
    given_ = ", ".join(f"%{n}{d}: Tensor[Float32, (64, 64), {d}]" for d in DEVICES for n in "wx")
    ends = ", ".join(f"%{draw(st.sampled_from(values[device]))}" for device in DEVICES)
    body = "\n  ".join(calls)
    return distir.parse(
        "func @dense(%w: Tensor[Float32, (64, 64)], %x: Tensor[Float32, (64, 64)]) {\n"
        "  %h = MatMul(%x, %w)\n  %y = Relu(%h)\n  return %y\n}\n"
        f"{stage}\nfunc @main({given_}) {{\n  {body}\n  return {ends}\n}}"
    )


@quick
@given(st.one_of(replicated(), replicated(streams=True)), st.booleans())
def test_replicas_run_as_if_inlined(module, hosts):
    hardware = with_hosts(MACHINE, Host(4e-6), Host(1.5e-6)) if hosts else MACHINE
    found, expected = (simulate(m, hardware) for m in (module, inlined(module)))
    assert found.latency_s == expected.latency_s
    assert found.devices == expected.devices
    assert found.peaks == expected.peaks
    assert found.ops == expected.ops
    a, b = found.timeline(), expected.timeline()
    assert (a.starts, a.slack, a.waits) == (b.starts, b.slack, b.waits)
    assert [e.devices for e in a.effects] == [e.devices for e in b.effects]
    assert a.critical_path() == b.critical_path()
    assert list(found.memory().points()) == list(expected.memory().points())
    assert (found.bubble, found.exposed_communication, found.host_bound) == (
        expected.bubble, expected.exposed_communication, expected.host_bound)  # fmt: skip


def test_replicas_that_wait_for_what_is_sent_follow_from_one():
    """What is pending when they are called uses memory of other devices, too."""
    lines = [f"%s{d} = Send[device = {d + 1}](%x{d}) on copy\n  %y{d} = @stage(%s{d})" for d in (1, 4)]
    text = (
        "func @stage(%x) {\n  %h = Relu(%x)\n  %y = MatMul(%h, %x)\n  return %y\n}\n"
        "func @main(%x1: Tensor[Float32, (64, 64), 1], %x4: Tensor[Float32, (64, 64), 4]) {\n  "
        + "\n  ".join(lines)
        + "\n  return %y1, %y4\n}"
    )
    module = distir.parse(text)
    found = simulate(module, "dgx-a100")
    first, second = (step for step in found.body.steps if isinstance(step, Body))
    assert second.origin is not None
    assert second.origin[0] is first
    assert list(found.memory().points()) == list(simulate(inlined(module), "dgx-a100").memory().points())


@quick
@given(replicated())
def test_replicas_are_typed_as_if_each_were_alone(module):
    domain, alone = check(module).domain, Mixed(module)
    main = domain.own["main"]
    for statement in module.functions["main"].body:
        if isinstance(statement, Call):
            vs = main.state(statement.args)
            found, expected = domain.instance(statement.function, vs), alone.instance(statement.function, vs)
            assert found.args == expected.args
            assert found.returned == expected.returned == found.state.returned
            assert dict(found.state) == dict(expected.state)


def stages(count, devices):
    calls = "\n  ".join(f"%y{i} = @stage(%x{i})" for i in range(count))
    given_ = ", ".join(f"%x{i}: Tensor[Float32, (64, 64), {d}]" for i, d in enumerate(devices))
    returned = ", ".join(f"%y{i}" for i in range(count))
    return f"func @main({given_}) {{\n  {calls}\n  return {returned}\n}}"


def test_what_is_wrong_in_a_call_is_said_of_each_device():
    text = "func @stage(%x) {\n  %y = Reshape(%x, [3, 5])\n  return %y\n}\n" + stages(3, (1, 2, 3))
    errors = check(distir.parse(text)).errors
    assert [error.site.index for error in errors if error.site.function == "main"] == [0, 1, 2]


def test_a_function_that_names_a_device_is_looked_at_for_each():
    text = "func @stage(%x) {\n  %y = Send[device = 3](%x)\n  return %y\n}\n" + stages(2, (1, 2))
    simulation = simulate(distir.parse(text), MACHINE)
    assert [e.devices for e in simulation.timeline().effects] == [(1, 3), (2, 3)]
    assert sorted(simulation.devices) == [1, 2, 3]


@pytest.mark.parametrize("devices", [(1, 4), (4, 1)])
def test_devices_of_another_kind_take_their_own_time(devices):
    """Device 3 is of the slow kind."""
    text = "func @stage(%x) {\n  %y = MatMul(%x, %x)\n  return %y\n}\n" + stages(3, (*devices, 3))
    effects = simulate(distir.parse(text), MACHINE).timeline().effects
    assert effects[0].ticks == effects[1].ticks != effects[2].ticks


def test_an_op_that_is_defined_again_names_devices_as_it_now_says():
    """What is known of an op goes with its definition, not with its name."""
    text = "func @stage(%x) {\n  %y = Moved[device = 1](%x)\n  return %y\n}\n" + stages(2, (1, 2))
    try:
        define_moved("Tensor[t, s, d] -> Tensor[t, s, d]")
        assert returned_devices(text) == [1, 2]
        define_moved("Tensor[t, s, d] -> Tensor[t, s, device]")
        assert returned_devices(text) == [1, 1]
    finally:
        del OPS["Moved"]


@pytest.mark.parametrize("kernel", ["", " kernel"])
def test_an_op_that_is_defined_again_costs_what_it_now_says(kernel):
    """Effects are known from one program to the next."""
    text = f"func @f(%x: Tensor[Float32, (64, 64), 1]){kernel} {{\n  %y = Worked(%x)\n  return %y\n}}\n"
    text += "func @main(%x: Tensor[Float32, (64, 64), 1]) {\n  %y = @f(%x)\n  return %y\n}\n"
    done = []
    try:
        for flops in (1, 1, 1000):
            define_worked(flops)
            (effect,) = simulate(distir.parse(text), MACHINE).timeline().effects
            done.append(effect.work.flops)
    finally:
        del OPS["Worked"]
    assert done == [64 * 64, 64 * 64, 1000 * 64 * 64]


def define_worked(flops):
    @op("Tensor[t, s, d] -> Tensor[t, s, d]", flops=flops)
    def Worked(x):
        return x


def define_moved(signature):
    @op(signature)
    def Moved(x, *, device: int):
        return x


def returned_devices(text):
    return [value.device for value in check(distir.parse(text)).domain.own["main"].returned]
