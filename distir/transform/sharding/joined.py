"""Joins successive sums over two mesh axes into one sum over both.

A gradient is summed over the devices of context or expert parallelism, and over replicas. One all-reduce over all of
them moves less data than two, and optimizer state is then replicated over all of them, so that ZeRO can partition it.
What is summed twice is a matter of operands, whatever it is of: so facts are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.ir import Apply, Attributes, Function, Module, Statement, ops_in, types
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter
from distir.ops import Value, type_of
from distir.ops.group import GROUPED
from distir.transform.checking import checked
from distir.transform.entry import entry_of

SUM, GROUP_SUM = "MPIAllreduce", GROUPED["MPIAllreduce"].name


def with_joined_sums(module: Module, inner: int, outer: int, stride: int | None = None) -> Module:
    """The program with sums over `inner` devices, followed by sums over `outer` groups, as sums over all of them.

    Only if the groups are adjacent, and inner sums have no other use. `stride`: the distance of devices in an inner
    group, which distinguishes it from groups along another axis of equal size. Raises ProgramError if the module does
    not check.
    """
    entry = entry_of(module)
    is_written_out = any(ops_in(entry, SUM))
    rho: Mapping[str, Value] = checked(module).states[entry.name] if is_written_out else {}
    return module.replacing(_joined(entry, inner, outer, stride, rho))


def with_roles(module: Module, **roles: int) -> Module:
    """The module with the number of devices in the roles of its inputs that have a batch."""
    entry = entry_of(module)
    params = tuple(
        replace(p, roles=Attributes({**p.roles, **roles})) if "batch" in p.roles else p for p in entry.params
    )
    return module.replacing(replace(entry, params=params))


def _joined(entry: Function, inner: int, outer: int, stride: int | None, rho: Mapping[str, Value]) -> Function:
    used = uses(entry)
    made = {name: s for s in ops_in(entry, SUM, GROUP_SUM) for name in s.results}
    taken = {arg: s for s in made.values() for arg in s.args if isinstance(arg, str) and len(used[arg]) == 1}
    found: dict[Statement, Apply | None] = {}
    for statement in ops_in(entry, SUM, GROUP_SUM):
        if statement in found:
            continue
        if statement.op == SUM and len(statement.args) == outer:
            found |= _of_all(statement, made, taken, inner, stride, rho)
        elif statement.op == GROUP_SUM and statement.attrs.get("size") == outer:
            found |= _of_representative(statement, made, taken, inner, stride)
    edit = Rewriter(entry)
    for index, statement in edit:
        if statement in found:
            edit.replace(index, *filter(None, (found[statement],)))
    return edit.done()


def _of_all(
    statement: Apply,
    made: Mapping[str, Apply],
    taken: Mapping[str, Apply],
    inner: int,
    stride: int | None,
    rho: Mapping[str, Value],
) -> dict[Statement, Apply | None]:
    """The joined sum of several, and the replaced ones, by statement; nothing if they do not match."""
    first = [made.get(arg) if isinstance(arg, str) else None for arg in statement.args]
    groups = [s for s in first if s is not None and s.op == SUM and len(s.args) == inner]
    if len(groups) != len(first):
        return {}
    sums = [taken.get(name) for name in groups[0].results]
    if any(s is None for s in sums):
        return {}
    outer = [s for s in sums if s is not None]
    if [tuple(s.args) for s in outer] != [*zip(*(s.results for s in groups), strict=True)]:
        return {}
    devices = [types.device_of(type_of(rho[name])) or 0 for name in groups[0].results]
    others = [types.device_of(type_of(rho[name])) or 0 for name in statement.results]
    if others[1] - others[0] != inner * (devices[1] - devices[0]) or stride not in (None, devices[1] - devices[0]):
        return {}
    args = tuple(arg for s in groups for arg in s.args)
    results = tuple(name for row in zip(*(s.results for s in outer), strict=True) for name in row)
    gone: dict[Statement, Apply | None] = dict.fromkeys([*groups, *outer])
    return {**gone, outer[0]: replace(outer[0], results=results, args=args, claims=())}


def _of_representative(
    statement: Apply, made: Mapping[str, Apply], taken: Mapping[str, Apply], inner: int, stride: int | None
) -> dict[Statement, Apply | None]:
    (arg,) = statement.args
    first = made.get(arg) if isinstance(arg, str) else None
    if first is None or first.op != GROUP_SUM or first.attrs.get("size") != inner or taken.get(str(arg)) != statement:
        return {}
    own, size = _number(first, "stride"), _number(statement, "size")
    if _number(statement, "stride") != own * inner or stride not in (None, own):
        return {}
    attrs = Attributes({**statement.attrs, "size": size * inner, "stride": own})
    return {first: None, statement: replace(statement, args=first.args, attrs=attrs, claims=())}


def _number(statement: Apply, name: str) -> int:
    value = statement.attrs.get(name, 1)
    return value if isinstance(value, int) else 1
