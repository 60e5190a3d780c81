"""The step `mesh`: a sequential program, written on a mesh as a strategy says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distir.analysis.placed_results import replaced_by
from distir.diagnostics import ProgramError
from distir.diagnostics.spelling import nearest
from distir.ir import (
    Apply,
    Arg,
    Attributes,
    Function,
    Module,
    Places,
    Statement,
    TensorType,
    TupleType,
    Type,
    ops_in,
)
from distir.ir.collection import paused_collection
from distir.ir.dataflow import maker
from distir.ir.rewrite import mapped
from distir.ops.mesh import COLLECTIVES
from distir.transform.as_sums import with_counted_losses
from distir.transform.checking import checked
from distir.transform.entry import entry_of, without_idle_ends
from distir.transform.mesh.folding import (
    CONTEXT,
    EXPERTS,
    REPLICAS,
    SEQUENCES,
    SHARDS,
    TENSOR,
    Folding,
    folded,
    of_axes,
)
from distir.transform.mesh.items import with_updates_of_items
from distir.transform.mesh.owners import PARTITIONS
from distir.transform.mesh.partition import MeshPartition
from distir.transform.mesh.pipelined import with_ends
from distir.transform.mesh.plans import plan
from distir.transform.mesh.spread import SequenceSpread
from distir.transform.mesh.wanted import gradients
from distir.transform.order import IN_KERNELS, ON_MESH, SHARDED, STATE_ON_HOSTS
from distir.transform.order import SHARDS as HAS_SHARDS
from distir.transform.orphans import without_orphans
from distir.transform.quantise_at_use import cast_at_use, quantised_at_use
from distir.transform.sharding.batch import tokens
from distir.transform.sharding.context import (
    CONTEXTS,
    dispatched_in_parts,
    marked_for_context,
    order_of,
    sequences,
    tell_of_experts,
)
from distir.transform.sharding.experts import DISPATCHERS, router_of
from distir.transform.sharding.grouped import with_groups
from distir.transform.sharding.mesh import IN_ORDER, Order, mesh_of
from distir.transform.sharding.owned import no_experts
from distir.transform.sharding.ownership import with_owners
from distir.transform.sharding.spread import no_sequence
from distir.transform.sharding.steps import LARGEST_NODE, LOSS_OPS, known_ops, shards_of_expert
from distir.transform.steps import Count, StepError, step

STAGES = ("0", "1", "2", "3")

SUMS = ("parts", "float32")
"""How gradients are summed that `zero` partitions: to parts, or whole in Float32."""

NEEDED = {
    "zero": "`zero` partitions over replicas: give `dp`, as in `mesh dp=4 zero=3`",
    "sequence": "`sequence` spreads sums over shards: give `tp`, as in `mesh tp=2 sequence`",
    "cp_experts": "`cp_experts` is of devices that share sequences: give `cp`, as in `mesh cp=2 cp_experts`",
    "etp": "`etp` is of shards, over so many of which each expert is split: give `tp`, as in `mesh tp=4 etp=1`",
    "dispatcher": "`dispatcher` is of tokens that go to experts: give `ep`, as in `mesh ep=8 dispatcher=deepep`",
    "split": "`split` states what shards split: give `tp`, as in `mesh tp=2 split=w1:1,w2:0`",
    "whole": "`whole` names ops that each shard computes by itself: give `tp`, as in `mesh tp=2 whole=Softmax`",
    "scatter_gather": "`scatter_gather` is of what shards of a stage send: as in `pp=2 microbatches=8 mesh tp=2`",
    "skew": "`skew` is the room for tokens of experts: give `ep`, as in `mesh ep=4 skew=1.2`",
    "cp_kind": "`cp_kind` is of devices that share sequences: give `cp`, as in `mesh cp=2 cp_kind=ring`",
    "zigzag": "`zigzag` is the order of parts of sequences: give `cp`, as in `mesh cp=2 zigzag=false`",
}
"""What an option says that its axis is missing for."""


@step(
    after=("cse", "pp", "accumulate"),
    before=(SHARDED, STATE_ON_HOSTS, IN_KERNELS),
    makes=(*HAS_SHARDS, ON_MESH),
    choices={
        "zero": STAGES,
        "partition": PARTITIONS,
        "sums": SUMS,
        "cp_kind": CONTEXTS,
        "dispatcher": DISPATCHERS,
    },
    examples={"whole": LOSS_OPS},
)
def mesh(
    module: Module,
    *,
    dp: Count = 1,
    ep: Count = 1,
    cp: Count = 1,
    tp: Count = 1,
    zero: int = 0,
    partition: str = PARTITIONS[0],
    shard: int = 0,
    sums: str = SUMS[0],
    sequence: bool = False,
    cp_kind: str = CONTEXTS[0],
    zigzag: bool | None = None,
    cp_experts: bool = False,
    etp: int = 0,
    expert_parallel: int = 0,
    skew: float = 0.0,
    dispatcher: str = DISPATCHERS[0],
    split: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
    scatter_gather: bool | None = None,
) -> Module:
    """Data, tensor, sequence, expert and context parallelism and ZeRO at once: `mesh dp=4 tp=2 sequence zero=3`.

    The result reads like the program: one statement for all devices. Types say where the parts of each value are, and
    collectives name an axis. `distir expand` gives the program of every device, `distir erase` the sequential one.
    Axes are `dp`, `shard`, `ep`, `cp`, `cp_ep`, `tp`, `tp_ep` and `etp`, the outermost first.

    `dp`: inputs are split along the batch, which their role `{batch = …}` names, and gradients are summed over the
    replicas where their update needs the sum. `tp`: the heads of attention, the inner widths of layers and the
    vocabulary are split; sums over the shards end where a value is needed whole. With `sequence` such a sum is
    scattered along the sequence, and gathered where a block begins: norms and residual sums in between are on parts.
    `split=w1:1,w2:0` states instead which parameters are split along which dimensions. `whole=OP,…` names ops that
    every shard computes by itself of whole operands, which are gathered before, as logits are where a framework has no
    loss of parts of the vocabulary.

    `ep`: the batch is split over these devices, too, and the experts in equal parts, whose gradients are not summed
    over them. Tokens go to the devices of their experts by an all-to-all, and their results come back. `skew` is the
    number of tokens for which a device has room, as a multiple of the mean, as in the step `ep`; by default there is
    room for all. What is erased has rows for each device's experts, as `Dispatch[owners = …]` says. With
    `dispatcher=deepep` a token goes once to each node, as in the step `ep`.

    With `etp=1` shards do not split experts: each has some of them whole, computes the rows of all tokens that chose
    them, and what it adds to a token is summed over the shards. With `tp=4 etp=2`, each two neighbours split some of
    the experts. The shards are 2 × 2 devices then, along the axes `tp` and `etp`: all else is split over both.

    `expert_parallel=N` says it of all devices of a stage at once, as Megatron's `--expert-model-parallel-size` does.
    `dp` is the number of all replicas then. Devices are numbered shards first, then those that share sequences, then
    replicas: each `etp` neighbours have one part of the experts, N of these groups have them all, and the next N have
    copies. An axis with parts and copies becomes two: `tp=4 etp=1 sequence expert_parallel=2` writes
    `mesh (tp = 2, tp_ep = 2)`, with experts split over `tp_ep`. Devices that share sequences dispatch the tokens that
    they have, and so do shards that have copies, which need `sequence`; rows go to their experts by all-to-alls.

    `cp`: inputs are split along the sequence. `cp_kind` says how attention meets the keys of all parts, as in the step
    `cp`: `allgather`, `a2a` or `ring`. With `zigzag`, device i of n has the parts i and 2n - 1 - i of 2n, written
    `4096@zigzag(cp)`, and so as many scores of a causal triangle as the others. By default that is so where attention
    is causal, but with `a2a`; in order, causal attention of later parts is of more keys, and each device is simulated
    by itself. Tokens are gathered for experts, and every device computes all their rows; with `cp_experts` each has
    some of the experts, and computes the rows of these.

    `zero` partitions over the devices of `dp`, `ep` and `cp` that would have the same, along a dimension that divides:
    with 1 optimizer state, so that each device updates a part of a weight, which is gathered, also of one without
    state; with 2 likewise, and gradients are reduced as soon as they are computed, of each microbatch where
    `accumulate` adds them up; with 3 also weights, which are gathered before their use in the forward pass, and again
    in the backward pass.

    With `partition=owner` each parameter and its state are whole on one device, with balanced loads, instead of in
    parts: gradients are reduced to it, it updates the weight alone, and the others are sent it. By default so are
    matrices alone of which no dimension divides; vectors that do not divide are on every device.

    `sums`: with `parts` each replica gets the sums of gradients that it needs. With `float32` those of fewer bits are
    summed in Float32, by an all-reduce, and each replica takes its part: four times as much is communicated of 16 bits.

    With `shard=N` it partitions within groups of N neighbours along `dp`, and each group holds all: hybrid sharding
    (HSDP). The mesh then has two axes, `dp` over the groups and `shard` within each. Gradients are scattered within the
    groups first, and their parts are summed over the groups.

    Of a pipeline (`pp=2 microbatches=8 mesh dp=2 tp=2`) each stage becomes a mesh, with its passes written once. Each
    microbatch is split over the replicas; gradients are reduced when those of all microbatches are added up.

    With `scatter_gather`, of what all shards of a stage have whole each sends a part to the next stage, which gathers
    them. It is on in programs of more than 16 devices, which lie on several nodes, unless the option says otherwise.

    Raises ProgramError where no input has a batch, where nothing can be split along an axis, or a size does not divide.
    """
    if str(zero) not in STAGES:
        raise StepError(f"`zero` expected a stage from 0 to 3, found {zero}")
    cut = shards_of_expert(etp, tp)
    if expert_parallel and (ep > 1 or cp_experts):
        raise StepError("leave out `ep` and `cp_experts` beside `expert_parallel`, which says it of all devices")
    if expert_parallel < 0:
        raise StepError(f"`expert_parallel` expected the number of parts of the experts, found {expert_parallel}")
    if expert_parallel:
        folding = folded(expert_parallel, dp, cp, tp, cut)
    else:
        folding = of_axes(dp, ep, cp, tp, cut, cp_experts)
    folding = folding.in_groups(shard) if shard else folding
    sizes, shards = folding.sizes, tuple(axis for axis in SHARDS if axis in folding.sizes)
    replicas = tuple(axis for axis in REPLICAS if axis in sizes)
    if not sizes:
        raise StepError("expected an axis with 2 or more devices, as in `mesh dp=4 tp=2`")
    if shard and not zero:
        raise StepError("`shard` is the size of groups in which `zero` partitions: give it, as in `zero=3 shard=4`")
    _refuse_other_words("partition", partition, PARTITIONS)
    _refuse_other_words("sums", sums, SUMS)
    if sums == "float32" and zero != 1:
        raise StepError("`sums=float32` goes with `zero=1`")
    if partition != PARTITIONS[0] and not zero:
        raise StepError("`partition` is how `zero` partitions: give it, as in `zero=1 partition=owner`")
    for option, given, axes in (
        ("zero", zero, replicas),
        ("sequence", sequence, [TENSOR]),
        ("cp_experts", cp_experts, [CONTEXT]),
        ("etp", etp, [TENSOR]),
        ("split", split, [TENSOR]),
        ("whole", whole, [TENSOR]),
        ("scatter_gather", scatter_gather, [TENSOR]),
        ("skew", skew, folding.owners),
        ("dispatcher", dispatcher != DISPATCHERS[0], [EXPERTS]),
        ("cp_kind", cp_kind != CONTEXTS[0], [CONTEXT]),
        ("zigzag", zigzag is not None, [CONTEXT]),
    ):
        if given and sizes.keys().isdisjoint(axes):
            raise StepError(NEEDED[option])
    is_staged = any(ops_in(module, "Send"))
    if scatter_gather and not is_staged:
        raise StepError(NEEDED["scatter_gather"])
    if folding.copies and not sequence:
        same = f"{folding.count(*folding.copies)} shards have the same experts, each for its own tokens"
        raise StepError(f"{same}: `sequence` gives them these")
    with paused_collection():
        module = without_idle_ends(module)
        module = with_counted_losses(module) if replicas else module
        module = with_updates_of_items(module) if zero else module
        module = _with_copies_where_used(module) if zero == 3 else module
        order = IN_ORDER
        if cp > 1:
            if not cp_experts and not expert_parallel:
                tell_of_experts(module, cp)
            module = marked_for_context(module, cp_kind)
            order = order_of(module, cp_kind, zigzag)
        along = sequences(module) if cp > 1 else None
        router = router_of(module, dispatcher)
        module = _dispatched_apart(module, folding, order, sequence=sequence) if expert_parallel else module
        module = with_owners(module, folding.parts, skew) if folding.owners else module
        analysis, entry = checked(module), entry_of(module)
        placed = plan(analysis, entry, folding, zero, along, order, partition, split)
        updated = {p.name: t for p, t in zip(entry.params, placed.updated, strict=True)}
        results: dict[str, Places] = {}
        replaced = {param: result for result, param in replaced_by(module, entry).items()}
        for param, k in replaced.items():
            results |= _places_of_result(entry, entry.returned[k], placed.types[param])
        # Stages of a pipeline reduce gradients once, when they would wait.
        wanted = gradients(entry, analysis, updated, per_microbatch=zero > 1 and not is_staged)
        spread = SequenceSpread(shards, tokens(analysis, entry)) if sequence else None
        taken_whole = dict.fromkeys(shards, known_ops("whole", whole))
        if scatter_gather is None:
            scatter_gather = mesh_of(module, entry, 1, "innermost").count * folding.count(*sizes) > LARGEST_NODE
        more = sums == "float32", taken_whole, scatter_gather and is_staged and bool(shards), folding.owners
        writer = MeshPartition(analysis, tuple(sizes.items()), replicas, shards, spread, *more)
        made = writer.entry(entry, placed.types, placed.loose, results, wanted, early=zero > 1)
        made = _with_router(made, router) if router else made
        if sequence and not writer.spread_sums:
            raise ProgramError([no_sequence(entry, tp)])
        return with_ends(made.replacing(_with_donations(entry_of(made), replaced)), module, writer.returned)


def _places_of_result(entry: Function, new: Arg, stated: Type) -> dict[str, Places]:
    """By value: where it is to be, as a result is where the parameter is that it replaces; of a tuple the items."""
    if isinstance(new, str) and not isinstance(stated, TupleType):
        return {new: stated.places if isinstance(stated, TensorType) else ()}
    made = maker(entry, new) if isinstance(new, str) else None
    found: dict[str, Places] = {}
    if isinstance(made, Apply) and made.op == "MakeTuple" and isinstance(stated, TupleType):
        for item, own in zip(made.args, stated.items, strict=True):
            found |= _places_of_result(entry, item, own)
    return found


def _refuse_other_words(option: str, found: str, known: Sequence[str]) -> None:
    """Raises StepError for a word that an option does not take."""
    if found not in known:
        near = nearest(found, known)
        hint = f"did you mean `{near}`?" if near else f"it is one of {', '.join(known)}"
        raise StepError(f"there is no `{option}` `{found}`; {hint}")


def _with_copies_where_used(module: Module) -> Module:
    """The program in which each use casts, and quantises, the weights that it gathers: no copy is kept in between."""
    entry = entry_of(module)
    weights = {p.name for p in entry.params if "param" in p.roles}
    made = without_orphans(module, *quantised_at_use(module, entry, weights))
    return made.replacing(cast_at_use(entry_of(made), weights))


def _dispatched_apart(module: Module, folding: Folding, order: Order, *, sequence: bool) -> Module:
    """The program in which devices with parts of a sequence dispatch their own tokens to experts.

    Shards do where they have copies of experts. A note says where tokens are gathered instead, as where experts have a
    capacity of them. Raises ProgramError where they cannot be, as several devices have parts or copies, and where there
    are no experts.
    """
    if not any(ops_in(module, "Dispatch")):
        raise no_experts(entry_of(module))
    cp, tp = folding.count(*SEQUENCES), folding.count(*SHARDS)
    cut = tp if folding.copies or (sequence and cp > 1) else 1  # of what those that share a sequence have
    groups = cp * math.lcm(order.parts(1), cut) if cp > 1 else cut
    if folding.copies or not {*folding.owners}.isdisjoint(SEQUENCES):
        return with_groups(module, groups)
    return dispatched_in_parts(module, groups, cp)


def _with_router(module: Module, router: Attributes) -> Module:
    """The module with the router's properties in all-to-alls that bring tokens to their experts, and results back."""

    def changed(function: Function) -> Function:
        counts = {s.results[1] for s in ops_in(function, "Dispatch")}
        counts |= {s.results[0] for s in ops_in(function, "Shard") if s.args[0] in counts}

        def routed(s: Statement) -> Statement:
            is_of_rows = isinstance(s, Apply) and s.op == "AllToAll" and s.attrs["axis"] == EXPERTS
            if not is_of_rows or not isinstance(s, Apply) or s.args[0] in counts:
                return s
            return replace(s, attrs=Attributes({**s.attrs, **router}))

        return mapped(function, routed)

    return Module(map(changed, module))


def _with_donations(entry: Function, replaced: Mapping[int, int]) -> Function:
    """The function with weights `{donated}` whose update is gathered, which is no more written where they are.

    `replaced`: by the number of a parameter, that of the result that replaces it.
    """
    params = list(entry.params)
    for number, result in replaced.items():
        made = maker(entry, str(entry.returned[result]))
        if isinstance(made, Apply) and made.op in COLLECTIVES:
            params[number] = replace(params[number], roles=Attributes({**params[number].roles, "donated": True}))
    return replace(entry, params=tuple(params))
