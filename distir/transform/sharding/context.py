"""Context parallelism: the step `cp`. Devices split the sequence, and communicate for attention.

To the partitioner it is a split of the inputs along the sequence. All ops but attention are independent by position;
attention has an attribute `context`, for which its rules write the communication. Weights are replicated, and their
gradients summed over the devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distir.analysis import Analysis
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import DISCARD, Apply, Attributes, Function, Module, Param, Part, Site, Statement, TensorType, ops_in
from distir.ir.per_thread import kept_per_thread
from distir.ir.rewrite import mapped
from distir.ir.roles import is_held
from distir.ops.attention import CONTEXTS
from distir.ops.layout import Blocks, Repeated
from distir.placement.along import Split, State, whole_like
from distir.placement.part_types import whole_block
from distir.transform.as_sums import with_counted_losses
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.order import SHARDS
from distir.transform.sharding.classes import Pieces, Settled, is_one
from distir.transform.sharding.flow import Flow
from distir.transform.sharding.grouped import with_groups
from distir.transform.sharding.joined import with_roles
from distir.transform.sharding.mesh import IN_ORDER, Order
from distir.transform.sharding.ownership import Holders, by_owner, owned_weights, with_owners
from distir.transform.sharding.sizes import divisors
from distir.transform.sharding.steps import split
from distir.transform.steps import Count, StepError, doubling, step, tell

ATTENTION = frozenset({"Attention", "AttentionGrad"})


@step(after=("pp", "accumulate"), makes=SHARDS, choices={"cp_kind": CONTEXTS}, tries=doubling("cp={}"))
def cp(
    module: Module,
    value: Count,
    *,
    cp_kind: str = CONTEXTS[0],
    zigzag: bool | None = None,
    cp_experts: bool = False,
    skew: float = 0.0,
    representative: bool = False,
) -> Module:
    """Context parallelism: every device becomes `value` devices, innermost, each with a part of every sequence.

    `cp_kind` says how queries of one part meet the keys of all:

    - `allgather`: keys and values are gathered before attention, and again in its backward pass, which scatters the
      sums of their gradients (Llama 3, arXiv:2407.21783, section 3.3.2).
    - `a2a`: an all-to-all gives each device whole sequences of a part of the heads, and another one brings the result
      back (DeepSpeed-Ulysses, arXiv:2309.14509). `value` divides the heads, of keys and values too.
    - `ring`: keys and values travel around a ring of the devices, each of which merges what its queries find in one
      part after the other; in the backward pass the gradients of keys and values travel with them (Ring Attention,
      arXiv:2310.01889). What has a mask gathers keys and values.

    With `zigzag`, device i of n has the parts i and 2n - 1 - i of 2n parts of the sequence, and so as many scores of a
    causal triangle as the others. By default that is so where attention is causal, but with `a2a`, where each device
    has whole sequences then.

    Weights are replicated, and their gradients are summed over these devices. Apply `tp` and `dp` after it. A second
    `cp`, after one with `a2a`, splits the sequences of the heads that each device has then. With `representative=true`
    only the first of these devices is written, which represents all of them.

    Where tokens go to experts, they are gathered, and every device computes all their rows. With `cp_experts=true` each
    device has some of the experts, and computes their rows alone; what it adds to a token is summed over the devices.
    With `expert_parallel` of `dtp` each computes the rows of its own tokens, or sends them to their experts, as in
    Megatron. `skew` as in the step `ep`.

    Raises ProgramError where there is no attention, or no input has its sequence, or that does not divide.
    """
    if value == 1:
        return module
    marked = marked_for_context(with_counted_losses(module), cp_kind)
    order, along = order_of(marked, cp_kind, zigzag), sequences(marked)
    if cp_experts:
        marked = with_owners(marked, order.parts(value), skew)
    else:
        tell_of_experts(module, value)

    def placement(analysis: Analysis, entry: Function) -> Sequence[State]:
        states = sequence_states(entry, along, value, order)
        return (
            by_owner(entry, states, owned_weights(entry, Flow(analysis.domain).entry(entry)), Holders(owners=value))
            if cp_experts
            else states
        )

    made = split(marked, value, "innermost", placement, representative=representative, order=order)
    shared = value * max(
        (n for p in entry_of(module).params if isinstance(n := p.roles.get("context"), int)), default=1
    )
    return with_roles(made, context=shared, **({"replicas": shared} if representative else {}))


def marked_for_context(module: Module, kind: str) -> Module:
    """The module with attention marked to be split along the sequence.

    Raises StepError for a kind that there is not, ProgramError where there is no attention, or it cannot be split so.
    """
    if kind not in CONTEXTS:
        near = nearest(kind, CONTEXTS)
        hint = f"did you mean `{near}`?" if near else f"it is one of {', '.join(CONTEXTS)}"
        raise StepError(f"there is no `cp_kind` `{kind}`; {hint}")
    entry = entry_of(module)
    sites = list(_attention(module))
    if not sites:
        message = f"`@{entry.name}` has no attention that could be split along the sequence"
        hint = "it splits the op `Attention`: `distir model` and the importers of models write it"
        raise ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)])
    for site, statement in sites:
        reason = _obstacle(statement)
        if reason:
            raise ProgramError([Diagnostic(codes.BAD_SPLIT, site, f"{reason}, so it is not split along the sequence")])

    def marked(s: Statement) -> Statement:
        if not isinstance(s, Apply) or s.op not in ATTENTION:
            return s
        return replace(s, attrs=Attributes({**s.attrs, "context": kind}))

    return Module(mapped(function, marked) for function in module)


def _attention(module: Module) -> Iterator[tuple[Site, Apply]]:
    for function in module:
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply) and statement.op in ATTENTION:
                yield Site(function.name, index), statement


def _obstacle(statement: Apply) -> str:
    """Why attention cannot be split along the sequence; empty if it can."""
    is_forward = statement.op == "Attention"
    given = [arg != DISCARD for arg in statement.args]
    length, runs = (5, 9) if is_forward else (len(given), 11)
    if any(given[runs : runs + 2]):
        return "this attention is split along the sequence already"
    if any(given[length : length + 1]):
        return "this attention is to a cache, of which places are filled"
    return ""


def tell_of_experts(module: Module, size: int) -> None:
    """Report that tokens are gathered for experts, if there are any."""
    if _has_experts(module):
        rows = f"whose rows each of the {size} devices computes"
        tell(f"tokens are gathered for their experts, {rows}; with `cp_experts=true`, those of its experts")


def dispatched_in_parts(module: Module, parts: int, size: int) -> Module:
    """The module with the tokens of a sequence dispatched to experts in so many parts, if there are any.

    Notes say where they are gathered instead, as where experts have a capacity of them.
    """
    try:
        return with_groups(module, parts) if _has_experts(module) else module
    except ProgramError as error:
        tell_of_experts(module, size)
        tell(f"as {error.diagnostics[0].message}")
        return module


def _has_experts(module: Module) -> bool:
    return any(ops_in(module, "Dispatch"))


def order_of(module: Module, kind: str, zigzag: bool | None) -> Order:
    """Which parts of a sequence a device has; by default in zig-zag if that balances attention.

    Raises StepError if zig-zag is requested and impossible.
    """
    if kind == "a2a":
        if zigzag:
            raise StepError("`zigzag` balances queries, and with `cp_kind=a2a` each device has whole sequences")
        return IN_ORDER
    is_causal = any(statement.attrs.get("is_causal") for _, statement in _attention(module))
    return Order(is_causal if zigzag is None else zigzag)


def along_sequence(analysis: Analysis, entry: Function) -> Settled:
    """The classes of an entry function's dimensions, with sequence dimensions marked."""
    return Flow(analysis.domain, along_sequence=True).entry(entry)


@kept_per_thread(4)
def sequences(module: Module) -> Settled:
    """The same for a sequential program, cached for searches. Raises ProgramError."""
    return along_sequence(checked(module), entry_of(module))


def sequence_states(entry: Function, settled: Settled, size: int, order: Order) -> list[State]:
    """A state for each parameter: inputs are split along the sequence, as far as they have it; weights are not.

    `settled`: as `along_sequence` finds it, of this program or of the one that it is a pipeline of. Raises ProgramError
    where none has it, or it does not divide.
    """
    found = [_state(entry, i, p, settled, size, order) for i, p in enumerate(entry.params)]
    if not any(isinstance(state, Split) for state in found):
        message = f"no input of `@{entry.name}` has the sequence that its attention goes along"
        hint = "where tokens are spread over shards, `cp` comes first: `cp=2 tp=2 sequence=true`, or `dtp … context=2`"
        raise ProgramError([Diagnostic(codes.NOTHING_TO_SPLIT, Site(entry.name), message, (), hint)])
    return found


def _state(entry: Function, index: int, param: Param, settled: Settled, size: int, order: Order) -> State:
    shape = param.type.shape or () if isinstance(param.type, TensorType) and not is_held(param) else ()
    for axis, dim in enumerate(shape):
        if axis == param.roles.get("batch"):
            continue  # if tokens are rows of one dimension, spread over shards, the batch is a part of it
        blocks = _blocks(settled.places.get((param.name, (), axis), ()), settled)
        if blocks is None:
            continue
        for length in (dim, *map(whole_block, blocks)):
            if not isinstance(length, int):
                message = (
                    f"the sequence, `%{param.name}` dimension {axis}, must be a number to be split, found `{length}`"
                )
                site = Site(entry.name, None, Part("param_type", index))
                raise ProgramError([Diagnostic(codes.BAD_SPLIT, site, message)])
            _check_divides(length, size, order, f"`%{param.name}` dimension {axis}", entry, index)
        return Split(axis, blocks)
    return whole_like(param.type)


def _blocks(pieces: Pieces, settled: Settled) -> Blocks | None:
    """The blocks of a sequence dimension; None for any other."""
    if not pieces or not all(settled.traits[of].sequence for of, _ in pieces):
        return None
    if is_one(pieces):
        return ()
    blocks = tuple(block for _, block in pieces if block is not None)
    return blocks if all(isinstance(block, (int, Repeated)) for block in blocks) else None


def _check_divides(length: int, size: int, order: Order, named: str, entry: Function, index: int) -> None:
    if length % order.parts(size) == 0:
        return
    site = Site(entry.name, None, Part("param_type", index))
    if not order.zigzag:
        message = f"{named} is {length}, which does not split over {size} devices"
        hint = f"{divisors(length)} would do"
    else:
        message = f"{named} is {length}, which does not split into {2 * size} parts, two for each of {size} devices"
        hint = f"{divisors(length // 2) if length % 2 == 0 else 'no number of devices'} would do"
        hint += ", or `zigzag=false`" if length % size == 0 else ""
    raise ProgramError([Diagnostic(codes.INDIVISIBLE_SPLIT, site, message, (), hint)])
