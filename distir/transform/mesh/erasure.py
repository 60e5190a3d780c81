"""The sequential program that a program on a mesh means: without its mesh, placements and collectives."""

from __future__ import annotations

from distir.analysis.erasure import erased_module
from distir.ir import Module
from distir.transform.checking import checked


def erase(module: Module) -> Module:
    """The sequential program that a program on a mesh means, in which each device of a stage is one.

    Types lose where the parts of values are, and the collectives over axes of the mesh go. What is left computes the
    same values: on a mesh, each device has parts, or copies, of them. A program without a mesh stays as it is. Raises
    ProgramError where the program does not check.
    """
    if not module.mesh:
        return module
    checked(module)
    return erased_module(module)
