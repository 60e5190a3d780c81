"""`@main.scatter` and `@main.gather` of a program with partitioned state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.ir import DISCARD, Apply, Arg, Attributes, Function, Param, Return, names, operands
from distir.ir.builder import namer
from distir.ops.group import GROUPED
from distir.transform.dead_code import pruned
from distir.transform.zero.partition import Copies, Owner, part_type


def partitioned_params(params: Sequence[Param], copies: Sequence[Copies]) -> tuple[Param, ...]:
    """The entry function's parameters that remain, with their new types."""
    places = _places(copies)
    found: list[Param] = []
    for param in params:
        if param.name not in places:
            found.append(param)
            continue
        of, rank = places[param.name]
        if not isinstance(of.partition, Owner):
            found.append(replace(param, type=part_type(param.type, of.partition, of.replicas.size)))
        elif rank == of.partition.rank:
            found.append(param)
    return tuple(found)


def partitioned_results(returned: Sequence[Arg], copies: Sequence[Copies]) -> tuple[Arg, ...]:
    """The entry function's results that remain."""
    places = _places(copies)
    return tuple(arg for arg in returned if not (isinstance(arg, str) and _is_gone(places, arg)))


def scatter(function: Function, params: Sequence[Param], copies: Sequence[Copies]) -> Function:
    """The `.scatter` function, for the parameters `params` that remain."""
    places = _places(copies)
    given = {p.name: arg for p, arg in zip(params, function.returned, strict=True)}
    f = namer(function)
    f.params, f.body = list(function.params), list(function.body[:-1])
    parts: dict[str, str] = {}
    for of in copies:
        if not isinstance(of.partition, Owner):
            hints = tuple(f"{name}_part" for name in of.names)
            axis, group = of.partition.axis, of.replicas
            if group.stride is not None:
                own = (hints[0], *(DISCARD,) * (group.size - 1))
                attrs = {"axis": axis, "num_outputs": group.size, "stride": group.stride}
                parts[of.names[0]] = f.apply("Split", given[of.names[0]], results=own, **attrs)[0]
                continue
            found = f.apply("MPIScatter", given[of.names[0]], results=hints, devices=of.replicas.devices, axis=axis)
            parts.update(zip(of.names, found, strict=True))
    returned = [parts.get(p.name, given[p.name]) for p in params if not _is_gone(places, p.name)]
    return pruned(replace(function, body=(*f.body, Return(tuple(returned))), result_types=None))


def gather(function: Function, returned: Sequence[Arg], copies: Sequence[Copies]) -> Function:
    """The `.gather` function, for the results that remain of those `returned`."""
    places = _places(copies)
    f = namer(function)
    seen: Counter[str] = Counter()
    rows: dict[tuple[tuple[str, ...], int], _Row] = {}
    for arg, param in zip(returned, function.params, strict=True):
        if not isinstance(arg, str) or arg not in places:
            f.params.append(param)
            continue
        of, rank = places[arg]
        row = rows.setdefault((of.names, seen[arg]), _Row(of))
        seen[arg] += 1
        row.before[rank], row.now[rank] = param.name, param.name
        if not isinstance(of.partition, Owner):
            row.now[rank] = f.fresh(f"{param.name}_part")
            f.params.append(Param(row.now[rank], part_type(param.type, of.partition, of.replicas.size)))
        elif rank == of.partition.rank:
            f.params.append(param)
    wanted = {name for statement in function.body for name in names(operands(statement))}
    joins = [join for row in rows.values() for join in _joins(row, wanted)]
    return pruned(replace(function, params=tuple(f.params), body=(*joins, *function.body), result_types=None))


@dataclass(frozen=True, slots=True)
class _Row:
    """The copies of one value as `.gather` takes them, by rank: their old names, and those of the parts that remain."""

    of: Copies
    before: dict[int, str] = field(default_factory=dict[int, str])
    now: dict[int, str] = field(default_factory=dict[int, str])


def _joins(row: _Row, wanted: Container[str]) -> Iterator[Apply]:
    """The statements that restore the copies wanted from the parts that remain."""
    for rank, name in row.before.items():
        if name not in wanted:
            continue
        device, partition = row.of.replicas.devices[rank], row.of.partition
        if isinstance(partition, Owner):
            if rank != partition.rank:
                yield Apply((name,), "Send", (row.before[partition.rank],), Attributes({"device": device}))
        elif row.of.replicas.stride is not None:
            attrs = {"axis": partition.axis, "size": row.of.replicas.size, "stride": row.of.replicas.stride}
            yield Apply((name,), GROUPED["MPIAllgather"].name, (row.now[rank],), Attributes(attrs))
        else:
            parts = tuple(row.now[r] for r in range(len(row.of.names)))
            yield Apply((name,), "MPIGather", parts, Attributes({"root": device, "axis": partition.axis}))


def _places(copies: Sequence[Copies]) -> dict[str, tuple[Copies, int]]:
    """By name: the row of copies to which it belongs, and its rank."""
    return {name: (of, rank) for of in copies for rank, name in enumerate(of.names)}


def _is_gone(places: Mapping[str, tuple[Copies, int]], name: str) -> bool:
    if name not in places:
        return False
    of, rank = places[name]
    return isinstance(of.partition, Owner) and rank != of.partition.rank
