"""Transfers of pipelines on streams of their own: what they come to, what they may not cost, and where they stand."""

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_samples import MACHINE, assert_same_results, forget, register, spending
from thorough import most_examples

import distir
from distir.analysis import check
from distir.cost import parse
from distir.diagnostics import ProgramError
from distir.ir import Module, Return, types
from distir.ops import type_of
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.pipeline import SCHEDULES


def only_passes():
    """A machine on which the passes of `spending` take seconds, and nothing else takes any time."""
    free = "".join(
        f'[kinds.device.ops.{op}.other]\nlaunch = "0us"\n' for op in ("Sub", "SGD", "Sum", "Split", "Concat")
    )
    machine = parse(f"{MACHINE}\n{free}")
    kinds = machine.kinds.map(lambda kind: replace(kind, bandwidth=inf))
    levels = [
        replace(level, links={use: replace(link, bandwidth=inf) for use, link in level.links.items()})
        for level in machine.levels
    ]
    return replace(machine, kinds=kinds, levels=tuple(levels))


LAYERS = 8
DENSE = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Tanh(%h)
  return %a
}
"""

laws = settings(deadline=None, max_examples=most_examples(25))
seconds = st.integers(1, 9)


@pytest.fixture(autouse=True, scope="module")
def _spending():
    register()
    yield
    forget()


@lru_cache
def training(layers=LAYERS, width=8):
    weights = [f"%w{i}: Tensor[Float64, ({width}, {width}), 1] {{param}}" for i in range(layers)]
    data = [f"%x: Tensor[Float64, (48, {width}), 1] {{batch = 0}}"]
    body = [f"  %x{i + 1} = @dense(%w{i}, %x{i or ''})" for i in range(layers)]
    text = f"{DENSE}\nfunc @main({', '.join(weights + data)}) {{\n" + "\n".join(body) + f"\n  return %x{layers}\n}}"
    return transform(distir.parse(text), "grad", "loss=mse", "optimizer=sgd")


@lru_cache
def pipelined(steps):
    return transform(training(), *steps.split())


def overlapped(module):
    return transform(module, "overlap=transfers")


@st.composite
def pipelines(draw):
    """The steps of a pipeline of some schedule, with stages of one shard or two."""
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    devices = draw(st.sampled_from([2, 3, 4]))
    virtual = 2 if schedule == "interleaved" else 1
    count = devices * 2 if schedule in ("interleaved", "dualpipev") else draw(st.sampled_from([2, 4, 12]))
    data, tensor = draw(st.sampled_from([(1, 1), (1, 2), (2, 1)]))
    degrees = f"dtp={data},{tensor},{devices} microbatches={count} schedule={schedule}"
    return f"{degrees} virtual={virtual} scatter_gather={draw(st.sampled_from(['true', 'false']))}"


passes = st.tuples(st.integers(2, 8), st.sampled_from([1, 2, 3, 5, 8, 16]), seconds, seconds, seconds)
"""Stages, microbatches, and how long a forward pass, gradients of inputs, and those of weights take."""


def fill_and_drain(model, stages, microbatches, schedule):
    piped = transform(model, f"pp={stages}", microbatches=microbatches, schedule=schedule)
    return simulate(overlapped(piped), only_passes()).latency_s


@laws
@given(passes, st.sampled_from(["gpipe", "1f1b"]))
def test_with_free_links_fill_and_drain_are_all_that_is_lost(numbers, schedule):
    stages, microbatches, forward, into_input, into_weight = numbers
    model = spending(stages, forward, into_input, into_weight)
    grad = model.functions["layerGrad"]
    weight_first = replace(grad, body=(grad.body[1], grad.body[0], grad.body[2]))
    model = Module(weight_first if function is grad else function for function in model)
    expected = (microbatches + stages - 1) * (forward + into_input + into_weight)
    assert fill_and_drain(model, stages, microbatches, schedule) == expected


@laws
@given(passes, st.sampled_from(["gpipe", "1f1b"]))
def test_a_gradient_leaves_before_the_pass_that_makes_it_is_done(numbers, schedule):
    stages, microbatches, forward, into_input, into_weight = numbers
    found = fill_and_drain(spending(stages, forward, into_input, into_weight), stages, microbatches, schedule)
    least = microbatches * (forward + into_input + into_weight) + (stages - 1) * (forward + into_input)
    assert least <= found <= least + (stages - 1) * into_weight
    if schedule == "gpipe":
        assert found == least


@laws
@given(pipelines(), st.sampled_from(["1GB/s", "0.02GB/s", "0.002GB/s"]))
def test_transfers_beside_computation_are_never_slower_than_those_that_block(steps, bandwidth):
    send = f'{{ startup = "3us", latency = "2us", bandwidth = "{bandwidth}" }}'
    machine = parse(f'extends = "dgx-a100"\n[levels.nvlink]\nsend = {send}\n')
    module = pipelined(steps)
    assert simulate(overlapped(module), machine).latency_s <= simulate(module, machine).latency_s


@laws
@given(pipelines())
def test_the_results_stay_the_same(steps):
    assert_same_results(training(), overlapped(pipelined(steps)), {})


@laws
@given(pipelines())
def test_transfers_of_other_devices_and_the_other_way_are_on_other_streams(steps):
    module = overlapped(pipelined(steps))
    on: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    analysis = check(module)
    assert not analysis.errors
    for name, instance in analysis.domain.own.items():
        for statement in module.functions[name].body if name not in ("main.scatter", "main.gather") else ():
            if getattr(statement, "op", "") == "Send":
                (source,) = types.devices(type_of(instance.state[statement.args[0]]))
                assert statement.stream
                on[statement.stream].add((source, statement.attrs["device"]))
    assert all({*a}.isdisjoint(b) for links in on.values() for a, b in combinations(links, 2))
    assert {name.partition("_")[0] for name in on} == {"forward", "backward"}


def test_what_serves_a_transfer_alone_goes_with_it():
    """The cut, or the reduction, of what shards send, and the gather where it arrives."""
    before = pipelined("dtp=1,2,2 microbatches=2 scatter_gather=true")
    streams: defaultdict[str, set[str]] = defaultdict(set)
    for statement in overlapped(before).functions["main"].body:
        if getattr(statement, "op", "").startswith(("Send", "MPI", "Split")):
            streams[statement.op].add(statement.stream)
    assert streams["Send"] == streams["MPIAllgather"] == {"forward", "backward"}
    assert "" not in streams["MPIReduceScatter"] | streams["MPIAllgather"]
    assert streams["Split"] == {"", "forward"}  # the batch is cut on the stream that computes


def test_a_transfer_begins_as_soon_as_there_is_what_it_sends():
    module = overlapped(pipelined("dtp=1,1,4 microbatches=4"))
    last = {}  # by stage: what its device did last
    for statement in module.functions["main"].body:
        if getattr(statement, "op", "") == "Send":
            assert statement.args[0] in last[statement.facts.stage]
        elif not isinstance(statement, Return):
            last[statement.facts.stage] = statement.results


def test_a_program_that_sends_nothing_is_left_alone():
    with pytest.raises(ProgramError, match="DIR684"):
        transform(training(), "dp=2", "overlap=transfers")
