"""What programs are rewritten with: statements that replace others keep what was known of those."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from distir.ir.core import Apply, Call, Statement
from distir.ir.facts import NO_FACTS, Facts


def facts_of(statement: Statement) -> Facts:
    """The facts that a statement states."""
    return statement.facts if isinstance(statement, (Apply, Call)) else NO_FACTS


def stating(facts: Facts, statements: Iterable[Statement]) -> list[Statement]:
    """The statements, with those of `facts` that they lack: for what is written in place of one that states these."""
    return [_filled(statement, facts) for statement in statements] if facts else list(statements)


def state_since(body: list[Statement], start: int, facts: Facts) -> None:
    """State `facts` at the statements of `body` from `start` on, where they lack them."""
    if facts:
        body[start:] = stating(facts, body[start:])


def _filled(statement: Statement, facts: Facts) -> Statement:
    if not isinstance(statement, (Apply, Call)):
        return statement
    found = statement.facts.filled(facts)
    return statement if found is statement.facts else replace(statement, facts=found)
