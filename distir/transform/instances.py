"""The functions that the entry function runs, each analysed for the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.analysis import Analysis, Instance, State
from distir.ir import Call, Function


def first_instances(analysis: Analysis, entry: Function) -> Iterator[Instance]:
    """The entry function and every function that it calls, directly or not, for the arguments of its first call."""
    return _reached(analysis, entry)


def instances(analysis: Analysis, entry: Function) -> Iterator[Instance]:
    """The entry function and every function that it calls, directly or not, for all arguments, each once."""
    return _reached(analysis, entry, every=True)


def _reached(analysis: Analysis, entry: Function, every: bool = False) -> Iterator[Instance]:
    waiting = [analysis.domain.instance(entry.name, tuple(param.type for param in entry.params))]
    seen: set[object] = {entry.name}
    for instance in waiting:  # grows while it is walked
        yield instance
        for statement in instance.function.body:
            if isinstance(statement, Call) and (every or statement.function not in seen):
                vs = instance.state(statement.args)
                key = (statement.function, vs) if every else statement.function
                if key not in seen:
                    seen.add(key)
                    waiting.append(analysis.domain.instance(statement.function, vs))


def by_function(instances: Iterator[Instance]) -> dict[str, list[Instance]]:
    """The instances of each function, in the order of their first calls."""
    found: dict[str, list[Instance]] = {}
    for instance in instances:
        found.setdefault(instance.function.name, []).append(instance)
    return found


def states_of_calls(analysis: Analysis, entry: Function) -> Mapping[str, State]:
    """By function: its values for the arguments of its first call, which say on which devices they are.

    Those for its parameters' own types where it is never called.
    """
    return {**analysis.states, **{i.function.name: i.state for i in first_instances(analysis, entry)}}
