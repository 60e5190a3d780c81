"""The operands that attention takes beside queries, keys and values, and what is said of those that do not suit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.codes import types as codes
from distir.ir import (
    DTYPES,
    Dim,
    DimensionError,
    DType,
    Part,
    Shape,
    dims,
    types,
)
from distir.ops.heads import split_heads
from distir.ops.host import Operand, known_ints
from distir.ops.host import length as known_length
from distir.ops.unify import Reject, broadcast

if TYPE_CHECKING:
    pass


RANDOM = "Optional[Tensor[Int64, (), host]], Optional[Tensor[Int64, (_,), d]], Optional[Tensor[Int64, (_,), host]]"
"""In signatures: `key`, `rows` and `start`, of `Dropout`."""

RUNS = "Optional[Tensor[Int64, (_,), host]], Optional[Tensor[Int64, (_,), host]]"
"""In signatures: `query_runs` and `key_runs`, where parts of a sequence begin."""

START, GRADIENT_START = 8, 10
"""The place of the operand `start`, forward and backward."""


def draws_at(start: int) -> Callable[..., bool]:
    """The rule `draws` of attention whose operand `start` is there: dropout without a key."""

    def draws(*operands: Operand | None, dropout: float, **_: Any) -> bool:
        return dropout > 0 and (len(operands) < start - 1 or operands[start - 2] is None)

    return draws


def statistics_dtype(q: Operand) -> DType | None:
    """The element type of the log-sum-exp."""
    if q.dtype is None:
        return None
    return DTYPES["Float64" if q.dtype is DTYPES["Float64"] else "Float32"]


def rank_of(q: Operand, k: Operand, v: Operand | None) -> int | None:
    """The rank of the operands; None if no operand's is known."""
    return next((len(o.shape) for o in (q, k, v) if o is not None and o.shape is not None), None)


def checked_sizes(
    op: str, q: Operand, k: Operand, v: Operand | None, mask: Operand | None, sinks: Operand | None, attrs: Any
) -> tuple[tuple[Dim, Dim, Dim, Dim], ...] | None:
    """Batch, heads, sequence and size of queries, keys and values. Raises Reject where they do not fit together."""
    window = attrs.get("window")
    if window is not None and (window < 1 or not attrs["is_causal"]):
        message = f"`{op}` expected a `window` of at least 1 key, and `is_causal`, found {window}"
        raise Reject(codes.BAD_VALUE, message, "window")
    rank = rank_of(q, k, v)
    if rank is None:
        return None
    q_heads, kv_heads = attrs.get("q_num_heads"), attrs.get("kv_num_heads")
    for name, heads in (("q_num_heads", q_heads), ("kv_num_heads", kv_heads)):
        if heads is None and rank == 3:
            raise Reject(name_codes.MISSING_ATTRIBUTE, f"`{op}` of tensors of rank 3 needs `{name}`", Part("callee"))
    queries = split_heads("q", q, q_heads, rank, op, "q_num_heads")
    keys = split_heads("k", k, kv_heads, rank, op, "kv_num_heads")
    if v is None:
        size = attrs["v_head_size"]
        if size < 1 or (isinstance(keys[3], int) and size > keys[3]):
            most = dims.show(keys[3])
            message = f"`{op}` expected a `v_head_size` from 1 to the {most} columns of a head of keys, found {size}"
            raise Reject(codes.BAD_VALUE, message, "v_head_size")
        values = (*keys[:3], size)
    else:
        values = split_heads("v", v, kv_heads, rank, op, "kv_num_heads")
    if isinstance(queries[1], int) and isinstance(keys[1], int) and keys[1] and queries[1] % keys[1]:
        message = f"`{op}` expected a multiple of the {keys[1]} heads of keys and values, found {queries[1]}"
        raise Reject(codes.INDIVISIBLE, message, "q")
    if None not in (queries[3], keys[3]) and queries[3] != keys[3]:
        message = f"`{op}` expected keys with heads of size {queries[3]}, found {keys[3]}"
        raise Reject(codes.SHAPE_MISMATCH, message, "k", ((Part("operand", 0), f"it is {queries[3]} here"),))
    batch = next((s[0] for s in (queries, keys, values) if s[0] is not None), None)
    length = keys[2] if values[2] is None else values[2]
    if mask is not None:
        _check_mask(op, mask, q, (batch, queries[1], queries[2], length))
    stated = None if sinks is None or not sinks.shape else sinks.shape[0]
    if None not in (queries[1], stated) and stated != queries[1]:
        message = f"`{op}` expected a sink for each of {dims.show(queries[1])} query heads"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {dims.show(stated)}", "sinks")
    return (batch, *queries[1:]), (batch, *keys[1:2], length, keys[3]), values


def _check_mask(op: str, mask: Operand, q: Operand, scores: Shape) -> None:
    if None not in (mask.dtype, q.dtype) and mask.dtype not in (q.dtype, DTYPES["Bool"]):
        message = f"`{op}` expected a mask of Bool or {q.dtype} elements, found {mask.dtype}"
        raise Reject(codes.DTYPE_MISMATCH, message, "attn_mask")
    if mask.shape is None:
        return
    try:
        fits = broadcast(mask.shape, scores) == scores or None in (*scores, *mask.shape)
    except DimensionError:
        fits = False
    if not fits:
        message = f"`{op}` expected a mask that broadcasts to the scores {types.show_shape(scores)}"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(mask.shape)}", "attn_mask")


def check_random(op: str, first: Operand, given: Sequence[Operand | None], ratio: float) -> None:
    """`given`: the key, rows and start, as far as they are stated; `first`: the operand that the start is of."""
    if not 0 <= ratio <= 1:
        raise Reject(codes.BAD_VALUE, f"`{op}` expected `dropout` to be from 0 to 1, found {ratio:g}", "dropout")
    _, rows, start = (*given, None, None, None)[:3]
    rank, size = len(first.shape or ()), first.shape[0] if first.shape else None
    if start is not None and first.shape is not None and known_length(start) not in (None, rank):
        message = f"`{op}` expected a start for each of {rank} dimensions, found {known_length(start)}"
        raise Reject(codes.BAD_VALUE, message, "start")
    if rows is not None and rows.shape:
        stated = rows.shape[0]
        if isinstance(size, int) and isinstance(stated, int) and (size % stated if stated else size):
            message = f"`{op}` expected a number of rows that divides the batch of {size}, found {stated}"
            raise Reject(codes.BAD_VALUE, message, "rows")


CONTEXTS = ("allgather", "a2a", "ring")
"""How attention is split along the sequence.

Each device has the keys of all; or the whole sequence of some heads; or keys travel from device to device.
"""


def check_context(op: str, context: str) -> None:
    """Raises Reject for a way to split the sequence that there is not."""
    if context and context not in CONTEXTS:
        expected = ", ".join(f'"{name}"' for name in CONTEXTS)
        raise Reject(codes.BAD_VALUE, f'`{op}` expected one of {expected}, found "{context}"', "context")


def check_runs(op: str, others: Sequence[Operand | None], rows: Dim, columns: Dim, length: Operand | None) -> None:
    """`others`: the operands behind the length, runs of queries and of keys the last of them."""
    for name, runs, size in zip(("query_runs", "key_runs"), (*others, *(None,) * 5)[3:5], (rows, columns), strict=True):
        count = None if runs is None else known_length(runs)
        if runs is not None and length is not None:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected either runs or the `length` of a cache, found both", name)
        if isinstance(count, int) and (count == 0 or (isinstance(size, int) and size % count)):
            message = f"`{op}` expected a number of runs that divides the length {dims.show(size)}, found {count}"
            raise Reject(codes.BAD_VALUE, message, name)
        if min(known_ints(runs) or (0,)) < 0:
            raise Reject(codes.BAD_VALUE, f"`{op}` expected runs to begin at 0 or later", name)


def check_length(length: Operand, batch: Dim, rows: Dim, columns: Dim, is_causal: bool) -> None:
    """A number, or one for each sequence; as far as they are known, places that the cache has."""
    if length.shape is not None and length.shape != ():
        sequences = length.shape[0] if len(length.shape) == 1 else None
        if len(length.shape) > 1 or (None not in (sequences, batch) and sequences != batch):
            message = f"`Attention` expected a length, or one for each of {dims.show(batch)} sequences"
            raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(length.shape)}", "length")
    for filled in known_ints(length) or ():
        if filled < 1 or (isinstance(columns, int) and filled > columns):
            message = f"`Attention` expected a length from 1 to the {dims.show(columns)} places of the cache"
            raise Reject(codes.BAD_VALUE, f"{message}, found {filled}", "length")
        if is_causal and isinstance(rows, int) and filled < rows:
            message = f"`Attention` expected {rows} queries to be the last of the filled places, found {filled} of them"
            raise Reject(codes.BAD_VALUE, message, "length")


def check_like(name: str, shape: Shape | None, expected: Shape) -> None:
    """The dimensions behind the batch."""
    if shape is not None and any(None not in (a, b) and a != b for a, b in zip(shape[1:], expected, strict=False)):
        message = f"`AttentionGrad` expected {types.show_shape(expected)} behind the batch"
        raise Reject(codes.SHAPE_MISMATCH, f"{message}, found {types.show_shape(shape[1:])}", name)
