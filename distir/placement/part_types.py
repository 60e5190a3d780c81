"""The types of a device's parts of values, by their states."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from distir.ir import Dim, SymbolicDim, TensorType, TupleType, Type, dims
from distir.ir.places import Size
from distir.ops.layout import Block, Repeated, Shared
from distir.placement.along import Nested, Split, State


def divided(dim: Dim, size: Size) -> Dim:
    """The size of a part of a dimension. Raises DimensionError if it is known not to divide."""
    return dims.divide(dim, size)


def part_of_block(block: Block, size: Size) -> Dim:
    """The size of a device's part of a block. Raises DimensionError if it is known not to divide."""
    return block.size if isinstance(block, Shared) else divided(whole_block(block), size)


def whole_block(block: Block) -> Dim:
    """The size of a block."""
    return block.size if isinstance(block, (Shared, Repeated)) else block


@lru_cache(maxsize=1 << 14)  # layers have equal weights
def part_of(type: Type, state: State, size: Size, kept: frozenset[str] = frozenset()) -> Type:
    """The type of one device's part of a value of `type`.

    A dimension with only names in `kept` is not divided: they denote the part there. Raises DimensionError if a
    dimension does not divide.
    """
    if isinstance(type, TupleType):
        states = state if isinstance(state, tuple) else (state,) * len(type.items)
        return TupleType(tuple(part_of(t, s, size, kept) for t, s in zip(type.items, states, strict=True)))
    if isinstance(state, Nested):
        part = type
        for own, count in state.parts:
            part = part_of(part, own, count, kept)
        return part
    if not isinstance(type, TensorType) or type.shape is None or not isinstance(state, Split):
        return type
    shape = list(type.shape)
    dim = shape[state.axis]
    if not (isinstance(dim, SymbolicDim) and dim.names <= kept):
        mixed = state.is_mixed
        shape[state.axis] = dims.total(part_of_block(b, size) for b in state.blocks) if mixed else divided(dim, size)
    return TensorType(type.dtype, tuple(shape), type.device, type.offloaded)


@lru_cache(maxsize=1 << 14)
def open_part_of(type: Type, state: State, size: int, kept: frozenset[str]) -> Type:
    """`part_of` for a function's parameter: dimensions that no name binds are unknown."""
    if isinstance(type, TupleType):
        states = state if isinstance(state, tuple) else (state,) * len(type.items)
        return TupleType(tuple(open_part_of(t, s, size, kept) for t, s in zip(type.items, states, strict=True)))
    here = part_of(type, state, size, kept)
    if not isinstance(here, TensorType) or here.shape is None or not isinstance(state, Split):
        return here
    dim = here.shape[state.axis]
    if not isinstance(dim, SymbolicDim) or dim.names <= kept:
        return here
    shape = tuple(None if axis == state.axis else d for axis, d in enumerate(here.shape))
    return TensorType(here.dtype, shape, here.device, here.offloaded)


def kept_names(stated: Iterable[tuple[Type, State]]) -> frozenset[str]:
    """The named dimensions that are split wherever they occur, always alone.

    A function may keep their names, as its arguments bind them.
    """
    split: set[str] = set()
    other: set[str] = set()

    def look(type: Type, state: State) -> None:
        if isinstance(type, TupleType):
            states = state if isinstance(state, tuple) else (state,) * len(type.items)
            for item, of in zip(type.items, states, strict=True):
                look(item, of)
        elif isinstance(type, TensorType):
            for axis, dim in enumerate(type.shape or ()):
                if not isinstance(dim, SymbolicDim):
                    continue
                if not (isinstance(state, Split) and state.axis == axis):
                    other.update(dim.names)
                elif str(dim) in dim.names:
                    split.update(dim.names)

    for of, state in stated:
        look(of, state)
    return frozenset(split - other)
