"""Hybrid sharding: state is partitioned within groups of replicas, and replicated from group to group.

Gradients are reduced within a group, each replica to its part, and the parts summed over the groups (FSDP's hybrid
sharding, Zhao et al., arXiv:2304.11277, section 3.2.2; MiCS, arXiv:2205.00119). What is gathered stays in the group,
whose links may be faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import NO_FACTS, Apply, Attributes, Function, Module, Site, Statement, results
from distir.ir.dataflow import definitions
from distir.ir.rewrite import Rewriter, common, facts_of, with_names
from distir.transform.sharding.sizes import divisors
from distir.transform.zero.groups import ReplicaGroup, WeightGroup, groups_of


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Groups of `size` neighbouring replicas. `whole`: by weight on each device, all replicas that hold it."""

    size: int
    whole: Mapping[str, WeightGroup]


def in_groups(module: Module, entry: Function, size: int, kind: str) -> tuple[Module, Hybrid]:
    """The module with each gradient summed within groups of `size` replicas only; sums over the groups follow later.

    `entry` is its entry function, or an equivalent one; `kind` the step's `partition`. Raises ProgramError if `size`
    does not divide the replicas.
    """
    edit = Rewriter(entry)
    whole: dict[str, WeightGroup] = {}
    for group in groups_of(module, entry, kind, size):
        count = group.replicas.size
        if count % size:
            message = f"{count} replicas hold each weight, which do not divide into groups of {size}"
            hint = f"{divisors(count)} would do for `shard`"
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, Site(entry.name), message, (), hint)])
        if count > size:
            edit.replace(group.reduce, *_within(edit[group.reduce], group.replicas, size))
            whole |= dict.fromkeys(group.weights, group)
    return module.replacing(edit.done()), Hybrid(size, whole)


def _within(reduce: Statement, replicas: ReplicaGroup, size: int) -> list[Statement]:
    """Sums within groups of replicas, for one over all of them."""
    assert isinstance(reduce, Apply)
    if replicas.stride is not None:
        return [replace(reduce, attrs=Attributes({**reduce.attrs, "size": size}))]
    firsts = range(0, replicas.size, size)
    return [
        replace(reduce, results=reduce.results[i : i + size], args=reduce.args[i : i + size], claims=()) for i in firsts
    ]


def summed_over_groups(
    entry: Function, groups: Sequence[WeightGroup], hybrid: Hybrid, before: Function
) -> tuple[Function, list[WeightGroup]]:
    """The function with sums over the groups after those within each group, and the weights with the inner sums.

    If a weight has an owner in each group, the sum is over the owners. `before`: the function with all names so far.
    """
    edit, made = Rewriter(entry), definitions(entry)
    edit.builder.take(name for statement in before.body for name in results(statement))
    by_weight: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        whole = hybrid.whole.get(group.weights[0])
        if whole is not None:
            by_weight.setdefault(whole.weights[0], []).append(number)
    inner = list(groups)
    for first, numbers in by_weight.items():
        replicas = hybrid.whole[first].replicas
        members = [groups[number] for number in numbers]
        own = {name: edit.fresh(f"{name}_within") for group in members for name in group.sums if name in made}
        places = sorted({made[name] for name in own})
        # All groups sum at the same place, so that none waits for another between two of its sums.
        summed = [s for place in places if isinstance(s := edit[place], Apply)]
        together: list[Statement] = [with_names(replace(s, claims=()), own) for s in summed]
        for rank in range(len(members[0].sums)):
            row = [group.sums[rank] for group in members if group.sums[rank] in own]
            if row:
                facts = common(facts_of(edit[made[name]]) for name in row)
                across = _across(row, [own[name] for name in row], replicas, hybrid.size)
                together.append(replace(across, facts=facts))
        edit.erase(*places)
        edit.behind(places[-1], *together, facts=NO_FACTS)
        for number, group in zip(numbers, members, strict=True):
            inner[number] = replace(group, sums=tuple(own.get(name, name) for name in group.sums))
    return edit.done(), inner


def _across(summed: Sequence[str], parts: Sequence[str], replicas: ReplicaGroup, size: int) -> Apply:
    """The sum over the groups of the value on one replica of each."""
    stride = None if replicas.stride is None else replicas.stride * size
    return ReplicaGroup((), replicas.size // size, stride).collective("MPIAllreduce", summed, parts)
