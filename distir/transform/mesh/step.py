"""The step `mesh`: a sequential program, written on a mesh as a strategy says."""

from __future__ import annotations

from distir.analysis.updates import ParameterUpdates
from distir.ir import Module, Places, TensorType, ops_in
from distir.ir.collection import paused_collection
from distir.transform.as_sums import with_counted_losses
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.mesh.partition import MeshPartition
from distir.transform.mesh.pipelined import with_ends
from distir.transform.mesh.plans import DATA, TENSOR, plan
from distir.transform.mesh.wanted import PerMicrobatch, gradients
from distir.transform.order import IN_KERNELS, ON_MESH, SHARDED, SHARDS, STATE_ON_HOSTS
from distir.transform.steps import Count, StepError, step

STAGES = ("0", "1", "2", "3")


@step(
    after=("cse", "pp", "accumulate"),
    before=(SHARDED, STATE_ON_HOSTS, IN_KERNELS),
    makes=(*SHARDS, ON_MESH),
    choices={"zero": STAGES},
)
def mesh(module: Module, *, dp: Count = 1, tp: Count = 1, zero: int = 0) -> Module:
    """Data and tensor parallelism and ZeRO at once: the program on a mesh, `mesh dp=4 tp=2 zero=3`.

    The result reads like the program: one statement for all devices. Types say where the parts of each value are, and
    collectives name an axis. `distir expand` gives the program of every device, `distir erase` the sequential one. The
    first axis is outermost: neighbours are along `tp`.

    `dp`: inputs are split along the batch, which their role `{batch = …}` names, and gradients are summed over the
    replicas where their update needs the sum. `tp`: the heads of attention, the inner widths of layers and the
    vocabulary are split; sums over the shards end where a value is needed whole.

    `zero` partitions over the replicas, along a dimension that divides: with 1 optimizer state, so that each device
    updates a part of a weight, which is gathered; with 2 likewise, and gradients are reduced as soon as they are
    computed; with 3 also weights, which are gathered before their use in the forward pass, and again in the backward
    pass.

    Of a pipeline (`pp=2 microbatches=8 mesh dp=2 tp=2`) each stage becomes a mesh, with its passes written once. Each
    microbatch is split over the replicas; gradients are reduced when those of all microbatches are added up.

    Raises ProgramError where no input has a batch, where nothing can be split, or a size does not divide.
    """
    if str(zero) not in STAGES:
        raise StepError(f"`zero` expected a stage from 0 to 3, found {zero}")
    sizes = {axis: size for axis, size in ((DATA, dp), (TENSOR, tp)) if size > 1}
    if not sizes:
        raise StepError("expected an axis with 2 or more devices, as in `mesh dp=4 tp=2`")
    if zero and DATA not in sizes:
        raise StepError("`zero` partitions over replicas: give `dp`, as in `mesh dp=4 zero=3`")
    with paused_collection():
        module = with_counted_losses(module) if DATA in sizes else module
        analysis, entry = checked(module), entry_of(module)
        placed = plan(analysis, entry, sizes, zero)
        params = {p.name: t for p, t in zip(entry.params, placed.types, strict=True)}
        results: dict[str, Places] = {}
        for param, k in ParameterUpdates(module).replaced(entry).items():
            new, stated = entry.returned[k], placed.types[param]
            if isinstance(new, str) and isinstance(stated, TensorType):
                results[new] = stated.places
        is_staged = any(
            ops_in(module, "Send")
        )  # the stages of a pipeline reduce gradients once, as they are waiting then
        each = PerMicrobatch(analysis.domain) if zero > 1 and not is_staged else None
        own = analysis.domain.instance(entry.name, tuple(p.type for p in entry.params))
        wanted = gradients(entry, own, params, each)
        partition = MeshPartition(analysis, tuple(sizes.items()), each)
        made = partition.entry(entry, placed.types, placed.loose, results, wanted, early=zero > 1)
        return with_ends(made, module, partition.returned)
