"""What programs are rewritten with: statements that replace others keep what was known of those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distir.ir.core import Apply, Call, Statement
from distir.ir.facts import NO_FACTS, PHASE_ORDER, Facts


def facts_of(statement: Statement) -> Facts:
    """The facts that a statement states."""
    return statement.facts if isinstance(statement, (Apply, Call)) else NO_FACTS


def stated_with(statement: Statement, facts: Facts) -> Statement:
    """The statement with these facts alone."""
    return replace(statement, facts=facts) if isinstance(statement, (Apply, Call)) else statement


def shared(windows: Sequence[Sequence[Facts]]) -> tuple[list[Facts], list[Facts]]:
    """The facts of statements that become one function, and those of its calls.

    `windows`: for each call, the facts of the statements that it replaces. Microbatches and layers count on from those
    of the calls. What differs otherwise is dropped.
    """
    calls = [
        Facts(microbatch=_least(facts.microbatch for facts in own), layer=_least(facts.layer for facts in own))
        for own in windows
    ]
    relative = [[_counted_from(call, facts) for facts in own] for call, own in zip(calls, windows, strict=True)]
    return [_common(column) for column in zip(*relative, strict=True)], calls


def _least(numbers: Iterable[int]) -> int:
    return min((number for number in numbers if number), default=0)


def _counted_from(first: Facts, facts: Facts) -> Facts:
    return replace(
        facts,
        microbatch=facts.microbatch and facts.microbatch - first.microbatch + 1,
        layer=facts.layer and facts.layer - first.layer + 1,
    )


def _common(facts: Sequence[Facts]) -> Facts:
    first = facts[0].stated
    return Facts(**{name: value for name, value in first.items() if all(getattr(f, name) == value for f in facts)})


def stating(facts: Facts, statements: Iterable[Statement]) -> list[Statement]:
    """The statements, with those of `facts` that they lack: for what is written in place of one that states these."""
    return [_filled(statement, facts) for statement in statements] if facts else list(statements)


def in_place_of(statement: Statement, statements: Iterable[Statement]) -> list[Statement]:
    """Statements written in place of one: on its stream, unless they name another, and with its facts."""
    stream = statement.stream if isinstance(statement, (Apply, Call)) else ""
    return stating(facts_of(statement), on_stream(stream, statements))


def on_stream(stream: str, statements: Iterable[Statement]) -> list[Statement]:
    """The statements, on `stream` unless they name another."""

    def moved(statement: Statement) -> Statement:
        is_free = isinstance(statement, (Apply, Call)) and not statement.stream
        return replace(statement, stream=stream) if is_free else statement

    return list(map(moved, statements)) if stream else list(statements)


def common(facts: Iterable[Facts]) -> Facts:
    """The facts of what does as one what was stated with these: those they share, and the latest of their phases."""
    found = list(facts)
    latest = max(found, key=lambda each: PHASE_ORDER[each.phase], default=NO_FACTS).phase
    return replace(_common(found), phase=latest) if found else NO_FACTS


def state_since(body: list[Statement], start: int, facts: Facts) -> None:
    """State `facts` at the statements of `body` from `start` on, where they lack them."""
    if facts:
        body[start:] = stating(facts, body[start:])


def _filled(statement: Statement, facts: Facts) -> Statement:
    if not isinstance(statement, (Apply, Call)):
        return statement
    found = statement.facts.filled(facts)
    return statement if found is statement.facts else replace(statement, facts=found)
