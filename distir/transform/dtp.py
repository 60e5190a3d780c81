"""The step `dtp`: data, tensor and pipeline parallelism in one, and how their groups are laid out over the devices.

The pipeline is made first, of the program on one device; then each of its devices becomes several. Which dimensions of
the weights can be split is found in the program on one device, as a pipeline does the same to each microbatch. This
module decides only the order of these steps and the numbering of devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import Any

from distir.analysis import Analysis
from distir.ir import Dim, Function, Module, SymbolicDim, TensorType, dims, ops_in, types
from distir.ir.collection import paused_collection
from distir.ir.per_thread import kept_per_thread
from distir.ir.rewrite import with_sizes
from distir.placement.along import State, is_host
from distir.transform.as_sums import with_counted_losses
from distir.transform.checking import checked_result
from distir.transform.entry import entry_names, entry_of
from distir.transform.mesh.folding import parts_along
from distir.transform.order import DISTRIBUTED, SHARDS, STATE_ON_HOSTS
from distir.transform.pipeline import OPTION_WORDS, SCHEDULES, SUMS, count_of, per_device, pipeline_of, schedule_count
from distir.transform.sharding import (
    CONTEXTS,
    DISPATCHERS,
    Holders,
    Owned,
    TensorPlan,
    by_owner,
    dispatched_in_parts,
    expert_states,
    expert_weights,
    marked_for_context,
    order_of,
    owned_weights,
    router_of,
    sequence_states,
    sequences,
    sequential,
    shards_of_expert,
    split,
    tell_of_experts,
    with_dispatcher,
    with_groups,
    with_joined_sums,
    with_owners,
    with_roles,
)
from distir.transform.sharding.classes import Settled
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.steps import LARGEST_NODE, LOSS_OPS, Plan, known_ops
from distir.transform.steps import Bytes, StepError, is_heard, step, tell

AXES = "dtp"
LAYOUTS = tuple("".join(axes) for axes in permutations(AXES))


@step(
    after=("cse",),
    before=(DISTRIBUTED, STATE_ON_HOSTS),
    makes=SHARDS,
    choices={"schedule": SCHEDULES, "layout": LAYOUTS, "sums": SUMS, "cp_kind": CONTEXTS, "dispatcher": DISPATCHERS},
    examples=OPTION_WORDS | {"value": ("2,1,1", "1,2,1", "1,1,2", "2,2,2"), "whole": LOSS_OPS},
)
def dtp(
    module: Module,
    value: tuple[int, ...],
    *,
    microbatches: int = 1,
    micro_batch: int = 0,
    schedule: str = "1f1b",
    virtual: int | None = None,
    balance: str = "cost",
    shard: tuple[str, ...] = (),
    bucket_bytes: Bytes = 0,
    layout: str = "pdt",
    sequence: bool = False,
    strict: bool = False,
    hardware: str = "dgx-a100",
    ends: bool = True,
    representative: bool = False,
    sums: str = SUMS[0],
    scatter_gather: bool | None = None,
    in_flight: int = 0,
    context: int = 1,
    cp_kind: str = CONTEXTS[0],
    zigzag: bool | None = None,
    cp_experts: bool = False,
    expert_parallel: int = 0,
    experts: int = 1,
    skew: float = 0.0,
    dispatcher: str = DISPATCHERS[0],
    etp: int = 0,
    memory: str | None = None,
    bind: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
    chunks: int = 1,
) -> Module:
    """Data, tensor and pipeline parallelism in one step: `dtp=2,4,2` is 2 replicas of 2 stages, each of 4 shards.

    A degree of 1 disables its part; `microbatches` with one stage accumulate gradients. `micro_batch` states their size
    instead of their number: the examples in a microbatch of one replica. The other options are those of the steps `dp`,
    `tp` and `pp`.

    `layout` orders the groups from outermost to innermost. Devices of the innermost group are adjacent: in `pdt` shards
    communicate over the fastest links, replicas over the next, and stages, which communicate least, over the slowest.

    `ends=false` omits the functions `.scatter` and `.gather`, which running and verifying need and simulation does not.

    With `representative=true` the program contains one representative of each SPMD group of replicas and shards: it is
    a single pipeline, and its collectives state the size of their group (`GroupAllreduce`). Its time, and its memory
    per device, are those of the whole program if replicas and shards have equal links and share no memory.

    `whole` as in `tp`; `scatter_gather` too: of what all shards of a stage have whole, each sends a part to the next
    stage, which gathers them. It is on in programs of more than 16 devices unless the option says otherwise.

    With `context=N` every shard becomes N devices that share sequences, next to each other but for the shards.
    `cp_kind`, `zigzag` and `cp_experts` as in the step `cp`. Gradients are summed over these and the replicas together.

    `chunks` as in `pp`, with `schedule=seq1f1b`; not with `context`.

    `memory`, and what `balance=memory` makes least, are estimated as if shards split weights and activations evenly.

    With `experts=N`, each N neighbouring replicas share the experts of the model, as after the step `ep`: N divides the
    number of replicas, and each of the N has its part of the experts. `skew` and `dispatcher` as there.
    With `etp` as in the step `tp`: each shard has whole experts, or parts of some, of each of the N replicas' share.

    `expert_parallel=N` says it of all devices of a stage at once, as Megatron's `--expert-model-parallel-size` does.
    They are numbered shards first, then those that share sequences, then replicas: each `etp` neighbours have one part
    of the experts, N of these groups have them all, and the next N have copies. Rows go to their experts by all-to-alls
    between parts of sequences and between replicas, and between shards as with `etp`. Shards that have copies of the
    same experts compute the rows of their own tokens, which takes `sequence=true`.

    Raises ProgramError if one of these steps does.
    """
    degrees, taken_whole = _degrees(value), known_ops("whole", whole)
    if context < 1:
        raise StepError(f"`context` expected 1 or more devices that share the sequence, found {context}")
    if context > 1 and chunks > 1:
        raise StepError("sequences are cut into `chunks`, or shared by devices with `context`: give one of the two")
    if layout not in LAYOUTS:
        raise StepError(f"`layout` expected the letters d, t and p, outermost first, found `{layout}`")
    d, t, p = (degrees[axis] for axis in AXES)
    if experts < 1 or d % experts:
        raise StepError(f"`experts` expected a divisor of the number of replicas, {d}, found {experts}")
    cut = shards_of_expert(etp, t)
    if expert_parallel and (experts > 1 or cp_experts):
        raise StepError("leave out `experts` and `cp_experts` beside `expert_parallel`, which says it of all devices")
    if expert_parallel:
        of_shards, of_sequences, experts = parts_along(expert_parallel, t // cut, context, d)
        held = Holders(t // cut // of_shards, of_shards, cut)
        shared = Holders(context // of_sequences, of_sequences)
    else:
        held = Holders(owners=t // cut, cut=cut)
        shared = Holders(owners=context) if cp_experts else Holders(copies=context)
    if held.copies > 1 and not sequence:
        same = f"{held.copies} shards have the same experts, each for its own tokens"
        raise StepError(f"{same}: `sequence=true` gives them these")
    microbatches = schedule_count(schedule, count_of(module, microbatches, micro_batch, d))
    with paused_collection():
        order, parts, groups = IN_ORDER, experts * held.owners * shared.owners, 1
        if d * context > 1:
            module = with_counted_losses(module)
        if context > 1:
            module = marked_for_context(module, cp_kind)
            order = order_of(module, cp_kind, zigzag)
            if cp_experts:
                parts *= order.parts(context) // context
            elif expert_parallel:
                shared, groups = replace(shared, order=order), order.parts(context)
            else:
                tell_of_experts(module, context)
        if held.copies > 1:
            groups *= t
        undivided = module
        if groups > 1:
            apart = shared.owners > 1 or held.copies > 1
            module = with_groups(module, groups) if apart else dispatched_in_parts(module, groups, context)
        if parts > 1:
            module = with_owners(module, parts, skew)
        piped = p > 1 or microbatches > 1 or chunks > 1
        virtual, room = per_device(schedule, virtual, chunks), memory if p > 1 else None
        spread = (d * context, t) if balance == "memory" or room is not None else (1, 1)  # only memory depends on it
        how = (schedule, virtual, balance, hardware, sums, in_flight, room, bind, *spread)
        options = (module, p, microbatches, *how)
        if p > 1 and is_heard():
            for line in pipeline_of(*options).lines:
                tell(line)
        if piped and d == t == context == 1:
            return _pipeline(*options)
        analysis, flow = sequential(module)
        weights: Owned = {}
        if parts > 1:
            weights = owned_weights(entry_of(module), flow.entry(entry_of(module)))
        elif held.copies > 1:
            weights = expert_weights(module)
        shards = TensorPlan(t, shard, strict, representative, holders=held)
        if t > 1 and not shard:
            shards.settled = _settled(module)
        written = _Distribution(
            undivided,
            module,
            module,
            analysis,
            shards,
            weights,
            degrees | {"c": context, "e": experts},
            layout,
            ends,
            representative,
        )
        if piped:
            written.pipeline(*_analysed(*options))
        if context > 1:
            written.share_sequences(order, shared)
        if t > 1:
            cut_sends = d * context * t * p > LARGEST_NODE if scatter_gather is None else scatter_gather
            written.split_tensors(sequence, cut_sends, taken_whole)
        if experts > 1:
            written.split_experts(dispatcher)
        if d > experts or t == context == experts == 1:
            written.replicate(bucket_bytes)
        return written.done()


@dataclass
class _Distribution:
    """A program that is split along one mesh axis after the other, and what the next axis needs to know of it."""

    sequential: Module
    """The program on one device, as given."""
    given: Module
    """The same with rows for each owner of experts, and tokens dispatched in as many parts as a sequence has."""
    made: Module
    analysis: Analysis
    shards: TensorPlan
    weights: Owned
    """The weights of experts, by parameter of the program so far."""
    degrees: Mapping[str, int]
    """How many devices there are along each axis: d, t and p; c of them share sequences, and e experts."""
    layout: str
    ends: bool
    representative: bool
    batch: dict[str, Dim] = field(default_factory=dict[str, Dim])
    """By named dimension of the batch: its size in the final program."""
    sources: dict[str, str] | None = None
    """By parameter of a pipeline: that of the program on one device."""

    def pipeline(self, analysis: Analysis, batch: dict[str, Dim]) -> None:
        """Continue with a pipeline of the program."""
        self.analysis, self.made, self.batch = analysis, analysis.module, batch
        self.sources = sources = _sources(self.made)
        self.shards.settled = self.shards.settled and self.shards.settled.of(sources)
        self.weights = {name: self.weights[source] for name, source in sources.items() if source in self.weights}

    def share_sequences(self, order: Order, holders: Holders) -> None:
        """Let devices share sequences, and experts as these say."""
        context, before = self.degrees["c"], entry_of(self.made)
        along = sequences(self.sequential)
        if self.sources is not None:
            along = along.of(self.sources)

        def places(analysis: Analysis, entry: Function) -> Sequence[State]:
            return by_owner(entry, sequence_states(entry, along, context, order), self.weights, holders)

        self._split(context, self._stride("c", "p"), places, order=order, factors=holders.factors)
        self._check(f"cp={context}", self.given)
        self.shards.settled = self.shards.settled and self.shards.settled.of(_copies(before, entry_of(self.made)))
        self._weights_of_shards(before)

    def split_tensors(self, sequence: bool, cut_sends: bool, whole: frozenset[str]) -> None:
        """Split tensors over shards, as the plan says."""
        t, before = self.degrees["t"], entry_of(self.made)
        self.shards.owned = self.weights if self.shards.is_apart else None
        stride, piped = self._stride("t", "pc"), self.sources is not None
        if self.degrees["c"] > 1 or self.shards.is_apart or self.shards.strict or is_heard():
            more: dict[str, Any] = {"cut_sends": cut_sends, "whole": whole, "factors": self.shards.holders.factors}
            self._split(t, stride, self.shards, 0, sequence, report=self.shards.report, **more)
        else:  # without a report, plans with other numbers of replicas may share the program
            how = (stride, sequence, self.ends, self.representative, cut_sends, whole)
            self.made = _shards(self.given, self.analysis, piped, t, self.shards.by_hand, *how)
        if self.degrees["d"] > 1:
            self.analysis = _checked_shards(self.given, self.made, t)
        self._weights_of_shards(before)

    def split_experts(self, dispatcher: str) -> None:
        """Let neighbouring replicas have a part of the experts each."""
        experts, stride, of_one = self.degrees["e"], self._stride("d", "pct"), self.made

        def owners(analysis: Analysis, entry: Function) -> Sequence[State]:
            return expert_states(analysis, entry, experts, self.weights)

        self._split(experts, stride, owners)
        self.made = with_dispatcher(of_one, self.made, experts, stride, router_of(self.given, dispatcher))
        if self.degrees["d"] > experts:
            self._check(f"experts={experts}", of_one)

    def replicate(self, bucket_bytes: int) -> None:
        """Split the batch over replicas, or over groups of those that share experts."""
        experts = self.degrees["e"]
        count, stride = self.degrees["d"] // experts, self._stride("d", "pct")

        def replicas(analysis: Analysis, entry: Function) -> Sequence[State]:
            return batch_states(analysis, entry, count)

        self._split(count, stride * experts, replicas, bucket_bytes)
        if count > 1 and experts > 1:
            self.made = with_joined_sums(self.made, experts, count, stride)

    def done(self) -> Module:
        """The program, with sums over neighbouring axes joined, and the roles of its devices."""
        context, d, nested, made = self.degrees["c"], self.degrees["d"], self._nested, self.made
        joined = context > 1 and nested.index("d") + 1 == nested.index("c")
        if joined and d > 1:
            made = with_joined_sums(made, context, d)
        if context > 1:
            made = with_roles(made, context=context)
        if self.representative and (d > 1 or joined):
            made = with_roles(made, replicas=d * context if joined else d)
        return _resized(made, self.batch)

    @property
    def _nested(self) -> str:
        """The axes, outermost first."""
        return self.layout.replace("t", "ct")

    def _stride(self, axis: str, done: str) -> int:
        """The stride between two neighbours along a mesh axis, for the axes applied so far."""
        inside = self._nested[self._nested.index(axis) + 1 :]
        return math.prod(self.degrees[other] for other in inside if other in done)

    def _split(
        self, size: int, stride: int, plan: Plan, bucket_bytes: int = 0, sequence: bool = False, **more: Any
    ) -> None:
        ends, representative = self.ends, self.representative
        self.made = split(
            self.made, size, stride, plan, bucket_bytes, sequence, self.analysis, ends, representative, **more
        )

    def _check(self, step: str, before: Module) -> None:
        self.analysis = checked_result(step, before, self.made, entry_of(self.made).name)

    def _weights_of_shards(self, before: Function) -> None:
        sources = _copies(before, entry_of(self.made))
        self.weights = {name: self.weights[source] for name, source in sources.items() if source in self.weights}


@kept_per_thread(4)  # plans that differ in the number of replicas have the same shards
def _shards(
    module: Module,
    analysis: Analysis,
    piped: bool,
    size: int,
    by_hand: tuple[str, ...],
    stride: int,
    sequence: bool,
    ends: bool,
    representative: bool,
    cut_sends: bool,
    whole: frozenset[str],
) -> Module:
    """The analysed program, `module` or its pipeline, with tensor parallelism. Raises as `split`."""
    settled = None if by_hand else _settled(module, analysis.module if piped else None)
    plan = TensorPlan(size, by_hand, representative=representative, settled=settled)
    how = (ends, representative)
    return split(analysis.module, size, stride, plan, 0, sequence, analysis, *how, cut_sends=cut_sends, whole=whole)


@kept_per_thread(4)
def _checked_shards(module: Module, made: Module, size: int) -> Analysis:
    """The analysis of shards. Raises ProgramError, DIR606."""
    return checked_result(f"tp={size}", module, made, entry_of(made).name)


def _settled(module: Module, pipeline: Module | None = None) -> Settled:
    """The dimensions of the parameters, found in the program on one device, for it or for the pipeline made of it."""
    found = sequential(module)[1].entry(entry_of(module))
    return found if pipeline is None else found.of(_sources(pipeline))


@lru_cache(maxsize=16)  # a search requests the same pipeline with other degrees of data and tensor parallelism
def _pipeline(module: Module, stages: int, microbatches: int, *options: Any) -> Module:
    return pipeline_of(module, stages, microbatches, *options).written


@kept_per_thread(16)
def _analysed(module: Module, stages: int, microbatches: int, *options: Any) -> tuple[Analysis, dict[str, Dim]]:
    """The checked pipeline, and the substitution for the named dimensions of its batch.

    A microbatch's batch is named `B` here, as the whole batch is in the pipeline: then stages do not depend on the
    number of microbatches. The substitution, applied at the end, restores `B`.
    """
    made = _pipeline(module, stages, microbatches, *options)
    names = _batch_names(made)
    smaller = _resized(made, {name: dims.multiply(dims.named(name), microbatches) for name in names})
    analysis = checked_result(f"pp={stages}", module, smaller, entry_of(smaller).name)
    back = {name: dims.divide(dims.named(name), microbatches) for name in names}
    return analysis, back


def _sources(module: Module) -> dict[str, str]:
    """By parameter of a pipeline: the corresponding parameter of the program on one device."""
    entry = entry_of(module)
    scatter = module.functions[f"{entry.name}.scatter"]
    sent = {s.results[0]: str(s.args[0]) for s in ops_in(scatter)}
    return {p.name: sent.get(str(arg), str(arg)) for p, arg in zip(entry.params, scatter.returned, strict=True)}


def _copies(before: Function, after: Function) -> dict[str, str]:
    """By parameter of a partitioned program: the parameter of which it is a shard or a copy."""
    names = iter(p.name for p in after.params)
    count = (len(after.params) - (hosts := sum(is_host(p.type) for p in before.params))) // max(
        1, len(before.params) - hosts
    )
    return {next(names): p.name for p in before.params for _ in range(1 if is_host(p.type) else count)}


def _batch_names(module: Module) -> set[str]:
    """The named dimensions of the entry function's batch."""
    entry = entry_of(module)
    found: set[str] = set()
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int):
            shapes = [leaf.shape for leaf in types.leaves(param.type) if isinstance(leaf, TensorType) and leaf.shape]
            found.update(str(dim) for shape in shapes if isinstance(dim := shape[axis], SymbolicDim))
    return {name for name in found if name.isidentifier()}


def _resized(module: Module, dimensions: Mapping[str, Dim]) -> Module:
    """The program with named dimensions of its entry function substituted."""
    if not dimensions:
        return module
    return module.replacing(*(with_sizes(module.functions[name], dimensions) for name in entry_names(module)))


def _degrees(value: tuple[int, ...]) -> dict[str, int]:
    if len(value) != len(AXES) or min(value, default=0) < 1:
        found = ",".join(map(str, value))
        raise StepError(f"`dtp` expected three degrees of 1 or more, as in `dtp=2,4,1`, found `{found}`")
    return dict(zip(AXES, value, strict=True))
