"""The functions that the entry function runs, each analysed for the arguments of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.analysis import Analysis, Instance, State
from distir.analysis.reached import reached
from distir.ir import Function


def first_instances(analysis: Analysis, entry: Function) -> Iterator[Instance]:
    """The entry function and every function that it calls, directly or not, for the arguments of its first call."""
    seen: set[str] = set()

    def is_new(name: str) -> bool:
        return not (name in seen or seen.add(name))

    return reached(analysis.domain, _start(analysis, entry), is_new)


def instances(analysis: Analysis, entry: Function) -> Iterator[Instance]:
    """The entry function and every function that it calls, directly or not, for all arguments, each once."""
    return reached(analysis.domain, _start(analysis, entry))


def _start(analysis: Analysis, entry: Function) -> Instance:
    return analysis.domain.instance(entry.name, tuple(param.type for param in entry.params))


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
