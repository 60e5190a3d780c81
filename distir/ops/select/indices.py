"""Indices along axes: which ones there may be, how operands beside them may be split, their torch form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from distir.diagnostics.codes import types as codes
from distir.ir import Dense, Dim, Literal, Part, Shape, SymbolicDim, TensorType
from distir.ops.host import Operand
from distir.ops.layout import Letters
from distir.ops.numeric import Array, np
from distir.ops.unify import Reject

Results = Sequence[Shape | None]


def element_places(indices: Array, shape: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """For each dimension, the source or target positions of the elements."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    at = axis % len(shape)
    places[at] = indices.astype(np.intp)
    return tuple(places)


def check_element_indices(name: str, data: Operand, indices: Operand, axis: int) -> None:
    """Check that indices of elements are no larger than `data`, except along `axis`, and in range. Raises Reject."""
    if data.shape is None or indices.shape is None:
        return
    if len(data.shape) != len(indices.shape):
        message = f"`{name}` expected indices of rank {len(data.shape)}, found rank {len(indices.shape)}"
        raise Reject(codes.RANK_MISMATCH, message, "indices", ((Part("operand", 0), "as of this operand"),))
    for i, (size, found) in enumerate(zip(data.shape, indices.shape, strict=True)):
        outside = isinstance(size, int) and isinstance(found, int) and found > size
        if outside and i != axis % len(data.shape):
            message = f"`{name}` expected indices of at most {size} along dimension {i}, found {found}"
            raise Reject(codes.SHAPE_MISMATCH, message, "indices")
    check_range(name, data, indices, axis)


def check_range(name: str, data: Operand, indices: Operand, axis: int) -> None:
    """Reject known indices along `axis` that are out of range."""
    if data.shape is not None and isinstance(indices, Dense):
        check_positions(name, indices.values, data.shape[axis])


def check_positions(name: str, found: Iterable[float | SymbolicDim], size: Dim) -> None:
    """Check that known indices are within a dimension of this size. Raises Reject."""
    known = (v for v in found if not isinstance(v, SymbolicDim))
    wrong = next((v for v in known if isinstance(size, int) and not -size <= v < size), None)
    if wrong is not None:
        expected = f"indices from -{size} to {cast(int, size) - 1}" if size else "no indices into a dimension of 0"
        raise Reject(codes.BAD_VALUE, f"`{name}` expected {expected}, found {wrong}", "indices")


def coordinates(name: str, data: Shape, indices: Operand, batch_dims: int) -> int | None:
    """The number of coordinates in an entry of `indices`; None if unknown. Raises Reject if it does not fit `data`."""
    if not indices.shape:
        raise Reject(codes.RANK_MISMATCH, f"`{name}` expected indices of rank at least 1, found rank 0", "indices")
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        return None
    if not 1 <= depth <= len(data) - batch_dims:
        message = f"`{name}` expected from 1 to {len(data) - batch_dims} coordinates, found {depth}"
        raise Reject(codes.SHAPE_MISMATCH, message, "indices")
    if isinstance(indices, Dense):
        for i in range(depth):
            check_positions(name, indices.values[i::depth], data[batch_dims + i])
    return depth


def bracketed(rank: int, axis: int, inside: str) -> str:
    """The index expression for `inside` along one axis."""
    return ", ".join([":"] * axis + [inside])


def beside_axis(axis: int, data: Operand, indices: Operand) -> tuple[Letters, Letters]:
    """Letters for the dimensions, except `axis`, that have equal sizes in both."""
    rank = len(data.shape or ())
    pairs = enumerate(zip(data.shape or (), indices.shape or (), strict=True))
    letters = tuple(f"s{i}" if m == n and m is not None and i != axis % rank else None for i, (m, n) in pairs)
    return letters, letters


def length_along(of: TensorType, axis: int) -> int:
    """The length of an axis, of which devices have parts."""
    length = (of.shape or ())[axis]
    assert isinstance(length, int)
    return length


def zero_of(of: TensorType) -> Literal:
    """What devices have in the place of elements that others have."""
    return Literal(0.0 if of.dtype is not None and of.dtype.kind == "float" else 0)
