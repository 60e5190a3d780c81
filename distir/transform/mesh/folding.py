"""Which devices of a stage have which experts: along replicas, along parts of sequences, and along shards.

Megatron Core (`core/parallel_state.py`) numbers the devices of a stage shards first, then those that share sequences,
then replicas. Each `cut` neighbours have one part of the experts, the next ones the next, until all parts are had, and
the devices behind have copies. So an axis that has both copies and parts becomes two axes of the mesh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from distir.transform.sharding.sizes import divisors
from distir.transform.steps import StepError

DATA, SHARD, EXPERTS, CONTEXT, CONTEXT_EXPERTS = "dp", "shard", "ep", "cp", "cp_ep"
TENSOR, TENSOR_EXPERTS, INSIDE = "tp", "tp_ep", "etp"
AXES = (DATA, SHARD, EXPERTS, CONTEXT, CONTEXT_EXPERTS, TENSOR, TENSOR_EXPERTS, INSIDE)
"""The axes that a strategy may name, outermost first."""

REPLICAS = (DATA, SHARD, EXPERTS, CONTEXT, CONTEXT_EXPERTS)
"""Those along which devices have parts of the inputs, and the same weights but for experts."""

SEQUENCES = (CONTEXT, CONTEXT_EXPERTS)
"""Those along which devices have parts of sequences."""

SHARDS = (TENSOR, TENSOR_EXPERTS, INSIDE)
"""Those along which devices have parts of the weights; each expert is cut over the last alone if it is apart."""


@dataclass(frozen=True, slots=True)
class Folding:
    """The axes of a mesh, with their sizes, and along which of them experts are placed otherwise than all else."""

    sizes: dict[str, int]
    owners: tuple[str, ...] = ()
    """Those along which devices have whole experts, each some of them."""
    copies: tuple[str, ...] = ()
    """The shards that have the same experts, each for its own tokens."""

    @property
    def parts(self) -> int:
        """In how many parts the experts are."""
        return math.prod(self.sizes[axis] for axis in self.owners)

    def in_groups(self, size: int) -> Folding:
        """The mesh with replicas in groups of neighbours of this size. Raises StepError where they do not divide."""
        replicas = self.sizes.get(DATA, 1)
        if replicas == 1:
            raise StepError("`shard` is the size of groups along `dp`: give both, as in `mesh dp=8 zero=3 shard=4`")
        if size < 0 or replicas % size:
            message = f"`shard` expected the size of groups that {replicas} replicas divide into, found {size}"
            raise StepError(f"{message}; {divisors(replicas)} would do")
        if not 1 < size < replicas:
            return self
        sizes = self.sizes | {DATA: replicas // size, SHARD: size}
        return replace(self, sizes={axis: sizes[axis] for axis in AXES if axis in sizes})

    def count(self, *axes: str) -> int:
        """The number of devices along axes."""
        return math.prod(self.sizes.get(axis, 1) for axis in axes)


def of_axes(dp: int, ep: int, cp: int, tp: int, cut: int, cp_experts: bool) -> Folding:
    """The mesh of experts over `ep`, and over `cp` and `tp` all or none. `cut`: the shards of each expert."""
    return _folding((dp, ep), (1, cp) if cp_experts else (cp, 1), (1, tp // cut), cut)


def folded(parts: int, dp: int, cp: int, tp: int, cut: int) -> Folding:
    """The mesh of so many parts of the experts, in groups of `cut` neighbours. Raises as `parts_along` does."""
    t, c, d = parts_along(parts, tp // cut, cp, dp)
    return _folding((dp // d, d), (cp // c, c), (tp // cut // t, t), cut)


def parts_along(parts: int, groups: int, context: int, replicas: int) -> tuple[int, int, int]:
    """How many of the parts of the experts groups of shards, devices that share sequences, and replicas have apart.

    Raises StepError where an axis does not divide, or there are more parts than devices.
    """
    left, owners = parts, list[int]()
    sizes = {"groups of shards": groups, "devices that share sequences": context, "replicas": replicas}
    for name, size in sizes.items():
        if left % size and size % left:
            message = f"parts of the experts on {left} of {size} {name}, of which neither divides the other"
            raise StepError(f"`expert_parallel={parts}`: {message}; say a number that takes a divisor of each, or all")
        owners.append(min(left, size))
        left //= owners[-1]
    if left > 1:
        most = math.prod(sizes.values())
        raise StepError(f"`expert_parallel={parts}` expected at most {most} parts of the experts, one on each device")
    of_shards, of_sequences, of_replicas = owners
    return of_shards, of_sequences, of_replicas


def _folding(replicas: tuple[int, int], context: tuple[int, int], shards: tuple[int, int], cut: int) -> Folding:
    """The mesh of axes with so many copies and parts of the experts each."""
    groups, owners = _axes(shards, TENSOR, TENSOR_EXPERTS)
    sequences, contexts = _axes(context, *SEQUENCES)
    cuts = groups | {INSIDE: cut} if groups else {TENSOR: cut}
    sizes = {DATA: replicas[0], EXPERTS: replicas[1]} | sequences | cuts
    sizes = {axis: sizes[axis] for axis in AXES if sizes.get(axis, 1) > 1}
    copies = tuple(axis for axis in groups if axis not in owners)
    return Folding(sizes, (*([EXPERTS] if replicas[1] > 1 else ()), *owners, *contexts), copies)


def _axes(numbers: tuple[int, int], outer: str, inner: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """The axes of so many copies and parts, one if there are only these or those; and that of the parts, if any."""
    copies, parts = numbers
    if copies > 1 and parts > 1:
        return {outer: copies, inner: parts}, (inner,)
    size = copies * parts
    return ({outer: size} if size > 1 else {}), ((outer,) if parts > 1 else ())
