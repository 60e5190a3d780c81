"""The work of one execution of an op, from its definition and the types of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from distir.diagnostics.codes import simulation as codes
from distir.ir import HOST, AnyType, Attributes, Dim, Part, SymbolicDim, TensorType, TupleType, Type, dims, types
from distir.ir.registry import DefinitionError
from distir.ops.attributes import bind
from distir.ops.core import Amount, Op
from distir.ops.group import REPRESENTATIVE_OPS
from distir.ops.infer import Value, leaf_calls, match_operands, tuple_structure, type_of
from distir.ops.resources import AWAITED, NO_WORK, ROUTED, Communication, Product, Routed, Work
from distir.ops.unify import Bindings, Reject

COUNTING = frozenset({"Dispatch"})
"""The ops that count the rows of what follows: a host that sizes buffers by them waits for them."""


def work(op: Op, args: Sequence[Value], results: Sequence[Type], attrs: Attributes) -> Work:
    """The work of one execution. Raises Reject for an unknown size, and for an op without declared work."""
    if op.view or not any(types.devices(t) for t in results):  # host results are known before the program runs
        return AWAITED if op.awaits and attrs.get("blocking") is True else NO_WORK
    structure = tuple_structure(op, args)
    if structure is not None:
        columns = [tuple(cast(TupleType, r).items[i] for r in results) for i in range(structure)]
        calls = zip(leaf_calls(args, structure), columns, strict=True)
        return _total([work(op, leaf, leaf_results, attrs) for leaf, leaf_results in calls])
    bound = bind(op, attrs)
    matched = match_operands(op, args, bound)
    operands = [type_of(v) for v in matched.values if v is not None]
    if op.communication is not None:
        return Work(communication=_communication(op, operands, results, bound))
    if op.copies:
        return Work(copied=sum(_bytes(op, t) for t in results))
    if op.flops is None:
        message = f"`{op.name}` declares no work, so its time is unknown"
        raise Reject(codes.NO_COST_RULE, message, Part("callee"), help="give its definition `flops`")
    letters = _letters(op, matched.bindings, operands, results, bound)
    letters["given"] = {op.operand_name(i): v for i, v in enumerate(matched.values) if v is not None}
    moved = [*operands, *results]
    letters["moved"] = sum(_bytes(op, t) for t in moved)
    traffic = letters["moved"] if op.bytes is None else _amount(op, "bytes", letters)
    floating = [t.dtype for t in moved if isinstance(t, TensorType) and t.device != HOST and t.dtype is not None]
    dtype = next((d for d in floating if d.kind == "float"), floating[0] if floating else None)
    flops = _amount(op, "flops", letters)
    found = op.contraction(**letters) if op.contraction is not None and flops else None
    several = isinstance(found, list)
    contractions = tuple(found) if several else () if found is None else (Product(dtype, flops, found),)
    others = tuple((one.dtype, one.flops) for one in contractions) if several else ()
    temporary = _amount(op, "temporary", letters)
    return Work(
        flops,
        traffic,
        dtype,
        temporary=temporary,
        others=others,
        contractions=contractions,
        counts=op.name in COUNTING,
    )


def _letters(
    op: Op, bindings: Bindings, operands: Sequence[Type], results: Sequence[Type], bound: Attributes
) -> dict[str, Any]:
    """The keyword arguments of `flops`, `bytes` and `temporary`. An unknown size is an error only if it is used."""
    letters: dict[str, Any] = dict(bound)
    letters |= {name: dtype.bytes for name, dtype in bindings.dtypes.items()}
    letters |= bindings.dims
    letters |= {name: dims.product(shape) for name, shape in bindings.segments.items()}
    letters |= {name: dims.total(sizes) for name, sizes in bindings.indexed_dims.items()}
    letters["batch"] = None if bindings.broadcast is None else dims.product(bindings.broadcast)
    letters["N"] = bindings.count
    letters["elements"] = sum(_elements(op, t) for t in results)
    letters["inputs"] = sum(_elements(op, t) for t in operands)
    letters["shapes"] = [t.shape for t in operands if isinstance(t, TensorType)]
    for name, value in letters.items():
        if isinstance(value, SymbolicDim):
            raise _unknown(op, f"`{name}` is `{value}`")
    return letters


def _amount(op: Op, what: Literal["flops", "bytes", "temporary"], letters: dict[str, Any]) -> int:
    amount: Amount = getattr(op, what)
    given = amount * letters["elements"] if isinstance(amount, int) else amount(**letters)
    try:
        found = int(given)
    except (TypeError, ValueError, OverflowError):  # no number, nan, infinity
        found = -1
    if found < 0:
        raise DefinitionError(f"`{what}` of the op `{op.name}` is {given!r}, expected a number from 0")
    return found


def _elements(op: Op, type: Type) -> int:
    return sum(_known(op, None if isinstance(t, AnyType) else t.elements, t) for t in types.leaves(type))


def _bytes(op: Op, type: Type) -> int:
    return _known(op, types.nbytes(type), type)


def _known(op: Op, size: Dim, type: Type) -> int:
    if isinstance(size, int):
        return size
    raise _unknown(op, f"the size of `{type}` is unknown")


def _unknown(op: Op, why: str) -> Reject:
    hint = "type the entry function's parameters, or bind named dimensions with `--bind`; a size that data decides "
    hint += "can be claimed beside a result's name, as in `%i: Tensor[Int64, (2, 16), 1] = NonZero(%x)`"
    return Reject(codes.UNKNOWN_COST, f"the time of `{op.name}` is unknown: {why}", Part("callee"), help=hint)


def _communication(op: Op, operands: Sequence[Type], results: Sequence[Type], attrs: Attributes) -> Communication:
    pattern = op.communication
    assert pattern is not None
    whole = results if pattern in ("gather", "allgather") else operands
    payload = max((_bytes(op, t) for t in whole), default=0)
    rooted_at_operand = pattern in ("send", "broadcast", "scatter")
    rooted = operands if rooted_at_operand else results if pattern in ("gather", "reduce") else ()
    root = min((d for t in rooted for d in types.devices(t)), default=None)
    return Communication(pattern, payload, root, _group(op, attrs), _routed(attrs) if pattern == "alltoall" else None)


def _routed(attrs: Attributes) -> Routed | None:
    """How often an all-to-all has each token, and where these go; None for another, or with one row of each."""
    top_k, groups, limit = (n if isinstance(n := attrs.get(name, 1), int) else 1 for name in ROUTED)
    return Routed(top_k, groups, limit) if top_k > 1 else None


def _group(op: Op, attrs: Attributes) -> tuple[int, int] | None:
    """The size and the stride of the group of an op on a representative device; None for other ops."""
    size, stride = (attrs.get(name) if op.name in REPRESENTATIVE_OPS else None for name in ("size", "stride"))
    return (size, stride) if isinstance(size, int) and isinstance(stride, int) else None


def _total(works: Sequence[Work]) -> Work:
    """The work of one op on several leaves together."""
    first = works[0].communication if works else None
    communication = None
    if first is not None:
        payload = sum(w.communication.nbytes for w in works if w.communication is not None)
        communication = replace(first, nbytes=payload)
    return Work(
        sum(w.flops for w in works),
        sum(w.bytes for w in works),
        next((w.dtype for w in works if w.dtype is not None), None),
        communication,
        sum(w.temporary for w in works),
        contractions=tuple(one for w in works for one in w.contractions),
        copied=sum(w.copied for w in works),
    )
