"""`distir calibrate` from end to end on this machine, and what its benchmarks are."""

import json

import pytest
from calibration_samples import benchmarks

from distir.analysis import check
from distir.cli import calibrate as command
from distir.cli.app import main
from distir.cost import load
from distir.cost.calibrate.benchmarks import (
    ATTENTION,
    MEASURED,
    PRODUCTS,
    ROOTED,
    STREAMING,
    SYMMETRIC,
    VIEWS,
    communicating,
    computing,
)
from distir.ir import Apply, Module


def test_benchmarks_are_programs_without_faults():
    for b in benchmarks(3):
        assert not check(Module([b.function])).errors, b.name


def test_every_op_is_measured_at_several_sizes():
    found = {}
    for b in benchmarks(2):
        found.setdefault(b.op, set()).add(b.work)
        if b.products:
            continue
        ops = [s.op for s in b.function.body if isinstance(s, Apply)]
        assert ops.count(b.op) == b.repeats * (len(b.devices) if b.between else 1)
    assert found.keys() == {*PRODUCTS, *ATTENTION, *STREAMING, *VIEWS, *ROOTED, *SYMMETRIC, "Transpose", "Send"}
    assert all(len(works) >= 5 for op, works in found.items() if op not in VIEWS)


def test_groups_of_powers_of_two_and_all_devices():
    assert {len(b.devices) for b in benchmarks(6)} == {1, 2, 4, 6}


def test_nodes_meet_through_their_first_devices():
    found = {b.devices for b in communicating(8, local=4) if not b.at_once}
    assert found == {(1, 2), (1, 2, 3, 4), (1, 5)}


def test_each_element_type_can_be_measured():
    found = computing(MEASURED, most=1 << 11)
    assert {b.work.dtype.name for b in found if b.op == "Add"} == set(MEASURED)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(command, "QUICK_ELEMENTS", 1 << 12)


def test_a_machine_is_measured_and_simulated_with(tiny, tmp_path, capsys):
    pytest.importorskip("torch")
    out = tmp_path / "here.toml"
    words = ["calibrate", "--devices", "2", "--quick", "--rounds", "2", "--threads", "1", "-o", str(out), "--json"]
    words += ["--shapes", str(tmp_path / "shapes")]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert {m["pattern"] for m in document["messages"]} >= {"send", "allreduce", "broadcast"}
    hardware = load(out)
    assert hardware.devices == 2
    assert hardware.uncertain
    figures = hardware.kinds[0].ops.values()
    assert all(own.warm is not None for own in figures)
    assert 1e-7 < hardware.kinds[0].launch < 1e-3
    assert document["issue_s"] is None  # the host computes
    assert document["interference"] is None or 0 <= document["interference"] <= 1
    assert hardware.kinds[0].interference == pytest.approx(document["interference"] or 0, rel=0.05)
    header, *rows = (tmp_path / "shapes" / "products.csv").read_text().splitlines()
    assert header == "dtype,m,n,k,batch,seconds"
    assert all(float(row.split(",")[-1]) > 0 for row in rows)
    assert len(rows) > 3
    assert main(["simulate", "examples/mlp_data_parallel.dir", "--hardware", str(out), "--json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    low, high = simulated["latency_band_s"]
    assert low < simulated["latency_s"] < high
    assert main(["simulate", "examples/mlp_data_parallel.dir", "--hardware", str(out)]) == 0
    assert " ± " in capsys.readouterr().out


@pytest.mark.thorough
def test_ranks_of_one_machine_are_measured_as_those_of_two_nodes(tiny, tmp_path, capsys):
    """They meet over loopback, so what is shared is the machine; but what is asked, and written, is as of cards.

    What is measured between nodes, and that cards are found in it, test_calibrate_fitting.py says without processes.
    """
    pytest.importorskip("torch")
    out = tmp_path / "here.toml"
    words = ["calibrate", "--devices", "4", "--ranks-per-node", "2", "--quick", "--rounds", "2", "--threads", "1"]
    assert main([*words, "-o", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cards"]["of"] in ([0, 0], [0, 1])
    node, network = load(out).levels
    assert node.cards is None
    assert network.cards is not None
    assert list(network.cards.of) == document["cards"]["of"]
    assert network.links["collective"].uncertainty >= document["cards"]["apart"] * 0.99


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "4", "--ranks-per-node", "4"], "4 ranks would be one node"),
        (["--devices", "4", "--ranks-per-node", "3"], "expected a number that divides 4 ranks"),
        (["--dtypes", "Float31"], "expected element types among"),
        (["--backend", "mpi"], "expected gloo or nccl"),
        (["--timeout", "3"], "without a unit"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, message, tmp_path, capsys):
    assert main(["calibrate", "-o", str(tmp_path / "x.toml"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()
