"""Errors inside a callee, as the call reports them: which argument they are attributed to, and the message."""

from __future__ import annotations

from distir.diagnostics import Span
from distir.ir import Function, Site, names, operands, results

UNFIT = "does not check for these arguments"
"""The beginning of the message at a call, before the reason."""


def argument_to_blame(function: Function, site: Site | Span | None) -> int | None:
    """The parameter that an error at a site of a function is attributed to: the nearest one along the data flow.

    None where none leads there.
    """
    if not isinstance(site, Site) or site.function != function.name or site.index is None:
        return None
    statement = function.body[site.index]
    args = operands(statement)
    key = site.part.key if site.part is not None and site.part.kind == "operand" else None
    if isinstance(key, int) and key < len(args):
        args = (args[key],)
    numbers = {param.name: number for number, param in enumerate(function.params)}
    makers = {name: made for made in function.body[: site.index] for name in results(made)}
    here, seen = list(names(args)), set[str]()
    while here:
        number = next((numbers[name] for name in here if name in numbers), None)
        if number is not None:
            return number
        seen |= set(here)
        before = (name for at in here if at in makers for name in names(operands(makers[at])))
        here = list(dict.fromkeys(name for name in before if name not in seen))
    return None


def reason(message: str) -> str:
    """Why a call does not check, from the headline of what is wrong in the function that it calls."""
    return message.rpartition(f"{UNFIT}: ")[2]
