"""Whether one replica, and one shard, may represent all: then a search simulates a pipeline instead of all devices."""

from __future__ import annotations

from functools import lru_cache

from distir.cost import Hardware
from distir.cost.alike import alike


@lru_cache(maxsize=1 << 10)
def interchangeable(
    machine: Hardware, data: int, tensor: int, pipeline: int, experts: int = 1, context: int = 1
) -> bool:
    """Whether all replicas and shards of a pipeline are alike on a machine: of the same kinds, and linked alike.

    Positions are laid out as the step `dtp` does by default: shards next to each other, then those that share a
    sequence, then replicas, then stages. Of the replicas, `experts` neighbours each share the experts of the model.

    Where they are alike, devices that do the same do it at the same times: by induction over the program, ops that
    begin at the same time take equally long, and those of a collective wait for each other anyway.
    """
    count = data * tensor * pipeline * context
    if count > machine.devices:
        return False

    def at(stage: int, replica: int, shard: int) -> int:
        return (stage * data + replica) * tensor + shard

    data *= context  # those that share a sequence sum gradients as replicas do
    replicas, shards, stages = range(data), range(tensor), range(pipeline)
    # Stages that begin at the same place of the machine's period are alike.
    unlike = {stage * data * tensor % machine.period: stage for stage in stages}.values()
    over = [[replicas]]
    for few in (experts * context, context):
        if few > 1:
            over.append([range(first, first + few) for first in range(0, data, few)])
            over.append([range(own, data, few) for own in range(few)])
    if not alike(machine, ([at(p, d, t) for p in stages] for d in replicas for t in shards)):
        return False
    return all(
        alike(machine, ([at(p, d, t) for t in shards] for d in replicas))
        and all(alike(machine, ([at(p, d, t) for d in group] for group in groups for t in shards)) for groups in over)
        for p in unlike
    )
