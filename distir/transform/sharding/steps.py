"""The steps `dp` and `tp`, and `split`, which both are cases of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distir.analysis import Analysis
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Function, Module, Site
from distir.ir.collection import paused_collection
from distir.transform.checking import checked
from distir.transform.sharding.batch import tokens
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.ends import gather, scatter
from distir.transform.sharding.mesh import Place, mesh_of
from distir.transform.sharding.partition import Partition
from distir.transform.sharding.state import State
from distir.transform.sharding.tensor import parameter_states
from distir.transform.steps import step

Plan = Callable[[Analysis, Function], Sequence[State]]
"""How the entry function's parameters are to lie. Raises ProgramError where they cannot."""


@step(after=("grad", "checkpoint", "pp", "tp"))
def dp(module: Module, value: int, *, bucket_bytes: int = 0) -> Module:
    """Data parallelism: every device becomes `value` replicas, outermost, each with a part of the batch.

    The parameters marked `{batch = axis}` are split, all others are copied. What a replica finds for its part alone,
    the gradients above all, is summed over the replicas where it is needed whole, once for each value. With
    `bucket_bytes` such sums are joined into messages of at least so many bytes, where they wait for nothing.

    Raises ProgramError where no parameter has a batch, or it does not divide.
    """
    return split(module, value, "outermost", lambda analysis, entry: batch_states(analysis, entry, value), bucket_bytes)


@step(after=("grad", "checkpoint", "pp"))
def tp(module: Module, value: int, *, shard: tuple[str, ...] = (), sequence: bool = False) -> Module:
    """Tensor parallelism: every device becomes `value` shards, innermost, each with a part of the parameters.

    Split are the dimensions that are met inside a block only: hidden widths, heads, the vocabulary. Partial sums are
    summed over the shards where they are needed whole. `shard=w1:1,w2:0` states instead which parameters are split
    along which dimensions.

    With `sequence=true` what is between such blocks (normalisation, residual sums) is split along the sequence: a sum
    is scattered where it was given to all, and gathered where a block begins.

    Raises ProgramError where there is nothing to split, or a dimension does not divide.
    """

    def plan(analysis: Analysis, entry: Function) -> Sequence[State]:
        return parameter_states(analysis, entry, value, shard)

    return split(module, value, "innermost", plan, sequence=sequence)


def split(
    module: Module,
    size: int,
    place: Place,
    plan: Plan,
    bucket_bytes: int = 0,
    sequence: bool = False,
    analysis: Analysis | None = None,
    ends: bool = True,
    representative: bool = False,
) -> Module:
    """The module with each of its devices made `size` devices, and its parameters lying as `plan` says.

    With `sequence` sums are spread over the devices along dimensions that are neither batch nor features. Gives the
    entry function for all devices, the functions that it calls, and with `ends` its `.scatter` and `.gather`. Raises
    ProgramError if the module does not check, or cannot be split so. `analysis`: of the module, where it has been
    checked already. `representative`: only the first of the devices that one becomes is written down (see
    `ops/group.py`); there are no `.scatter` and `.gather` for that.
    """
    analysis = analysis or checked(module)
    entry = module.entry()
    if size < 1 or entry is None:
        message = "the module has no function" if entry is None else f"expected 1 device or more, found {size}"
        raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(entry.name) if entry else None, message)])
    if size == 1:
        return module
    mesh = mesh_of(module, entry, size, place, representative)
    with paused_collection():
        partition = Partition(analysis, mesh, tokens(analysis, entry) if sequence else None)
        states = plan(analysis, entry)
        done = partition.entry(entry, states, bucket_bytes)
        if sequence and not partition.spread:
            message = f"no sum in `@{entry.name}` has a sequence that splits over {size} devices"
            hint = "leave out `sequence`, or take a number of devices that divides the sequence"
            raise ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)])
        if representative or not ends:
            return Module(partition.functions.values())
        scattered = scatter(module, entry, states, mesh)
        gathered = gather(module, entry, done.function, done.result_values, done.results, mesh)
    return Module([*partition.functions.values(), scattered, gathered])
