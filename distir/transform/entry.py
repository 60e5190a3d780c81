"""The entry function of a module, and the functions that belong to it: `.scatter` and `.gather`."""

from __future__ import annotations

from distir.diagnostics import Code, Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Function, Module, Part, Site

ROLES = ("scatter", "gather")
"""`@main.scatter` maps sequential parameters to distributed ones, `@main.gather` distributed results back."""


def entry_of(module: Module) -> Function:
    """The entry function. Raises ProgramError if there is none."""
    found = module.entry()
    if found is None:
        raise ProgramError([Diagnostic(codes.NO_ENTRY, None, "the module has no function to transform")])
    return found


def refused(entry: Function, code: Code, message: str, hint: str | None = None) -> ProgramError:
    """The error of a program as a whole, at the name of its entry function."""
    return ProgramError([Diagnostic(code, Site(entry.name, None, Part("name")), message, (), hint)])


def ends_of(module: Module) -> tuple[Function, ...]:
    """The functions `.scatter` and `.gather` of the entry function, as far as they do more than hand everything on.

    On one device they pass values on: `accumulate` writes such ones.
    """
    found = (module.functions.get(f"{entry_of(module).name}.{role}") for role in ROLES)
    return tuple(f for f in found if f is not None and not _hands_on(f))


def without_idle_ends(module: Module) -> Module:
    """The module without a `.scatter` and `.gather` that only pass values on."""
    idle = {f"{entry_of(module).name}.{role}" for role in ROLES} - {f.name for f in ends_of(module)}
    return Module(f for f in module if f.name not in idle) if idle & module.functions.keys() else module


def _hands_on(function: Function) -> bool:
    return len(function.body) == 1 and function.returned == tuple(p.name for p in function.params)


def entry_names(module: Module) -> tuple[str, ...]:
    """The functions called from outside the module: the entry, its `.scatter` and its `.gather`."""
    entry = module.entry()
    if entry is None:
        return ()
    around = (f"{entry.name}.{role}" for role in ROLES)
    return (entry.name, *(name for name in around if name in module.functions))
