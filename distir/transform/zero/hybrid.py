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
from distir.ir import DISCARD, Apply, Attributes, Function, Module, Site, Statement, results
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import common, facts_of, stating
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
    body = list[Statement](entry.body)
    whole: dict[str, WeightGroup] = {}
    written: dict[int, list[Statement]] = {}
    for group in groups_of(module, entry, kind, size):
        count = group.replicas.size
        if count % size:
            message = f"{count} replicas hold each weight, which do not divide into groups of {size}"
            hint = f"{divisors(count)} would do for `shard`"
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, Site(entry.name), message, (), hint)])
        if count > size:
            written[group.reduce] = _within(body[group.reduce], group.replicas, size)
            whole |= dict.fromkeys(group.weights, group)
    body = [own for i, s in enumerate(body) for own in written.get(i, [s])]
    changed = replace(entry, body=tuple(body))
    return Module(changed if f.name == entry.name else f for f in module), Hybrid(size, whole)


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
    body: Sequence[Statement], groups: Sequence[WeightGroup], hybrid: Hybrid, namer: FunctionBuilder
) -> tuple[list[Statement], list[WeightGroup]]:
    """The statements with sums over the groups after those within each group, and the weights with the inner sums.

    If a weight has an owner in each group, the sum is over the owners.
    """
    by_weight: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        whole = hybrid.whole.get(group.weights[0])
        if whole is not None:
            by_weight.setdefault(whole.weights[0], []).append(number)
    made = {name: index for index, statement in enumerate(body) for name in results(statement) if name != DISCARD}
    after: dict[int, list[Statement]] = {}
    moved: set[int] = set()
    inner = list(groups)
    for first, numbers in by_weight.items():
        replicas = hybrid.whole[first].replicas
        members = [groups[number] for number in numbers]
        own = {name: namer.fresh(f"{name}_within") for group in members for name in group.sums if name in made}
        places = sorted({made[name] for name in own})
        moved.update(places)
        # All groups sum at the same place, so that none waits for another between two of its sums.
        together = [_renamed(body[place], own) for place in places]
        for rank in range(len(members[0].sums)):
            row = [group.sums[rank] for group in members if group.sums[rank] in own]
            if row:
                facts = common(facts_of(body[made[name]]) for name in row)
                together += stating(facts, [_across(row, [own[name] for name in row], replicas, hybrid.size)])
        after.setdefault(places[-1], []).extend(together)
        for number, group in zip(numbers, members, strict=True):
            inner[number] = replace(group, sums=tuple(own.get(name, name) for name in group.sums))
    found: list[Statement] = []
    for index, statement in enumerate(body):
        found += [] if index in moved else [statement]
        found += after.get(index, ())
    return found, inner


def _renamed(statement: Statement, own: Mapping[str, str]) -> Statement:
    assert isinstance(statement, Apply)
    return replace(statement, results=tuple(own.get(name, name) for name in statement.results), claims=())


def _across(summed: Sequence[str], parts: Sequence[str], replicas: ReplicaGroup, size: int) -> Apply:
    """The sum over the groups of the value on one replica of each."""
    stride = None if replicas.stride is None else replicas.stride * size
    return ReplicaGroup((), replicas.size // size, stride).collective("MPIAllreduce", summed, parts)
