"""A timeline in blocks is the timeline: what blocks repeat are the events, with their times, devices and work."""

import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import machine, random_module, with_hosts, with_streams
from thorough import most_examples

from distir import models, parse
from distir.analysis import check
from distir.cost.host import Host
from distir.simulate import simulate
from distir.simulate import timeline as timelines
from distir.simulate.effects import to_seconds
from distir.simulate.page.answers import timeline_of
from distir.simulate.page.blocks import blocks_of
from distir.simulate.trace import placing_of
from distir.transform import transform

MACHINE = machine()
quick = settings(
    max_examples=most_examples(20), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def expanded(table):
    """Event by event: number, start, devices, phase, microbatch, statement, the calls that lead there, its hosts."""

    def block(number, event, start, host, devices, first, path):
        found = table.blocks[number]
        hosts = found.issued
        issued = [*zip(hosts.item, hosts.device, hosts.start_s, hosts.end_s, strict=True)]
        columns = zip(found.statement, found.kind, found.name, found.event, found.start_s, strict=True)
        for item, (at, kind, name, after, later) in enumerate(columns):
            statement = table.statements[at]
            here = statement.function, statement.statement
            if kind >= 0:
                op = table.kinds[kind]
                part = op.microbatch and (first or 1) + op.microbatch - 1
                there = [devices.get(d, d) for d in op.devices]
                mine = [(devices.get(d, d), host + since, host + until) for i, d, since, until in issued if i == item]
                yield event + after, start + later, there, op.phase, part, statement.op, (*path, here), mine
                continue
            inner, part = devices, first
            if name >= 0:
                renaming = table.renamings[name]
                inner = devices | {theirs: devices.get(ours, ours) for theirs, ours in renaming.devices}
                part = renaming.microbatch and (first or 1) + renaming.microbatch - 1
            begun = host + (found.host_s[item] if found.host_s else 0.0)
            yield from block(-1 - kind, event + after, start + later, begun, inner, part, (*path, here))

    return list(block(len(table.blocks) - 1, 0, 0.0, 0.0, {}, None, ()))


def assert_same(simulation):
    table = blocks_of(simulation, lambda site: None)
    timeline = simulation.timeline()
    placing = placing_of(simulation)
    found = expanded(table)
    assert len(found) == len(timeline) == table.blocks[-1].events
    for event, (number, start, devices, phase, microbatch, op, path, issued) in zip(
        timeline.events(), found, strict=True
    ):
        assert number == event.index
        assert start == pytest.approx(event.start, rel=1e-9, abs=1e-15)
        assert devices == list(event.effect.devices)
        facts = placing(event)
        assert (phase, microbatch) == (facts.phase or None, facts.microbatch or None)
        assert op == event.op
        assert path == tuple((function.name, index) for function, index in event.path)
        expected = () if timeline.is_simple else event.place.issued
        times = [(device, to_seconds(since), to_seconds(until)) for device, since, until in expected]
        assert [device for device, *_ in issued] == [device for device, *_ in times]
        assert [t for _, *each in issued for t in each] == pytest.approx([t for _, *each in times for t in each])
    return table


@quick
@given(st.integers(0, 2**32), st.booleans())
def test_blocks_of_random_programs(seed, streams):
    rng = random.Random(seed)
    module = random_module(rng)
    if streams:
        module = with_streams(rng, module)
    assume(not check(module).errors)
    assert_same(simulate(module, with_hosts(MACHINE, Host(3e-5)) if streams else MACHINE))


def pipeline(microbatches):
    training = transform(models.mlp(layers=4, width=64), "grad", "loss=mse", "optimizer=sgd")
    module = transform(training, "dtp=2,2,2", f"microbatches={microbatches}")
    return simulate(module, "dgx-a100", bind={"B": 4 * microbatches})


def test_a_pipeline_is_a_few_blocks_however_many_microbatches_there_are():
    few, many = (assert_same(pipeline(count)) for count in (8, 32))
    items = [sum(len(block.kind) for block in table.blocks) for table in (few, many)]
    events = [table.blocks[-1].events for table in (few, many)]
    assert events[1] > 3 * events[0]
    assert items[1] < 2 * items[0]


def test_what_hosts_issue_is_in_the_blocks():
    training = transform(models.mlp(layers=4, width=64), "grad", "loss=mse", "optimizer=sgd")
    module = transform(training, "dtp=2,1,2", "microbatches=16")
    table = assert_same(simulate(module, with_hosts(MACHINE, Host(3e-5)), bind={"B": 64}))
    assert any(block.issued.item for block in table.blocks)


def test_a_long_program_is_answered_in_blocks_where_they_are_asked_for(monkeypatch):
    monkeypatch.setattr(timelines, "MOST_FOLLOWED", 100)
    simulation = pipeline(8)
    whole = timeline_of(simulation, lambda site: None, columns=True, blocks=True)
    assert (whole.table, whole.bars, whole.next_event) == (None, (), None)
    assert whole.blocks is not None
    assert list(whole.critical_path) == simulation.timeline().critical_path()
    piece = timeline_of(simulation, lambda site: None, most=10, columns=True)
    assert (piece.blocks, piece.next_event, piece.critical_path) == (None, 10, ())


def test_calls_that_differ_in_how_far_hosts_are_ahead_share_a_block():
    layer = "func @layer(%x) {\n  %a = MatMul(%x, %x)\n  %b = MatMul(%a, %x)\n  return %b\n}"
    calls = "\n".join(f"  %v{i + 1} = @layer(%v{i})" for i in range(6))
    module = parse(f"{layer}\nfunc @main(%v0: Tensor[Float32, (512, 512), 1]) {{\n{calls}\n  return %v6\n}}\n")
    simulation = simulate(module, with_hosts(MACHINE, Host(1e-9)))
    table = assert_same(simulation)
    ahead = [event.start - to_seconds(next(iter(event.place.issued))[1]) for event in simulation.timeline().events()]
    assert ahead[-1] > 2 * ahead[2] > 0, "hosts run ahead, ever further"
    assert len(table.blocks) == 2
