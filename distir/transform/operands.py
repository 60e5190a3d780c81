"""Substituting operands of statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar, overload

from distir.ir import Apply, Arg, Broken, Call, Statement


@overload
def with_operands(statement: Apply | Call, renamed: Mapping[str, Arg]) -> Apply | Call: ...


@overload
def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement: ...


def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement:
    """The statement with operands substituted, in lists too."""
    if not renamed:
        return statement

    def of(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(of, arg))
        return renamed.get(arg, arg) if isinstance(arg, str) else arg

    return statement if isinstance(statement, Broken) else replace(statement, args=tuple(map(of, statement.args)))


S = TypeVar("S", bound=Statement)


def on_stream(stream: str, statements: Iterable[S]) -> list[S]:
    """The statements, on `stream` unless they name another: for statements that replace one on that stream."""

    def moved(statement: S) -> S:
        is_free = isinstance(statement, (Apply, Call)) and not statement.stream
        return replace(statement, stream=stream) if is_free else statement

    return list(map(moved, statements)) if stream else list(statements)
