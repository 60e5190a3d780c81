"""Templates: reading a line with one dictionary lookup.

Generated programs repeat few statements with ever new names. So a line is cut at the names of its values; what is left
is its skeleton. Each skeleton is read by the grammar once, with the numbers 0, 1, … for names, and from what that gives
is made a template: a function from the pieces of a line, `[text, name, text, name, …]`, to its statement. Facts at the
end of a line are cut off before: statements that differ in them alone share a template, which takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from distir.ir import NO_FACTS, Apply, Arg, Call, Facts, Literal, Return, Statement

Pieces = Sequence[str]
Template = Callable[[Pieces, Facts], Statement]

_MAKERS_KEPT = 2_000
_LONGEST = 2_000
"""Longer expressions are not cached: few statements share one."""


FACTS = re.compile(r"(.*[^ ]) \{[^{}%\"/\n]*\}")
"""The last piece of a line: what is before its facts, and these, where they name no parameter."""


class Line(NamedTuple):
    """A template for a line, and how much white space the line has before and after its statement."""

    template: Template
    before: int
    after: int


def template(statement: Apply | Call | Return, apart: bool) -> Template:
    """A function that makes `statement` with other names; in `statement` itself, the name number n is called `n`.

    `apart`: with the facts that it is given; else with those of `statement`.
    """
    constants: list[Arg] = []
    args = _pattern(statement.args, constants)
    match statement:
        case Apply(results, op, _, attrs, claims, stream, facts):
            source = (
                f"Apply({_pattern(results, constants)}, callee, {args}, attrs, claims, stream, {_facts(facts, apart)})"
            )
            return _maker(source)(op, attrs, claims, stream, facts, constants)
        case Call(results, function, _, claims, stream, facts):
            source = f"Call({_pattern(results, constants)}, callee, {args}, claims, stream, {_facts(facts, apart)})"
            return _maker(source)(function, None, claims, stream, facts, constants)
        case Return():
            return _maker(f"Return({args})")(None, None, None, "", NO_FACTS, constants)


def _facts(facts: Facts, apart: bool) -> str:
    """The expression that makes these facts: those that are given, or constant ones but for the name of a parameter."""
    if apart:
        return "given"
    if not facts.of:
        return "facts"
    return f"Facts(facts.phase, facts.stage, facts.microbatch, facts.layer, p[{2 * int(facts.of) + 1}])"


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
        maker = eval(f"lambda callee, attrs, claims, stream, facts, c: lambda p, given: {source}", _NAMES)
        if len(source) <= _LONGEST:
            if len(_makers) >= _MAKERS_KEPT:
                _makers.clear()
            _makers[source] = maker
    return maker


_NAMES: dict[str, object] = {"Apply": Apply, "Call": Call, "Facts": Facts, "Return": Return}
