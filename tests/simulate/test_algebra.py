"""The laws of blocks: how a program is cut into them changes nothing, neither clocks nor memory, to the last bit."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.cost import Cost
from distir.ops import Work
from distir.ops.resources import Communication
from distir.simulate.algebra import clocks, usage
from distir.simulate.algebra.clocks import compose, lane, power, ready, rename, renamed_clock, retreat, run, totals
from distir.simulate.effects import Effect, to_seconds, to_ticks


def effect(devices, seconds):
    communication = Communication("all_reduce", 1) if len(devices) > 1 else None
    cost = Cost(seconds, "compute")
    return Effect("Op", Work(communication=communication), devices, cost, to_ticks(seconds), (), (), (), (), ())


groups = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(lambda group: tuple(sorted(group)))
effects = st.builds(effect, groups, st.floats(0, 1e3, allow_subnormal=False))


@st.composite
def bodies(draw, depth=3):
    """A body as its summary, and as the ops that it has if inlined."""
    steps = draw(st.lists(effects, min_size=1, max_size=8))
    if depth:
        callees = draw(st.lists(bodies(depth - 1), max_size=2))
        if callees:
            steps += draw(st.lists(st.sampled_from(callees), max_size=4))
            steps = draw(st.permutations(steps))
    flat = [op for step in steps for op in (step[1] if isinstance(step, tuple) else (step,))]
    return compose([s[0] if isinstance(s, tuple) else s for s in steps]), flat


def clocks_of(flat, draw):
    devices = sorted({device for op in flat for device in op.devices})
    return {device: to_ticks(draw(st.floats(0, 1e4, allow_subnormal=False))) for device in devices}


def few(number, strategy):
    """Drawn with rows kept for blocks of so many clocks; others are run step by step where that takes no longer."""

    @st.composite
    def drawn(draw):
        with patch.object(clocks, "FEW", number):
            return draw(strategy)

    return drawn()


@settings(max_examples=most_examples(300), deadline=None)
@given(st.one_of(bodies(), few(0, bodies())), st.data())
def test_a_summary_moves_clocks_as_the_ops_do(body, data):
    summary, flat = body
    begun = clocks_of(flat, data.draw)
    expected, found = dict(begun), dict(begun)
    run(flat, expected)
    run([summary], found)
    assert found == expected
    retreat(reversed(flat), expected)
    retreat([summary], found)
    assert found == expected
    assert totals([summary]) == totals(flat)
    assert summary.last == {d: max(i for i, op in enumerate(flat) if d in op.devices) for d in begun}


@settings(max_examples=most_examples(100), deadline=None)
@given(st.lists(effects, min_size=1, max_size=12))
def test_a_summary_holds_the_longest_chain_between_any_two_devices(flat):
    summary = compose(flat)
    for start in summary.devices:
        far = to_ticks(1e9)  # so late that every chain from this device is longer than any other
        chains = {device: far if device == start else 0 for device in summary.devices}
        run(flat, chains)
        delays = {start: summary.ticks} if len(summary.devices) == 1 else {}
        for device, row, ticks in summary.ends:
            delays.update((device, delay + ticks) for source, delay in summary.rows[row] if source == start)
        delays.update((device, ticks) for device, ticks in summary.shifts if device == start)
        assert delays == {device: end - far for device, end in chains.items() if end >= far}


def test_a_block_whose_rows_would_be_longer_than_its_steps_is_run_step_by_step():
    """Each of many values waits for all before it."""
    count = 2 * clocks.FEW
    summary = compose([effect((0, 1 + value), 1.0 + value) for value in range(count)])
    assert summary.rows == ()
    assert summary.steps is not None
    called = compose([rename(summary, {device: 3 * device for device in summary.devices})] * 2)
    moved = dict.fromkeys(called.devices, 0)
    run([called], moved)
    assert moved[0] == 2 * sum(to_ticks(1.0 + value) for value in range(count))


def test_devices_that_an_op_joins_share_one_row():
    steps = [effect((1, 2, 3, 4), 1.0), effect((1,), 2.0), effect((2, 3), 0.5)] * 9
    steps += [effect((1, 2, 3, 4), 1.0)]
    summary = compose(steps)
    assert len(summary.rows) == 1
    assert {row for _, row, _ in summary.ends} == {0}


@given(st.floats(1e-9, 1e9))
def test_ticks_keep_every_digit_of_a_nanosecond_and_more(seconds):
    assert to_seconds(to_ticks(seconds)) == pytest.approx(seconds, rel=1e-15, abs=0)


blocks = st.lists(effects, min_size=1, max_size=6).map(compose)
MORE = {device: 20 - 3 * device for device in range(1, 7)}
"""Other devices, in another order."""


def delays(summary):
    """The matrix: by device at the end and device at the start, the longest chain between them."""
    if len(summary.devices) == 1:
        return {(summary.devices[0], summary.devices[0]): summary.ticks}
    found = {}
    for device, row, ticks in summary.ends:
        found.update({(device, source): delay + ticks for source, delay in summary.rows[row]})
    return found


def means(summary):
    """All that a summary says."""
    return (
        delays(summary),
        (sorted(summary.devices), summary.busy, summary.communication, summary.last, summary.events),
    )


@settings(max_examples=most_examples(200), deadline=None)
@given(blocks, blocks, blocks)
def test_composition_is_associative(a, b, c):
    expected = means(compose([a, b, c]))
    assert means(compose([compose([a, b]), c])) == expected
    assert means(compose([a, compose([b, c])])) == expected


@settings(max_examples=most_examples(200), deadline=None)
@given(blocks, st.integers(1, 20))
def test_a_power_is_the_block_repeated(block, times):
    assert means(power(block, times)) == means(compose([block] * times))


@settings(max_examples=most_examples(200), deadline=None)
@given(st.lists(bodies(depth=1), min_size=1, max_size=3), st.integers(1, 5), st.data())
def test_renaming_commutes_with_composition_and_powers(parts, times, data):
    parts = [summary for summary, _ in parts]
    composed, there = compose(parts), [rename(part, MORE) for part in parts]
    assert means(rename(composed, MORE)) == means(compose(there))
    assert means(rename(power(composed, times), MORE)) == means(power(compose(there), times))
    begun = {device: data.draw(st.integers(0, 10**6)) for device in composed.devices}
    moved = {MORE[device]: clock for device, clock in begun.items()}
    run([composed], begun)
    run([rename(composed, MORE)], moved)
    assert moved == {MORE[device]: clock for device, clock in begun.items()}


sized = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=3)
memory_ops = st.lists(st.tuples(sized, sized, sized), max_size=5)


def used(ops):
    """The use of memory by the definition: all moments of all ops."""
    now, found = dict.fromkeys(range(4), 0), {}
    moments = []
    for taken, temporary, given_back in ops:
        for memory, size in taken:
            now[memory] += size
        more = dict(now)
        for memory, size in temporary:
            more[memory] = max(more[memory], now[memory] + size)
        moments.append(more)
        for memory, size in given_back:
            now[memory] -= size
    for memory in range(4):
        found[memory] = now[memory], max([0, *(moment[memory] for moment in moments)])
    return found


def by_op(ops):
    total = usage.Usage()
    for op in ops:
        total.op(*op)
    return total.total


def everywhere(use):
    return {memory: use.get(memory, (0, 0)) for memory in range(4)}


@given(memory_ops, memory_ops, memory_ops)
def test_the_use_of_memory_composes(a, b, c):
    expected = used([*a, *b, *c])
    a, b, c = map(by_op, (a, b, c))
    assert everywhere(usage.compose([a, b, c])) == expected
    assert usage.compose([usage.compose([a, b]), c]) == usage.compose([a, usage.compose([b, c])])
    assert everywhere(usage.compose([a, usage.compose([b, c])])) == expected


@given(memory_ops, memory_ops, st.integers(0, 9))
def test_the_use_of_memory_by_a_block_repeated_and_moved(a, b, times):
    a, b = by_op(a), by_op(b)
    assert usage.power(a, times) == usage.compose([a] * times)
    there = {memory: 7 - memory for memory in range(4)}
    assert usage.rename(usage.compose([a, b]), there) == usage.compose([usage.rename(x, there) for x in (a, b)])


def test_a_summary_of_few_ops_is_the_ops():
    pair = compose([effect((1, 2), 1.0)])
    assert len(pair.inline) == 1
    many = compose([effect((1, 2), 1.0), effect((1,), 2.0)] * 10)
    assert many.inline is None


def test_a_clock_is_one_object():
    """Wherever it comes from: dictionaries of clocks compare by identity."""
    for made in (lambda: lane("host", 3), lambda: lane("stream", 3, "copy"), lambda: ready(3)):
        assert pickle.loads(pickle.dumps(made())) is made()
        assert renamed_clock(renamed_clock(made(), {3: 4}), {4: 3}) is made()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: ready(10_000 + number // 8), range(800)))
    assert len(set(map(id, found))) == 100
