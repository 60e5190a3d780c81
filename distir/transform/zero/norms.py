"""The global gradient norm with partitioned gradients: squares are summed over the replicas.

If gradients are partitioned, each replica has only a partial sum of squares. Partial sums, also over the shards of a
replica, are added locally, and reduced over the replicas when the norm is used: so one scalar is communicated. A
gradient that all replicas hold counts once, on the first of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import Apply, Attributes, Statement, names, operands
from distir.ir.builder import FunctionBuilder
from distir.ops.group import GroupFirst
from distir.transform.operands import with_operands
from distir.transform.zero.groups import NORM, SUMS, ReplicaGroup, WeightGroup
from distir.transform.zero.partition import Owner, Partition


@dataclass(frozen=True, slots=True)
class _Term:
    """A value of one replica that is a partial sum over all replicas. `what`: equal for the terms of one sum.

    `there`: whether the replica has such a term.
    """

    what: Hashable
    rank: int
    replicas: ReplicaGroup
    there: bool

    @property
    def key(self) -> Hashable:
        return self.what, self.replicas


@dataclass(slots=True)
class _Norms:
    namer: FunctionBuilder
    body: list[Statement] = field(default_factory=list[Statement])
    terms: dict[str, _Term] = field(default_factory=dict[str, _Term])
    siblings: dict[Hashable, dict[int, str]] = field(default_factory=dict[Hashable, "dict[int, str]"])
    """By key of terms: the name of each replica's term, empty if it has none."""
    totals: dict[Hashable, dict[int, str]] = field(default_factory=dict[Hashable, "dict[int, str]"])
    """By key of terms: the name of their sum on each replica."""

    def add(self, name: str, term: _Term) -> None:
        self.terms[name] = term
        self.siblings.setdefault(term.key, {})[term.rank] = name if term.there else ""

    def of_first(self, name: str, like: _Term) -> str:
        """A replicated addend, which is added on the first replica alone; one replica may represent all."""
        if name in self.terms or like.replicas.stride is None:
            return name
        attrs = Attributes({"size": like.replicas.size, "stride": like.replicas.stride})
        first = self.namer.fresh(f"{name}_first")
        self.body.append(Apply((first,), GroupFirst.name, (name,), attrs))
        return first

    def is_everywhere(self, name: str) -> bool:
        """Whether each replica has such a term."""
        term = self.terms[name]
        named = self.siblings[term.key]
        return len(named) == len(term.replicas.devices) and all(named.values())

    def total(self, name: str) -> str:
        """The sum over the replicas, in place of a term; written where the first replica uses it."""
        term = self.terms[name]
        if term.key not in self.totals:
            named = self.siblings[term.key]
            assert len(named) == len(term.replicas.devices), "replicas take their steps one after the other"
            own = {rank: named[rank] for rank in sorted(named) if named[rank]}
            hint = next(iter(own.values()))
            found = dict(own)
            if len(own) > 1 or term.replicas.stride is not None:
                results = tuple(self.namer.fresh(f"{each}_total") for each in own.values())
                self.body.append(term.replicas.collective("MPIAllreduce", results, tuple(own.values())))
                found = dict(zip(own, results, strict=True))
            source = next(iter(found.values()))
            for rank, device in enumerate(term.replicas.devices):
                if rank not in found:
                    found[rank] = self.namer.fresh(f"{hint}_total")
                    self.body.append(Apply((found[rank],), "Send", (source,), Attributes({"device": device})))
            self.totals[term.key] = found
        return self.totals[term.key][term.rank]


def with_norms(
    body: Sequence[Statement], groups: Sequence[WeightGroup], partitions: Sequence[Partition], namer: FunctionBuilder
) -> list[Statement]:
    """The statements with sums of squares of partitioned gradients reduced over the replicas."""
    gradients: dict[str, _Term] = {}
    for number, (group, partition) in enumerate(zip(groups, partitions, strict=True)):
        for rank, name in enumerate(group.sums):
            there = not isinstance(partition, Owner) or rank == partition.rank
            gradients[name] = _Term(number, rank, group.replicas, there)
    found = _Norms(namer)
    for statement in body:
        _statement(found, gradients, statement)
    used = {name for statement in found.body for name in names(operands(statement))}
    return [s for s in found.body if not (isinstance(s, Apply) and s.op == NORM and s.results[0] not in used)]


def _statement(found: _Norms, gradients: dict[str, _Term], statement: Statement) -> None:
    args = list(names(operands(statement)))
    mine = [name for name in args if name in found.terms]
    if isinstance(statement, Apply) and statement.op == NORM and args[0] in gradients:
        own = gradients[args[0]]
        found.add(statement.results[0], replace(own, what=(NORM, own.what)))
        if own.there:
            found.body.append(statement)
    elif isinstance(statement, Apply) and statement.op == "Sum" and mine:
        first = found.terms[mine[0]]
        kept = [a for a in args if (found.terms[a].there if a in found.terms else first.rank == 0)]
        what = tuple(found.terms[name].what for name in mine)
        found.add(statement.results[0], _Term(what, first.rank, first.replicas, bool(kept)))
        if kept:
            found.body.append(replace(statement, args=tuple([found.of_first(a, first) for a in kept])))
    elif isinstance(statement, Apply) and statement.op in SUMS and mine == args and all(map(found.is_everywhere, args)):
        what = tuple(found.terms[name].what for name in args)
        for result, arg in zip(statement.results, args, strict=True):
            term = found.terms[arg]
            found.add(result, _Term((SUMS, what), term.rank, term.replicas, there=True))
        found.body.append(statement)
    else:
        totals = {name: found.total(name) for name in mine}
        found.body.append(with_operands(statement, totals) if totals else statement)
