"""Sends to another stage of what all shards have whole: each sends a part, and the parts are gathered on arrival.

As Megatron-LM's scatter/gather optimisation (Narayanan et al., 2021, section 4.1): less travels between nodes, and the
rest within them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from distir.ir import HOST, Apply, Arg, Places, SplitAlong, TensorType, TupleType, Type
from distir.ir.places import along, cuts_of, places
from distir.ops import type_of
from distir.transform.mesh.collectives import Collectives


def sent_in_parts(
    statement: Apply, shards: Sequence[str], collectives: Collectives, write: Callable[[Apply], None]
) -> bool:
    """Write a `Send` of parts, and what gathers them under its result's name; whether shards have something whole.

    `write` appends an op whose operands are placed as it needs them.
    """
    (arg,), (result,), values = statement.args, statement.results, collectives.values
    found = type_of(values.value(arg))
    if not isinstance(found, TupleType):
        part = _part(found, shards, collectives)
        if part is None:
            return False
        sent = _sent(statement, collectives.brought(arg, part), collectives, write)
        collectives.brought(sent, _without_sums(found), result)
        return True
    parts = [_part(item, shards, collectives) for item in found.items]
    if not any(part is not None for part in parts):
        return False

    def cut(item: Arg, k: int) -> Arg:
        part = parts[k]
        return item if part is None else collectives.brought(item, part)

    def joined(item: Arg, k: int) -> Arg:
        return item if parts[k] is None else collectives.brought(item, _without_sums(found.items[k]))

    sent = _sent(statement, values.by_items(arg, cut), collectives, write)
    made = values.by_items(sent, joined)
    packed = values.written[-1]
    assert isinstance(packed, Apply)
    values.written[-1] = replace(packed, results=(result,))
    values.define(result, values.value(made), values.loose(made))
    return True


def _sent(statement: Apply, part: Arg, collectives: Collectives, write: Callable[[Apply], None]) -> str:
    sent = collectives.values.names.fresh(f"{statement.results[0]}_sent")
    write(replace(statement, args=(part,), results=(sent,), claims=()))
    return sent


def _part(found: Type, shards: Sequence[str], collectives: Collectives) -> Places | None:
    """The placement in which shards send a tensor; None where each sends what it has.

    A pending sum is scattered as it is sent. The first dimension is taken last: it is mostly that of the batch.
    """
    if not isinstance(found, TensorType) or found.device == HOST or found.shape is None:
        return None
    now = _without_sums(found)
    if any(along(now, axis) is not None for axis in shards):
        return None
    for dim in (*range(1, len(found.shape)), 0)[: len(found.shape)]:
        size, cuts, own = found.shape[dim], cuts_of(now, dim), [SplitAlong(dim, axis) for axis in shards]
        if any(cut.blocks for cut in cuts) or not isinstance(size, int) or not size:
            continue
        if size % collectives.values.parts([*cuts, *own]) == 0:
            return places((*now, *own))
    return None


def _without_sums(found: Type) -> Places:
    """The placement of a tensor whose pending sums are ended."""
    return tuple(p for p in found.places if isinstance(p, SplitAlong)) if isinstance(found, TensorType) else ()
