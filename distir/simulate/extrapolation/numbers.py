"""Sizes of the whole batch as operands: whether they affect values alone, or shapes and costs too.

A mean divides by the number of examples, and a loss is scaled by it. A host value affects costs and shapes only where
an op takes it as a shape, a position or the like.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from distir.analysis import lookup
from distir.ir import HOST, Apply, Call, names, operands, results, types
from distir.ops import type_of
from distir.ops.splitting import operand_places
from distir.simulate.body import Body


def are_numbers(entry: Body, index: int) -> bool:
    """Whether the results of a statement are host values, and all that depends on them is numbers."""
    made = set(results(entry.instance.function.body[index]))
    return _on_host(entry, made) and _Follower().follow(entry, made) is not None


@dataclass(frozen=True, slots=True)
class _Follower:
    known: dict[tuple[int, frozenset[str]], set[str] | None] = field(
        default_factory=dict[tuple[int, frozenset[str]], "set[str] | None"]
    )

    def follow(self, body: Body, made: Collection[str]) -> set[str] | None:
        """All host values that depend on some; None where a shape may."""
        key = (id(body), frozenset(made))
        if key not in self.known:
            self.known[key] = self._follow(body, set(made))
        return self.known[key]

    def _follow(self, body: Body, found: set[str]) -> set[str] | None:
        for statement, step in zip(body.instance.function.body, body.steps, strict=True):
            if found.isdisjoint(names(operands(statement))):
                continue
            if isinstance(statement, Call) and isinstance(step, Body):
                function = step.instance.function
                given = [p.name for p, arg in zip(function.params, statement.args, strict=True) if arg in found]
                inside = self.follow(step, given)
                if inside is None or len(given) < sum(name in found for name in names(statement.args)):
                    return None
                pairs = zip(statement.results, function.returned, strict=True)
                found.update(name for name, arg in pairs if arg in inside)
            elif isinstance(statement, Apply):
                if _on_host(body, statement.results):
                    found.update(statement.results)
                elif not _takes_numbers(body, statement, found):
                    return None
        return found


def _takes_numbers(body: Body, statement: Apply, found: set[str]) -> bool:
    """Whether an op takes host values as it takes those on devices."""
    if any(isinstance(arg, tuple) for arg in statement.args):
        return False
    places = operand_places(lookup(statement.op), body.instance.state(statement.args))
    pairs = zip(statement.args, places, strict=True)
    return not any(arg in found and place.device == "host" for arg, place in pairs)


def _on_host(body: Body, made: Collection[str]) -> bool:
    state = body.instance.state
    return all(name in state and types.device_of(type_of(state[name])) == HOST for name in made)
