"""Outlines statements as functions, without what is not needed.

Device-independent: these functions run where their arguments are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from distir.ir import DISCARD, Dim, Facts, Function, Param, Return, TensorType, Type, names, types
from distir.transform.pipeline.reading import Work


@dataclass(frozen=True)
class Outlined:
    """A function made of some statements; its parameters and results keep the values' names."""

    function: Function
    takes: tuple[str, ...]
    gives: tuple[str, ...]


def outline(
    name: str, statements: Sequence[Work], wanted: Collection[str], type_of: Callable[[str], Type], facts: Facts
) -> Outlined | None:
    """The function that computes the values `wanted`, or None if the statements define none of them."""
    body, needed = live(statements, wanted)
    made = [n for s in body for n in s.results if n in wanted]
    if not made:
        return None
    inside = {n for s in body for n in s.results}
    takes = tuple(dict.fromkeys(n for s in body for n in names(s.args) if n not in inside))
    params = bindable([Param(n, type_of(n)) for n in takes])
    trimmed = [renamed(s, lambda n: n if n in needed else DISCARD) for s in body]
    trimmed = [replace(s, facts=s.facts.beyond(facts)) if s.facts else s for s in trimmed]
    return Outlined(Function(name, params, (*trimmed, Return(tuple(made))), facts=facts), takes, tuple(made))


def bindable(params: Sequence[Param]) -> tuple[Param, ...]:
    """The parameters, with dimensions unknown that a call could not bind: `5*B` if no parameter has a dimension `B`."""
    leaves = [leaf for p in params for leaf in types.leaves(p.type) if isinstance(leaf, TensorType)]
    bound = {str(dim) for leaf in leaves for dim in leaf.shape or ()}
    open_names = {n for leaf in leaves for n in types.dim_names(leaf)} - bound
    if not open_names:
        return tuple(params)
    unknown: dict[str, Dim] = dict.fromkeys(open_names)
    return tuple(replace(p, type=types.substitute(p.type, unknown)) for p in params)


def live(statements: Sequence[Work], wanted: Iterable[str]) -> tuple[list[Work], set[str]]:
    """The statements on which the values `wanted` depend, and all values that they need."""
    needed = set(wanted)
    body: list[Work] = []
    for statement in reversed(statements):
        if needed.intersection(statement.results):
            needed.update(names(statement.args))
            body.append(statement)
    return body[::-1], needed


def renamed(statement: Work, rename: Callable[[str], str]) -> Work:
    """The statement with its results renamed."""
    results = tuple(n if n == DISCARD else rename(n) for n in statement.results)
    return replace(statement, results=results, claims=())
