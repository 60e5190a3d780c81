"""Data parallelism: which parameters are split, and along which dimension. Their `{batch}` roles say it."""

from __future__ import annotations

from distir.analysis import Analysis
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import Apply, Function, Param, Part, Site, TensorType, Type, types
from distir.ops import OPS, Reject, type_of
from distir.ops.layout import Blocks
from distir.ops.splitting import layout
from distir.placement.along import Split, State, whole_like
from distir.placement.part_types import whole_block
from distir.transform.sharding.batch import no_batch
from distir.transform.sharding.sizes import check_divides


def batch_states(analysis: Analysis, entry: Function, size: int) -> list[State]:
    """A state for each parameter. Raises ProgramError where no batch is, or it does not divide."""
    if not any("batch" in p.roles for p in entry.params):
        raise ProgramError([no_batch(entry)])
    return [_state(analysis, entry, i, p, size) for i, p in enumerate(entry.params)]


def _state(analysis: Analysis, entry: Function, index: int, param: Param, size: int) -> State:
    axis = param.roles.get("batch")
    if axis is None:
        return whole_like(param.type)
    whole = axis if isinstance(axis, int) and not isinstance(axis, bool) else None
    for leaf in types.leaves(param.type):
        rank = len(leaf.shape) if isinstance(leaf, TensorType) and leaf.shape is not None else 0
        if whole is None or not -rank <= whole < rank:
            message = f"`%{param.name}` has no dimension {axis} that is known: it is `{leaf}`"
            raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(entry.name, None, Part("param", index)), message)])
    assert whole is not None
    return _along(param.type, whole, entry, index, size, _blocks(analysis, entry, param.name, whole))


def _along(type: Type, axis: int, entry: Function, index: int, size: int, blocks: Blocks) -> State:
    if isinstance(type, types.TupleType):
        return tuple(_along(item, axis, entry, index, size, blocks) for item in type.items)
    assert isinstance(type, TensorType)
    assert type.shape is not None
    place = axis % len(type.shape)
    site = Site(entry.name, None, Part("param_type", index))
    named = f"`%{entry.params[index].name}` dimension {place}"
    for block in blocks:
        check_divides(whole_block(block), size, f"in a microbatch, {named}", site, "; or take fewer microbatches")
    check_divides(type.shape[place], size, named, site)
    return Split(place, blocks)


def _blocks(analysis: Analysis, entry: Function, name: str, axis: int) -> Blocks:
    """The microbatches into which the entry function cuts the batch, if it does: every replica has a part of each."""
    state = analysis.domain.instance(entry.name, tuple(p.type for p in entry.params)).state
    for statement in entry.body:
        if isinstance(statement, Apply) and name in statement.args and statement.op in OPS:
            vs = state(statement.args)
            ws = [type_of(w) for w in analysis.domain.answer(statement, vs)]
            try:
                found = layout(OPS[statement.op], vs, ws, statement.attrs)
            except Reject:
                continue
            place = (statement.args.index(name), axis)
            if found is not None and place in found.operand_blocks:
                return found.operand_blocks[place]
    return ()
