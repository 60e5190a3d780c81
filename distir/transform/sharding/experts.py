"""Expert parallelism: the step `ep`. Devices split the batch, and the experts in equal parts.

Tokens are sent to the devices of their experts and back (GShard, arXiv:2006.16668; Megatron's all-to-all dispatcher).
To the partitioner it is a change of the split dimension of rows, from the batch to experts, for which `owned` arranges
rows in equal parts, one for each device. All else is data parallelism.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial

from distir.analysis import Analysis
from distir.ir import NO_ATTRIBUTES, Apply, Arg, Attributes, Function, Module, Statement, ops_in
from distir.ir.rewrite import mapped
from distir.ops.group import GROUPED
from distir.ops.resources import ROUTED
from distir.placement.along import State
from distir.transform.as_sums import with_counted_losses
from distir.transform.entry import entry_of
from distir.transform.order import SHARDS
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.mesh import mesh_of
from distir.transform.sharding.ownership import Holders, Owned, by_owner, owned_weights, with_owners
from distir.transform.sharding.steps import split
from distir.transform.steps import Count, StepError, doubling, step, tell

EXCHANGES = ("MPIAlltoall", GROUPED["MPIAlltoall"].name)

DISPATCHERS = ("alltoall", "deepep")
"""How tokens get to the devices of their experts: each row by itself, or once to each node and from there on."""


@step(
    after=("pp", "accumulate", "tp"),
    makes=SHARDS,
    choices={"dispatcher": DISPATCHERS},
    tries=doubling("ep={}"),
)
def ep(
    module: Module,
    value: Count,
    *,
    skew: float = 0.0,
    dispatcher: str = DISPATCHERS[0],
    representative: bool = False,
) -> Module:
    """Expert parallelism: every device becomes `value` devices, outermost, with parts of the batch and of the experts.

    For all but the experts it is data parallelism over these devices. Each token goes to the devices that have its
    experts, and its results come back: two all-to-alls in the forward pass, and two in the backward pass. The gradients
    of experts are not summed over these devices. Apply `dp` after it, for replicas of the experts too: of 8 replicas
    with 4 parts of the experts each, `ep=4 dp=2`.

    How many tokens a device gets is data. `skew` is the number for which there is room, as a multiple of the mean, in
    each sequence: so large are the messages and the rows that experts compute. A run that needs more fails. By default
    there is room for all, which no data exceeds; simulate with the skew that a router has, `skew=1.2` or so. Where
    `Dispatch` has a capacity, that is the room.

    With `dispatcher=deepep` a token goes once to each node that has some of its experts, and is forwarded there, if
    that is faster than an all-to-all of all rows: as by the library DeepEP, Megatron's
    `--moe-flex-dispatcher-backend deepep`. Where `Route` limits a token to some groups of experts (DeepSeek-V3), fewer
    nodes get it. Values are those of an all-to-all, which is what is lowered.

    With `representative=true` only the first of these devices is written, which represents all of them.

    Raises ProgramError where there are no experts, or these or the batch do not divide.
    """
    if value == 1:
        return module
    module = with_owners(with_counted_losses(module), value, skew)

    def placement(analysis: Analysis, entry: Function) -> list[State]:
        return expert_states(analysis, entry, value, owned_weights(entry, Flow(analysis.domain).entry(entry)))

    router = router_of(module, dispatcher)
    made = split(module, value, "outermost", placement, representative=representative)
    stride = mesh_of(module, entry_of(module), value, "outermost").count
    return with_dispatcher(module, made, value, stride, router)


def router_of(module: Module, dispatcher: str) -> Attributes:
    """The properties of a program's router that a dispatcher needs; empty for an all-to-all of all rows.

    Raises StepError for an unknown dispatcher, or one that cannot know it.
    """
    if dispatcher not in DISPATCHERS:
        raise StepError(f"`dispatcher` expected one of {', '.join(DISPATCHERS)}, found `{dispatcher}`")
    if dispatcher == DISPATCHERS[0]:
        return NO_ATTRIBUTES
    routers = {Attributes({name: s.attrs.get(name, 1) for name in ROUTED}) for s in ops_in(module, "Route")}
    if len(routers) != 1:
        found = "several" if routers else "none"
        raise StepError(f"`dispatcher={dispatcher}` expected one kind of `Route` in all layers, found {found}")
    (router,) = routers
    tell(f"a token goes once to each node with some of its {router['top_k']} experts, where that is faster")
    return router


def with_dispatcher(given: Module, module: Module, size: int, stride: int, router: Attributes) -> Module:
    """The program with the router's properties in all-to-alls of rows over `size` devices, `stride` apart.

    `given`: the program before its experts were split. Raises StepError where its all-to-alls look like those.
    """
    if not router:
        return module
    if any(len(s.args) == size for s in ops_in(given, EXCHANGES[0])):
        raise StepError(
            f"the program has other all-to-alls over {size} devices; `dispatcher` cannot tell which are which"
        )

    def routed(counts: Set[Arg], statement: Statement) -> Statement:
        if not isinstance(statement, Apply) or statement.op not in EXCHANGES or not counts.isdisjoint(statement.args):
            return statement
        if statement.op == EXCHANGES[0]:
            lies = len(statement.args) == size
        else:
            lies = (statement.attrs.get("size"), statement.attrs.get("stride", 1)) == (size, stride)
        return replace(statement, attrs=Attributes({**statement.attrs, **router})) if lies else statement

    def changed(function: Function) -> Function:
        counts = {s.results[1] for s in ops_in(function, "Dispatch")}
        return mapped(function, partial(routed, counts))

    return Module(map(changed, module))


def expert_states(analysis: Analysis, entry: Function, size: int, weights: Owned) -> list[State]:
    """A state for each parameter of a program with owners: inputs are split along the batch, experts by owner.

    So is the optimizer state of experts. Raises ProgramError if the batch does not divide.
    """
    return by_owner(entry, batch_states(analysis, entry, size), weights, Holders(owners=size))
