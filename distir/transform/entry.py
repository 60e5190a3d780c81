"""The functions of a module as transforms see them: the entry, and those around it."""

from __future__ import annotations

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Function, Module

ROLES = ("scatter", "gather")
"""`@main.scatter` and `@main.gather` lead from a sequential program's parameters to a distributed one's, and back."""


def entry_of(module: Module) -> Function:
    """The entry function. Raises ProgramError if there is none."""
    found = module.entry()
    if found is None:
        raise ProgramError([Diagnostic(codes.NO_ENTRY, None, "the module has no function to transform")])
    return found


def entry_names(module: Module) -> tuple[str, ...]:
    """The functions that are called from outside: the entry, and those that scatter and gather for it."""
    entry = module.entry()
    if entry is None:
        return ()
    around = (f"{entry.name}.{role}" for role in ROLES)
    return (entry.name, *(name for name in around if name in module.functions))
