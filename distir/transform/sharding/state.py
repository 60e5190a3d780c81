"""Placements over the devices of one mesh axis (`State`): whole, split along a dimension, partial sum or maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Union

from distir.ir import HOST, Dense, Dim, External, Literal, SymbolicDim, TensorType, TupleType, Type, dims, types
from distir.ops import Value
from distir.ops.layout import Block, Blocks, Repeated, Shared


class Unsplit(Enum):
    """The placement of a value that is not split.

    `WHOLE`: replicated. `PARTIAL`: the value is the sum over the devices. `GREATEST`: it is their elementwise maximum.
    """

    WHOLE = "whole"
    PARTIAL = "partial"
    GREATEST = "greatest"

    __hash__ = object.__hash__  # `Enum`'s own hash is slow, and states of large tuples are hashed often


@dataclass(frozen=True, slots=True)
class Split:
    """Split into equal parts along `axis`, in order of the devices; with `blocks`, each block by itself.

    `Shared` blocks are replicated.

    `loose`: a split chosen only to avoid redundant computation. If an op could be split in two ways, a loose one
    yields.
    """

    axis: int
    blocks: Blocks = ()
    loose: bool = False
    _hash: int = field(init=False, repr=False, compare=False)  # states of large tuples are hashed often

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.axis, self.blocks, self.loose)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return Split, (self.axis, self.blocks, self.loose)  # the hash holds in this process only

    @property
    def is_mixed(self) -> bool:
        """Whether some blocks are replicated."""
        return any(isinstance(block, Shared) for block in self.blocks)

    @property
    def is_repeated(self) -> bool:
        """Whether the number of its blocks is unknown."""
        return any(isinstance(block, Repeated) for block in self.blocks)


State = Union[Unsplit, Split, "tuple[State, ...]"]
WHOLE, PARTIAL, GREATEST = Unsplit.WHOLE, Unsplit.PARTIAL, Unsplit.GREATEST


def is_whole(state: State) -> bool:
    """Whether it is replicated."""
    return all(map(is_whole, state)) if isinstance(state, tuple) else state is WHOLE


def is_partial(state: State) -> bool:
    """Whether all leaves of a value are partial sums."""
    return bool(state) and all(map(is_partial, state)) if isinstance(state, tuple) else state is PARTIAL


def holds_partial(state: State) -> bool:
    """Whether some leaf is a partial sum or maximum."""
    return any(map(holds_partial, state)) if isinstance(state, tuple) else state in (PARTIAL, GREATEST)


def whole_like(type: Type) -> State:
    """The state of a whole value of this type."""
    return tuple(map(whole_like, type.items)) if isinstance(type, TupleType) else WHOLE


def is_host(value: Value) -> bool:
    """Whether a value is on the host."""
    if isinstance(value, tuple):
        return all(map(is_host, value))
    if value is None or isinstance(value, (Dense, External, Literal)):
        return True
    return types.device_of(value) == HOST


def divided(dim: Dim, size: int) -> Dim:
    """The size of a part of a dimension. Raises DimensionError if it is known not to divide."""
    return dims.divide(dim, size)


def part_of_block(block: Block, size: int) -> Dim:
    """The size of a device's part of a block. Raises DimensionError if it is known not to divide."""
    return block.size if isinstance(block, Shared) else divided(whole_block(block), size)


def whole_block(block: Block) -> Dim:
    """The size of a block."""
    return block.size if isinstance(block, (Shared, Repeated)) else block


@lru_cache(maxsize=1 << 14)  # layers have equal weights
def part_of(type: Type, state: State, size: int, kept: frozenset[str] = frozenset()) -> Type:
    """The type of one device's part of a value of `type`.

    A dimension with only names in `kept` is not divided: they denote the part there. Raises DimensionError if a
    dimension does not divide.
    """
    if isinstance(type, TupleType):
        states = state if isinstance(state, tuple) else (state,) * len(type.items)
        return TupleType(tuple(part_of(t, s, size, kept) for t, s in zip(type.items, states, strict=True)))
    if not isinstance(type, TensorType) or type.shape is None or not isinstance(state, Split):
        return type
    shape = list(type.shape)
    dim = shape[state.axis]
    if not (isinstance(dim, SymbolicDim) and dim.names <= kept):
        mixed = state.is_mixed
        shape[state.axis] = dims.total(part_of_block(b, size) for b in state.blocks) if mixed else divided(dim, size)
    return TensorType(type.dtype, tuple(shape), type.device)


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
    return TensorType(here.dtype, shape, here.device)


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


def on_devices(type: Type, move: Callable[[int], int]) -> Type:
    """The type with every device replaced."""
    match type:
        case TupleType(items):
            return TupleType(tuple(on_devices(item, move) for item in items))
        case TensorType(dtype, shape, device) if device is not None and device != HOST:
            return TensorType(dtype, shape, move(device))
        case types.AnyType(device) if device is not None and device != HOST:
            return types.AnyType(move(device))
        case _:
            return type
