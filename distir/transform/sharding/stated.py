"""Partitions a program by stated placements of parameters, results, and values in between.

As users of GSPMD or Shardy have them: shardings of arguments and results, and sharding constraints. All other
placements are derived from the ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distir.ir import Module
from distir.ir.collection import paused_collection
from distir.placement.along import State
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.sharding.mesh import mesh_of
from distir.transform.sharding.partition import Partition
from distir.transform.sharding.scatter_gather import gather, scatter


def split_as_stated(
    module: Module,
    size: int,
    params: Sequence[State],
    results: Sequence[State | None],
    constraints: Mapping[str, State],
) -> tuple[Module, Mapping[str, tuple[str, ...]]]:
    """The module with each device replaced by `size` adjacent ones, with its `.scatter` and `.gather`.

    Stated is the placement of each parameter of the entry function, of each result, None where it follows from the ops,
    and of values of the entry function by name. What is split divides. Gives what these values are called on the
    devices, too. Raises ProgramError if the module does not check.
    """
    analysis, entry = checked(module), entry_of(module)
    mesh = mesh_of(module, entry, size, "innermost")
    with paused_collection():
        partition = Partition(analysis, mesh)
        done = partition.entry(entry, params, 0, results, constraints)
        ends = (
            scatter(module, entry, params, mesh),
            gather(module, entry, done.function, done.result_values, done.results, mesh),
        )
        return Module((*partition.functions.values(), *ends)), done.constrained
