"""Templates: reading a line with one dictionary lookup.

Generated programs repeat few statements with ever new names. So a line is cut at the names of its values; what is left
is its skeleton. Each skeleton is read by the grammar once, with the numbers 0, 1, … for names, and from what that gives
is made a template: a function from the pieces of a line, `[text, name, text, name, …]`, to its statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from distir.ir import Apply, Arg, Call, Literal, Return, Statement

Pieces = Sequence[str]
Template = Callable[[Pieces], Statement]

_MAKERS_KEPT = 2_000
_LONGEST = 2_000
"""Longer expressions are not cached: few statements share one."""


class Line(NamedTuple):
    """A template for a line, and how much white space the line has before and after its statement."""

    template: Template
    before: int
    after: int


def template(statement: Apply | Call | Return) -> Template:
    """A function that makes `statement` with other names; in `statement` itself, the name number n is called `n`."""
    constants: list[Arg] = []
    args = _pattern(statement.args, constants)
    match statement:
        case Apply(results, op, _, attrs, claims, stream):
            source = f"Apply({_pattern(results, constants)}, callee, {args}, attrs, claims, stream)"
            return _maker(source)(op, attrs, claims, stream, constants)
        case Call(results, function, _, claims, stream):
            source = f"Call({_pattern(results, constants)}, callee, {args}, claims, stream)"
            return _maker(source)(function, None, claims, stream, constants)
        case Return():
            return _maker(f"Return({args})")(None, None, None, "", constants)


def _pattern(args: tuple[Arg, ...], constants: list[Arg]) -> str:
    """The expression that makes these arguments from `p`, the pieces, and `c`, the constants."""
    parts: list[str] = []
    for arg in args:
        if isinstance(arg, tuple):
            parts.append(_pattern(arg, constants))
        elif isinstance(arg, Literal) or not arg:
            parts.append(f"c[{len(constants)}]")
            constants.append(arg)
        else:
            parts.append(f"p[{2 * int(arg) + 1}]")
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


_makers: dict[str, Callable[..., Template]] = {}


def _maker(source: str) -> Callable[..., Template]:
    """The expression as a function. Compiled, because it runs once per line: this is the parser's inner loop."""
    maker = _makers.get(source)
    if maker is None:
        # the source consists of numbers and of the words above, of nothing from the text that is parsed
        maker = eval(f"lambda callee, attrs, claims, stream, c: lambda p: {source}", _NAMES)
        if len(source) <= _LONGEST:
            if len(_makers) >= _MAKERS_KEPT:
                _makers.clear()
            _makers[source] = maker
    return maker


_NAMES: dict[str, object] = {"Apply": Apply, "Call": Call, "Return": Return}
