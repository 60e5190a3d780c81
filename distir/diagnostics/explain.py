"""The documentation of codes, for `distir explain` and for links in an editor."""

from __future__ import annotations

from importlib import import_module

from distir.diagnostics.core import CODES, Code
from distir.diagnostics.spelling import nearest


def explain(number: str) -> str:
    """The documentation of a code, as markdown. Finds `DIR301`, `dir301` and the code's name.

    Raises LookupError, with the nearest code, if there is none of that name.
    """
    codes = all_codes()
    wanted = number.strip()
    found = codes.get(wanted.upper()) or next((c for c in codes.values() if c.name == wanted.lower()), None)
    if found is None:
        closest = nearest(wanted, [*codes, *(c.name for c in codes.values())])
        hint = f"; did you mean `{closest}`?" if closest else ""
        raise LookupError(f"no diagnostic is called `{wanted}`{hint}")
    return f"# {found.number}: {found.name}\n\n*{found.severity}*\n\n{found.documentation}"


def all_codes() -> dict[str, Code]:
    """Every code by its number, those that nothing has needed yet too."""
    import_module("distir.diagnostics.codes")
    return CODES
