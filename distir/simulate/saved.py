"""The contents of a checkpoint of a training run: what each step passes to the next."""

from __future__ import annotations

from distir.analysis.kinds import CACHES, kind_of
from distir.ir import HOST, types
from distir.ir.roles import is_held
from distir.ops import type_of
from distir.simulate.simulation import Simulation


def saved_bytes(simulation: Simulation) -> int:
    """The bytes of weights, buffers and optimizer state on all devices of a program, each device's own: copies count.

    A program does not say which of its values are copies of others, as replicas hold them.
    """
    total = 0
    for param, value in zip(simulation.function.params, simulation.instance.args, strict=True):
        if is_held(param) and kind_of(param) != CACHES:
            leaves = (leaf for leaf in types.leaves(type_of(value)) if leaf.device != HOST)
            total += sum(size for leaf in leaves if isinstance(size := types.nbytes(leaf), int))
    return total
