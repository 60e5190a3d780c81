"""How a value lies over the devices of one mesh axis: whole on each, split along a dimension, as sums or maxima."""

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
    """How a value lies that is not split.

    `WHOLE`: the same on every device. `PARTIAL`: the sum over the devices is the value. `GREATEST`: the greatest over
    the devices is, element by element.
    """

    WHOLE = "whole"
    PARTIAL = "partial"
    GREATEST = "greatest"

    __hash__ = object.__hash__  # states of large tuples are hashed often, and `Enum`'s own is slow


@dataclass(frozen=True, slots=True)
class Split:
    """Cut into equal parts along `axis`, in the order of the devices; with `blocks`, each block by itself.

    Of `Shared` blocks, every device has all.

    `loose`: it could as well be whole, but that each device would compute the same then. Where an op is to be split in
    two ways, a loose one gives way.
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
        """Whether every device has all of some blocks."""
        return any(isinstance(block, Shared) for block in self.blocks)

    @property
    def is_repeated(self) -> bool:
        """Whether the number of its blocks is left open."""
        return any(isinstance(block, Repeated) for block in self.blocks)


State = Union[Unsplit, Split, "tuple[State, ...]"]
WHOLE, PARTIAL, GREATEST = Unsplit.WHOLE, Unsplit.PARTIAL, Unsplit.GREATEST


def is_whole(state: State) -> bool:
    """Whether each device has all of it."""
    return all(map(is_whole, state)) if isinstance(state, tuple) else state is WHOLE


def is_partial(state: State) -> bool:
    """Whether a value is a partial sum through and through."""
    return bool(state) and all(map(is_partial, state)) if isinstance(state, tuple) else state is PARTIAL


def holds_partial(state: State) -> bool:
    """Whether a leaf is yet to be completed over devices: summed, or the greatest taken."""
    return any(map(holds_partial, state)) if isinstance(state, tuple) else state in (PARTIAL, GREATEST)


def whole_like(type: Type) -> State:
    """The state of a value of this type that is whole."""
    return tuple(map(whole_like, type.items)) if isinstance(type, TupleType) else WHOLE


def is_host(value: Value) -> bool:
    """Whether a value lives on no device."""
    if isinstance(value, tuple):
        return all(map(is_host, value))
    if value is None or isinstance(value, (Dense, External, Literal)):
        return True
    return types.device_of(value) == HOST


def divided(dim: Dim, size: int) -> Dim:
    """A part of a dimension. Raises DimensionError where it is known not to divide."""
    return dims.divide(dim, size)


def part_of_block(block: Block, size: int) -> Dim:
    """How much of a block a device has. Raises DimensionError where it is known not to divide."""
    return block.size if isinstance(block, Shared) else divided(whole_block(block), size)


def whole_block(block: Block) -> Dim:
    """The size of a block."""
    return block.size if isinstance(block, (Shared, Repeated)) else block


@lru_cache(maxsize=1 << 14)  # the weights of layers are alike
def part_of(type: Type, state: State, size: int, kept: frozenset[str] = frozenset()) -> Type:
    """The type of what one device holds, of a value of `type`.

    A dimension in which only names in `kept` stand stays as it is written: they mean the part there. Raises
    DimensionError where a dimension does not divide.
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
    """`part_of` for a function's parameter: what no name would bind is left open."""
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
    """The names of dimensions that are split wherever they are alone, and are in no other dimension.

    A function may continue to call them so: what `B` means is bound by the argument.
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
