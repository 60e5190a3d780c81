"""The best rows of a search, run here: what is measured, and what is said of those that cannot be run."""

from dataclasses import replace

import pytest

import distir
from distir.cost import load
from distir.search import Search, Space, Subject
from distir.search.measuring import Measuring, measured
from distir.search.rows import Row, rank_correlation
from distir.transform import Strategy

SIZES = {
    "layers": 1, "width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "expert_ffn": 32, "experts": 4,
    "vocabulary": 64, "sequence": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def experts():
    """A row with experts on two devices that was simulated with room for an even load alone."""
    module = distir.transform(distir.models.named("mixtral-8x7b", dtype="Float32", **SIZES), "grad")
    subject = Subject("experts", module, load("dgx-h100"))
    space = Space(2, (8,), experts=(2,), fixed={"D": (2,)})
    (row,) = (row for row in Search(subject, space).rows() if row.plan.experts == 2)
    assert row.plan.skew == 1
    return subject, row


def test_experts_run_whatever_load_their_router_gives_them(experts):
    pytest.importorskip("torch")
    subject, row = experts
    (found,) = measured(subject, [row], Measuring(repeat=1, timeout_s=300))
    assert found.reason == ""
    assert found.measured_latency_s > 0
    assert found.measured_memory_bytes > 0
    assert found.plan == row.plan


@pytest.mark.parametrize(("how", "reason"), [
    (Measuring(timeout_s=0.2), "did not end within 0.2 s"),
    (Measuring(most_bytes=1000), "2 processes need up to"),
])  # fmt: skip
def test_what_cannot_be_run_is_a_row_with_its_reason(experts, how, reason):
    pytest.importorskip("torch")
    subject, row = experts
    (found,) = measured(subject, [row], how)
    assert found.reason.startswith("not measured: ")
    assert reason in found.reason
    assert (found.measured_latency_s, found.measured_memory_bytes) == (None, None)
    assert replace(found, reason="") == row


def rows(*times):
    plain = Row("", 8, Strategy(), None, None, None, fits=True)
    return [replace(plain, latency_s=simulated, measured_latency_s=real) for simulated, real in times]


def test_how_alike_the_orders_are():
    assert rank_correlation(rows((1, 10), (2, 30), (3, 31), (4, None))) == pytest.approx(1)
    assert rank_correlation(rows((1, 3), (2, 2), (3, 1))) == pytest.approx(-1)
    assert rank_correlation(rows((1, 1), (2, 2), (3, 2), (4, 3))) == pytest.approx(0.9486832980505138)
    assert rank_correlation(rows((1, 1), (2, 2))) is None
    assert rank_correlation(rows((1, 1), (1, 2), (1, 3))) is None
    larger = [replace(row, batch_size=100) for row in rows((2, 5))]  # per example the fastest
    assert rank_correlation([*rows((1, 1), (2, 2)), *larger]) == pytest.approx(1)
