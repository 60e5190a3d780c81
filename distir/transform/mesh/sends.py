"""Sends in parts: of what the shards of a stage have whole, each sends a part to the next stage, which gathers them.

So the slower links between stages carry it once: scatter-gather of Megatron (arXiv:2104.04473, section 4.1).
"""

from __future__ import annotations

from collections.abc import Collection

from distir.ir import HOST, PendingAlong, Places, SplitAlong, TensorType, Type
from distir.ir.places import along, cuts_of, places, without


def places_to_send(found: Type, parts: int, shards: Collection[str], *, scattered: bool) -> Places | None:
    """The placement in which a tensor is sent in parts, by shards along axes; None if each sends what it has.

    `scattered`: a pending sum is scattered for that; not where sums are spread along the sequence anyway.
    """
    if not isinstance(found, TensorType) or found.device == HOST or not shards:
        return None
    held = found.places
    for axis in shards:
        pending = along(held, axis)
        if pending is not None and not (scattered and pending == PendingAlong(axis)):
            return None
        held = without(held, axis)
    shape = found.shape or ()
    # The first dimension last: it is mostly that of the batch, which replicas split.
    for dim in (*range(1, len(shape)), *range(min(1, len(shape)))):
        size = shape[dim]
        if not cuts_of(held, dim) and isinstance(size, int) and size and size % parts == 0:
            return places((*held, *(SplitAlong(dim, axis) for axis in shards)))
    return None
