"""Fits: what follows a law is found again, and a profile says what its fits say."""

import importlib
import json
import random
import statistics
import sys
import types
from dataclasses import replace

import pytest
from calibration_samples import BEGIN, CARDS, INTERFERENCE, also_warm, benchmarks, cached, lawful, machine, seen, taken
from cost_samples import communication
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.cost import parse
from distir.cost.calibrate import Sample, as_toml, communicating, computing, fit, measuring, tables
from distir.cost.calibrate.fitting import CardsFit, nonnegative
from distir.cost.calibrate.measuring import samples
from distir.ir import DTYPES
from distir.ops.resources import Communication, Work

FOLDER = __file__.rsplit("/tests/", 1)[0] + "/examples/profiles"

ROUGH = 1e-4
"""What six digits of a profile's figures may change."""


def noisy(seed, share):
    rng = random.Random(seed)

    def factors():
        return tuple(rng.lognormvariate(0, share) for _ in range(5))

    return factors


def test_a_line_is_found_again():
    found = {f.op: f for f in fit(seen(lawful)).ops}
    assert found["MatMul"].form == "line"
    assert found["MatMul"].launch == pytest.approx(2e-6)
    assert found["MatMul"].rate[0][1] == pytest.approx(50e9)
    assert found["MatMul"].bandwidth[0][1] == pytest.approx(10e9)
    assert found["MatMul"].r2 == pytest.approx(1)
    assert found["MatMul"].uncertainty == pytest.approx(0, abs=1e-6)


def test_caches_make_a_table_that_goes_through_all_points():
    measured = seen(cached)
    found = {f.op: f for f in fit(measured).ops}
    assert found["Relu"].form == "table"
    for sample in measured:
        if sample.benchmark.op == "Relu":
            work = sample.benchmark.work
            assert found["Relu"].seconds(work.flops, work.bytes) == pytest.approx(sample.seconds, rel=0.02)


@pytest.mark.parametrize("law", [lawful, cached])
def test_simulated_costs_are_what_was_fitted(law):
    calibration = fit(seen(law))
    hardware = parse(as_toml(calibration, machine()))
    fits = {(f.op, f.dtype): f for f in calibration.ops}
    for b in benchmarks():
        own = fits[b.op, "other" if b.work.dtype is None else b.work.dtype.name]
        cost = hardware.cost(b.work, (0,), b.op)
        assert cost.seconds == pytest.approx(own.seconds(b.work.flops, b.work.bytes), rel=ROUGH)
        assert cost.uncertainty == pytest.approx(own.uncertainty, rel=0.06)


def quick(work):
    """What ops take in caches: half of the launch, five times the rates."""
    return 1e-6 + work.flops / 250e9 + work.bytes / 50e9


def test_a_program_that_fits_into_the_caches_takes_what_ops_took_warm():
    text = as_toml(fit(also_warm(seen(lawful, 2), quick)), machine(2, cache_bytes=1 << 20))
    hardware = parse(text)
    assert hardware.kinds[0].cache == pytest.approx(1 << 20, rel=ROUGH)
    small, large = (hardware.running({0: size}) for size in (1 << 20, 1 << 50))
    for b in benchmarks():
        if b.op in ("Relu", "Adam", "MatMul", "Gemm"):
            assert small.cost(b.work, (0,), b.op).seconds == pytest.approx(quick(b.work), rel=ROUGH)
            assert large.cost(b.work, (0,), b.op).seconds == pytest.approx(lawful(b.work), rel=ROUGH)


def test_without_the_size_of_the_cache_a_profile_is_as_before():
    plain, measured = fit(seen(lawful)), fit(also_warm(seen(lawful), quick))
    assert not parse(as_toml(measured, machine())).cached
    assert as_toml(plain, machine(cache_bytes=1 << 20)) == as_toml(plain, machine())


def test_simulated_messages_take_what_was_measured():
    measured = seen(lawful, devices=4)
    hardware = parse(as_toml(fit(measured), machine(4)))
    for sample in measured:
        b = sample.benchmark
        if b.work.communication is not None:
            positions = tuple(d - 1 for d in b.devices)
            work = b.work
            root = work.communication.root
            assert root is None or root in b.devices
            moved = type(work)(communication=type(work.communication)(work.communication.pattern,
                               work.communication.nbytes, None if root is None else root - 1))  # fmt: skip
            assert hardware.cost(moved, positions).seconds == pytest.approx(sample.seconds, rel=ROUGH)


def test_the_general_figures_come_from_what_was_measured():
    hardware = parse(as_toml(fit(seen(lawful, devices=2)), machine(2)))
    (kind,) = {k.name: k for k in hardware.kinds}.values()
    assert kind.launch == pytest.approx(2e-6, rel=0.01)
    assert kind.bandwidth == pytest.approx(10e9, rel=0.3)
    send = hardware.levels[0].links["send"]
    assert (send.startup, send.bandwidth) == (pytest.approx(50e-6, rel=1e-3), pytest.approx(1e9, rel=1e-3))


def test_nodes_make_a_second_level():
    hardware = parse(as_toml(fit(seen(lawful, devices=4, local=2)), machine(4, local=2)))
    assert [level.name for level in hardware.levels] == ["node", "network"]
    assert [len(level.blocks) for level in hardware.levels] == [2, 1]
    far, near = (hardware.cost(communication("allreduce", 1 << 20), group).seconds for group in ((0, 2), (0, 1)))
    assert far == pytest.approx(near, rel=ROUGH)


@settings(max_examples=most_examples(20), deadline=None)
@given(st.integers(0, 10**6))
def test_two_runs_agree_within_what_they_state(seed):
    first, second = (fit(seen(lawful, 2, noisy(seed + n, 0.05))) for n in (0, 10**7))
    assert not first.too_noisy
    assert first.agrees(second) >= 0.8


def test_a_noisy_machine_is_called_so():
    assert fit(seen(lawful, 2, noisy(1, 0.4))).too_noisy
    assert "too noisy" in as_toml(fit(seen(lawful, 2, noisy(1, 0.4))), machine(2))


def test_a_profile_of_a_gpu_holds_for_what_fills_one():
    """Rates of products and bandwidths of links grow with sizes; those of a large model's ops are measured."""

    def law(work):
        if work.communication is not None:
            n = work.communication.nbytes
            return 30e-6 + (n + 3e6) / 200e9
        return 5e-6 + work.flops / 400e12 * (1 + 5e9 / (work.flops + 1)) ** 0.5 + work.bytes / 2.5e12

    measured = [
        Sample(b, (taken(b, law),) * 3, issue=() if len(b.devices) > 1 else (4e-6,) * 3)
        for b in (*computing(("BFloat16",), gpus=True), *communicating(8, gpus=True))
    ]
    text = as_toml(fit(measured), machine(8, device="Example GPU", device_memory_bytes=80 << 30))
    hardware = parse(text)
    for sides in ((8192, 8192, 8192), (4096, 28672, 8192)):
        m, n, k = sides
        product = Work(flops=2 * m * n * k, bytes=2 * (m * k + k * n + m * n), dtype=DTYPES["BFloat16"])
        assert hardware.cost(product, (0,), "MatMul").seconds == pytest.approx(law(product), rel=0.1)
    assert hardware.kinds[0].host.issue == pytest.approx(4e-6)
    assert hardware.kinds[0].interference == pytest.approx(INTERFERENCE, rel=0.1)
    for nbytes in (1 << 28, 1 << 30):
        sums = Work(communication=Communication("allreduce", nbytes))
        assert hardware.cost(sums, tuple(range(8))).seconds == pytest.approx(law(sums), rel=0.1)
    rows = tables(measured)
    assert all(len(rows[name].splitlines()) > 50 for name in ("products.csv", "attention.csv"))  # as the fits need


def test_what_a_collective_takes_of_products_is_known_of_any_number_of_ranks():
    found = fit([Sample(b, (taken(b, lawful),) * 3) for b in (*computing(most=1 << 11), *communicating(3))])
    assert found.interference == pytest.approx(INTERFERENCE, rel=0.01)


@settings(max_examples=most_examples(20), deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 0.3))
def test_whatever_was_measured_makes_a_profile(seed, share):
    text = as_toml(fit(seen(cached, noise=noisy(seed, share))), machine())
    assert parse(text).kinds[0].ops


@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=4, max_size=8, unique=True),
    st.tuples(st.floats(0, 5), st.floats(0, 5)),
)
def test_coefficients_are_never_below_zero(rows, truth):
    columns = [[a for a, _ in rows], [b for _, b in rows]]
    target = [truth[0] * a + truth[1] * b for a, b in rows]
    found = nonnegative(columns, target)
    assert min(found) >= 0
    errors = [found[0] * a + found[1] * b - t for (a, b), t in zip(rows, target, strict=True)]
    assert statistics.fmean(e * e for e in errors) <= 1e-6
    worse = nonnegative(columns, [-t - 1 for t in target])
    assert worse == [0, 0]


def test_messages_take_as_long_as_their_slowest_rank():
    b = next(b for b in benchmarks(2) if b.op == "MPIAllreduce")
    alone = next(b for b in benchmarks() if b.op == "Relu")
    runs = {b.name: [[1.0, 2.0], [2.0, 2.0]], alone.name: [[1.0, 1.0], [1.0, 1.0]]}
    slower = {b.name: [[3.0, 3.0], [2.0, 2.0]], alone.name: [[3.0, 3.0], [3.0, 3.0]]}
    together, one = samples([b, alone], [{"seconds": runs}, {"seconds": slower}])
    assert together == Sample(b, (3.0 / b.repeats, 2.0 / b.repeats))
    assert one == Sample(alone, (2.0 / alone.repeats,) * 2)


def test_what_ops_take_warm_is_reported_beside():
    alone = next(b for b in benchmarks() if b.op == "Relu")
    report = {"seconds": {alone.name: [[3.0, 5.0, 4.0]]}, "warm": {alone.name: [[1.0, 2.0, 3.0]]}}
    assert samples([alone], [report]) == [Sample(alone, (4.0,), (2.0,))]


def test_what_is_computed_between_messages_does_not_count():
    message = next(b for b in benchmarks(2) if b.op == "Send")
    products = next(b for b in benchmarks(2) if b.between)
    runs = {message.name: [[3.0 * message.repeats]], products.name: [[1.0 * products.repeats]]}
    slower = {message.name: [[2.0 * message.repeats]], products.name: [[2.0 * products.repeats]]}
    assert samples([message, products], [{"seconds": runs}, {"seconds": slower}]) == [Sample(message, (1.0,))]


def test_what_a_collective_takes_of_products_beside_it_is_found_again():
    found = fit(seen(lawful, devices=2))
    assert found.interference == pytest.approx(INTERFERENCE)
    assert found.begin == pytest.approx(BEGIN)
    kind = parse(as_toml(found, machine(2))).kinds[0]
    assert (kind.interference, kind.begin) == (pytest.approx(INTERFERENCE), pytest.approx(BEGIN))
    assert fit(seen(lawful)).interference is None


def test_which_ranks_of_a_node_share_a_card_is_found_again():
    found = fit(seen(lawful, devices=8, local=4))
    assert found.cards == CardsFit(CARDS, 0)
    text = as_toml(found, machine(8, local=4))
    assert 'devices = ["0, 2", "1", "3"]' in text
    level = parse(text).levels[-1]
    assert level.cards is not None
    assert level.cards.of == CARDS
    assert fit(seen(lawful, devices=4)).cards is None
    assert fit(seen(lawful, devices=4, local=1)).cards is None


def test_how_far_groups_at_once_are_from_sharing_widens_the_band():
    noisy = [
        replace(s, rounds=tuple(1.25 * t for t in s.rounds)) if s.benchmark.at_once == (0, 2) else s
        for s in seen(lawful, devices=8, local=4)
    ]
    found = fit(noisy)
    assert found.cards == CardsFit(CARDS, pytest.approx(0.25))
    (before, after) = (
        parse(as_toml(c, machine(8, local=4))).levels[-1] for c in (fit(seen(lawful, 8, local=4)), found)
    )
    assert after.links["collective"].uncertainty > before.links["collective"].uncertainty + 0.2


def test_products_beside_a_collective_are_no_messages_and_no_ops():
    without = [sample for sample in seen(lawful, devices=2) if not sample.benchmark.products]
    with_them = fit(seen(lawful, devices=2))
    assert replace(with_them, interference=None, begin=None) == fit(without)


def test_what_the_host_takes_to_issue_an_op_becomes_a_figure():
    measured = [replace(s, issue=(4e-6 if s.benchmark.op == "Add" else 3e-6,) * 3) for s in seen(lawful)]
    found = fit(measured)
    assert found.issue == pytest.approx(3e-6)
    about = machine(device="Example GPU", device_memory_bytes=1 << 34)
    assert parse(as_toml(found, about)).kinds[0].host.issue == pytest.approx(3e-6)
    assert parse(as_toml(fit(seen(lawful)), machine())).kinds[0].host.issue == 0


class FakeGpu:
    """A program on a device that takes its time after the host has issued: what is waited for is noted."""

    def __init__(self, monkeypatch):
        torch = pytest.importorskip("torch")
        self.waited, self.called = [], []
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: self.waited.append(len(self.called)))
        self.module, self.names = None, ["add_0", "relu_1"]

    def prepare(self, rank, device):
        return self

    def entry(self, name):
        return {"function": name, "params": [], "communicates": False, "overwritten": False}

    def call(self, entry, values):
        self.called.append(entry)
        return ()


def test_on_a_gpu_the_host_is_timed_without_waiting_and_the_op_with(monkeypatch, tmp_path):
    """No GPU is there: the script that measures runs on one that only counts calls."""
    gpu = FakeGpu(monkeypatch)
    torch = pytest.importorskip("torch")
    runtime = types.ModuleType("runtime")
    runtime.HERE, runtime.barrier, runtime.exchanged = tmp_path, lambda: None, lambda value: [value]
    runtime.LoweredProgram = lambda folder: gpu
    monkeypatch.setitem(sys.modules, "runtime", runtime)
    folders = [{"folder": "computing", "communicates": False, "entries": gpu.names}]
    mixed = {"folder": "computing", "entries": []}
    (tmp_path / "plan.json").write_text(json.dumps({"mixed": mixed, "folders": folders}))
    script = types.ModuleType("measure")
    exec(compile(measuring.script()[measuring.SCRIPT], "measure.py", "exec"), script.__dict__)
    options = types.SimpleNamespace(rounds=2, seconds=1e-4)
    seconds, warm, issue = script.measure(options, 0, types.SimpleNamespace(type="cuda"))
    assert warm == {}
    assert issue.keys() == seconds.keys() == set(gpu.names)
    assert all(len(rounds) == 2 and all(t >= 0 for own in rounds for t in own) for rounds in issue.values())
    assert gpu.waited[-2:] == [len(gpu.called) - 1, len(gpu.called)]  # before it issues, and after
    report = [{"seconds": seconds, "warm": warm, "issue": issue}]
    own = [replace(b, function=replace(b.function, name=n)) for b, n in zip(computing(), gpu.names, strict=False)]
    assert all(sample.issue for sample in measuring.samples(own, report))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: FakeProperties)
    assert script.about(types.SimpleNamespace(type="cuda"))["device_memory_bytes"] == 1 << 34


class FakeProperties:
    name, total_memory = "Example GPU", 1 << 34


def test_tables_by_shape_have_what_the_script_that_fits_reads(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    fitting = importlib.import_module("fit")
    found = tables(seen(lawful, devices=2))
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    products = fitting.read_rows(str(tmp_path / "products.csv"), {"dtype": "Float32"})
    measured = fitting.seconds_of(products)
    m, n, k, batch = (fitting.column(products, name) for name in ("m", "n", "k", "batch"))
    flops = 2 * m * n * k * batch
    assert len(flops) > 30
    assert (measured >= 2e-6 + flops / 50e9).all()
    rows = fitting.read_rows(str(tmp_path / "attention.csv"), {})
    assert {int(row["seq"]) for row in rows} == {16, 64, 128, 512}
    assert all(row["heads"] == row["kv_heads"] and row["head_dim"] == "64" for row in rows)
    sys.modules.pop("fit")
