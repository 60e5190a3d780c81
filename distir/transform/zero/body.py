"""The entry function's body with partitioned weights: reductions of gradients, updates, exchanges of weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import (
    DISCARD,
    DTYPES,
    Apply,
    Arg,
    Attributes,
    DType,
    Function,
    Literal,
    Return,
    Statement,
    TensorType,
    Type,
)
from distir.ir.builder import FunctionBuilder, namer
from distir.ir.rewrite import facts_of, state_since
from distir.ops.group import GroupPart
from distir.transform.operands import with_operands
from distir.transform.zero.gather_at_use import spread
from distir.transform.zero.gathered import in_parts
from distir.transform.zero.groups import ASSIGN, Uses, WeightGroup, check_unused, uses_of
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
) -> list[Statement]:
    """The statements of the entry function after ZeRO stage 1, 2 or 3, without the `return`.

    `types`: of values of the entry function; `narrow`: the element types of what has fewer bits than Float32; where it
    is given, gradients are summed whole, in Float32.
    """
    edits = _Edits(uses_of(entry), namer(entry))
    edits.made = {edits.uses.defined[name] for g in groups for name in g.gradients if name in edits.uses.defined}
    for group, partition in zip(groups, partitions, strict=True):
        if narrow is None:
            _reduce(edits, group, partition, early=stage > 1)
        else:
            _reduce_in_float32(edits, group, partition, narrow)
        if isinstance(partition, Owner):
            _update_by_owner(edits, group, partition, stage)
        else:
            _update_in_parts(edits, group, partition, stage)
            if partition.gathered:
                _gather_for_updates(edits, group, partition, types)
    return with_norms(edits.applied(entry), groups, partitions, edits.namer)


@dataclass(slots=True)
class _Edits:
    """Edits of a body, by statement number."""

    uses: Uses
    namer: FunctionBuilder
    made: set[int] = field(default_factory=set[int])
    """The statements that compute gradients."""
    before: defaultdict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    after: defaultdict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    dropped: set[int] = field(default_factory=set[int])
    replaced: dict[int, Statement] = field(default_factory=dict[int, Statement])
    renamed: defaultdict[int, dict[str, Arg]] = field(default_factory=lambda: defaultdict(dict))

    def applied(self, entry: Function) -> list[Statement]:
        body: list[Statement] = []
        for index, statement in enumerate(entry.body):
            start = len(body)
            body += self.before[index]
            if index not in self.dropped and not isinstance(statement, Return):
                body.append(with_operands(self.replaced.get(index, statement), self.renamed[index]))
            body += self.after[index]
            state_since(body, start, facts_of(statement))
        return body


def _reduce(edits: _Edits, group: WeightGroup, partition: Partition, early: bool) -> None:
    """Reduce gradients to the devices that need the sum; `early`: as soon as they are computed."""
    summed = edits.uses.entry.body[group.reduce]
    stream = summed.stream if isinstance(summed, Apply) else ""
    reduce = reducing(group, partition, group.sums, group.gradients, stream)
    made = [edits.uses.defined[name] for name in group.gradients if name in edits.uses.defined]
    if early and len(made) == len(group.gradients):
        edits.dropped.add(group.reduce)
        edits.after[_side_by_side(edits, max(made))].append(reduce)
    else:
        edits.replaced[group.reduce] = reduce


def _reduce_in_float32(edits: _Edits, group: WeightGroup, partition: Partition, narrow: Mapping[str, DType]) -> None:
    """Sum Float32 copies of the gradients, whole, on every replica, which takes its part; or on the owner."""
    before, after = edits.before[group.reduce], edits.after[group.reduce]
    reduce = edits.uses.entry.body[group.reduce]
    assert isinstance(reduce, Apply)
    owner = partition.rank if isinstance(partition, Owner) else None
    whole = group.sums if owner is not None else tuple(edits.namer.fresh(f"{name}_whole") for name in group.sums)
    given, wide = list(group.gradients), list(whole)
    for rank, gradient in enumerate(group.gradients):
        dtype = narrow.get(gradient)
        if dtype is None:
            continue
        given[rank], wide[rank] = (edits.namer.fresh(f"{name}_wide") for name in (gradient, whole[rank]))
        before.append(Apply((given[rank],), "Cast", (gradient,), Attributes({"to": DTYPES["Float32"]})))
        if owner in (None, rank):
            after.append(Apply((whole[rank],), "Cast", (wide[rank],), Attributes({"to": dtype})))
    if isinstance(partition, Owner):
        edits.replaced[group.reduce] = reducing(group, partition, wide, given, reduce.stream)
        return
    edits.replaced[group.reduce] = replace(reduce, results=tuple(wide), args=tuple(given))
    after += [_part(name, whole[rank], group, partition, rank) for rank, name in enumerate(group.sums)]


def _side_by_side(edits: _Edits, index: int) -> int:
    """The last of consecutive statements, from one on, that unpack gradients on several devices.

    So reductions over some of these devices, and over all, have the same order on each of them.
    """
    body = edits.uses.entry.body
    while index + 1 in edits.made and isinstance(s := body[index + 1], Apply) and s.op == "UnpackTuple":
        index += 1
    return index


def _update_by_owner(edits: _Edits, group: WeightGroup, owner: Owner, stage: int) -> None:
    """The owner updates the weight. Before stage 3 it sends it to the others, into the old weight's memory."""
    for indices in (group.updates, group.writes):
        edits.dropped.update(index for rank, index in enumerate(indices) if rank != owner.rank)
    others = [rank for rank, name in enumerate(group.new) if rank != owner.rank and _needed(edits, name, stage)]
    if others:
        has_old = stage < 3
        sent = {rank: edits.namer.fresh(f"{group.new[rank]}_sent") if has_old else group.new[rank] for rank in others}
        after = edits.after[group.writes[owner.rank]]
        after.append(spread(group.new[owner.rank], group.devices, owner, sent))
        if has_old:
            after += [Apply((group.new[rank],), ASSIGN, (group.weights[rank], sent[rank])) for rank in others]


def _needed(edits: _Edits, name: str, stage: int) -> bool:
    """Whether a device needs a new weight that it did not compute. In stage 3 weights are not returned."""
    last = len(edits.uses.entry.body) - 1
    return any(stage < 3 or place != last for place in edits.uses.mentioned.get(name, ()))


def _update_in_parts(edits: _Edits, group: WeightGroup, along: Along, stage: int) -> None:
    """Every device updates its part of the weight; before stage 3 the parts are gathered."""
    entry = edits.uses.entry
    parts: list[str] = []
    for rank, index in enumerate(group.writes):
        update = entry.body[index]
        assert isinstance(update, Apply)
        weight, new = group.weights[rank], group.new[rank]
        if stage < 3:
            part = edits.namer.fresh(f"{weight}_part")
            edits.before[index].append(_part(part, weight, group, along, rank))
            edits.renamed[index][weight] = part
            new = edits.namer.fresh(f"{new}_part") if new else DISCARD
        else:
            check_unused(edits.uses, new)
        parts.append(new)
        edits.replaced[index] = replace(update, results=(new, *update.results[1:]), claims=())
    if stage < 3 and any(group.new):
        together = group.replicas.collective("MPIAllgather", group.new, parts, axis=along.axis)
        edits.after[max(group.writes)].append(together)


def _gather_for_updates(edits: _Edits, group: WeightGroup, along: Along, types: Mapping[str, Type]) -> None:
    """Write the updates of parts out, as they need something of all parts: together, where the last one was."""
    entry = edits.uses.entry
    updates: list[Apply] = []
    before: list[Statement] = []
    casts: list[Statement] = []
    for index, write in zip(group.updates, group.writes, strict=True):
        update = with_operands(edits.replaced.get(index, entry.body[index]), edits.renamed[index])
        assert isinstance(update, Apply)
        updates.append(update)
        slices = edits.before.pop(write, [])
        if write == index:
            before += slices
        else:
            casts += [*slices, with_operands(edits.replaced[write], edits.renamed[write])]
        edits.dropped |= {index, write}
    original = entry.body[group.updates[0]]
    assert isinstance(original, Apply)
    weight = str(original.args[0])
    stated = {p.name: p.type for p in entry.params}
    known = {**stated, str(updates[0].args[0]): stated[weight], group.sums[0]: types[group.gradients[0]]}

    def part(name: str, whole: str, rank: int) -> Apply:
        return _part(name, whole, group, along, rank)

    edits.after[max(group.updates)][:0] = [*before, *in_parts(updates, group, along, part, known, edits.namer), *casts]


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
