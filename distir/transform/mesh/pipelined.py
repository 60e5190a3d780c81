"""Pipelines on a mesh: what scatters parameters over stages, and what gathers results, with where their parts are.

The rest of a pipeline is written as any program is: a stage is a device, its passes are functions, `Send` keeps a
placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.ir import Function, Module
from distir.ops import Value
from distir.transform.entry import ROLES, entry_of
from distir.transform.mesh.plans import sources
from distir.transform.mesh.values import placed_as


def with_ends(made: Module, given: Module, returned: Sequence[Value]) -> Module:
    """A program on a mesh with the functions around the entry function of the program that it was written of, if any.

    `returned`: what the entry function returns. Each stage that has a weight has it placed alike.
    """
    entry = entry_of(made)
    scatter, gather = (given.functions.get(f"{entry.name}.{role}") for role in ROLES)
    ends = list[Function]()
    if scatter is not None:
        types = {source: p.type for source, p in zip(sources(given, entry), entry.params, strict=True)}
        ends.append(_placed(scatter, [types.get(param.name) for param in scatter.params]))
    if gather is not None:
        ends.append(_placed(gather, returned))
    return Module([*made, *ends]) if ends else made


def _placed(function: Function, values: Sequence[Value]) -> Function:
    params = zip(function.params, values, strict=True)
    return replace(function, params=tuple(replace(p, type=placed_as(p.type, v)) for p, v in params))
