"""What the tests of pipelines share: a model whose passes take as long as one says, and a machine with free links."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

import distir
from distir.analysis import random_inputs
from distir.cost import parse
from distir.ops import OPS, op
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.pipeline.order import Message, makespan, merge
from distir.transform.pipeline.passes import Pass, Task, needs, stage_devices
from distir.transform.pipeline.schedules import SCHEDULES

RATE = 1e9
"""FLOP/s of the machine: its passes take seconds, all else some billionths of one."""

MACHINE = """
title = "computes, and sends for free"
groups = [{ kind = "device", count = 8 }]

[kinds.device]
title = "device"
memory = "1000GB"
launch = "0us"
memory_bandwidth = { peak = "1000000000TB/s", achieved = "1000000000TB/s" }
flops = { Float32 = { peak = "1GFLOP/s", achieved = "1GFLOP/s" }, other = { like = "Float32" } }

[levels.link]
devices = 8
send = { startup = "0us", latency = "0us", bandwidth = "1000000000TB/s" }
collective = { startup = "0us", latency = "0us", bandwidth = "1000000000TB/s" }
"""


def machine():
    return parse(MACHINE)


def written_out(module):
    """A pipeline with its rounds written out."""
    rounds = ",".join(f.name for f in module if "round" in f.name)
    return transform(module, f"inline={rounds}") if rounds else module


def _spent(amount, **_):
    return int(amount * RATE)


def register():
    """Three ops that take `amount` seconds each: a layer, its gradients of the input, and of the weights."""

    @op("Tensor[t:float, (n,), d], Tensor[t:float, (b, n), d] -> Tensor[t, (b, n), d]", flops=_spent)
    def Spend(w, x, *, amount: int = 1):
        return x * w

    @op("Tensor[t:float, (n,), d], Tensor[t:float, (b, n), d] -> Tensor[t, (b, n), d]", flops=_spent)
    def SpendInput(w, dy, *, amount: int = 1):
        return dy * w

    @op("Tensor[t:float, (b, n), d], Tensor[t:float, (b, n), d] -> Tensor[t, (n,), d]", flops=_spent)
    def SpendWeight(x, dy, *, amount: int = 1):
        return (x * dy).sum(axis=0)


def forget():
    for name in ("Spend", "SpendInput", "SpendWeight"):
        del OPS[name]


def spending(layers, forward, into_input, into_weight, rows=480, width=2):
    """A training step of `layers` layers that take these seconds. It returns the gradient of its input as well."""
    names = ["x", *(f"a{i}" for i in range(1, layers + 1))]
    params = [f"%w{i}: Tensor[Float64, ({width},), 1] {{param}}" for i in range(1, layers + 1)]
    params += [f"%{n}: Tensor[Float64, ({rows}, {width}), 1] {{batch = 0}}" for n in ("x", "y")]
    body = [f"%{b} = @layer(%w{i}, %{a})" for i, (a, b) in enumerate(pairwise(names), 1)]
    body += [f"%d{names[-1]} = Sub(%{names[-1]}, %y)"]
    for i in range(layers, 0, -1):
        body += [f"%dw{i}, %d{names[i - 1]} = @layerGrad(%w{i}, %{names[i - 1]}, %d{names[i]})"]
    body += [f"%w{i}_new = SGD(%w{i}, %dw{i})" for i in range(1, layers + 1)]
    returned = ", ".join(["%dx", *(f"%w{i}_new" for i in range(1, layers + 1))])
    text = f"""
func @layer(%w, %x) {{
  %y = Spend[amount = {forward}](%w, %x)
  return %y
}}

func @layerGrad(%w, %x, %dy) {{
  %dx = SpendInput[amount = {into_input}](%w, %dy)
  %dw = SpendWeight[amount = {into_weight}](%x, %dy)
  return %dw, %dx
}}

func @main({", ".join(params)}) {{
  {chr(10).join(body)}
  return {returned}
}}
"""
    return distir.parse(text)


def simulated(module, **bind):
    return simulate(module, machine(), bind=bind)


def messages(order, stages):
    """What passes between neighbouring stages on different devices."""
    device = {task: d for d, tasks in enumerate(order) for task in tasks}
    tasks = device.keys()
    found = []
    for task in tasks:
        if task.kind is Pass.WEIGHT:
            continue
        beside = Task(task.stage + (1 if task.kind is Pass.FORWARD else -1), task.microbatch, task.kind)
        if 0 <= beside.stage < stages and device[beside] != device[task]:
            found.append(Message(task, beside))
    return found


def merged(name, devices, microbatches, virtual=1, lengths=None):
    """A schedule's order and its events, with messages placed for `lengths`, or as they are by default."""
    order = SCHEDULES[name](devices, microbatches, virtual)
    sent = messages(order, len(stage_devices(order)))
    events = merge(order, sent) if lengths is None else merge(order, sent, lambda task: lengths[task.kind])
    return order, events


def span(name, devices, microbatches, virtual, lengths, expected=None):
    """How long a schedule takes where its messages were placed for the lengths `expected`."""
    order, events = merged(name, devices, microbatches, virtual, expected)
    home = stage_devices(order)
    return makespan(events, lambda task: home[task.stage], lambda task: lengths[task.kind], devices)


def without_blocking(order, sent, duration):
    """How long a schedule takes where a message waits for nobody: no order of blocking ones can be faster."""
    awaited, end = {}, {}
    for message in sent:
        awaited.setdefault(message.target, []).append(message.source)
    clocks, position = [0] * len(order), [0] * len(order)
    while any(position[d] < len(tasks) for d, tasks in enumerate(order)):
        for device, tasks in enumerate(order):
            while position[device] < len(tasks):
                task = tasks[position[device]]
                if not all(source in end for source in awaited.get(task, ())):
                    break
                start = max([clocks[device], *(end[source] for source in awaited.get(task, ()))])
                clocks[device] = end[task] = start + duration(task)
                position[device] += 1
    return max(clocks)


@st.composite
def orders(draw):
    """Any order that can be run: stages on devices by chance, passes one after the other as chance will have it."""
    devices, microbatches = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    homes = draw(st.lists(st.integers(0, devices - 1), min_size=devices, max_size=devices))
    splits = draw(st.booleans())
    return (
        devices,
        microbatches,
        splits,
        any_order(draw(st.randoms(use_true_random=False)), homes, microbatches, splits),
    )


def any_order(dice, homes, microbatches, splits):
    """An order with these stages on these devices."""
    waiting = [Task(s, k, kind) for s in range(len(homes)) for k in range(microbatches) for kind in Pass]
    waiting = [task for task in waiting if splits or task.kind is not Pass.WEIGHT]
    rows, done = [[] for _ in homes], set()
    while waiting:
        task = dice.choice([task for task in waiting if done.issuperset(needs(task, len(homes)))])
        waiting.remove(task)
        done.add(task)
        rows[homes[task.stage]].append(task)
    return tuple(map(tuple, rows))


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [value]


def assert_same_results(module, made, sizes):
    """gather(main(scatter(x))) = sequential(x), for weights and inputs around 1, so that no gradient vanishes."""
    entry = module.entry()
    inputs = random_inputs(module, 1, sizes)
    scaled = [_larger(value) for value in inputs.values()]
    expected = list(distir.run(module, scaled, entry.name).values())
    values = scaled
    for name in (f"{entry.name}.scatter", entry.name, f"{entry.name}.gather"):
        values = list(distir.run(made, values, name).values())
    assert len(values) == len(expected)
    for old, new in zip(expected, values, strict=True):
        for a, b in zip(leaves(old), leaves(new), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10 * float(np.max(np.abs(a), initial=0)))


def _larger(value):
    if isinstance(value, tuple):
        return tuple(map(_larger, value))
    return value * 8 if value.dtype.kind == "f" else value
