"""The functions that the entry function runs, each analysed for the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator

from distir.analysis import Analysis, Instance
from distir.ir import Call, Function


def first_instances(analysis: Analysis, entry: Function) -> Iterator[Instance]:
    """The entry function and every function that it calls, directly or not, for the arguments of its first call."""
    waiting = [analysis.domain.own[entry.name]]
    seen = {entry.name}
    for instance in waiting:  # grows while it is walked
        yield instance
        for statement in instance.function.body:
            if isinstance(statement, Call) and statement.function not in seen:
                seen.add(statement.function)
                waiting.append(analysis.domain.instance(statement.function, instance.state(statement.args)))
