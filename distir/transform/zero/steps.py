"""The step `zero`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distir.diagnostics.spelling import nearest
from distir.ir import Attributes, Module, Param, Return
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.steps import StepError, step
from distir.transform.zero.body import rewritten
from distir.transform.zero.ends import gather, partitioned_params, partitioned_results, scatter
from distir.transform.zero.groups import WeightGroup, groups_of, is_representative
from distir.transform.zero.partition import Copies, Owner, Partition, partitions
from distir.transform.zero.plain import with_sums_for_updates, with_weights_near, without_buckets

KINDS = ("owner", "split")
STAGES = ("0", "1", "2", "3")


@step(after=("dp", "dtp"), choices={"value": STAGES, "partition": KINDS})
def zero(module: Module, value: int, *, partition: str = "owner") -> Module:
    """ZeRO, stage `value`: partition replicated state over data-parallel devices. Apply it after `dp`.

    Stage 1 partitions the optimizer state: gradients are reduced to the device that updates the weight, and the new
    weight is sent to the others, into the memory of the old one. Stage 2 reduces each gradient as soon as it is
    computed, so that it can be freed. Stage 3 also partitions the parameters: they are gathered before each use and
    freed after it.

    `partition`: with `owner`, each parameter is whole on one device, with balanced loads; with `split`, each parameter
    is sharded over all devices, along a divisible dimension (parameters without one have owners).

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
    checked(module)
    if value == 0:
        return module
    entry = without_buckets(entry_of(module))
    entry = with_sums_for_updates(entry, (p.name for p in entry.params if not {"param", "state"}.isdisjoint(p.roles)))
    if value == 3:
        entry = with_weights_near(entry, (p.name for p in entry.params if "param" in p.roles))
    groups = groups_of(module, entry)
    chosen = partitions(entry, groups, partition)
    body = rewritten(entry, groups, chosen, value)
    params, results = _partitioned(groups, chosen, value)
    returned = partitioned_results(entry.returned, results)
    changed = {
        entry.name: replace(
            entry,
            params=_donated(partitioned_params(entry.params, params), groups, chosen, value),
            body=(*body, Return(returned)),
            result_types=None,
        )
    }
    if not is_representative(entry):
        spread, joined = (module.functions[f"{entry.name}.{end}"] for end in ("scatter", "gather"))
        changed[spread.name] = scatter(spread, entry.params, params)
        changed[joined.name] = gather(joined, entry.returned, results)
    return Module(changed.get(function.name, function) for function in module)


def _donated(
    params: Sequence[Param], groups: Sequence[WeightGroup], chosen: Sequence[Partition], stage: int
) -> tuple[Param, ...]:
    """The parameters, with those weights donated of which each device updates a part: so there is one copy of them.

    A device takes its part of the old weight just before the new one is gathered, and needs the old one no more.
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
