"""Where the parameters of a program are placed along each axis of a mesh.

- `dp`, data parallelism: inputs are split along the batch, the dimension that their role `{batch = …}` names. Gradients
  are then pending sums over the replicas (Li et al., *PyTorch Distributed*, 2020).
- `tp`, tensor parallelism: dimensions of weights that are met inside a block only are split: heads, the inner width of
  an MLP, the vocabulary. One weight of a block is split by columns, the next by rows (Shoeybi et al., *Megatron-LM*,
  2019).
  Sequence parallelism is no placement of parameters, but of sums over `tp`: they are scattered along the sequence, and
  gathered where a block begins (Korthikanti et al., 2022; `SequenceSpread` of the partitioner).
- `ep`, expert parallelism: the weights of experts are split along the dimension that numbers experts, inputs along the
  batch as over `dp`. A product needs rows where its experts are: an all-to-all brings them there, another one back
  (Lepikhin et al., *GShard*, 2020). `owned` gives each device as many rows as another.
  So may shards (`etp=1`), or groups of them: then the shards are two axes, and experts are split over the second alone.
  With `expert_parallel` so may those that share sequences, and devices along any axis have copies (`folding`).
- `cp`, context parallelism: inputs are split along the sequence, in zig-zag where attention is causal (`Order`).
  Attention is marked with the way in which queries of one part meet the keys of all: gathered (Llama 3, 2024), around a
  ring (Liu et al., 2023), or by all-to-alls, which give each device some heads of all places (Jacobs et al.,
  *DeepSpeed-Ulysses*, 2023).
- ZeRO (Rajbhandari et al., 2020) over all axes along which a weight would be whole, but `tp`: optimizer state is split,
  and with stage 3 weights, too. So an update takes a part of the gradient, and gives a part of the weight.
- `shard`, hybrid sharding (Zhao et al., *PyTorch FSDP*, 2023): the innermost of two axes of replicas. State is split
  over it, and not over `dp`, so that what is gathered stays within a group of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Analysis
from distir.analysis.placement_states import place_of
from distir.ir import HOST, NO_ATTRIBUTES, Apply, Function, Module, Param, TensorType, TupleType, Type, ops_in, types
from distir.ir.places import places
from distir.placement.along import WHOLE, Split, State, is_whole
from distir.transform.mesh.folding import DATA, EXPERTS, INSIDE, REPLICAS, SEQUENCES, SHARD, SHARDS, Folding
from distir.transform.mesh.owners import PARTITIONS, owners
from distir.transform.mesh.values import Loose, loose_where
from distir.transform.mesh.wanted import is_update, layout_of
from distir.transform.sharding.classes import Settled
from distir.transform.sharding.context import sequence_states
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.ownership import Holders, Owned, by_owner, expert_weights, owned_weights
from distir.transform.sharding.shares import shares_of_weights
from distir.transform.sharding.tensor import parameter_states, reasons
from distir.transform.steps import is_heard, tell

ORDER = (*SHARDS, *REPLICAS)
"""The order in which axes cut one dimension, before those over which a part of what a device has is stored."""


@dataclass(frozen=True, slots=True)
class ParameterPlan:
    """The placed types of parameters, and the axes along which each is split only to be stored so."""

    types: tuple[Type, ...]
    loose: tuple[Loose, ...]
    updated: tuple[Type, ...]
    """The types in which parameters are updated: in parts also where weights are stored whole."""


def plan(
    analysis: Analysis,
    entry: Function,
    folding: Folding,
    zero: int,
    along_sequence: Settled | None = None,
    order: Order = IN_ORDER,
    partition: str = PARTITIONS[0],
    by_hand: Sequence[str] = (),
) -> ParameterPlan:
    """The placement of the entry function's parameters. Raises ProgramError where a size does not divide.

    `folding`: the axes, and where experts are. `along_sequence`: the dimensions of the program, before tokens were
    dispatched in groups, and `order`: that in which devices have parts of sequences, if they share any.
    `by_hand`: which parameters are split along which dimensions over shards, as in `w1:1`, if that is stated.
    """
    sizes, shards = folding.sizes, [axis for axis in SHARDS if axis in folding.sizes]
    settled = Flow(analysis.domain).entry(entry) if folding.owners or shards else None
    every: dict[str, list[State]] = {axis: [WHOLE for _ in entry.params] for axis in sizes}
    _split_batch(every, analysis, entry, sizes)
    if along_sequence is not None:
        found = sequence_states(entry, along_sequence, folding.count(*SEQUENCES), order)
        found = [replace(s, zigzag=order.zigzag) if isinstance(s, Split) else s for s in found]
        every |= {axis: found for axis in SEQUENCES if axis in sizes}
    if settled is not None:
        experts: Owned = owned_weights(entry, settled) if folding.owners else {}
        if folding.copies and not experts:
            experts = expert_weights(analysis.module)
        apart = {*folding.copies, *folding.owners}
        _split_weights(every, entry, settled, folding, experts if apart.intersection(shards) else {}, by_hand)
        for axis in folding.owners:
            every[axis] = by_owner(entry, every[axis], experts, Holders(owners=sizes[axis]))
    copies = sources(analysis.module, entry)
    every = {axis: _alike(copies, states) for axis, states in every.items()}
    placed = [{axis: states[k] for axis, states in every.items()} for k in range(len(entry.params))]
    over = [{axis: sizes[axis] for axis in _replicas(states, sizes)[0]} for states in placed]
    owned = owners(entry, copies, over) if zero else []
    stored = _all_stored(analysis, entry, placed, sizes, zero, partition, owned)
    updated = _all_stored(analysis, entry, placed, sizes, 3, partition, owned) if 0 < zero < 3 else stored
    _tell_of_whole(entry, stored, zero)
    rows = zip(entry.params, stored, strict=True)
    loose = tuple(loose_where(parts if "param" in p.roles else {}, lambda s: s is not WHOLE) for p, parts in rows)
    types = _types(entry, placed, stored)
    return ParameterPlan(types, loose, types if updated is stored else _types(entry, placed, updated))


def _types(
    entry: Function, placed: Sequence[Mapping[str, State]], stored: Sequence[Mapping[str, State]]
) -> tuple[Type, ...]:
    """The types of parameters that are placed so, and stored so by replicas."""
    rows = zip(entry.params, placed, stored, strict=True)
    return tuple(
        _placed(p.type, {a: own.get(a, WHOLE) for a in ORDER if a not in parts} | {**parts}) for p, own, parts in rows
    )


def _all_stored(
    analysis: Analysis,
    entry: Function,
    placed: Sequence[Mapping[str, State]],
    sizes: Mapping[str, int],
    zero: int,
    partition: str,
    owned: Sequence[dict[str, State]],
) -> list[dict[str, State]]:
    """How replicas store each parameter: in parts, or whole on its owner, as matrices of which no dimension divides."""
    stored = [_stored(p, states, sizes, zero) for p, states in zip(entry.params, placed, strict=True)]
    if zero:
        _store_as_updated(analysis, entry, placed, stored, sizes)
    for number, param in enumerate(entry.params if zero else ()):
        leaves = [leaf for leaf in types.leaves(param.type) if isinstance(leaf, TensorType) and leaf.device != HOST]
        is_matrix = len(leaves) == 1 and len(leaves[0].shape or ()) > 1
        is_owned = _is_partitioned(param, zero) and not stored[number] and is_matrix
        if partition == "owner" and leaves:
            is_owned = _is_partitioned(param, zero) or "state" in param.roles
        if is_owned:
            stored[number] = owned[number]
    return stored


def _split_batch(every: dict[str, list[State]], analysis: Analysis, entry: Function, sizes: Mapping[str, int]) -> None:
    """Split the inputs along their batch, over replicas and over the devices that have each other's experts."""
    axes = [axis for axis in (DATA, SHARD, EXPERTS) if axis in sizes]
    if axes:
        every |= dict.fromkeys(axes, batch_states(analysis, entry, math.prod(sizes[axis] for axis in axes)))


def _split_weights(
    every: dict[str, list[State]],
    entry: Function,
    settled: Settled,
    folding: Folding,
    owned: Owned,
    by_hand: Sequence[str],
) -> None:
    """Split weights over shards; `owned`: those of experts of which each shard, or group of shards, has whole ones."""
    axes = [axis for axis in SHARDS if axis in folding.sizes]
    if not axes:
        return
    size = folding.count(*axes)
    states = parameter_states(entry, size, by_hand, settled, owned)
    if is_heard():
        others = [replace(p, roles=NO_ATTRIBUTES) if p.name in owned else p for p in entry.params]
        why = reasons(entry, states, size, "split" if by_hand else "", settled)
        shares = shares_of_weights(replace(entry, params=tuple(others)), states, size, why)
        for line in replace(shares, each="shard").lines:
            tell(line)
    every |= dict.fromkeys(axes, states)

    def of_experts(inside: Sequence[State]) -> list[State]:
        rows = zip(entry.params, states, inside, strict=True)
        return [own if p.name in owned else state for p, state, own in rows]

    every |= dict.fromkeys(folding.copies, of_experts([WHOLE] * len(states)))
    if INSIDE in axes:
        every[INSIDE] = of_experts(parameter_states(entry, folding.sizes[INSIDE], (), settled))


def sources(module: Module, entry: Function) -> tuple[str, ...]:
    """By parameter of an entry function: that of the sequential program, of which several stages may have copies."""
    scatter = module.functions.get(f"{entry.name}.scatter")
    if scatter is None:
        return tuple(param.name for param in entry.params)
    sent = {statement.results[0]: statement.args[0] for statement in ops_in(scatter, "Send")}
    return tuple(str(sent.get(str(arg), arg)) for arg in scatter.returned)


def _alike(copies: Sequence[str], states: Sequence[State]) -> list[State]:
    """States of parameters, those of copies alike: as the first that is split, in blocks if any is."""
    found: dict[str, State] = {}
    for source, own in zip(copies, states, strict=True):
        first = found.setdefault(source, own)
        if not isinstance(first, Split) or (isinstance(own, Split) and own.blocks and not first.blocks):
            found[source] = own
    return [found[source] for source in copies]


def _stored(param: Param, placed: Mapping[str, State], sizes: Mapping[str, int], zero: int) -> dict[str, State]:
    """How replicas store a parameter in parts.

    By axis along which it would be whole; nothing where they store all of it: an input, or without ZeRO.
    """
    if not _is_partitioned(param, zero):
        return {}
    if not isinstance(param.type, TupleType):
        return _cut(param, placed, sizes)
    each = [_stored(replace(param, type=item), placed, sizes, zero) for item in param.type.items]
    return {a: tuple(own.get(a, WHOLE) for own in each) for a in dict.fromkeys(axis for own in each for axis in own)}


def _cut(param: Param, placed: Mapping[str, State], sizes: Mapping[str, int]) -> dict[str, State]:
    """The first dimension of which what a shard has divides by the number of replicas, by axis; nothing if none does.

    So the weights of a layer are gathered in one message.
    """
    over, parts = _replicas(placed, sizes)
    own = {state.axis for state in placed.values() if isinstance(state, Split)}
    again = _cut_again(param, placed, sizes)
    for k, dim in enumerate(param.type.shape or () if isinstance(param.type, TensorType) else ()):
        if k in _dims(again):
            return again
        if k not in own and isinstance(dim, int) and dim and dim % parts == 0:
            return dict.fromkeys(over, Split(k))
    return {}


def _cut_again(param: Param, placed: Mapping[str, State], sizes: Mapping[str, int]) -> dict[str, State]:
    """The dimension that shards split, if their parts divide by the number of replicas."""
    shards = {axis: s for axis in SHARDS if isinstance(s := placed.get(axis, WHOLE), Split)}
    shard = next(iter(shards.values()), None)
    if shard is None or shard.blocks or not isinstance(param.type, TensorType):
        return {}
    over, parts = _replicas(placed, sizes)
    dim = (param.type.shape or ())[shard.axis]
    cut = [axis for axis, own in placed.items() if isinstance(own, Split) and own.axis == shard.axis]
    divides = isinstance(dim, int) and dim % (parts * math.prod(sizes[axis] for axis in cut)) == 0
    return dict.fromkeys(over, Split(shard.axis)) if divides else {}


def _replicas(placed: Mapping[str, State], sizes: Mapping[str, int]) -> tuple[list[str], int]:
    """The axes along which devices store parts of what they have alike, and the number of these devices."""
    alike = [axis for axis in REPLICAS if axis in placed and is_whole(placed[axis])]
    over = [axis for axis in alike if not (axis == DATA and SHARD in sizes)]
    return over, math.prod(sizes[axis] for axis in over)


def _store_as_updated(
    analysis: Analysis,
    entry: Function,
    placed: Sequence[Mapping[str, State]],
    stored: list[dict[str, State]],
    sizes: Mapping[str, int],
) -> None:
    """Store weights and their state along the dimension along which the weights are updated in parts.

    An update that needs something of all parts, as Muon's, communicates along one dimension: that of the shards, if it
    divides. State that lacks the dimension is whole, as averages of columns.
    """
    numbers = {p.name: i for i, p in enumerate(entry.params)}
    instance = analysis.domain.instance(entry.name, tuple(p.type for p in entry.params))
    for statement in entry.body:
        if not isinstance(statement, Apply) or not is_update(statement):
            continue
        found, weight = layout_of(statement, instance), numbers.get(str(statement.args[0]))
        if found is None or weight is None:
            continue
        own, param = found.operands[0], entry.params[weight]
        cut = _cut(param, placed[weight], sizes)
        if any(own[dim] in found.parted for dim in _dims(cut)):
            cut = _cut_again(param, placed[weight], sizes) or cut
        letter = next((own[dim] for dim in _dims(cut)), None)
        for arg, letters in zip(statement.args, found.operands, strict=True):
            number = numbers.get(str(arg))
            if letter is not None and number is not None and stored[number]:
                split = Split(letters.index(letter)) if letter in letters else None
                stored[number] = {} if split is None else dict.fromkeys(stored[number], split)


def _dims(cut: Mapping[str, State]) -> list[int]:
    return [state.axis for state in cut.values() if isinstance(state, Split)]


def _tell_of_whole(entry: Function, stored: Sequence[Mapping[str, State]], zero: int) -> None:
    """Say of which parameters each replica stores all, since no dimension divides."""
    pairs = zip(entry.params, stored, strict=True)
    left = [p.name for p, parts in pairs if not parts and _is_partitioned(p, zero)]
    if left:
        more = f" and {len(left) - 1} more" if left[1:] else ""
        tell(f"each replica stores all of `%{left[0]}`{more}: no dimension divides by their number")


def _is_partitioned(param: Param, zero: int) -> bool:
    """Whether a stage of ZeRO splits a parameter over replicas: one with dimensions, and not a cache of inputs."""
    leaves = types.leaves(param.type)
    if "batch" in param.roles or not any(isinstance(leaf, TensorType) and leaf.shape for leaf in leaves):
        return False
    return ("state" in param.roles and zero > 0) or ("param" in param.roles and zero == 3)


def _placed(type: Type, states: Mapping[str, State]) -> Type:
    """A type placed so along axes, of which the first is outermost where both cut a dimension."""
    if isinstance(type, TupleType):
        each = [{a: s[k] if isinstance(s, tuple) else s for a, s in states.items()} for k in range(len(type.items))]
        return TupleType(tuple(map(_placed, type.items, each)))
    if not isinstance(type, TensorType):
        return type
    found = (place_of(s, axis) for axis, s in states.items())
    return TensorType(type.dtype, type.shape, type.device, type.offloaded, places(p for p in found if p is not None))
