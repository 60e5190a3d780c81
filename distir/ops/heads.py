"""Operands by head, in the two layouts that attention and rotary embedding take.

Of rank 4 they are (batch, heads, sequence, size); of rank 3 they are (batch, sequence, heads * size), and an attribute
says how many heads there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distir.diagnostics.codes import types as codes
from distir.ir import Arg, Dim, DimensionError, dims
from distir.ops.host import Operand
from distir.ops.numeric import Array
from distir.ops.unify import Reject

if TYPE_CHECKING:
    from distir.ops.backward import Rewrite


def by_head(x: Array, heads: int | None) -> Array:
    """The operand, in either layout, as (batch, heads, sequence, size)."""
    if x.ndim == 4 or heads is None:
        return x
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).swapaxes(1, 2)


def joined(x: Array) -> Array:
    """Merge heads: (batch, heads, sequence, size) to (batch, sequence, heads * size)."""
    batch, heads, length, size = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * size)


def split_heads(
    name: str, x: Operand, heads: int | None, rank: int, op: str, attribute: str
) -> tuple[Dim, Dim, Dim, Dim]:
    """Batch, heads, sequence and size of an operand in either layout. Raises Reject for an indivisible size."""
    if heads is not None and heads < 1:
        raise Reject(codes.BAD_VALUE, f"`{op}` expected at least 1 head, found {heads}", attribute)
    if x.shape is None:
        return (None, heads, None, None)
    if rank == 4:
        batch, found, length, size = x.shape
        if heads is not None and isinstance(found, int) and found != heads:
            message = f"`{op}` expected {heads} heads (`{attribute}`), found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, name)
        return (batch, found, length, size)
    batch, length, hidden = x.shape
    try:
        return (batch, heads, length, dims.divide(hidden, heads))
    except DimensionError as error:
        raise Reject(codes.INDIVISIBLE, f"`{op}` cannot cut `{name}` into {heads} heads: {error}", attribute) from None


def heads_apart(g: Rewrite, x: Arg, heads: Any) -> Arg:
    """Writes (batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    return g("Transpose", g("Reshape", x, (0, 0, heads, -1)), perm=(0, 2, 1, 3))


def heads_joined(g: Rewrite, x: Arg) -> str:
    """Writes (batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    return g("Reshape", g("Transpose", x, perm=(0, 2, 1, 3)), (0, 0, -1))
