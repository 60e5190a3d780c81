"""Kind: sums of gradients over devices, beside the backward pass that makes the next gradients."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from distir.ir import Apply, Function, Module, Statement, names, operands, results
from distir.ops import OPS
from distir.transform.entry import entry_of
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind

STREAM = "reduce"

REDUCTIONS = frozenset({"MPIAllreduce", "MPIReduceScatter", "MPIReduce", "GroupAllreduce", "GroupReduceScatter"})
"""The ops that sum over devices."""


@kind
def gradients(module: Module) -> Overlapped:
    """Gradients are summed over devices on the stream `reduce`, as soon as they are there."""
    entry = entry_of(module)
    sums = gradient_sums(entry)
    if not sums:
        raise Inapplicable(
            "no gradient is summed over devices for an update; apply `dp` or `dtp` to a training step first"
        )
    made = {name: index for index, statement in enumerate(entry.body) for name in results(statement)}
    behind: defaultdict[int, list[Statement]] = defaultdict(list)
    for index in sums:
        statement = entry.body[index]
        assert isinstance(statement, Apply)
        place = max((made.get(name, -1) for name in names(statement.args)), default=-1)
        behind[place].append(replace(statement, stream=STREAM))
    body = list(behind[-1])
    for index, statement in enumerate(entry.body):
        if index not in sums:
            body.append(statement)
        body += behind[index]
    changed = replace(entry, body=tuple(body))
    done = f"{len(sums)} sum{'s' * (len(sums) > 1)} of gradients on `{STREAM}`"
    return Overlapped(Module(changed if f is entry else f for f in module), done)


def gradient_sums(entry: Function) -> list[int]:
    """The statements of the compute stream that sum gradients over devices: they are for updates alone."""
    updating: set[str] = set()
    """The values that lead to updates."""
    passing: set[str] = set()
    """Those that lead to products, or calls: to the forward or the backward pass."""
    found: list[int] = []
    for index in range(len(entry.body) - 1, -1, -1):
        statement = entry.body[index]
        made, used = set(results(statement)), set(names(operands(statement)))
        op = OPS[statement.op] if isinstance(statement, Apply) and statement.op in OPS else None
        if op is not None and op.family == "optimizer":
            updating |= used
            continue
        if op is None or op.family == "linalg":
            passing |= used
        if made & updating:
            updating |= used
        if made & passing:
            passing |= used
        is_sum = isinstance(statement, Apply) and statement.op in REDUCTIONS and not statement.stream
        if is_sum and made & updating and not made & passing:
            found.append(index)
    return found[::-1]
