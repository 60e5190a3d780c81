"""Templates: how a line is read at the price of one dictionary lookup.

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
_LONGEST = 250


class Line(NamedTuple):
    """A template for a line, and how much white space the line has before and after its statement."""

    template: Template
    before: int
    after: int


def template(statement: Statement) -> Template:
    """A function that makes `statement` with other names; in `statement` itself, the name number n is called `n`."""
    constants: list[Arg] = []
    results = "" if isinstance(statement, Return) else _pattern(_results(statement), constants)
    args = () if not isinstance(statement, Return | Apply | Call) else statement.args
    operands = _pattern(args, constants)
    match statement:
        case Apply(_, op, _, attrs, claims):
            source = f"Apply({results}, op, {operands}, attrs, claims)"
            values: tuple[object, ...] = (op, attrs, claims, constants)
        case Call(_, function, _, claims):
            source = f"Call({results}, op, {operands}, claims)"
            values = (function, None, claims, constants)
        case _:
            source = f"Return({operands})"
            values = (None, None, None, constants)
    return _maker(source)(*values)


def _results(statement: Apply | Call | object) -> tuple[str, ...]:
    return statement.results if isinstance(statement, Apply | Call) else ()


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
        if len(_makers) >= _MAKERS_KEPT:
            _makers.clear()
        # the source consists of numbers and of the words above, nothing from the text that is parsed
        maker = _makers[source] = eval(f"lambda op, attrs, claims, c: lambda p: {source}", _NAMES)
    return maker


_NAMES: dict[str, object] = {"Apply": Apply, "Call": Call, "Return": Return}
