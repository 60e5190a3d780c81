"""The entry function of a module, and the functions that belong to it: `.scatter` and `.gather`."""

from __future__ import annotations

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Function, Module, Part, Site, TensorType, types

ROLES = ("scatter", "gather")
"""`@main.scatter` maps sequential parameters to distributed ones, `@main.gather` distributed results back."""


def entry_of(module: Module) -> Function:
    """The entry function. Raises ProgramError if there is none."""
    found = module.entry()
    if found is None:
        raise ProgramError([Diagnostic(codes.NO_ENTRY, None, "the module has no function to transform")])
    return found


def on_devices_alone(entry: Function) -> None:
    """Raises ProgramError where a parameter is offloaded: a pipeline sends parameters from device to device."""
    for index, param in enumerate(entry.params):
        if any(isinstance(leaf, TensorType) and leaf.offloaded for leaf in types.leaves(param.type)):
            message = f"`%{param.name}` is in the memory of a host, so a pipeline cannot send it to its stage"
            site = Site(entry.name, None, Part("param_type", index))
            hint = "apply `offload=optimizer` last"
            raise ProgramError([Diagnostic(codes.OFFLOADED_FIRST, site, message, (), hint)])


def entry_names(module: Module) -> tuple[str, ...]:
    """The functions called from outside the module: the entry, its `.scatter` and its `.gather`."""
    entry = module.entry()
    if entry is None:
        return ()
    around = (f"{entry.name}.{role}" for role in ROLES)
    return (entry.name, *(name for name in around if name in module.functions))
