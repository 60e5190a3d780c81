"""Sums over devices joined into fewer, larger messages: buckets, as data-parallel trainers send gradients.

A sum moves up to the first one of its bucket, if its operand is defined there; no sum is delayed. A bucket holds sums
over the same devices only: each pipeline stage and each tensor-parallel shard has its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from distir.ir import Apply, Attributes, TupleType, types
from distir.ir import results as results_of
from distir.ir.rewrite import common
from distir.ops import type_of
from distir.placement.along import whole_like
from distir.transform.sharding.body import ShardedBody
from distir.transform.sharding.items import Collective, Each, Item, Joint, with_facts


def bucketed(body: ShardedBody, bucket_bytes: int) -> list[Item]:
    """The items with sums joined until a message holds `bucket_bytes` bytes or more."""
    made = {name: index for index, item in enumerate(body.items) for name in _made(item)}
    sums = [i for i, item in enumerate(body.items) if isinstance(item, Collective) and item.op == "MPIAllreduce"]
    buckets: dict[int, list[Collective]] = {}
    moved: set[int] = set()
    for first in sums:
        if first in moved:
            continue
        held, chosen, devices = 0, list[int](), _devices(body, body.items[first])
        for index in sums:
            item = body.items[index]
            assert isinstance(item, Collective)
            fits = held < bucket_bytes and index >= first and index not in moved
            if fits and made.get(item.arg, -1) < first and _devices(body, item) == devices:
                chosen.append(index)
                held += _nbytes(body, item.arg)
        if len(chosen) > 1:
            moved.update(chosen)
            buckets[first] = [item for i in chosen if isinstance(item := body.items[i], Collective)]
    written: list[Item] = []
    for index, item in enumerate(body.items):
        if index in buckets:
            written += _joined(body, buckets[index])
        elif index not in moved:
            written.append(item)
    return written


def _joined(body: ShardedBody, sums: Sequence[Collective]) -> list[Item]:
    """One sum of a tuple, for sums of single values."""
    args = tuple(item.arg for item in sums)
    value = TupleType(tuple(type_of(body.value(arg)) for arg in args))
    bucket, total = body.fresh("bucket"), body.fresh("bucket_sum")
    body.define(bucket, value, tuple(body.state(arg) for arg in args))
    body.define(total, value, whole_like(value))
    joined = [
        Each(Apply((bucket,), "MakeTuple", args)),
        Collective(total, "MPIAllreduce", bucket, Attributes()),
        Each(Apply(tuple(item.result for item in sums), "UnpackTuple", (total,))),
    ]
    facts = common(item.facts for item in sums)
    return [with_facts(item, facts) for item in joined]


def _made(item: Item) -> tuple[str, ...]:
    if isinstance(item, Each):
        return results_of(item.statement)
    return item.results if isinstance(item, Joint) else (item.result,)


def _devices(body: ShardedBody, item: Item) -> frozenset[int]:
    """The devices of the summed value before partitioning."""
    assert isinstance(item, Collective)
    return frozenset(types.devices(type_of(body.value(item.arg))))


def _nbytes(body: ShardedBody, name: str) -> int:
    size = types.nbytes(type_of(body.value(name)))
    return size if isinstance(size, int) else 0
