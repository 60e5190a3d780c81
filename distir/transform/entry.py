"""The functions of a module as transforms see them: the entry, those around it, and who calls whom."""

from __future__ import annotations

from collections.abc import Iterator

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Call, Function, Module

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


def callees_first(module: Module) -> Iterator[Function]:
    """Every function, after all those that it calls. The module must be free of recursion."""
    done: set[str] = set()
    for start in module.functions:
        pending = [start]
        while pending:
            name = pending[-1]
            body = module.functions[name].body
            missing = [s.function for s in body if isinstance(s, Call) and s.function not in done]
            if name in done or not missing:
                pending.pop()
                if name not in done:
                    done.add(name)
                    yield module.functions[name]
            else:
                pending += dict.fromkeys(missing)
