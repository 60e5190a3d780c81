"""Where the parameters of a program are placed along each axis of a mesh.

- `dp`, data parallelism: inputs are split along the batch, the dimension that their role `{batch = …}` names. Gradients
  are then pending sums over the replicas (Li et al., *PyTorch Distributed*, 2020).
- `tp`, tensor parallelism: dimensions of weights that are met inside a block only are split: heads, the inner width of
  an MLP, the vocabulary. One weight of a block is split by columns, the next by rows (Shoeybi et al., *Megatron-LM*,
  2019).
- ZeRO over `dp` (Rajbhandari et al., 2020): optimizer state is split, and with stage 3 weights, too. So an update takes
  a part of the gradient, and gives a part of the weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from distir.analysis import Analysis
from distir.analysis.placement_states import place_of
from distir.ir import Function, Param, TensorType, TupleType, Type
from distir.ir.places import places
from distir.placement.along import WHOLE, Split, State
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.tensor import parameter_states
from distir.transform.steps import tell

DATA, TENSOR = "dp", "tp"


@dataclass(frozen=True, slots=True)
class ParameterPlan:
    """The placed types of parameters, and the axes along which each is split only to be stored so."""

    types: tuple[Type, ...]
    loose: tuple[frozenset[str], ...]


def plan(analysis: Analysis, entry: Function, sizes: Mapping[str, int], zero: int) -> ParameterPlan:
    """The placement of the entry function's parameters. Raises ProgramError where a size does not divide."""
    data = tensor = [WHOLE] * len(entry.params)
    if DATA in sizes:
        data = batch_states(analysis, entry, sizes[DATA])
    if TENSOR in sizes:
        tensor = parameter_states(entry, sizes[TENSOR], (), Flow(analysis.domain).entry(entry))
    stored = [_stored(p, s, sizes, zero) for p, s in zip(entry.params, tensor, strict=True)]
    _tell_of_whole(entry, stored, zero)
    rows = zip(entry.params, data, tensor, stored, strict=True)
    types = tuple([_placed_so(p.type, shard, part or replica) for p, replica, shard, part in rows])
    weights = ("param" in p.roles and split is not None for p, split in zip(entry.params, stored, strict=True))
    return ParameterPlan(types, tuple(frozenset({DATA} if is_stored else ()) for is_stored in weights))


def _stored(param: Param, shard: State, sizes: Mapping[str, int], zero: int) -> Split | None:
    """How replicas store a parameter in parts: along a dimension that shards have whole, if one divides, else theirs.

    None where they store all of it: an input, or without ZeRO.
    """
    if not _is_partitioned(param, zero) or not isinstance(param.type, TensorType):
        return None
    shape, parts = param.type.shape or (), sizes[DATA]
    own = shard.axis if isinstance(shard, Split) else None
    axes = [k for k, dim in enumerate(shape) if k != own and isinstance(dim, int) and dim and dim % parts == 0]
    if not axes and isinstance(shard, Split) and not shard.blocks:
        dim = shape[shard.axis]
        axes = [shard.axis] if isinstance(dim, int) and dim % (parts * sizes[TENSOR]) == 0 else []
    return Split(axes[0]) if axes else None


def _tell_of_whole(entry: Function, stored: Sequence[Split | None], zero: int) -> None:
    """Say of which parameters each replica stores all, since no dimension divides."""
    pairs = zip(entry.params, stored, strict=True)
    left = [p.name for p, split in pairs if split is None and _is_partitioned(p, zero)]
    if left:
        more = f" and {len(left) - 1} more" if left[1:] else ""
        tell(f"each replica stores all of `%{left[0]}`{more}: no dimension divides by their number")


def _is_partitioned(param: Param, zero: int) -> bool:
    """Whether a stage of ZeRO splits a parameter over replicas: one with dimensions, and not a cache of inputs."""
    if "batch" in param.roles or not isinstance(param.type, TensorType) or not param.type.shape:
        return False
    return ("state" in param.roles and zero > 0) or ("param" in param.roles and zero == 3)


@lru_cache(maxsize=1 << 10)
def _placed_so(type: Type, shard: State, replica: State) -> Type:
    return _placed(type, {TENSOR: shard, DATA: replica})


def _placed(type: Type, states: Mapping[str, State]) -> Type:
    """A type placed so along axes, of which the first is outermost where both cut a dimension."""
    if isinstance(type, TupleType):
        each = [{a: s[k] if isinstance(s, tuple) else s for a, s in states.items()} for k in range(len(type.items))]
        return TupleType(tuple(map(_placed, type.items, each)))
    if not isinstance(type, TensorType):
        return type
    found = (place_of(s, axis) for axis, s in states.items())
    return TensorType(type.dtype, type.shape, type.device, type.offloaded, places(p for p in found if p is not None))
