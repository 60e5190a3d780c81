"""The step `zero`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from distir.analysis.provenance import with_parameters_named
from distir.diagnostics.spelling import nearest
from distir.ir import (
    Apply,
    Attributes,
    Call,
    DType,
    Function,
    Module,
    Param,
    Return,
    Shape,
    TensorType,
)
from distir.ir.builder import namer
from distir.ir.rewrite import Variants
from distir.ops import type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.interleaving import interleaved_calls
from distir.transform.orphans import without_orphans
from distir.transform.quantise_at_use import quantised_at_use
from distir.transform.steps import StepError, always, step, tell
from distir.transform.zero.body import rewritten
from distir.transform.zero.gather_at_use import GatherAtUse, handing_on
from distir.transform.zero.groups import ASSIGN, WeightGroup, groups_of
from distir.transform.zero.hybrid import in_groups, summed_over_groups
from distir.transform.zero.partition import Copies, Owner, Partition, parameter_of, partitions
from distir.transform.zero.plain import with_sums_for_updates, without_buckets
from distir.transform.zero.reduce_per_microbatch import ReducePerMicrobatch
from distir.transform.zero.scatter_gather import gather, partitioned_params, partitioned_results, scatter
from distir.transform.zero.slots import Partitioned, sends

KINDS = ("owner", "split")
STAGES = ("0", "1", "2", "3")
SUMS = ("parts", "float32")


@step(
    after=("dp", "dtp"),
    choices={"value": STAGES, "partition": KINDS, "sums": SUMS},
    tries=always("zero=1 partition=split", "zero=2 partition=split", "zero=3 partition=split"),
)
def zero(module: Module, value: int, *, partition: str = "owner", shard: int = 0, sums: str = "parts") -> Module:
    """ZeRO, stage `value`: partition replicated state over data-parallel devices. Apply it after `dp`.

    Stage 1 partitions the optimizer state: gradients are reduced to the device that updates the weight, and the new
    weight is sent to the others, into the memory of the old one. Stage 2 reduces each gradient as soon as it is
    computed, so that it can be freed. Where gradients of microbatches are accumulated on the same devices, it reduces
    those of each microbatch, and sums are of parts; those of a pipeline's stages it reduces once, at the end. Stage 3
    also partitions the parameters: each layer's are gathered before it runs, in each microbatch, and freed after it,
    as are their copies in 8-bit floats (`fp8`), which are made of what is gathered.

    `partition`: with `owner`, each parameter is whole on one device, with balanced loads; with `split`, each parameter
    is sharded over all devices, along a divisible dimension. Of parameters without one, vectors, which are small, are
    replicated, and others have owners.

    With `shard=N` state is partitioned within groups of N neighbouring replicas, and each group holds all of it: FSDP's
    hybrid sharding (HSDP). Gradients are reduced within the groups first, and the parts summed over the groups. By
    default all replicas are one group.

    `sums`: with `parts`, each replica gets the sums of the gradients that it needs. With `float32` gradients are summed
    in Float32, by an all-reduce, and each replica takes its part of the sums: four times as much is communicated of
    16-bit gradients. It goes with stage 1 and `partition=split`.

    After `dtp` with `representative=true` one replica represents all, if `partition=split` gives each as much as the
    others.

    Raises ProgramError if no data-parallel devices replicate weights, or if one is needed whole, or if parts that one
    replica is to represent are not equal.
    """
    if str(value) not in STAGES:
        raise StepError(f"expected a stage from 0 to 3, found {value}")
    if partition not in KINDS:
        near = nearest(partition, KINDS)
        hint = f"did you mean `{near}`?" if near else f"it is one of {', '.join(KINDS)}"
        raise StepError(f"there is no partition `{partition}`; {hint}")
    if sums not in SUMS:
        near = nearest(sums, SUMS)
        hint = f"did you mean `{near}`?" if near else f"it is one of {', '.join(SUMS)}"
        raise StepError(f"there are no sums `{sums}`; {hint}")
    if sums == "float32" and (value != 1 or partition != "split" or shard):
        raise StepError("`sums=float32` goes with `zero=1 partition=split`, without `shard`")
    checked(module)
    if value == 0:
        return module
    if shard < 0:
        raise StepError(f"`shard` expected a number of replicas, found {shard}")
    given = module
    hybrid = None
    if shard:
        module, hybrid = in_groups(module, _plain(module), shard, partition)
    is_pipeline = sends(module, entry_of(module))
    if value == 3 or (value == 2 and not is_pipeline):
        module = _with_layers_in_sight(module, partition)
    if value == 3:
        module = _with_copies_where_used(module, partition)
    entry = _plain(module)
    groups = groups_of(module, entry, partition)
    chosen = partitions(entry, groups, partition)
    _tell_of_whole_state(entry, groups)
    inside: list[Function] = []
    variants: dict[str, str] = {}
    types = {name: type_of(v) for name, v in checked(module).states[entry.name].items()}
    shapes = _shapes(module) if value > 1 and not is_pipeline else {}
    if value == 3:
        plain = module.replacing(entry)
        weights = GatherAtUse(Variants(module), Partitioned(groups, chosen), states_of_calls(checked(plain), entry))
        entry = weights.entry(entry)
        variants = weights.variants.origins
        shapes |= {name: shapes[origin] for name, origin in variants.items() if origin in shapes}
        inside = [*weights.variants.made.values()]
        module = Module([*module, *inside])
        groups = groups_of(module, entry, partition)
    written = rewritten(entry, groups, chosen, value, types, _narrow(module) if sums == "float32" else None)
    summed = groups
    if hybrid is not None:
        written, summed = summed_over_groups(written, groups, hybrid, entry)
    if value > 1 and not is_pipeline:
        summing = ReducePerMicrobatch(module, Partitioned(summed, chosen), shapes, namer(module))
        written = summing.entry(written)
        inside += [made.function for made in summing.made.values()]
        variants |= {made.function.name: name for (name, _), made in summing.made.items()}
    params, results = _partitioned(groups, chosen, value)
    returned = partitioned_results(entry.returned, results)
    whole = replace(
        entry,
        params=_donated(partitioned_params(entry.params, params), groups, chosen, value),
        body=(*written.body[:-1], Return(returned)),
        result_types=None,
    )
    found = Module([*inside, *(f for f in module if f not in inside)]).replacing(whole)
    if f"{entry.name}.scatter" in module.functions:
        spread, joined = (module.functions[f"{entry.name}.{end}"] for end in ("scatter", "gather"))
        found = found.replacing(scatter(spread, entry.params, params), gather(joined, entry.returned, results))
    owned = _owned(groups, chosen) if value == 3 else {}
    return without_orphans(given, (with_parameters_named(function, owned) for function in found), variants)


def _owned(groups: Sequence[WeightGroup], chosen: Sequence[Partition]) -> dict[str, str]:
    """By copy of a weight: the one that its owner holds."""
    pairs = zip(groups, chosen, strict=True)
    return {name: parameter_of(group, of) for group, of in pairs if isinstance(of, Owner) for name in group.weights}


def _tell_of_whole_state(entry: Function, groups: Sequence[WeightGroup]) -> None:
    """Say which state is not partitioned: of vectors without equal parts, or with an update that is no op any more."""
    held = {name for group in groups for kept in group.kept for name in kept.params}
    whole = [p for p in entry.params if "state" in p.roles and p.name not in held]
    vectors = [p.name for p in whole if isinstance(p.type, TensorType) and len(p.type.shape or ()) == 1]
    if vectors:
        tell(f"each replica holds all of the state of vectors that do not divide, as of `%{vectors[0]}`")
    state = {p.name for p in whole}
    left = [s.args[0] for s in entry.body if isinstance(s, Apply) and s.op == ASSIGN and s.args[0] in state]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        tell(
            f"each replica holds all of `%{left[0]}`{more}: state of weights that tensor parallelism splits where their"
            " optimizer needs them whole is not partitioned"
        )


def _shapes(module: Module) -> dict[str, dict[str, Shape | None]]:
    """By function and value: the shape of each tensor."""
    return {
        name: {value: t.shape if isinstance(t := type_of(v), TensorType) else None for value, v in state.items()}
        for name, state in checked(module).states.items()
    }


def _narrow(module: Module) -> dict[str, DType]:
    """The element types of the entry function's values that are of fewer bits than Float32, by name."""
    state = checked(module).states[entry_of(module).name]
    found = {name: t.dtype for name, v in state.items() if isinstance(t := type_of(v), TensorType)}
    return {name: dtype for name, dtype in found.items() if dtype is not None and dtype.bytes < 4}


def _plain(module: Module) -> Function:
    """The entry function in canonical form (see `plain`)."""
    entry = without_buckets(entry_of(module))
    return with_sums_for_updates(entry, (p.name for p in entry.params if not {"param", "state"}.isdisjoint(p.roles)))


def _with_layers_in_sight(module: Module, partition: str) -> Module:
    """The module with passes of stages inlined, so that replicas can exchange parts between two layers.

    Also if one replica represents all, so that both programs are treated alike.
    """
    entry = _plain(module)
    groups = groups_of(module, entry, partition)
    passes = handing_on(module, entry, Partitioned(groups, partitions(entry, groups, partition)))
    return _with_passes_written_out(module, passes) if passes else module


def _with_copies_where_used(module: Module, partition: str) -> Module:
    """The module in which each use quantises the partitioned weights that it gathers."""
    groups = groups_of(module, _plain(module), partition)
    weights = {name for group in groups for name in group.weights}
    return without_orphans(module, *quantised_at_use(module, entry_of(module), weights))


def _with_passes_written_out(module: Module, passes: Collection[str]) -> Module:
    """The program with all calls of these functions inlined."""

    def written(function: Function) -> Function:
        calls = {i for i, s in enumerate(function.body) if isinstance(s, Call) and s.function in passes}
        return interleaved_calls(module, function, calls)

    return Module(written(function) for function in module if function.name not in passes)


def _donated(
    params: Sequence[Param], groups: Sequence[WeightGroup], chosen: Sequence[Partition], stage: int
) -> tuple[Param, ...]:
    """The parameters, with weights `{donated}` if each device updates a part: so there is one copy of them.

    A device slices its part of the old weight just before the new one is gathered; then the old one is dead.
    """
    replaced = {
        weight
        for group, partition in zip(groups, chosen, strict=True)
        for weight, new in zip(group.weights, group.new, strict=True)
        if stage < 3 and new and not isinstance(partition, Owner)
    }
    donation = {"donated": True}
    return tuple(replace(p, roles=Attributes({**p.roles, **donation})) if p.name in replaced else p for p in params)


def _partitioned(
    groups: Sequence[WeightGroup], chosen: Sequence[Partition], stage: int
) -> tuple[list[Copies], list[Copies]]:
    """The parameters of the entry function of which only parts remain, and the results."""
    params: list[Copies] = []
    results: list[Copies] = []
    for group, partition in zip(groups, chosen, strict=True):
        held = [(kept.params, kept.results) for kept in group.kept]
        held += [(group.weights, group.new)] if stage == 3 else []
        for before, after in held:
            params.append(Copies(before, group.replicas, partition))
            results += [Copies(after, group.replicas, partition)] if all(after) else []
    return params, results
