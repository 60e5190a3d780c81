"""Searches on a cluster of which workers end."""

import logging
import time

import pytest

from distir.search import clusters
from distir.search.space import SpaceError

distributed = pytest.importorskip("distributed")


def added(shared, item):
    return shared + item


def added_later(shared, item):
    time.sleep(0.2)
    return shared + item


@pytest.fixture
def cluster():
    options = {"processes": False, "dashboard_address": None, "silence_logs": logging.CRITICAL, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=0, protocol="tcp", **options) as found:
        yield found


def test_a_cluster_whose_workers_are_gone_is_said(cluster, monkeypatch):
    monkeypatch.setattr(clusters, "CHECKED_S", 0.1)
    monkeypatch.setattr(clusters, "ALONE_S", 0.2)
    backend = cluster.scheduler_address.replace("tcp", "dask")
    with pytest.raises(SpaceError, match="has no workers left"):
        list(clusters.dask(backend, added, 10, lambda threads: range(3)))


def test_a_scheduler_that_ends_is_said(cluster, monkeypatch):
    """It was "this is a bug in DistIR: FuturesCancelledError"."""
    monkeypatch.setattr(clusters, "CHECKED_S", 0.1)
    cluster.scale(1)
    rows = clusters.dask(cluster.scheduler_address.replace("tcp", "dask"), added_later, 10, lambda threads: range(40))
    next(rows)
    cluster.sync(cluster.scheduler.close)
    with pytest.raises(SpaceError, match="cannot be reached any more; start it again and continue with `--resume`"):
        list(rows)


def test_a_cluster_gives_what_each_item_is(cluster):
    cluster.scale(1)
    backend = cluster.scheduler_address.replace("tcp", "dask")
    assert sorted(clusters.dask(backend, added, 10, lambda threads: range(3))) == [10, 11, 12]
