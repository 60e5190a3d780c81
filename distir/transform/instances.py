"""The functions that the entry function runs, each analysed for the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.analysis import Analysis, Instance, State
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


def states_of_calls(analysis: Analysis, entry: Function) -> Mapping[str, State]:
    """By function: its values for the arguments of its first call, which say on which devices they are.

    Those for its parameters' own types where it is never called.
    """
    return {**analysis.states, **{i.function.name: i.state for i in first_instances(analysis, entry)}}
