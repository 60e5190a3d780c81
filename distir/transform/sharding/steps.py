"""The steps `dp` and `tp`, and `split`, on which both are based."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from distir.analysis import Analysis, analysed, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Constant, Function, Module, Site, dims
from distir.ir.collection import paused_collection
from distir.ir.per_thread import kept_per_thread
from distir.ops import OPS
from distir.ops.host import MOST_ENTRIES
from distir.placement.along import State
from distir.transform.as_sums import with_counted_losses
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.order import SHARDS
from distir.transform.sharding.batch import tokens
from distir.transform.sharding.classes import Settled
from distir.transform.sharding.data import batch_states
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.joined import with_joined_sums
from distir.transform.sharding.mesh import IN_ORDER, Order, Place, mesh_of
from distir.transform.sharding.owned import owners_of
from distir.transform.sharding.ownership import Holders, Owned, by_owner, owned_weights, with_owners
from distir.transform.sharding.partition import Partition
from distir.transform.sharding.scatter_gather import gather, scatter
from distir.transform.sharding.shares import Shares, refuse_heavy, shares, undivided
from distir.transform.sharding.spread import no_sequence
from distir.transform.sharding.tensor import parameter_states, reasons
from distir.transform.steps import Bytes, Count, StepError, doubling, is_heard, step, tell

Plan = Callable[[Analysis, Function], Sequence[State]]
"""Determines the placement of the entry function's parameters. Raises ProgramError if there is none."""

LARGEST_NODE = 16
"""The most devices assumed to be in one node, with fast links between all of them."""

LOSS_OPS = ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad")
"""Examples of ops that shards may compute from whole operands."""

Report = Callable[[Analysis, Function, Sequence[State], Module], None]
"""A callback for the partitioned program, its entry function, the placement of its parameters, and the result."""


@step(after=("pp", "accumulate", "tp", "ep"), makes=SHARDS, tries=doubling("dp={}"))
def dp(module: Module, value: Count, *, bucket_bytes: Bytes = 0) -> Module:
    """Data parallelism: every device becomes `value` replicas, outermost, each with a part of the batch.

    The parameters marked `{batch = axis}` are split, all others are copied. What a replica finds for its part alone,
    the gradients above all, is summed over the replicas where it is needed whole, once for each value: over those that
    share sequences (`cp`) or experts (`ep`) at the same time. With `bucket_bytes` such sums are joined into messages of
    at least so many bytes, where they wait for nothing.

    Raises ProgramError where no parameter has a batch, or it does not divide.
    """
    module = with_counted_losses(module) if value > 1 else module
    made = split(module, value, "outermost", lambda analysis, entry: batch_states(analysis, entry, value), bucket_bytes)
    if value > 1 and (sharing := owners_of(module)) > 1:
        devices = mesh_of(module, entry_of(module), value, "outermost").count
        made = with_joined_sums(made, sharing, value, devices // sharing)
    context = max((_number(p.roles.get("context")) for p in entry_of(module).params), default=1)
    return with_joined_sums(made, context, value) if context > 1 and value > 1 else made


def _number(value: Constant | None) -> int:
    return value if isinstance(value, int) else 1


@step(after=("pp", "accumulate"), makes=SHARDS, examples={"whole": LOSS_OPS}, tries=doubling("tp={}"))
def tp(
    module: Module,
    value: Count,
    *,
    shard: tuple[str, ...] = (),
    sequence: bool = False,
    strict: bool = False,
    scatter_gather: bool | None = None,
    whole: tuple[str, ...] = (),
    etp: int = 0,
    skew: float = 0.0,
) -> Module:
    """Tensor parallelism: every device becomes `value` shards, innermost, each with a part of the parameters.

    Split are the dimensions that are met inside a block only: hidden widths, heads, channels, the inner widths of
    experts and state-space layers, the vocabulary. Partial sums are summed over the shards where they are needed whole.
    Of a fused weight, some blocks may be split and others shared, as a head of keys that all queries use.
    `shard=w1:1,w2:0` states instead which parameters are split along which dimensions.

    With `sequence=true` what is between such blocks (normalisation, residual sums) is split along the sequence: a sum
    is scattered where it was given to all, and gathered where a block begins.

    With `etp=1`, expert tensor parallelism of 1, experts are not split: each shard has some of them whole, computes the
    rows of all tokens that chose them, and what it adds to a token is summed over the shards (Megatron's
    `--expert-tensor-parallel-size 1` with its all-gather dispatcher). Products are as wide as experts are, and no more
    is communicated. With `etp=2`, each two neighbours split some of them. `skew` as in the step `ep`.

    Of what all shards of a pipeline's stage have whole, each sends a part to the next stage, which gathers them: so the
    slower links between stages carry it once (Megatron's scatter-gather optimization). Without the option that is so in
    programs of more than 16 devices, whose stages are on several nodes; inside a node the gather takes longer than it
    saves. With `scatter_gather=false` each shard sends all of it.

    `whole=SoftmaxCrossEntropyLoss,SoftmaxCrossEntropyLossGrad` names ops that every shard computes by itself of whole
    operands, gathered before: so logits are, as where a framework has no loss of parts of the vocabulary.

    A note says each device's share of FLOPs and weights, and which parameters are replicated and why.

    Raises ProgramError where there is nothing to split, or a dimension does not divide; with `strict=true` also where
    something heavy is replicated: 1 % of the weights in a parameter, or of all FLOPs.
    """
    cut = shards_of_expert(etp, value)
    plan = TensorPlan(value, shard, strict, holders=Holders(owners=value // cut, cut=cut))
    if plan.is_apart:
        module = with_owners(module, plan.holders.owners, skew)
    return split(
        module,
        value,
        "innermost",
        plan,
        sequence=sequence,
        report=plan.report,
        cut_sends=scatter_gather,
        whole=known_ops("whole", whole),
        factors=plan.holders.factors,
    )


def known_ops(option: str, names: Iterable[str]) -> frozenset[str]:
    """Names of ops that an option gives. Raises StepError for another."""
    for name in names:
        if name not in OPS:
            near = nearest(name, OPS)
            hint = f"; did you mean `{near}`?" if near else ""
            raise StepError(f"`{option}` expected names of ops, found `{name}`{hint}")
    return frozenset(names)


def shards_of_expert(etp: int, shards: int) -> int:
    """Over how many of the shards each expert is split, by the option `etp`. Raises StepError for no divisor."""
    if etp < 0 or shards % (etp or shards):
        over = "over so many of which each expert is split"
        raise StepError(f"`etp` expected a divisor of {shards} shards, {over}, found {etp}")
    return etp or shards


@dataclass
class TensorPlan:
    """The plan of `tp` for `size` devices, and its report. `written`: the devices that the result contains."""

    size: int
    by_hand: tuple[str, ...] = ()
    strict: bool = False
    representative: bool = False
    settled: Settled | None = None
    """The dimensions of the parameters, where they are known already."""
    holders: Holders = field(default_factory=Holders)
    """How devices hold experts, where it is not a part of every one."""
    owned: Owned | None = None
    """The weights of these experts, where they are known already."""

    def __call__(self, analysis: Analysis, entry: Function) -> Sequence[State]:
        """The placement of the entry function's parameters. Raises ProgramError where nothing can be split."""
        if self.settled is None:
            self.settled = Flow(analysis.domain).entry(entry)
        if self.is_apart and self.owned is None:
            self.owned = owned_weights(entry, self.settled)
        owned, cut = self.owned or {}, self.holders.cut
        states = parameter_states(entry, self.size, self.by_hand, self.settled, owned)
        if owned and cut > 1:
            inner = parameter_states(entry, cut, self.by_hand, self.settled)
            states = [i if p.name in owned else s for p, s, i in zip(entry.params, states, inner, strict=True)]
        return by_owner(entry, states, owned, self.holders)

    @property
    def is_apart(self) -> bool:
        """Whether experts are split otherwise than all else."""
        return self.holders.copies * self.holders.owners > 1

    def shares(self, analysis: Analysis, entry: Function, states: Sequence[State], made: Analysis) -> Shares:
        """The shares of the result."""
        assert self.settled is not None
        why = reasons(entry, states, self.size, "shard" if self.by_hand else "", self.settled)
        return shares(analysis, made, entry, states, self.size, 1 if self.representative else self.size, why)

    def report(self, analysis: Analysis, entry: Function, states: Sequence[State], made: Module) -> None:
        """Report the result, if there is a listener. Raises ProgramError where that is too little for `strict`."""
        if self.strict or is_heard():
            found = self.shares(analysis, entry, states, analysed(made))
            if self.strict:
                refuse_heavy(found, entry)
            for line in found.lines:
                tell(line)


@kept_per_thread(4)
def sequential(module: Module) -> tuple[Analysis, Flow]:
    """A checked program and the analysis of its dimensions, cached for searches."""
    analysis = checked(module)
    return analysis, Flow(analysis.domain)


@lru_cache(maxsize=64)
def tensor_shares(module: Module, size: int) -> Shares:
    """Each device's share of FLOPs and weights after `tp=size`. Raises ProgramError as `tp` does."""
    found: list[Shares] = []
    analysis, flow = sequential(module)
    entry = module.entry()
    settled = flow.entry(entry) if entry is not None else None
    plan = TensorPlan(size, representative=True, settled=settled)

    def report(analysis: Analysis, entry: Function, states: Sequence[State], made: Module) -> None:
        found.append(plan.shares(analysis, entry, states, check(made, late=True)))

    split(module, size, "innermost", plan, analysis=analysis, representative=True, report=report)
    return found[0]


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
    report: Report | None = None,
    cut_sends: bool | None = False,
    order: Order = IN_ORDER,
    whole: frozenset[str] = frozenset(),
    factors: tuple[int, ...] = (),
) -> Module:
    """The module with each of its devices made `size` devices, and its parameters placed as `plan` says.

    With `sequence` sums are spread over the devices along dimensions that are neither batch nor features. Gives the
    entry function for all devices, the functions that it calls, and with `ends` its `.scatter` and `.gather`. Raises
    ProgramError if the module does not check, or cannot be split so. `analysis`: that of the module, if it was checked
    already. `representative`: the program contains only the first of the devices that one becomes (see `ops/group.py`).
    `report` receives the result; without it, work that is not divided is reported. `cut_sends`: send values that all
    devices of a group hold whole in parts; None: in programs of more than `LARGEST_NODE` devices. `order`: which parts
    of a split value a device has. `whole`: ops that each device computes from whole operands. `factors`: the numbers of
    devices, outermost first, along which the plan places values differently (`Nested`).
    """
    analysis = analysis or checked(module)
    entry = module.entry()
    most = dims.LARGEST if representative else MOST_ENTRIES
    if entry is None or not 1 <= size <= most:
        message = "the module has no function" if entry is None else f"expected 1 to {most} devices, found {size}"
        raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(entry.name) if entry else None, message)])
    if size == 1:
        return module
    mesh = mesh_of(module, entry, size, place, representative, order)
    if cut_sends is None:
        cut_sends = mesh.count * size > LARGEST_NODE
    mesh = replace(mesh, cut_sends=cut_sends, whole=whole, factors=factors)
    with paused_collection():
        partition = Partition(analysis, mesh, tokens(analysis, entry) if sequence else None)
        states = plan(analysis, entry)
        done = partition.entry(entry, states, bucket_bytes)
        if sequence and not partition.spread:
            raise ProgramError([no_sequence(entry, size)])
        functions = [*partition.functions.values()]
        if ends:
            functions.append(scatter(module, entry, states, mesh))
            functions.append(gather(module, entry, done.function, done.result_values, done.results, mesh))
        made = Module(functions)
        if report is not None:
            report(analysis, entry, states, made)
        elif is_heard():
            for line in undivided(analysis, analysed(made), entry, size, 1 if representative else size):
                tell(line)
        return made
