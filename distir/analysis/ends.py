"""The functions that lead to a distributed program's parameters and from its results: they must fit together.

`@main.scatter` makes the arguments of `@main` from those of the sequential program, and `@main.gather` makes its
results of what `@main` returns. Nothing in the program calls them, so each checks by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.analysis.domains import Instance
from distir.analysis.parameters import parameters
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import devices as codes
from distir.ir import Function, Module, Part, Return, Site
from distir.ops import Reject

ENDS = (".scatter", ""), ("", ".gather")
"""Of functions with one name, which one's results are the other's arguments."""


def ends_that_disagree(module: Module, own: Mapping[str, Instance]) -> Iterator[Diagnostic]:
    """Where what one function returns is not what the next one takes. `own`: functions for their parameters' types."""
    for name in module.functions:
        entry, dot, end = name.rpartition(".")
        if not dot or f".{end}" not in (".scatter", ".gather"):
            continue
        for before, after in ENDS:
            if f".{end}" in (before, after) and f"{entry}{before}" in own and f"{entry}{after}" in own:
                yield from _disagreeing(own[f"{entry}{before}"], own[f"{entry}{after}"].function)


def _disagreeing(giver: Instance, taker: Function) -> Iterator[Diagnostic]:
    body = giver.function.body
    if not body or not isinstance(body[-1], Return):
        return
    try:
        parameters(taker, giver.state.returned)
    except Reject as reject:
        at = reject.part
        part = at if isinstance(at, Part) and at.kind == "operand" else None
        site = Site(giver.function.name, len(body) - 1, part)
        message = f"{reject.message}, which `@{giver.function.name}` returns"
        yield Diagnostic(codes.ENDS_DISAGREE, site, message)
