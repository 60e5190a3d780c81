"""The entry function's body with partitioned weights: reductions of gradients, updates, exchanges of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
    Attributes,
    DType,
    Function,
    Literal,
    Return,
    Statement,
    TensorType,
    Type,
)
from distir.ir.dataflow import definitions, uses
from distir.ir.rewrite import Rewriter, with_operands
from distir.ops.group import GroupPart
from distir.transform.zero.gather_at_use import spread
from distir.transform.zero.gathered import in_parts
from distir.transform.zero.groups import ASSIGN, WeightGroup, check_unused
from distir.transform.zero.norms import with_norms
from distir.transform.zero.partition import Along, Owner, Partition
from distir.transform.zero.reduce_per_microbatch import reducing


def rewritten(
    entry: Function,
    groups: Sequence[WeightGroup],
    partitions: Sequence[Partition],
    stage: int,
    types: Mapping[str, Type],
    narrow: Mapping[str, DType] | None = None,
) -> Function:
    """The entry function after ZeRO stage 1, 2 or 3, which returns the names that it did.

    `types`: of values of the entry function; `narrow`: the element types of what has fewer bits than Float32; where it
    is given, gradients are summed whole, in Float32.
    """
    edit, made = Rewriter(entry), definitions(entry)
    computing = {made[name] for g in groups for name in g.gradients if name in made}
    for group, partition in zip(groups, partitions, strict=True):
        if narrow is None:
            _reduce(edit, computing, group, partition, early=stage > 1)
        else:
            _reduce_in_float32(edit, group, partition, narrow)
        if isinstance(partition, Owner):
            _update_by_owner(edit, group, partition, stage)
        else:
            _update_in_parts(edit, group, partition, stage, types)
    body = [statement for _, statement in edit if not isinstance(statement, Return)]
    summed = with_norms(body, groups, partitions, edit.builder)
    return replace(entry, body=(*summed, Return(entry.returned)))


def _reduce(edit: Rewriter, computing: set[int], group: WeightGroup, partition: Partition, early: bool) -> None:
    """Reduce gradients to the devices that need the sum; `early`: as soon as they are computed."""
    summed, made = edit[group.reduce], definitions(edit.function)
    stream = summed.stream if isinstance(summed, Apply) else ""
    reduce = reducing(group, partition, group.sums, group.gradients, stream)
    if early and all(name in made for name in group.gradients):
        edit.erase(group.reduce)
        edit.behind(_side_by_side(edit, computing, max(made[name] for name in group.gradients)), reduce)
    else:
        edit.replace(group.reduce, reduce)


def _reduce_in_float32(edit: Rewriter, group: WeightGroup, partition: Partition, narrow: Mapping[str, DType]) -> None:
    """Sum Float32 copies of the gradients, whole, on every replica, which takes its part; or on the owner."""
    reduce = edit[group.reduce]
    assert isinstance(reduce, Apply)
    owner = partition.rank if isinstance(partition, Owner) else None
    whole = group.sums if owner is not None else tuple(edit.fresh(f"{name}_whole") for name in group.sums)
    given, wide = list(group.gradients), list(whole)
    for rank, gradient in enumerate(group.gradients):
        dtype = narrow.get(gradient)
        if dtype is None:
            continue
        given[rank], wide[rank] = (edit.fresh(f"{name}_wide") for name in (gradient, whole[rank]))
        to = Attributes({"to": DTYPES["Float32"]})
        edit.before(group.reduce, Apply((given[rank],), "Cast", (gradient,), to))
        if owner in (None, rank):
            edit.behind(group.reduce, Apply((whole[rank],), "Cast", (wide[rank],), Attributes({"to": dtype})))
    if isinstance(partition, Owner):
        edit.replace(group.reduce, reducing(group, partition, wide, given, reduce.stream))
        return
    edit.replace(group.reduce, replace(reduce, results=tuple(wide), args=tuple(given)))
    parts = [_part(name, whole[rank], group, partition, rank) for rank, name in enumerate(group.sums)]
    edit.behind(group.reduce, *parts)


def _side_by_side(edit: Rewriter, computing: set[int], index: int) -> int:
    """The last of consecutive statements, from one on, that unpack gradients on several devices.

    So reductions over some of these devices, and over all, have the same order on each of them.
    """
    body = edit.function.body
    while index + 1 in computing and isinstance(s := body[index + 1], Apply) and s.op == "UnpackTuple":
        index += 1
    return index


def _update_by_owner(edit: Rewriter, group: WeightGroup, owner: Owner, stage: int) -> None:
    """The owner updates the weight. Before stage 3 it sends it to the others, into the old weight's memory."""
    for indices in (group.updates, group.writes):
        edit.erase(*(index for rank, index in enumerate(indices) if rank != owner.rank))
    function = edit.function
    others = [rank for rank, name in enumerate(group.new) if rank != owner.rank and _needed(function, name, stage)]
    if others:
        has_old = stage < 3
        sent = {rank: edit.fresh(f"{group.new[rank]}_sent") if has_old else group.new[rank] for rank in others}
        writes = [spread(group.new[owner.rank], group.devices, owner, sent)]
        if has_old:
            writes += [Apply((group.new[rank],), ASSIGN, (group.weights[rank], sent[rank])) for rank in others]
        edit.behind(group.writes[owner.rank], *writes)


def _needed(entry: Function, name: str, stage: int) -> bool:
    """Whether a device needs a new weight that it did not compute. In stage 3 weights are not returned."""
    return any(stage < 3 or place != len(entry.body) - 1 for place in uses(entry).get(name, ()))


def _update_in_parts(edit: Rewriter, group: WeightGroup, along: Along, stage: int, types: Mapping[str, Type]) -> None:
    """Every device updates its part of the weight; before stage 3 the parts are gathered."""
    parts: list[str] = []
    slices: dict[int, list[Statement]] = {}
    """By statement that writes a weight: what makes its part."""
    for rank, index in enumerate(group.writes):
        update = edit[index]
        assert isinstance(update, Apply)
        weight, new = group.weights[rank], group.new[rank]
        if stage < 3:
            part = edit.fresh(f"{weight}_part")
            slices[index] = [_part(part, weight, group, along, rank)]
            update = with_operands(update, {weight: part})
            new = edit.fresh(f"{new}_part") if new else DISCARD
        else:
            check_unused(edit.function, new)
        parts.append(new)
        edit.replace(index, replace(update, results=(new, *update.results[1:]), claims=()))
    if along.gathered:
        _gather_for_updates(edit, group, along, slices, types)
    else:
        for index, made in slices.items():
            edit.before(index, *made)
    if stage < 3 and any(group.new):
        edit.behind(max(group.writes), group.replicas.collective("MPIAllgather", group.new, parts, axis=along.axis))


def _gather_for_updates(
    edit: Rewriter,
    group: WeightGroup,
    along: Along,
    slices: Mapping[int, Sequence[Statement]],
    types: Mapping[str, Type],
) -> None:
    """Write the updates of parts out, as they need something of all parts: together, where the last one was."""
    entry = edit.function
    updates = [s for index in group.updates if isinstance(s := edit[index], Apply)]
    before: list[Statement] = []
    casts: list[Statement] = []
    for index, write in zip(group.updates, group.writes, strict=True):
        if write == index:
            before += slices.get(write, ())
        else:
            casts += [*slices.get(write, ()), edit[write]]
    edit.erase(*group.updates, *group.writes)
    original = entry.body[group.updates[0]]
    assert isinstance(original, Apply)
    weight = str(original.args[0])
    stated = {p.name: p.type for p in entry.params}
    known = {**stated, str(updates[0].args[0]): stated[weight], group.sums[0]: types[group.gradients[0]]}

    def part(name: str, whole: str, rank: int) -> Apply:
        return _part(name, whole, group, along, rank)

    inside = in_parts(updates, group, along, part, known, edit.builder)
    edit.behind(max(group.updates), *before, *inside, *casts)


def _part(name: str, weight: str, group: WeightGroup, along: Along, rank: int) -> Apply:
    """A replica's part of a weight that it holds replicated."""
    replicas = group.replicas
    if replicas.stride is not None:
        attrs = Attributes({"axis": along.axis, "size": replicas.size, "stride": replicas.stride})
        return Apply((name,), GroupPart.name, (weight,), attrs)
    assert isinstance(group.type, TensorType)
    dim = (group.type.shape or ())[along.axis]
    assert isinstance(dim, int)
    size = dim // replicas.size
    bounds = (Literal((rank * size,)), Literal(((rank + 1) * size,)), Literal((along.axis,)))
    return Apply((name,), "Slice", (weight, *bounds))
