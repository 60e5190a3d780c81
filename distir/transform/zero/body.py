"""The entry function's body with each weight partitioned: who sums, who updates, who is sent what, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from distir.ir import DISCARD, Apply, Arg, Attributes, DType, Function, Literal, Return, Statement, TensorType
from distir.ir.builder import FunctionBuilder, namer
from distir.transform.operands import with_operands
from distir.transform.zero.groups import ASSIGN, Uses, WeightGroup, check_unused, needed_whole, uses_of
from distir.transform.zero.norms import with_norms
from distir.transform.zero.partition import Along, Owner, Partition


def rewritten(
    entry: Function, groups: Sequence[WeightGroup], partitions: Sequence[Partition], stage: int
) -> list[Statement]:
    """The statements of the entry function, all but its `return`, after a stage of ZeRO: 1, 2 or 3."""
    edits = _Edits(uses_of(entry), namer(entry))
    for group, partition in zip(groups, partitions, strict=True):
        _reduce(edits, group, partition, early=stage > 1)
        if isinstance(partition, Owner):
            _update_by_owner(edits, group, partition, stage)
        else:
            _update_in_parts(edits, group, partition, stage)
        if stage == 3:
            _fetch(edits, group, partition)
    return with_norms(edits.applied(entry), groups, partitions, edits.namer)


@dataclass(slots=True)
class _Edits:
    """What changes in a body, by the number of the statement where it does."""

    uses: Uses
    namer: FunctionBuilder
    before: defaultdict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    after: defaultdict[int, list[Statement]] = field(default_factory=lambda: defaultdict(list))
    dropped: set[int] = field(default_factory=set[int])
    replaced: dict[int, Statement] = field(default_factory=dict[int, Statement])
    renamed: defaultdict[int, dict[str, Arg]] = field(default_factory=lambda: defaultdict(dict))

    def applied(self, entry: Function) -> list[Statement]:
        body: list[Statement] = []
        for index, statement in enumerate(entry.body):
            body += self.before[index]
            if index not in self.dropped and not isinstance(statement, Return):
                body.append(with_operands(self.replaced.get(index, statement), self.renamed[index]))
            body += self.after[index]
        return body


def _reduce(edits: _Edits, group: WeightGroup, partition: Partition, early: bool) -> None:
    """Sum the gradients where they are needed only; `early`: as soon as they are there."""
    summed = edits.uses.entry.body[group.reduce]
    stream = summed.stream if isinstance(summed, Apply) else ""
    if isinstance(partition, Owner):
        attrs = Attributes({"root": group.devices[partition.rank]})
        reduce = Apply((group.sums[partition.rank],), "MPIReduce", group.gradients, attrs, stream=stream)
    else:
        scattered = group.replicas.collective("MPIReduceScatter", group.sums, group.gradients, axis=partition.axis)
        reduce = replace(scattered, stream=stream)
    made = [edits.uses.defined[name] for name in group.gradients if name in edits.uses.defined]
    if early and len(made) == len(group.gradients):
        edits.dropped.add(group.reduce)
        edits.after[max(made)].append(reduce)
    else:
        edits.replaced[group.reduce] = reduce


def _update_by_owner(edits: _Edits, group: WeightGroup, owner: Owner, stage: int) -> None:
    """One device updates the weight. Before stage 3 it sends it to the others, which put it in the old one's memory."""
    for indices in (group.updates, group.writes):
        edits.dropped.update(index for rank, index in enumerate(indices) if rank != owner.rank)
    others = [rank for rank, name in enumerate(group.new) if rank != owner.rank and _needed(edits, name, stage)]
    if others:
        has_old = stage < 3
        sent = {rank: edits.namer.fresh(f"{group.new[rank]}_sent") if has_old else group.new[rank] for rank in others}
        after = edits.after[group.writes[owner.rank]]
        after.append(_spread(group.new[owner.rank], group.devices, owner, sent))
        if has_old:
            after += [Apply((group.new[rank],), ASSIGN, (group.weights[rank], sent[rank])) for rank in others]


def _needed(edits: _Edits, name: str, stage: int) -> bool:
    """Whether a device must get a new weight that it did not compute. From stage 3 on, it is not returned."""
    last = len(edits.uses.entry.body) - 1
    return any(stage < 3 or place != last for place in edits.uses.mentioned.get(name, ()))


def _update_in_parts(edits: _Edits, group: WeightGroup, along: Along, stage: int) -> None:
    """Every device updates its part of the weight; before stage 3 they exchange them."""
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


def _part(name: str, weight: str, group: WeightGroup, along: Along, rank: int) -> Apply:
    """A replica's own part of a weight that it holds whole."""
    assert isinstance(group.type, TensorType)
    dim = (group.type.shape or ())[along.axis]
    assert isinstance(dim, int)
    size = dim // group.replicas.size
    bounds = (Literal((rank * size,)), Literal(((rank + 1) * size,)), Literal((along.axis,)))
    return Apply((name,), "Slice", (weight, *bounds))


def _fetch(edits: _Edits, group: WeightGroup, partition: Partition) -> None:
    """Send weights in front of each use; what was sent dies with it.

    All replicas run the same program, so that their first uses belong together, then their second ones, and so on. A
    weight that is cast to a narrower type is cast where it is held, and sent in that type.
    """
    writes = set(group.writes)
    last = len(edits.uses.entry.body) - 1
    for name in group.weights:
        if last in edits.uses.mentioned[name]:
            raise needed_whole(edits.uses.entry, last, name)
    places = [[i for i in edits.uses.mentioned[name] if i not in writes] for name in group.weights]
    for together in zip_longest(*places):
        users = {rank: place for rank, place in enumerate(together) if place is not None}
        casts = _narrowing(edits, users, group)
        if casts is not None:
            _fetch_cast(edits, group, partition, users, casts)
            continue
        if isinstance(partition, Owner):
            users.pop(partition.rank, None)
        fetched: dict[int, str] = {}
        for rank, place in users.items():
            weight = group.weights[rank]
            fetched[rank] = edits.namer.fresh(f"{weight}_{_fetched(partition)}")
            edits.renamed[place][weight] = fetched[rank]
        if users:
            edits.before[min(users.values())].append(_fetching(group, partition, group.weights, fetched))


def _fetched(partition: Partition) -> str:
    """What a weight is called that a device has got."""
    return "sent" if isinstance(partition, Owner) else "whole"


def _narrowing(edits: _Edits, users: Mapping[int, int], group: WeightGroup) -> list[Apply] | None:
    """The casts that use a weight on all replicas, if it is cast there to one narrower type."""
    found = [edits.uses.entry.body[users[rank]] for rank in sorted(users)]
    casts = [s for s in found if isinstance(s, Apply) and s.op == "Cast"]
    to = casts[0].attrs.get("to") if casts else None
    held = group.type.dtype if isinstance(group.type, TensorType) else None
    alike = len(casts) == len(group.weights) and len({cast.attrs for cast in casts}) == 1
    return casts if alike and isinstance(to, DType) and held is not None and to.bytes < held.bytes else None


def _fetch_cast(
    edits: _Edits, group: WeightGroup, partition: Partition, users: Mapping[int, int], casts: Sequence[Apply]
) -> None:
    """Cast what each replica holds of a weight, and send that; `users`: where it was cast whole."""
    first = edits.before[min(users.values())]
    edits.dropped.update(users.values())
    results = {rank: cast.results[0] for rank, cast in enumerate(casts)}
    sources = list(results.values())
    for rank, cast in enumerate(casts):
        if isinstance(partition, Owner):
            if rank == partition.rank:
                first.append(cast)
        else:
            sources[rank] = edits.namer.fresh(f"{cast.results[0]}_part")
            first.append(replace(cast, results=(sources[rank],), claims=()))
    if isinstance(partition, Owner):
        del results[partition.rank]
    if results:
        first.append(_fetching(group, partition, sources, results))


def _fetching(group: WeightGroup, partition: Partition, sources: Sequence[str], results: Mapping[int, str]) -> Apply:
    """The statement that gives the replicas in `results` a weight whole, of what each has in `sources`."""
    if isinstance(partition, Owner):
        return _spread(sources[partition.rank], group.devices, partition, results)
    whole = [results.get(rank, DISCARD) for rank in range(len(group.devices))]
    return group.replicas.collective("MPIAllgather", whole, sources, axis=partition.axis)


def _spread(source: str, devices: Sequence[int], owner: Owner, results: Mapping[int, str]) -> Apply:
    """What the owner holds, on the devices of the ranks that `results` names."""
    if len(results) == 1:
        ((rank, name),) = results.items()
        return Apply((name,), "Send", (source,), Attributes({"device": devices[rank]}))
    ranks = sorted({owner.rank, *results})
    names = tuple(results.get(rank, DISCARD) for rank in ranks)
    return Apply(names, "MPIBroadcast", (source,), Attributes({"devices": tuple(devices[rank] for rank in ranks)}))
