"""The documentation of codes, for `distir explain` and for links in an editor."""

from __future__ import annotations

from distir.diagnostics.core import CODES
from distir.diagnostics.nearest import nearest


def explain(number: str) -> str:
    """The documentation of a code, as markdown. Finds `DIR301`, `dir301` and the code's name.

    Loads all modules of codes. Raises LookupError, with the nearest code, if there is none of that name.
    """
    _load_codes()
    wanted = number.strip()
    found = CODES.get(wanted.upper()) or next((c for c in CODES.values() if c.name == wanted.lower()), None)
    if found is None:
        closest = nearest(wanted, [*CODES, *(c.name for c in CODES.values())])
        hint = f"; did you mean `{closest}`?" if closest else ""
        raise LookupError(f"no diagnostic is called `{wanted}`{hint}")
    return f"# {found.number}: {found.name}\n\n*{found.severity}*\n\n{found.documentation}"


def _load_codes() -> None:
    from importlib import import_module
    from pkgutil import iter_modules

    families = import_module("distir.diagnostics.codes")
    for family in iter_modules(families.__path__):
        import_module(f"{families.__name__}.{family.name}")
