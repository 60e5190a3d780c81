"""Statements with other operands: what transforms that reroute values share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

from distir.ir import Apply, Arg, Broken, Call, Return, Statement


@overload
def with_operands(statement: Apply | Call, renamed: Mapping[str, Arg]) -> Apply | Call: ...


@overload
def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement: ...


def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement:
    """The statement with other values for some of those it mentions, in lists too."""
    if not renamed:
        return statement

    def of(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(of, arg))
        return renamed.get(arg, arg) if isinstance(arg, str) else arg

    if isinstance(statement, Broken):
        return statement
    args = tuple(map(of, statement.args))
    if isinstance(statement, Apply):
        return Apply(statement.results, statement.op, args, statement.attrs, statement.claims)
    if isinstance(statement, Call):
        return Call(statement.results, statement.function, args, statement.claims)
    return Return(args)
