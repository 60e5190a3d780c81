"""The global gradient norm with partitioned gradients: squares are summed over the replicas.

If gradients are partitioned, each replica has only a partial sum of squares. Partial sums, also over the shards of a
replica, are added locally, and reduced over the replicas when the norm is used: so one scalar is communicated. A
gradient that all replicas hold counts once, on the first of them. Where weights have different replicas, as those of
experts do where devices share a sequence, a scalar is reduced over each set of replicas, and their sums are added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import Apply, Attributes, Statement, names, operands
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import facts_of, state_since, with_operands
from distir.ops.group import GroupFirst
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
    mixed: dict[str, Apply] = field(default_factory=dict[str, Apply])
    """By result: a sum of terms of different replicas, to be written where it is used, when all have their terms."""

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

    def add_sum(self, result: str, args: Sequence[str], mine: Sequence[str]) -> None:
        """A sum of addends of which `mine` are terms over the same replicas: it is a term, too."""
        first = self.terms[mine[0]]
        kept = [a for a in args if (self.terms[a].there if a in self.terms else first.rank == 0)]
        what = tuple(self.terms[name].what for name in mine)
        self.add(result, _Term(what, first.rank, first.replicas, bool(kept)))
        if kept:
            self.body.append(Apply((result,), "Sum", tuple([self.of_first(a, first) for a in kept])))

    def write(self, statement: Statement) -> None:
        """Write a statement that needs the sums over the replicas of the terms that it uses."""
        args = list(names(operands(statement)))
        for name in args:
            if name in self.mixed:
                self.write(self.mixed.pop(name))
        totals = {name: self.total(name) for name in args if name in self.terms}
        self.body.append(with_operands(statement, totals) if totals else statement)

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
    for statement in _all_replicas_at_once(body, gradients):
        start = len(found.body)
        _statement(found, gradients, statement)
        state_since(found.body, start, facts_of(statement))
    used = {name for statement in found.body for name in names(operands(statement))}
    return [s for s in found.body if not (isinstance(s, Apply) and s.op == NORM and s.results[0] not in used)]


def _all_replicas_at_once(body: Sequence[Statement], gradients: Mapping[str, _Term]) -> Iterator[Statement]:
    """The statements, with the sums of squares of all replicas before what uses one of them, the innermost first."""
    depths: dict[str, int] = {}
    waiting: list[tuple[int, Statement]] = []
    for statement in body:
        args = list(names(operands(statement)))
        depth = max((depths[name] for name in args if name in depths), default=0)
        is_norm = isinstance(statement, Apply) and statement.op == NORM and args[0] in gradients
        if isinstance(statement, Apply) and (is_norm or (depth and statement.op in ("Sum", *SUMS))):
            depths |= dict.fromkeys(statement.results, depth + 1)
        if depth and isinstance(statement, Apply) and statement.op in ("Sum", *SUMS):
            waiting.append((depth, statement))
            continue
        if depth:
            yield from (late for _, late in sorted(waiting, key=lambda each: each[0]))
            waiting.clear()
        yield statement


def _statement(found: _Norms, gradients: dict[str, _Term], statement: Statement) -> None:
    args = list(names(operands(statement)))
    mine = [name for name in args if name in found.terms]
    if isinstance(statement, Apply) and statement.op == NORM and args[0] in gradients:
        own = gradients[args[0]]
        found.add(statement.results[0], replace(own, what=(NORM, own.what)))
        if own.there:
            found.body.append(statement)
    elif isinstance(statement, Apply) and statement.op == "Sum" and mine:
        (result,) = statement.results
        by_replicas: dict[ReplicaGroup, list[str]] = {}
        for name in mine:
            by_replicas.setdefault(found.terms[name].replicas, []).append(name)
        if len(by_replicas) == 1:
            found.add_sum(result, args, mine)
            return
        parts = [found.namer.fresh(f"{result}_part") for _ in by_replicas]
        for part, group in zip(parts, by_replicas.values(), strict=True):
            found.add_sum(part, group, group)
        found.mixed[result] = replace(statement, args=(*parts, *[name for name in args if name not in mine]))
    elif isinstance(statement, Apply) and statement.op in SUMS and mine == args and all(map(found.is_everywhere, args)):
        what = tuple(found.terms[name].what for name in args)
        for result, arg in zip(statement.results, args, strict=True):
            term = found.terms[arg]
            found.add(result, _Term((SUMS, what), term.rank, term.replicas, there=True))
        found.body.append(statement)
    else:
        found.write(statement)
