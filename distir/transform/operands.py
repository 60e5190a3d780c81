"""Substituting operands of statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, overload

from distir.ir import Apply, Arg, Broken, Call, Statement


@overload
def with_operands(statement: Apply | Call, renamed: Mapping[str, Arg]) -> Apply | Call: ...


@overload
def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement: ...


def with_operands(statement: Statement, renamed: Mapping[str, Arg]) -> Statement:
    """The statement with operands substituted, in lists too; itself where none is."""
    if not renamed or isinstance(statement, Broken):
        return statement
    args = substituted(statement.args, renamed)
    return statement if args == statement.args else replace(statement, args=args)


def substituted(args: tuple[Arg, ...], renamed: Mapping[str, Arg]) -> tuple[Arg, ...]:
    """Operands replaced by `renamed`, in lists too."""
    return tuple(
        [
            renamed.get(arg, arg)
            if isinstance(arg, str)
            else substituted(arg, renamed)
            if isinstance(arg, tuple)
            else arg
            for arg in args
        ]
    )


S = TypeVar("S", bound=Statement)
